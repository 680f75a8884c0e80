"""The deterministic low-rank layer W = UV: the baseline that the paper names and does not measure.

It is the lab's and not the library's: in a model to keep, write two `nn.Linear` instead.
"""

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from halfnet import _checks


class LowRank(nn.Module):
    """A linear layer whose weight is the product of two learned factors, and a bias.

    Computes x U V + bias, so it learns k (d + m) + m numbers. `halfnet.load` reads it back if given
    `classes=[LowRank]`.

    Initial values: U ~ N(0, 1/d) and V ~ N(0, 1/(3k)), so that an entry of UV has variance 1/(3d)
    at every rank, which is that of an entry of `nn.Linear`'s weight; the bias is `nn.Linear`'s,
    uniform within 1/sqrt(d). A sweep over ranks thus starts each time at the size of the dense
    layer that it is measured against.

    Args:
        in_features: Size of each input, d.
        out_features: Number of units, m.
        rank: Columns of U and rows of V, k, from 1 to the smaller of d and m.
    """

    def __init__(self, in_features: int, out_features: int, rank: int) -> None:
        super().__init__()
        self.in_features = _checks.integer("in_features", in_features, 1)
        self.out_features = _checks.integer("out_features", out_features, 1)
        most = min(self.in_features, self.out_features)
        why = f"W is {self.in_features} x {self.out_features}"
        self.rank = _checks.integer("rank", rank, 1, most, why)
        self.U = Parameter(torch.empty(self.in_features, self.rank))
        self.V = Parameter(torch.empty(self.rank, self.out_features))
        self.bias = Parameter(torch.empty(self.out_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set U, V and the bias to new initial values."""
        bound = self.in_features**-0.5
        nn.init.normal_(self.U, std=bound)
        nn.init.normal_(self.V, std=(3 * self.rank) ** -0.5)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Return the units' outputs for each input."""
        return x @ self.U @ self.V + self.bias  # in this order: W itself is never made

    def extra_repr(self) -> str:
        """Return what `print` shows between the brackets."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, rank={self.rank}"
