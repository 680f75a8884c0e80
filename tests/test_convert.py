"""Half layers in the place of a model's dense ones."""

import copy
import re

import pytest
import torch
from convert_models import GPT, ResNet
from torch import nn
from torch.nn.utils import parametrizations, prune, weight_norm

import halfnet
from halfnet import HalfConv2d, HalfLayer, HalfLinear
from halfnet._draws import derived_seed
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn._attention import HalfMultiheadAttention


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def mlp():
    return nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))


def halves(model):
    return [name for name, module in model.named_modules() if isinstance(module, HalfLayer)]


def unchanged(model, call):
    """Run `call`, which raises, and see that the model is what it was."""
    before = {name: id(module) for name, module in model.named_modules()}
    types = {name: type(module) for name, module in model.named_modules()}
    state = {k: v.clone() for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    with pytest.raises(halfnet.HalfnetError) as error:
        call(model)
    assert {name: id(module) for name, module in model.named_modules()} == before
    assert {name: type(module) for name, module in model.named_modules()} == types
    after = model.state_dict()
    for key, value in state.items():
        torch.testing.assert_close(
            after[key].float(), value.float(), rtol=0, atol=0, equal_nan=True
        )
    return str(error.value)


# -- which layers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["0", "2", "4"]),
        ({"include": "0"}, ["0"]),
        ({"include": ["0", "[24]"], "exclude": "4"}, ["0", "2"]),
        ({"exclude": ("0", "2")}, ["4"]),
        ({"include": lambda name, layer: layer.in_features < 12}, ["2", "4"]),
        ({"exclude": lambda name, layer: name == "4"}, ["0", "2"]),
    ],
)
def test_patterns_and_predicates(given, expected):
    model = mlp()
    rows = halfnet.convert_(model, 2, **given)
    assert halves(model) == [row.name for row in rows] == expected
    assert model(torch.randn(5, 12)).shape == (5, 3)


def test_ranks_by_number_fraction_and_pattern():
    def ranks(rank, **options):
        return {row.name: row.rank for row in halfnet.convert_(mlp(), rank, **options)}

    assert ranks(3) == {"0": 3, "2": 3, "4": 3}
    assert ranks(0.5) == {"0": 6, "2": 4, "4": 3}
    assert ranks(0.001) == {"0": 1, "2": 1, "4": 1}
    assert ranks(1.0) == {"0": 12, "2": 8, "4": 6}
    assert ranks({"0": 5, "[02]": 0.25}) == {"0": 5, "2": 2}  # the first that fits; 4 is left


def test_what_is_returned_counts_and_prints():
    model = mlp()
    counts = {n: sum(p.numel() for p in m.parameters()) for n, m in model.named_children()}
    rows = halfnet.convert_(model, 2)
    for row in rows:
        assert row.before == counts[row.name]
        assert row.after == sum(p.numel() for p in model.get_submodule(row.name).parameters())
    lines = str(rows).splitlines()
    assert lines[0].split() == ["name", "rank", "before", "after"]
    assert lines[1].split() == ["0", "2", "104", "52"]  # 12 x 2 + 12 + 2 x 8
    assert lines[-1].split() == ["total", "179", str(52 + 36 + 24)]


def test_each_layers_seed_is_made_from_the_seed_and_its_name():
    first, second = mlp(), mlp()
    halfnet.convert_(first, 2, seed=5)
    halfnet.convert_(second, 2, include="2", seed=5)
    assert first[2].seed == second[2].seed == derived_seed(5, "2")
    assert torch.equal(first[2].eps, second[2].eps)
    torch.manual_seed(3)
    third = mlp()
    halfnet.convert_(third, 2)
    torch.manual_seed(3)
    fourth = mlp()
    halfnet.convert_(fourth, 2)
    assert torch.equal(third[4].eps, fourth[4].eps)


def test_a_bare_layer_and_its_name():
    layer = nn.Linear(6, 4)
    (row,) = halfnet.convert_(layer, 2, seed=1)
    assert type(layer) is HalfLinear
    assert layer.seed == derived_seed(1, "")
    assert row.name == ""
    assert layer(torch.randn(3, 6)).shape == (3, 4)
    halfnet.fold_(layer)
    assert type(layer) is nn.Linear


