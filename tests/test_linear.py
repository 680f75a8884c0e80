import numpy as np
import pytest
import torch
from contract import LayerContract, perturb
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import halfnet
from halfnet import _products


class TestHalfLinear(LayerContract):
    widen_name = "out_features"

    def create(self, **options):
        return halfnet.HalfLinear(13, 8, **options)

    def inputs(self, dtype=torch.float32):
        return torch.randn(5, 13, dtype=dtype)

    def dense(self, x, weight, bias):
        return F.linear(x, weight, bias)


class TestHalfLinearInSequences(TestHalfLinear):
    """Extra leading dimensions, and more rows than features."""

    def inputs(self, dtype=torch.float32):
        return torch.randn(4, 2, 3, 13, dtype=dtype)


def test_a_single_vector(monkeypatch):
    layer = halfnet.HalfLinear(13, 8, rank=3)
    x = torch.randn(13)
    for factored in (True, False):
        monkeypatch.setattr(_products, "prefers_factored", lambda *args, f=factored: f)
        torch.testing.assert_close(layer(x), layer.to_dense()(x))


def test_the_two_paths_agree_on_large_layers():
    layer = perturb(halfnet.HalfLinear(700, 300, rank=20))
    x = torch.randn(50, 700)
    parts = (layer.B, layer.sigma, layer.z, layer.eps)
    a = _products.factored(x, *parts)
    torch.testing.assert_close(a, F.linear(x, _products.directions(*parts)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("lacking", [(), ("B", "z"), ("sigma",), ("sigma", "eps")])
def test_many_layers_at_once_are_those_of_a_loop(lacking):
    layers, units, d, k = 3, 5, 7, 2
    shapes = {"B": (d, k), "sigma": (d,), "z": (units, k), "eps": (units, d)}
    many = {
        name: None if name in lacking else torch.randn(layers, *shape)
        for name, shape in shapes.items()
    }

    def compute(B, sigma, z, eps):
        r = _products.directions(B, sigma, z, eps).requires_grad_()
        spread = torch.ones_like(r[..., 0, :]) if lacking == ("sigma",) else sigma
        variance = _products.variances(B, spread)
        signs = _products.signs(r, variance.sqrt())
        return r, variance, signs, *torch.autograd.grad(signs.sum(), r)

    each = [compute(*(p if p is None else p[s] for p in many.values())) for s in range(layers)]
    for together, alone in zip(compute(*many.values()), zip(*each, strict=True), strict=True):
        torch.testing.assert_close(together, torch.stack(alone))


class Flops(TorchDispatchMode):
    """Counts the multiplications in matrix products."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            a, b = args[-2:]
            self.count += a.shape[0] * a.shape[1] * b.shape[1]
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("needs_x", "products"), [(True, 2), (False, 2)])
def test_a_factored_training_step_has_two_large_products(needs_x, products):
    """Where a dense layer and the materialised path have three (two without x's gradient)."""
    n, d, m, k = 60, 400, 300, 1
    layer = halfnet.HalfLinear(d, m, rank=k)
    x = torch.randn(n, d, requires_grad=needs_x)
    with Flops() as flops:
        a = _products.factored(x, layer.B, layer.sigma, layer.z, layer.eps)
        a.backward(torch.ones_like(a))
    assert products <= flops.count / (n * d * m) < products + 0.05


def test_the_layer_picks_its_path_by_shape():
    few, many = torch.randn(10, 64), torch.randn(1000, 64)
    assert _products.prefers_factored(few, units=64)
    assert not _products.prefers_factored(many, units=64)
    between = torch.randn(50, 64)
    assert not _products.prefers_factored(between, units=64)
    assert _products.prefers_factored(between.requires_grad_(), units=64)
    with torch.no_grad():
        assert not _products.prefers_factored(between, units=64)
    assert _products.prefers_factored(torch.randn(2, 5, 64), units=64)


def test_without_noise_nothing_has_d_times_m_entries():
    layer = halfnet.HalfLinear(64, 32, rank=2, noise="none")
    sizes = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            sizes.append(out.numel() if isinstance(out, torch.Tensor) else 0)
            return out

    with Sizes():
        layer(torch.randn(3, 64, requires_grad=True)).sum().backward()
    assert max(sizes) < 64 * 32


def test_print():
    layer = halfnet.HalfLinear(4, 3, rank=2, seed=9)
    assert repr(layer) == "HalfLinear(in_features=4, out_features=3, rank=2, seed=9)"
    layer = halfnet.HalfLinear(
        4, 3, rank=2, noise="none", affine=False, binary=True, draw="orthogonal", seed=9
    )
    assert repr(layer) == (
        "HalfLinear(in_features=4, out_features=3, rank=2, noise='none', affine=False, "
        "binary=True, draw='orthogonal', seed=9)"
    )


def test_inductor_compiles_training():
    torch._dynamo.reset()
    model = nn.Sequential(halfnet.HalfLinear(13, 8, rank=3), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(5, 13)
    expected = model(x)
    compiled = torch.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(x), expected)
    compiled(x).sum().backward()
    assert model[0].B.grad is not None


def test_the_sign_of_zero_is_plus_one():
    zero = halfnet.Init(B=0, sigma=0, u=1)
    layer = halfnet.HalfLinear(4, 3, rank=1, binary=True, init=zero)
    assert torch.equal(layer.weight, torch.ones(3, 4))


def test_small_binary_weights_get_gradients_in_half_precision():
    small = halfnet.Init(B=1e-4, sigma=1e-4, u=1)  # the squares are 0 in float16
    options = {"rank": 2, "binary": True, "init": small, "seed": 1}
    low = halfnet.HalfLinear(64, 16, dtype=torch.float16, **options)
    exact = halfnet.HalfLinear(64, 16, **options)
    exact.load_state_dict(low.state_dict())
    for layer in (low, exact):
        layer(torch.ones(1, 64, dtype=layer.B.dtype)).sum().backward()
    torch.testing.assert_close(low.B.grad.float(), exact.B.grad, rtol=0.1, atol=2)


def test_autocast_does_not_flip_signs():
    layer = halfnet.HalfLinear(784, 256, rank=16, binary=True, init=halfnet.Init(B=0.1, sigma=0.1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.weight, layer.to_dense().weight)


def test_parameters_of_another_dtype_as_mixed_precision_passes_them():
    for options in ({}, {"noise": "none"}, {"binary": True}, {"rank": 0}, {"noise": "fixed"}):
        layer = halfnet.HalfLinear(13, 8, **{"rank": 3} | options)
        low = {name: p.bfloat16() for name, p in layer.named_parameters()}
        x = torch.randn(5, 13)
        out = torch.func.functional_call(layer, low, (x.bfloat16(),))
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out.float(), layer(x), rtol=0.1, atol=0.2)


@pytest.mark.parametrize("options", [{}, {"noise": "none"}, {"binary": True}])
def test_export_with_any_number_of_rows(options):
    layer = halfnet.HalfLinear(13, 8, rank=3, **options).eval()
    rows = torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(layer, (torch.randn(4, 13),), dynamic_shapes=({0: rows},))
    for n in (2, 5, 1000):
        x = torch.randn(n, 13)
        torch.testing.assert_close(program.module()(x), layer(x))


def test_a_nan_in_what_is_learned_is_not_hidden_by_the_sign():
    layer = halfnet.HalfLinear(4, 3, rank=1, binary=True)
    with torch.no_grad():
        layer.B[0, 0] = float("nan")
    assert layer(torch.randn(2, 4)).isnan().all()


@pytest.mark.parametrize("arguments", [(0, 3, 0), (4, 0, 0), (4, 3, 5), (4, 3, -1)])
def test_sizes_out_of_range(arguments):
    with pytest.raises(halfnet.HalfnetError, match=": expected an integer"):
        halfnet.HalfLinear(*arguments)


def test_a_wider_layer_of_a_parametrized_one_is_an_ordinary_one():
    layer = halfnet.HalfLinear(6, 4, rank=2)
    torch.nn.utils.parametrizations.weight_norm(layer, "B")
    wide = layer.widen(9)
    assert type(wide) is halfnet.HalfLinear
    assert torch.equal(wide.B, layer.B)
    assert torch.equal(wide.weight[:4], layer.weight)


def test_a_class_that_its_config_does_not_build_cannot_be_widened():
    class Scaled(halfnet.HalfLinear):
        def __init__(self, width):
            super().__init__(width, width, rank=1)

    with pytest.raises(halfnet.HalfnetError, match=r"widen: expected a class .* got Scaled"):
        Scaled(4).widen(9)


def test_sizes_that_numpy_counted_are_plain_integers():
    layer = halfnet.HalfLinear(np.int64(8), np.int64(3), rank=np.int64(2))
    assert repr(layer._layout) == "(8,)"
