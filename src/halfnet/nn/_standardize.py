"""The scaling of raw inputs, as a part of the model."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from halfnet import _checks


class Standardize(nn.Module):
    """Computes (x - mean) / scale, for inputs of any dtype; neither is learned.

    Put first, it lets a model take numbers as its user has them: pixels from 0 to 255, columns in
    their own units. `halfnet.load` knows it.

    Args:
        shape: Of `mean` and `scale`, which broadcast over the inputs; () is a number each.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, shape: Iterable[int] = ()) -> None:
        super().__init__()
        self.shape = tuple(_checks.integer("shape", size, 1) for size in shape)
        self.register_buffer("mean", torch.zeros(self.shape))
        self.register_buffer("scale", torch.ones(self.shape))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled inputs."""
        return (x.to(self.mean.dtype) - self.mean) / self.scale

    def extra_repr(self) -> str:
        """Return what `print` shows between the brackets."""
        return f"shape={self.shape}"