def test_shared_layers_are_converted_once_and_stay_shared():
    shared = nn.Linear(6, 6)
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared, nn.Linear(6, 2))})
    model.also = [shared]  # where nn.Module doesn't look
    rows = halfnet.convert_(model, 2, include="b.0")  # one of its names is enough
    assert [row.name for row in rows] == ["a"]
    assert type(shared) is HalfLinear
    assert model["a"] is model["b"][0] is model.also[0] is shared
    model = nn.ModuleDict({"a": nn.Linear(6, 6)})
    model["b"] = model["a"]
    with pytest.raises(HalfnetValueError, match="exclude='b'"):
        halfnet.convert_(model, 2, exclude="b")


def test_device_dtype_modes_hooks_and_attributes_stay():
    model = mlp().double().eval()
    model[0].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    seen = []
    model[0].register_forward_hook(lambda module, args, out: seen.append(type(module)))
    model[0].register_full_backward_hook(lambda module, grads, outs: seen.append("backward"))
    model[0].note = "mine"
    halfnet.convert_(model, 2)
    first, second = model[0], model[2]
    assert not first.training
    assert first.B.dtype == first.eps.dtype == torch.float64
    assert [n for n, p in first.named_parameters() if p.requires_grad] == ["u0"]
    assert [n for n, p in second.named_parameters() if p.requires_grad] == ["B", "sigma", "u"]
    assert first.note == "mine"
    model(torch.randn(2, 12).double().requires_grad_()).sum().backward()
    assert seen == [HalfLinear, "backward"]
    halfnet.fold_(model)
    assert first.note == "mine"
    assert not first.weight.requires_grad
    assert first.bias.requires_grad
    assert second.weight.requires_grad
    assert not second.bias.requires_grad
    assert set(vars(first)) == set(vars(nn.Linear(12, 8))) | {"note"}
    model(torch.randn(2, 12).double().requires_grad_()).sum().backward()
    assert seen == [HalfLinear, "backward", nn.Linear, "backward"]


def test_a_class_of_ones_own_counts_if_it_computes_as_torchs():
    class Named(nn.Linear):
        pass

    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(Named(6, 4), Scaled(4, 4))
    halfnet.convert_(model, 2)
    assert [type(m) for m in model] == [HalfLinear, Scaled]
    with pytest.raises(HalfnetValueError, match="expected one with layers of Conv2d, got Sequen"):
        halfnet.convert_(model, 2, layers=(nn.Conv2d,))
    halfnet.convert_(model, 2, layers=(Scaled,))  # whoever names it means it
    assert type(model[1]) is HalfLinear


def test_a_compiled_model_is_converted_under_its_own_names():
    plain, wrapped = mlp(), mlp()
    halfnet.convert_(plain, 2, seed=3)
    halfnet.convert_(torch.compile(wrapped, backend="eager"), 2, include="[024]", seed=3)
    assert torch.equal(plain[2].eps, wrapped[2].eps)


# -- the budget ------------------------------------------------------------------------------------


def with_spectrum(fan_in, units, values):
    layer = nn.Linear(fan_in, units)
    left, right = (torch.linalg.qr(torch.randn(n, len(values)))[0] for n in (units, fan_in))
    layer.weight.data = (left * torch.tensor(values)) @ right.T
    return layer


def test_a_budget_goes_where_the_energy_is():
    model = nn.Sequential(
        with_spectrum(20, 10, [10.0, 1e-3]), with_spectrum(10, 10, [3.0, 3.0, 3.0, 1e-3])
    )
    fixed = 20 + 2 * 10 + 10 + 2 * 10

    def ranks(budget, model=model):
        rows = halfnet.convert_(copy.deepcopy(model), budget=budget)
        assert sum(row.after for row in rows) <= budget
        return [row.rank for row in rows]

    assert ranks(fixed) == [0, 0]
    assert ranks(fixed + 19) == [0, 1]  # the first one's column does not fit
    assert ranks(fixed + 20) == [1, 0]  # all of its energy for 20, a third for 10
    assert ranks(fixed + 30) == [1, 1]
    assert ranks(fixed + 50) == [1, 3]
    assert ranks(10_000) == [2, 4]  # nothing is left to explain
    scaled = copy.deepcopy(model)
    scaled[1].weight.data *= 100  # shares, not sizes
    assert ranks(fixed + 20, scaled) == [1, 0]
    with pytest.raises(HalfnetValueError, match=f"budget: expected at least the {fixed} numbers"):
        halfnet.convert_(model, budget=fixed - 1)
    rows = halfnet.convert_(model, budget=fixed, noise="none")
    assert [row.rank for row in rows] == [1, 1]


