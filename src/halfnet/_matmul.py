"""Matrix products in float32, by oneDNN where torch has it.

torch takes MKL for them, which on AMD's processors leaves half of the arithmetic units idle: oneDNN
is about twice as fast there (docs/speed.md). torch offers it for float32 only by an operation of
its compiler's, which is looked up here and nowhere else. Where that is missing, all products are
torch's own.
"""

import math
from typing import Any

import torch
from torch import Tensor

_BY_ONEDNN: Any = None
if torch.backends.mkldnn.is_available():
    _BY_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_LARGE = 2**20  # multiplications of one matrix by another, from which on it pays to go around torch


def goes_around(a: Tensor, b: Tensor) -> bool:
    """Whether the product of these two, or of two stacks of matrices, is worth a call of oneDNN."""
    plain = torch.is_autocast_enabled("cpu") or a.dtype != torch.float32 or not a.is_cpu
    return not (_BY_ONEDNN is None or plain or math.prod(a.shape[-2:]) * b.shape[-1] < _LARGE)


def by_onednn(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b for two float32 matrices; autograd does not see it."""
    product: Tensor = _BY_ONEDNN(a, b.mT, None, "none", [], "")
    return product


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b for two matrices, for code that differentiates by itself."""
    return by_onednn(a, b) if goes_around(a, b) else a @ b
