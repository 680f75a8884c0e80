"""Half layers turned into dense ones, what a model's summary says, and kept weights."""

import copy
import pickle
import threading

import pytest
import torch
from contract import perturb
from torch import nn
from torch.nn.utils import parametrize

import halfnet
from halfnet import HalfConv1d, HalfConv2d, HalfConv3d, HalfLinear
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError

LAYERS = [
    (HalfLinear, (12, 8), (5, 12), nn.Linear),
    (HalfConv1d, (4, 6, 3), (2, 4, 9), nn.Conv1d),
    (HalfConv2d, (4, 6, 3), (2, 4, 7, 7), nn.Conv2d),
    (HalfConv3d, (2, 4, 2), (2, 2, 4, 4, 4), nn.Conv3d),
]
OPTIONS = [
    {},
    {"noise": "fixed"},
    {"noise": "none"},
    {"binary": True},
    {"affine": False},
    {"affine": "scale"},
    {"dtype": torch.float64},
]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("cls", "sizes", "shape", "dense"), LAYERS, ids=lambda v: str(v)[-20:])
def test_fold_and_frozen_compute_the_same(cls, sizes, shape, dense, options):
    layer = perturb(cls(*sizes, rank=3, **options)).eval()
    twin = copy.deepcopy(layer)
    x = torch.randn(shape, dtype=options.get("dtype"))
    expected = layer(x)
    scale = expected.abs().max()
    with torch.no_grad(), halfnet.frozen(layer) as same:
        assert same is layer
        assert layer._kept is not None
        torch.testing.assert_close(layer(x) / scale, expected / scale, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(layer.weight, twin.weight)
    assert layer._kept is None
    model = nn.Sequential(layer)
    assert halfnet.fold_(model) is model
    assert type(model[0]) is dense
    assert model[0] is layer
    assert not layer.training
    assert (layer.bias is None) == (twin.u0 is None)
    torch.testing.assert_close(model(x) / scale, expected / scale, rtol=1e-5, atol=1e-5)


def test_an_affine_of_a_scale_alone():
    layer = perturb(HalfLinear(6, 4, rank=2, affine="scale"))
    assert [name for name, _ in layer.named_parameters()] == ["B", "sigma", "u"]
    assert layer.bias is None
    assert "affine='scale'" in repr(layer)
    x = torch.randn(3, 6)
    torch.testing.assert_close(layer(x), x @ layer.weight.T)
    twin = HalfLinear(**layer.config())
    twin.load_state_dict(layer.state_dict())
    assert torch.equal(twin(x), layer(x))
    assert layer.widen(9).units == 9


def test_an_affine_of_a_scale_alone_in_a_file(tmp_path):
    model = nn.Sequential(HalfLinear(6, 4, rank=2, affine="scale"))
    halfnet.save(model, tmp_path / "model.safetensors")
    x = torch.randn(3, 6)
    assert torch.equal(halfnet.load(tmp_path / "model.safetensors")(x), model(x))


def test_shared_layers_stay_shared():
    shared = HalfLinear(6, 6, rank=2)
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared, nn.Linear(6, 2))})
    halfnet.fold_(model)
    assert model["a"] is model["b"][0] is shared
    assert type(shared) is nn.Linear
    assert len(list(model.parameters())) == 4


def test_a_parametrized_half_layer_folds_to_what_it_computes():
    class Twice(nn.Module):
        def forward(self, x):
            return 2 * x

    layer = HalfLinear(6, 4, rank=2)
    parametrize.register_parametrization(layer, "B", Twice())
    x = torch.randn(3, 6)
    expected = layer(x)
    with torch.no_grad(), halfnet.frozen(layer):
        torch.testing.assert_close(layer(x), expected)
    halfnet.fold_(layer)
    assert type(layer) is nn.Linear
    torch.testing.assert_close(layer(x), expected)


def test_an_own_class_of_half_layer():
    class Own(HalfLinear):
        pass

    layer = Own(6, 4, rank=2)
    halfnet.fold_(layer)
    assert type(layer) is nn.Linear


@pytest.mark.parametrize("call", [halfnet.fold_, lambda m: halfnet.frozen(m).__enter__()])
def test_models_without_half_layers(call):
    model = nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(HalfnetValueError, match="model: expected one with half layers, got Sequen"):
        call(model)
    assert type(model[0]) is nn.Linear
    with pytest.raises(HalfnetTypeError, match="model: expected a torch module, got str"):
        call("model")


