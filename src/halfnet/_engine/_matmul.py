"""Products of matrices, or of stacks of them, that autograd sees: by oneDNN where it pays."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from halfnet._matmul import by_onednn, goes_around


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b for two matrices, or for two stacks of matrices, differentiable once."""
    if not goes_around(a, b):
        return a @ b
    if not torch.is_grad_enabled():
        return _product(a, b)
    product: Tensor = _Product.apply(a, b)  # type: ignore[no-untyped-call]
    return product


class _Product(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return _product(a, b)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (grad,), (a, b) = grads, ctx.saved_tensors
        need_a, need_b = ctx.needs_input_grad
        return (
            _product(grad, b.mT) if need_a else None,
            _product(a.mT, grad) if need_b else None,
        )


def _product(a: Tensor, b: Tensor) -> Tensor:
    if a.dim() == 3:
        return torch.stack([_product(one, other) for one, other in zip(a, b, strict=True)])
    return by_onednn(a, b)