# -- attention -------------------------------------------------------------------------------------


def encoder(**options):
    settings = {"d_model": 8, "nhead": 2, "dim_feedforward": 8, "dropout": 0.0} | options
    layer = nn.TransformerEncoderLayer(**settings, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=options == {})
    for parameter in model.parameters():  # biases of 0 and norms of 1 would hide mistakes
        nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"bias": False}, {"nhead": 1}])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_computes_the_same_at_full_rank_and_folds_back(options):
    dense = encoder(**options)
    model = copy.deepcopy(dense)
    rows = halfnet.convert_(model, 8, init="lstsq", seed=1)
    assert len(rows) == 12
    assert [row.name for row in rows][:4] == [
        f"layers.0.self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj")
    ]
    x = torch.randn(3, 5, 8)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True  # at the right, so that torch would nest the tensor
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    calls = [
        {},
        {"src_key_padding_mask": padding},
        {"mask": causal, "is_causal": True},
    ]
    for training in (True, False):
        dense.train(training), model.train(training)
        for arguments in calls:
            for context in (torch.enable_grad(), torch.no_grad(), torch.inference_mode()):
                with context:
                    out, expected = model(x, **arguments), dense(x, **arguments)
                    kept = ~padding if "src_key_padding_mask" in arguments else ...
                    torch.testing.assert_close(out[kept], expected[kept], rtol=1e-3, atol=1e-3)
    model.train()(x).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    before = model(x, src_key_padding_mask=padding)
    nested = dense.use_nested_tensor
    assert not model.use_nested_tensor
    halfnet.fold_(model)
    assert [type(m) for m in model.modules()] == [type(m) for m in dense.modules()]
    assert model.state_dict().keys() == dense.state_dict().keys()
    assert [vars(m).keys() for m in model.modules()] == [vars(m).keys() for m in dense.modules()]
    assert model.use_nested_tensor == nested
    dense.load_state_dict(model.state_dict())
    with torch.no_grad():  # the fused inference, now again
        after = model(x, src_key_padding_mask=padding)
    torch.testing.assert_close(after[~padding], before[~padding], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [{}, {"kdim": 6, "vdim": 5}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True},
     {"batch_first": True}],
)  # fmt: skip
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_in_all_its_forms(options, need_weights):
    dense = nn.MultiheadAttention(8, 2, **options)
    for parameter in dense.parameters():
        nn.init.normal_(parameter, std=0.5)
    model = copy.deepcopy(dense)
    keys = list(model.state_dict())
    rows = halfnet.convert_(model, {"*": 1.0}, init="lstsq", noise="none", seed=2)
    assert [row.name for row in rows] == ["q_proj", "k_proj", "v_proj", "out_proj"]
    assert isinstance(model, nn.MultiheadAttention)
    fans = (8, dense.kdim, dense.vdim)
    assert [row.rank for row in rows] == [*fans, 8]
    exact = fans == (8, 8, 8)  # where the rank reaches the number of units
    shape = (3, 5) if options.get("batch_first") else (5, 3)
    q = torch.randn(*shape, 8)
    k, v = (q, q) if exact else (torch.randn(5, 3, fan) for fan in fans[1:])
    arguments = {"need_weights": need_weights, "average_attn_weights": False}
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 5])
    for more in ({}, {"key_padding_mask": padding}):
        out, weights = model(q, k, v, **arguments, **more)
        expected, expected_weights = dense(q, k, v, **arguments, **more)
        if exact:
            torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-3)
            if need_weights:
                torch.testing.assert_close(weights, expected_weights, rtol=1e-3, atol=1e-3)
    twin = copy.deepcopy(dense)
    halfnet.convert_(twin, {"*": 1.0}, noise="none", seed=9)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(q, k, v)[0], model(q, k, v)[0])
    with halfnet.frozen(model), torch.no_grad():
        torch.testing.assert_close(model(q, k, v)[0], twin(q, k, v)[0])
    halfnet.fold_(model)
    assert list(model.state_dict()) == keys
    assert type(model) is nn.MultiheadAttention
    assert type(model.out_proj) is type(dense.out_proj)
    torch.testing.assert_close(model(q, k, v)[0], twin(q, k, v)[0], rtol=1e-4, atol=1e-4)