def test_a_layer_on_meta_is_not_folded():
    model = nn.Sequential(HalfLinear(3, 2, rank=1), HalfLinear(2, 2, rank=1, device="meta"))
    with pytest.raises(HalfnetValueError, match="1: expected a half layer with numbers"):
        halfnet.fold_(model)
    assert type(model[0]) is HalfLinear


def test_folding_within_a_frozen_block():
    model = nn.Sequential(HalfLinear(6, 4, rank=2))
    x = torch.randn(3, 6)
    expected = model(x)
    with halfnet.frozen(model), torch.no_grad():
        halfnet.fold_(model)
        torch.testing.assert_close(model(x), expected)
    assert set(vars(model[0])) == set(vars(nn.Linear(6, 4)))


# -- frozen ----------------------------------------------------------------------------------------


def counted(layer, monkeypatch):
    """Count how often the layer's weight is made."""
    made = []
    original = type(layer)._factors
    monkeypatch.setattr(type(layer), "_factors", lambda self: made.append(self) or original(self))
    return made


def test_the_weight_is_made_once_and_again_when_something_changed(monkeypatch):
    layer = perturb(HalfLinear(12, 8, rank=3))
    made, x = counted(layer, monkeypatch), torch.randn(2, 12)

    def agrees():
        twin = copy.deepcopy(layer)
        assert twin._keepers == 0
        torch.testing.assert_close(layer(x), twin(x))

    with torch.no_grad(), halfnet.frozen(layer):
        for _ in range(3):
            agrees()
        assert len(made) == 1
        for name in ("B", "sigma", "u", "u0"):
            getattr(layer, name).mul_(1.5)
            agrees()
        assert len(made) == 4  # u0 is used as it is
        layer.redraw(99)
        agrees()
        layer.eps.zero_()
        agrees()
        layer.redraw(98)
        agrees()
        layer.B = nn.Parameter(layer.B * 2)
        agrees()
        layer.load_state_dict(HalfLinear(12, 8, rank=3).state_dict(), assign=True)
        agrees()
        layer.double().float()
        agrees()
        assert len(made) == 10
    layer(x)
    assert len(made) == 10


def test_training_within_the_block_is_training(monkeypatch):
    layer = perturb(HalfLinear(12, 8, rank=3))
    twin = copy.deepcopy(layer)
    x = torch.randn(4, 12)
    losses = []
    for model in (layer, twin):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        context = halfnet.frozen(layer) if model is layer else torch.enable_grad()
        with context:
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(x).square().sum()
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    losses.append((loss.item(), model(x).sum().item()))
    torch.testing.assert_close(torch.tensor(losses[:3]), torch.tensor(losses[3:]))
    assert all(
        torch.allclose(a, b) for a, b in zip(layer.parameters(), twin.parameters(), strict=True)
    )


def test_gradients_of_inputs_where_nothing_is_learned(monkeypatch):
    layer = perturb(HalfLinear(12, 8, rank=3)).requires_grad_(False)
    made, x = counted(layer, monkeypatch), torch.randn(4, 12, requires_grad=True)
    (expected,) = torch.autograd.grad(layer(x).square().sum(), x)
    with torch.inference_mode(), halfnet.frozen(layer):
        layer(x)
    with halfnet.frozen(layer):
        (grad,) = torch.autograd.grad(layer(x).square().sum(), x)
    assert len(made) == 2
    torch.testing.assert_close(grad, expected)


def test_thin_factors_stay_where_they_are_cheaper(monkeypatch):
    thin, thick = HalfLinear(12, 8, rank=4, noise="none"), HalfLinear(12, 8, rank=5, noise="none")
    with torch.no_grad(), halfnet.frozen(thin), halfnet.frozen(thick):
        assert [tuple(f.shape) for f in thin._kept.factors] == [(4, 12), (8, 4)]
        assert [tuple(f.shape) for f in thick._kept.factors] == [(8, 12)]
        torch.testing.assert_close(thin.weight, copy.deepcopy(thin).weight)
    binary = HalfLinear(12, 8, rank=4, noise="none", binary=True)
    with torch.no_grad(), halfnet.frozen(binary):
        assert [tuple(f.shape) for f in binary._kept.factors] == [(8, 12)]


def test_nested_blocks_exceptions_and_copies():
    model = nn.Sequential(HalfLinear(12, 8, rank=3), nn.ReLU(), HalfLinear(8, 4, rank=3))
    x = torch.randn(2, 12)
    expected, first = model(x), model[0]

    def fail():
        with halfnet.frozen(model):
            with halfnet.frozen(first):
                kept = first._kept
            assert first._kept is kept
            assert kept is not None
            assert model.state_dict().keys() == copy.deepcopy(model).state_dict().keys()
            for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
                assert twin[0]._kept is None
                assert twin[0]._keepers == 0
                torch.testing.assert_close(twin(x), expected)
            raise RuntimeError("stop")

    with torch.no_grad():
        with pytest.raises(RuntimeError, match="stop"):
            fail()
        assert first._keepers == 0
        assert first._kept is None
        torch.testing.assert_close(model(x), expected)


