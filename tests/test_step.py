"""The training step with its own backward pass: where it serves, what it computes and saves."""

import pytest
import torch
from contract import perturb
from torch.autograd import forward_ad
from torch.func import functional_call, jvp
from torch.utils._python_dispatch import TorchDispatchMode

import halfnet
from halfnet import _matmul, _products, _step


@pytest.fixture
def steps(monkeypatch):
    """Whether each call of a layer took the step."""
    taken = []
    applies = _step.applies

    def spy(*arguments):
        taken.append(applies(*arguments))
        return taken[-1]

    monkeypatch.setattr(_step, "applies", spy)
    return taken


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("onednn", [True, False])
def test_it_computes_what_the_formulas_do(factored, onednn, monkeypatch):
    monkeypatch.setattr(_products, "prefers_factored", lambda *_: factored)
    if not onednn:
        monkeypatch.setattr(_matmul, "_BY_ONEDNN", None)
    layer = perturb(halfnet.HalfLinear(300, 200, rank=5))
    x = torch.randn(3, 20, 300, requires_grad=True)  # large enough for oneDNN
    exact = [t.detach().double().requires_grad_() for t in (x, *layer.parameters())]
    z, eps = layer.z.double(), layer.eps.double()
    wanted = _products.linear(*exact, z, eps)
    out = layer(x)
    upstream = torch.randn_like(out)
    torch.testing.assert_close(out, wanted.float(), rtol=1e-4, atol=1e-2)
    gradients = torch.autograd.grad(out, [x, *layer.parameters()], upstream)
    wishes = torch.autograd.grad(wanted, exact, upstream.double())
    for gradient, wish in zip(gradients, wishes, strict=True):
        scale = wish.abs().max().float()
        torch.testing.assert_close(gradient / scale, wish.float() / scale, rtol=1e-4, atol=1e-5)


def test_it_serves_plain_training_only(steps):
    layer, x = halfnet.HalfLinear(12, 6, rank=2), torch.randn(4, 12)
    state = dict(layer.named_parameters())

    def loss(state, x):
        return functional_call(layer, state, (x,)).square().sum()

    layer(x)
    assert steps == [True]
    with torch.no_grad():
        layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        layer(x)
    torch.func.grad(loss)(state, x)
    torch.func.vmap(loss, (None, 0))(state, torch.randn(3, 4, 12))
    halfnet.HalfLinear(12, 6, rank=2, affine=False)(x)
    halfnet.HalfLinear(12, 6, rank=2, noise="none")(x)
    with forward_ad.dual_level():
        layer(forward_ad.make_dual(x, x))
    assert steps == [True] + [False] * 7


def test_forward_mode_sees_the_layer_too():
    layer, x, v = halfnet.HalfLinear(12, 6, rank=2), torch.randn(4, 12), torch.randn(4, 12)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, v))).tangent
    torch.testing.assert_close(tangent, v @ layer.weight.T)
    torch.testing.assert_close(jvp(layer, (x,), (v,))[1], v @ layer.weight.T)


def test_without_what_it_needs_of_torch_it_serves_nothing(steps, monkeypatch):
    monkeypatch.setattr(_step, "_transformed", None)
    halfnet.HalfLinear(12, 6, rank=2)(torch.randn(4, 12)).sum().backward()
    assert steps == [False]


class Products(TorchDispatchMode):
    """Counts the multiplications in matrix products, oneDNN's too."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        aten = torch.ops.aten
        if func in (aten.mm.default, aten.addmm.default, aten.addmm_.default):
            a, b = args[-2:]
            self.count += a.shape[0] * a.shape[1] * b.shape[1]
        elif func is torch.ops.mkldnn._linear_pointwise.default:
            self.count += args[0].shape[0] * args[1].numel()
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("factored", "x_learns", "sigma_learns", "B_learns", "products"),
    [
        (True, True, True, True, 2),
        (True, False, True, True, 2),
        (True, False, False, True, 1),
        (False, True, True, True, 3),
        (False, False, True, True, 2),
        (False, True, False, False, 2),
        (False, False, False, False, 1),
    ],
)
def test_a_step_has_no_more_large_products_than_gradients_need(
    factored, x_learns, sigma_learns, B_learns, products, monkeypatch
):
    monkeypatch.setattr(_products, "prefers_factored", lambda *_: factored)
    n, d, m = 60, 400, 300
    layer = halfnet.HalfLinear(d, m, rank=1)
    layer.sigma.requires_grad_(sigma_learns)
    layer.B.requires_grad_(B_learns)
    x = torch.randn(n, d, requires_grad=x_learns)
    with Products() as found:
        layer(x).sum().backward()
    assert products <= found.count / (n * d * m) < products + 0.05
    for tensor, learns in ((x, x_learns), (layer.sigma, sigma_learns), (layer.B, B_learns)):
        assert (tensor.grad is not None) is learns


def test_a_thin_product_is_a_product_for_any_leading_dimensions():
    B = torch.randn(30, 4)
    for shape in ((30,), (5, 30), (2, 3, 30), (0, 30)):
        x = torch.randn(shape)
        torch.testing.assert_close(_products.thin(x, B), x @ B)