def test_a_part_of_an_attention():
    model = encoder()
    x = torch.randn(2, 4, 8)
    weight = model.layers[0].self_attn.in_proj_weight.detach().clone()
    halfnet.convert_(model, 2, include="layers.0.self_attn.q_proj")
    attention = model.layers[0].self_attn
    assert isinstance(attention, HalfMultiheadAttention)
    assert type(attention.k_proj) is nn.Linear
    assert torch.equal(attention.k_proj.weight, weight[8:16])
    assert type(model.layers[1].self_attn) is nn.MultiheadAttention
    halfnet.convert_(model, 2, include="layers.0.self_attn.v_proj")  # later, the others
    expected = model(x)
    pickled = torch.nn.Module.state_dict(copy.deepcopy(model))
    assert pickled.keys() == model.state_dict().keys()
    halfnet.fold_(model)
    assert torch.equal(model.layers[0].self_attn.in_proj_weight[8:16], weight[8:16])
    torch.testing.assert_close(model(x), expected)
    halfnet.convert_(model, 2, include="*linear1")  # torch's fused inference reads its weight
    expected = model.eval()(x)
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)


# -- models ----------------------------------------------------------------------------------------


def test_a_residual_network():
    model = ResNet()
    convs = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    rows = halfnet.convert_(model, 2, layers=(nn.Conv2d,), init="moments")
    assert [row.name for row in rows] == convs
    assert type(model.fc) is nn.Linear
    grouped = model.layer1[1].conv2
    assert isinstance(grouped, HalfConv2d)
    assert (grouped.groups, grouped.stride, grouped.fan_in) == (4, (1, 1), 2 * 9)
    assert grouped.u0 is None  # a bias would be lost in the BatchNorm after it
    x = torch.randn(4, 3, 8, 8)
    model(x).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    expected = model(x)
    halfnet.fold_(model)
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)
    assert model.state_dict().keys() == ResNet().state_dict().keys()


def test_a_gpt_whose_head_is_tied_to_the_embedding():
    model = GPT()
    message = unchanged(model, lambda model: halfnet.convert_(model, 4))
    assert message == (
        "head: expected a layer with weights of its own, got one tied to wte; leave it by "
        "exclude='head'"
    )
    rows = halfnet.convert_(model, 4, exclude="head")
    assert len(rows) == 8
    assert model.head.weight is model.wte.weight
    tokens = torch.randint(11, (2, 12))
    expected = model(tokens)
    halfnet.fold_(model)
    torch.testing.assert_close(model(tokens), expected, rtol=1e-4, atol=1e-5)


# -- the starts ------------------------------------------------------------------------------------


def trained_like(fan_in, units):
    """A layer whose weights have a falling spectrum, and coordinates of different size."""
    layer = with_spectrum(fan_in, units, [2.0**-i for i in range(min(fan_in, units))])
    layer.weight.data *= torch.linspace(0.5, 2, fan_in)
    return layer


