"""What networks are trained to make small, and which of their answers count as right.

Outputs are (networks, outputs, n), as a stack computes them; targets have the rows last too, and
all networks share them. What a row costs each network comes back as (networks, n).
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Loss(Protocol):
    """A loss, and the share of right answers beside it."""

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return each row's loss, (networks, n)."""
        ...

    def with_gradient(self, outputs: Tensor, y: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return each row's loss, and the gradient in the outputs of their sum by shares.

        A share is that of each row in what is to become small, for all networks or for each.
        """
        ...

    def right(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return how right the answer to each row is, from 0 or False to 1 or True."""
        ...


class _ByAutograd:
    def with_gradient(
        self: Loss, outputs: Tensor, y: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return each row's loss, and the gradient of their sum by shares."""
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            losses = self(leaf, y)
        (gradient,) = torch.autograd.grad(losses, leaf, share.expand(losses.shape))
        return losses.detach(), gradient


class CrossEntropy:
    """Of one class among several: y is the classes' numbers, (n,)."""

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return each row's cross-entropy."""
        return F.cross_entropy(outputs, y.expand(len(outputs), -1), reduction="none")

    def with_gradient(self, outputs: Tensor, y: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return each row's loss, and the gradient of their sum by shares: what autograd finds."""
        logs = outputs.log_softmax(1)
        own = y.expand(len(outputs), 1, -1)
        to_logs = torch.zeros_like(logs).scatter_(1, own, -share.expand(own[:, 0].shape)[:, None])
        gradient = torch.ops.aten._log_softmax_backward_data(to_logs, logs, 1, logs.dtype)
        return -logs.gather(1, own).squeeze(1), gradient

    def right(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return whether its own class's output is the largest."""
        # Much faster than to ask which one is.
        own = outputs.gather(1, y.expand(len(outputs), 1, -1)).squeeze(1)
        return own == outputs.amax(1)


class BinaryCrossEntropy(_ByAutograd):
    """Of labels of which a row may have any: y is 0 or 1 for each, (outputs, n)."""

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return each row's cross-entropy, the mean over the labels."""
        expanded = y.expand_as(outputs)
        return F.binary_cross_entropy_with_logits(outputs, expanded, reduction="none").mean(1)

    def right(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return whether all labels of a row are right."""
        return ((outputs > 0) == (y > 0.5)).all(1)


class SquaredError(_ByAutograd):
    """Of numbers: y is (outputs, n)."""

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return each row's squared error, the mean over the outputs."""
        return (outputs - y).square().mean(1)

    def right(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return 1 less the squared error: over rows of variance 1, the explained share of it."""
        return 1 - (outputs - y).square().mean(1)