def test_threads():
    layer = perturb(HalfLinear(12, 8, rank=3))
    x = torch.randn(2, 12)
    expected = layer(x).detach()
    wrong = []

    def work():
        for _ in range(50):
            with torch.no_grad(), halfnet.frozen(layer):
                if not torch.allclose(layer(x), expected, atol=1e-5):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong
    assert layer._keepers == 0
    assert layer._kept is None


def test_other_ways_to_run_a_layer_within_the_block():
    layer = perturb(HalfLinear(12, 8, rank=3))
    x = torch.randn(2, 12)
    other = {name: p.detach() * 2 for name, p in layer.named_parameters()}
    expected = torch.func.functional_call(layer, other, (x,))
    stacked = {name: torch.stack([p, p * 2]) for name, p in layer.named_parameters()}
    call = torch.func.vmap(lambda p: torch.func.functional_call(layer, p, (x,)))
    both = call(stacked)
    with torch.inference_mode():
        born = HalfLinear(12, 8, rank=3, seed=layer.seed)  # its writes are not counted
        born.load_state_dict(layer.state_dict())
        with halfnet.frozen(born):
            torch.testing.assert_close(born(x), layer(x))
            born.B.mul_(2)
            torch.testing.assert_close(born(x), copy.deepcopy(born)(x))
    with torch.no_grad(), halfnet.frozen(layer):
        layer(x)
        torch.testing.assert_close(torch.func.functional_call(layer, other, (x,)), expected)
        torch.testing.assert_close(call(stacked), both)
        torch.testing.assert_close(layer(x), both[0])
        compiled = torch.compile(layer, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x), both[0])
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
        torch.testing.assert_close(layer(x), both[0])


def test_bad_input_within_the_block_says_the_same():
    layer = HalfLinear(12, 8, rank=3)
    for x in (torch.randn(2, 11), torch.randn(2, 12).double(), "x", torch.zeros(2, 12).long()):
        with torch.no_grad():
            with pytest.raises(halfnet.HalfnetError) as outside:
                layer(x)
            with halfnet.frozen(layer), pytest.raises(halfnet.HalfnetError) as inside:
                layer(x)
        assert str(inside.value) == str(outside.value)


# -- summary ---------------------------------------------------------------------------------------


def test_the_summary_counts_what_is_there(tmp_path):
    half = HalfConv2d(3, 8, 5, rank=4)
    model = nn.Sequential(half, nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 2))
    model.add_module("again", half)
    rows = halfnet.summary(model)
    assert [row.name for row in rows] == ["0", "1", "3"]
    assert [row.kind for row in rows] == ["HalfConv2d", "BatchNorm2d", "Linear"]
    assert rows[0].weight == "8 x 3 x 5 x 5"
    assert [row.rank for row in rows] == [4, None, None]
    assert sum(row.learned for row in rows) == sum(p.numel() for p in model.parameters())
    halfnet.fold_(model)
    assert sum(row.dense for row in rows) == sum(p.numel() for p in model.parameters())
    model = nn.Sequential(HalfLinear(300, 200, rank=8), nn.Linear(200, 50))
    halfnet.save(model, tmp_path / "model.safetensors")
    on_disk = (tmp_path / "model.safetensors").stat().st_size
    assert 0 < on_disk - sum(row.bytes for row in halfnet.summary(model)) < 2500  # the header
    lines = str(halfnet.summary(model)).splitlines()
    assert lines[0].split() == ["name", "kind", "weight", "rank", "learned", "dense", "bytes"]
    assert lines[1].split()[:5] == ["0", "HalfLinear", "200", "x", "300"]
    assert lines[-1].split()[0] == "total"


def test_the_summary_counts_a_tied_weight_once():
    model = nn.ModuleDict({"wte": nn.Embedding(7, 4), "head": nn.Linear(4, 7, bias=False)})
    model["head"].weight = model["wte"].weight
    assert [row.learned for row in halfnet.summary(model)] == [28]
    with pytest.raises(HalfnetValueError, match="model: expected one with parameters, got ReLU"):
        halfnet.summary(nn.ReLU())
    with pytest.raises(HalfnetTypeError, match="model: expected a torch module"):
        halfnet.summary(3)