@pytest.mark.parametrize("noise", ["learned", "fixed", "none"])
@pytest.mark.parametrize("affine", [None, False])
def test_moments_keeps_the_second_moments(noise, affine):
    linear = trained_like(12, 200)
    target = linear.weight.T @ linear.weight / 200
    scale = target.norm()
    errors = []
    for rank in (2, 6, 12):
        half = HalfLinear.from_linear(linear, rank, noise=noise, affine=affine, seed=1)
        size = 1.0 if half.u is None else half.u.square().mean()
        covariance = half.geometry.covariance() * size
        if noise == "learned":
            torch.testing.assert_close(covariance.diag(), target.diag(), rtol=1e-4, atol=1e-6)
        errors.append(((covariance - target).norm() / scale).item())
        if half.u0 is not None:
            torch.testing.assert_close(half.u0, linear.bias.mean().expand(200))
    if noise == "fixed" and affine is False:
        return  # the noise alone is larger than these weights
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < 0.3
    assert errors[-1] < 2e-3
    wide = HalfLinear.from_linear(linear, 12, noise=noise, affine=affine, seed=1)
    wide = wide.widen(20_000).weight[200:]  # what is drawn has these moments indeed
    torch.testing.assert_close(wide.T @ wide / len(wide), target, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("noise", ["learned", "fixed", "none"])
@pytest.mark.parametrize("affine", [None, False])
def test_lstsq_is_exact_at_the_rank_of_the_units_and_closer_than_others_below(noise, affine):
    linear = trained_like(20, 10)
    exact = HalfLinear.from_linear(linear, 10, init="lstsq", noise=noise, affine=affine, seed=4)
    torch.testing.assert_close(exact.weight, linear.weight.data, rtol=1e-4, atol=1e-5)
    x = torch.randn(7, 20)
    if affine is None:
        torch.testing.assert_close(exact(x), linear(x), rtol=1e-3, atol=1e-4)

    def loss(**options):
        half = HalfLinear.from_linear(linear, 4, noise=noise, affine=affine, seed=4, **options)
        loss = (half.weight - linear.weight).square().sum()
        loss.backward()
        return half, loss

    half, error = loss(init="lstsq")
    scale = linear.weight.square().sum()
    for parameter in (half.B, half.sigma):  # a regression has no gradient left
        if parameter is not None:
            assert parameter.grad.norm() * parameter.norm() < 1e-4 * scale
    assert error < loss(init="moments")[1]
    if affine is None:  # scales of their own bring the units closer
        plain = HalfLinear.from_linear(linear, 4, init="lstsq", noise=noise, affine=False, seed=4)
        assert error < 0.9 * (plain.weight - linear.weight).square().sum()


def test_lstsq_recovers_a_half_layer():
    source = HalfLinear(15, 60, rank=3, seed=7)
    with torch.no_grad():
        source.B.normal_()
        source.sigma.uniform_(0.5, 1.5)
        source.u.uniform_(0.5, 2)
        source.u0.normal_()
    found = HalfLinear.from_linear(source.to_dense(), 3, init="lstsq", seed=7)
    torch.testing.assert_close(found.weight, source.weight, rtol=1e-2, atol=5e-2)
    assert torch.equal(found.u0, source.u0)


def test_the_starts_of_binary_layers():
    linear = trained_like(20, 50)
    moments = HalfLinear.from_linear(linear, 4, binary=True, seed=1)
    torch.testing.assert_close(moments.weight.square().mean(), linear.weight.square().mean())
    fitted = HalfLinear.from_linear(linear, 4, init="lstsq", binary=True, seed=1)
    assert (fitted.weight - linear.weight).norm() < (moments.weight - linear.weight).norm()
    assert (fitted.weight - linear.weight).norm() < linear.weight.norm()
    std = fitted.geometry  # of unit variance, whatever the latent r's size
    assert torch.isfinite(std.covariance()).all()


def test_fresh_is_a_new_layer_of_the_same_place():
    conv = nn.Conv2d(4, 6, 3, 2, 1, groups=2, padding_mode="reflect", dtype=torch.float64).eval()
    half = HalfConv2d.from_conv(conv, 3, init="fresh", seed=2)
    torch.manual_seed(5)
    half = HalfConv2d.from_conv(conv, 3, init="fresh", seed=2)
    torch.manual_seed(5)
    new = HalfConv2d(4, 6, 3, 3, stride=2, padding=1, groups=2, padding_mode="reflect", seed=2,
                     dtype=torch.float64)  # fmt: skip
    x = torch.randn(2, 4, 7, 7, dtype=torch.float64)
    assert torch.equal(half(x), new(x))
    assert not half.training
    half = HalfConv2d.from_conv(conv, 18, init="lstsq", seed=2)  # 18 is more than 6 units
    torch.testing.assert_close(half(x), conv(x))
    sized = HalfLinear.from_linear(nn.Linear(3, 2), 1, init=halfnet.Init(sigma=0.5))
    assert torch.equal(sized.sigma, torch.full((3,), 0.5))
    one, two = (HalfConv2d.from_conv(conv, 3) for _ in range(2))
    assert one.seed != two.seed
    state = torch.random.get_rng_state()
    HalfConv2d.from_conv(conv, 3, init="moments", seed=2)  # draws no initial values
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("init", ["moments", "lstsq"])
@pytest.mark.parametrize("noise", ["learned", "fixed", "none"])
@pytest.mark.parametrize("binary", [False, True])
def test_weights_of_nothing_and_layers_of_one_unit(init, noise, binary):
    linear = nn.Linear(5, 1)
    nn.init.zeros_(linear.weight)
    for rank in (1, 5):
        half = HalfLinear.from_linear(linear, rank, init=init, noise=noise, binary=binary)
        assert all(torch.isfinite(p).all() for p in half.parameters())
        assert torch.isfinite(half(torch.randn(2, 5))).all()


# -- bad input -------------------------------------------------------------------------------------


def tied():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    return model


def with_mask(module):
    module.register_buffer("mask", torch.ones(4))
    return module


MODEL_PROBLEMS = {
    "nothing matched": (
        mlp, {"rank": 2, "include": "fc*"},
        r"model: expected include='fc\*' to choose of its layers '0', '2', '4', got none chosen",
    ),
    "one of two patterns": (mlp, {"rank": 2, "include": ["0", "5"]}, "expected include='5' to"),
    "all excluded": (mlp, {"rank": 2, "exclude": "*"}, r"expected exclude='\*' to choose"),
    "no layers": (nn.ReLU, {"rank": 2}, "got ReLU without any"),
    "rank pattern": (mlp, {"rank": {"0": 2, "x": 3}}, "rank: expected patterns .* got 'x' for '0'"),
    "rank": (mlp, {"rank": 7}, r"rank: .* from 0 to 6 \(the fan-in of 4 is 6\), got 7"),
    "rank by pattern": (mlp, {"rank": {"2": 9}}, r"\(the fan-in of 2 is 8\), got 9"),
    "no rank": (mlp, {"rank": 0, "noise": "none"}, "expected an integer from 1 to 12"),
    "negative": (mlp, {"rank": -1}, "rank: expected an integer from 0 to 12"),
    "fraction": (mlp, {"rank": 1.5}, "rank: expected an integer, or a fraction .* got 1.5"),
    "nan": (mlp, {"rank": float("nan")}, "rank: expected an integer, or a fraction .* got nan"),
    "rank type": (mlp, {"rank": "2"}, "rank: expected an integer from 0 to 12 .* got '2'"),
    "both": (mlp, {"rank": 2, "budget": 100}, "rank: expected either it or a budget, got both"),
    "neither": (mlp, {}, "rank: expected either it or a budget, got neither"),
    "budget": (mlp, {"budget": 0}, "budget: expected an integer of at least 1, got 0"),
    "noise": (mlp, {"rank": 2, "noise": "loud"}, "noise: expected one of 'learned', 'fixed'"),
    "init": (mlp, {"rank": 2, "init": "svd"}, "init: expected one of 'fresh', 'moments', 'lstsq'"),
    "seed": (mlp, {"rank": 2, "seed": -1}, "seed: expected an integer from 0"),
    "layers": (mlp, {"rank": 2, "layers": (nn.ReLU,)}, "layers: expected classes from nn.Linear"),
    "include": (mlp, {"rank": 2, "include": 3}, "include: expected a pattern, a sequence of them"),
    "not finite": (
        lambda: nn.Sequential(with_spectrum(4, 3, [float("nan")] * 3)), {"rank": 2},
        "0: expected an nn.Linear with plain weights, got a weight with numbers that are not fin",
    ),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(3)), {"rank": 2}, "0: .* got a lazy one, whose"),
    "meta": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2, device="meta")), {"rank": 2},
        "1: .* got a weight on the meta device, without numbers",
    ),
    "parametrized": (
        lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 3))), {"rank": 2},
        "0: .* got one that also has parametrizations, which its weight may be computed from",
    ),
    "spectral": (
        lambda: nn.Sequential(parametrizations.spectral_norm(nn.Conv2d(4, 3, 1))), {"rank": 2},
        "0: .* got one that also has parametrizations",
    ),
    "pruned": (
        lambda: nn.Sequential(prune.l1_unstructured(nn.Linear(4, 3), "weight", 2)), {"rank": 2},
        "0: .* got one that also has weight_mask, weight_orig",
    ),
    "half precision of 8 bits": (
        lambda: nn.Sequential(nn.Linear(4, 3).to(torch.float8_e4m3fn)), {"rank": 2},
        "0: .* got a weight of torch.float8_e4m3fn",
    ),
    "tied to each other": (
        tied, {"rank": 2},
        "0: expected a layer with weights of its own, got one tied to 1; leave it",
    ),
    "attention": (
        lambda: nn.ModuleDict({"a": with_mask(nn.MultiheadAttention(4, 2))}), {"rank": 2},
        r"a.q_proj: expected an nn.MultiheadAttention with plain weights, got one that also has "
        "mask",
    ),
    "attention on meta": (
        lambda: nn.MultiheadAttention(4, 2, device="meta"), {"rank": 2}, "on the meta device",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODEL_PROBLEMS)
