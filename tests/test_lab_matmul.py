"""Products by oneDNN, or by torch alone: the same numbers, and the same gradients."""

import pytest
import torch

from halfnet import _matmul as core_matmul
from halfnet._engine import _matmul
from halfnet._engine._matmul import matmul

SHAPES = {
    "matrices": ((320, 784), (784, 128)),
    "stacks": ((3, 64, 300), (3, 300, 128)),
    "small": ((5, 10, 64), (5, 64, 128)),
    "transposed": ((128, 320), (128, 784)),
}


@pytest.fixture(params=[True, False], ids=["oneDNN", "torch alone"], autouse=True)
def library(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(core_matmul, "_BY_ONEDNN", None)
    elif core_matmul._BY_ONEDNN is None:
        pytest.skip("torch was built without oneDNN")
    return request.param


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_a_product_and_its_gradients_are_those_of_float64(shapes):
    a, b = (torch.randn(shape) for shape in shapes)
    if shapes == SHAPES["transposed"]:
        a = a.mT
    exact = [t.double().requires_grad_() for t in (a, b)]
    ours = [t.requires_grad_() for t in (a, b)]
    found, wanted = matmul(*ours), exact[0] @ exact[1]
    torch.testing.assert_close(found, wanted.float(), rtol=1e-4, atol=1e-3)
    weights = torch.randn_like(found)
    gradients = torch.autograd.grad(found, ours, weights)
    for gradient, wish in zip(
        gradients, torch.autograd.grad(wanted, exact, weights.double()), strict=True
    ):
        torch.testing.assert_close(gradient, wish.float(), rtol=1e-4, atol=1e-3)


def test_what_needs_no_gradient_gets_none():
    a, b = torch.randn(300, 300, requires_grad=True), torch.randn(300, 300)
    matmul(a, b).sum().backward()
    torch.testing.assert_close(a.grad, b.sum(1).expand(300, 300), rtol=1e-4, atol=1e-4)
    assert b.grad is None


def test_large_products_go_by_onednn(library, monkeypatch):
    taken = []
    if library:
        monkeypatch.setattr(_matmul, "_product", lambda a, b: taken.append(a.shape) or a @ b)
    large, small = torch.randn(2, 128, 128), torch.randn(2, 16, 16)
    for x in (large, small, large.double(), large.bfloat16()):
        matmul(x, x)
    with torch.autocast("cpu", torch.bfloat16):
        assert matmul(large, large).dtype == torch.bfloat16
    assert taken == ([large.shape] if library else [])
