"""Matrix products in float32, by oneDNN where torch has it.

torch takes MKL for them, which on AMD's processors leaves half of the arithmetic units idle: oneDNN
is about twice as fast there, and no slower on Intel's (docs/speed.md). torch offers it for float32
only by an operation of its compiler's, which is looked up here and nowhere else.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

_BY_ONEDNN: Any = None
if torch.backends.mkldnn.is_available():
    _BY_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_LARGE = 2**20  # multiplications of one matrix by another, from which on it pays to go around torch


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b for two matrices, or for two stacks of matrices, differentiable once."""
    if not _fits(a, b):
        return a @ b
    if not torch.is_grad_enabled():
        return _product(a, b)
    product: Tensor = _Product.apply(a, b)  # type: ignore[no-untyped-call]
    return product


def _fits(a: Tensor, b: Tensor) -> bool:
    """Whether oneDNN can make a product, and is worth asking."""
    plain = torch.is_autocast_enabled("cpu") or a.dtype != torch.float32 or not a.is_cpu
    if _BY_ONEDNN is None or plain:
        return False
    return math.prod(a.shape[-2:]) * b.shape[-1] >= _LARGE


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
    product: Tensor = _BY_ONEDNN(a, b.mT, None, "none", [], "")
    return product