@pytest.mark.filterwarnings("ignore:Lazy modules", "ignore:An output with one or more")
def test_bad_input_changes_nothing(name):
    make, arguments, expected = MODEL_PROBLEMS[name]
    if name in ("meta", "lazy", "attention on meta"):
        model = make()
        with pytest.raises(halfnet.HalfnetError, match=expected):
            halfnet.convert_(model, **arguments)
        assert not halves(model)
    else:
        message = unchanged(make(), lambda model: halfnet.convert_(model, **arguments))
        assert re.search(expected, message), message
        assert "\n" not in message


@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_more_layers_that_cannot_be_replaced():
    for spoil, expected in [
        (weight_norm, "got one that also has weight_g, weight_v"),
        (lambda m: m.weight.register_hook(lambda g: g), "got a weight with hooks"),
        (lambda m: setattr(m, "forward", lambda x: x), "a forward that was put in the place"),
        (lambda m: m.register_state_dict_post_hook(lambda *a: None), "got hooks on its state dict"),
        (lambda m: m.register_parameter("gain", nn.Parameter(torch.ones(1))), "also has gain"),
    ]:
        layer = nn.Linear(4, 3)
        spoil(layer)
        for call in (halfnet.convert_, HalfLinear.from_linear):
            with pytest.raises(HalfnetValueError, match=expected):
                call(layer, 2)
        assert type(layer).__name__ == "Linear"


def test_what_is_half_already():
    model = nn.Sequential(HalfLinear(6, 4, rank=2), nn.ReLU())
    with pytest.raises(HalfnetValueError, match="got Sequential whose layers are half layers alre"):
        halfnet.convert_(model, 2)
    with pytest.raises(HalfnetTypeError, match=r"linear: expected an nn\.Linear, got HalfLinear"):
        HalfLinear.from_linear(model[0], 2)
    with pytest.raises(HalfnetTypeError, match=r"conv: expected an nn\.Conv2d, got Conv1d"):
        HalfConv2d.from_conv(nn.Conv1d(3, 2, 1), 2)
    with pytest.raises(HalfnetTypeError, match="model: expected a torch module, got int"):
        halfnet.convert_(3, 2)
    with pytest.raises(HalfnetValueError, match="rank: expected an integer from 0 to 6"):
        HalfLinear.from_linear(nn.Linear(6, 4), 7)
    both = nn.Sequential(HalfLinear(6, 4, rank=2, seed=1), nn.Linear(4, 2))
    halfnet.convert_(both, 2, seed=2)
    assert both[0].seed == 1  # left as it was


# -- weights that are read, and weights that are written -------------------------------------------


class Clamping(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.layer, self.write = nn.Linear(4, 3), write

    def forward(self, x):
        self.write(self.layer)
        return self.layer(x)


@pytest.mark.parametrize(
    "write",
    [
        lambda layer: layer.weight.data.clamp_(-1, 1),
        lambda layer: setattr(layer.weight, "data", layer.weight.data * 0.5),
        lambda layer: layer.weight.detach_().mul_(2),
        lambda layer: nn.init.zeros_(layer.weight),
        lambda layer: layer.weight.__setitem__(0, 0.0),
        lambda layer: layer.weight.data.__imul__(2),
        lambda layer: torch.no_grad()(lambda: layer.weight.add_(1))(),
    ],
)
def test_a_forward_that_writes_into_the_weight_is_told(write):
    model = Clamping(write)
    halfnet.convert_(model, 2)
    with pytest.raises(HalfnetTypeError, match="weight: expected to be read only"):
        model(torch.randn(2, 4))
    halfnet.fold_(model)
    model.write = lambda layer: layer.weight.data.clamp_(-0.01, 0.01)
    model(torch.randn(2, 4))
    assert model.layer.weight.abs().max() <= 0.01


def test_reading_the_weight_works_in_every_way():
    model = Clamping(lambda layer: None)
    halfnet.convert_(model, 2)
    weight = model.layer.weight
    penalty = weight.square().sum() + weight.data.abs().max() + weight.norm(dim=1).max()
    penalty.backward()
    assert model.layer.B.grad is not None
    assert type(weight * 1) is type(weight.detach()) is torch.Tensor
    assert torch.equal(weight.data.clone(), weight.detach())
    assert type(copy.deepcopy(weight.detach())) is torch.Tensor
    assert weight.numpy(force=True).shape == (3, 4)
