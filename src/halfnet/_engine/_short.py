"""Steps of networks with one half layer, ReLU and an output layer, without autograd.

Such a step takes less time than autograd needs to find its way back through it. The operations are
those that autograd would do, in its order, and so are the numbers: to the last bit.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from halfnet._engine._stack import Stack, _HalfLinear, _Linear, _times


class ShortNetwork:
    """What `Stack` computes and autograd differentiates, for a stack that `fits`."""

    def __init__(self, stack: Stack) -> None:
        half: Any
        output: Any
        half, _, output = stack._rest
        self._half, self._output = half, output

    @staticmethod
    def fits(stack: Stack) -> bool:
        """Whether this is such a stack, no part is lacking, and all of it is learned."""
        kinds = [type(layer) for layer in stack._rest]
        if stack._front is not None or kinds != [_HalfLinear, nn.ReLU, _Linear]:
            return False
        half, output = stack._rest[0], stack._rest[-1]
        parts = [getattr(half, name) for name in ("B", "sigma", "u", "u0", "z", "eps")]
        return (
            all(part is not None for part in [*parts, output.bias])
            and all(parameter.requires_grad for parameter in stack.parameters())
            and all(part.dtype in (torch.float32, torch.float64) for part in parts)
            and not half.binary
        )

    def step(self, x: Tensor, gradient: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """Return the gradients of the stack's parameters in their order.

        Args:
            x: A batch, (n, ...).
            gradient: From outputs (networks, outputs, n) to the gradient of what is to become
                small.
        """
        half, output = self._half, self._output
        z, eps, u, weight = half.z, half.eps, half.u, output.weight
        x = x.flatten(1).mT
        r = (eps * half.sigma.unsqueeze(-2)).baddbmm_(z, half.B.mT)
        a = _times(r, x)
        hidden = (a * u.unsqueeze(-1)).add_(half.u0.unsqueeze(-1)).relu_()
        grad = gradient(_times(weight, hidden) + output.bias.unsqueeze(-1))
        to_weight, to_bias = _times(grad, hidden.mT), grad.sum(-1)
        back = torch.ops.aten.threshold_backward(_times(weight.mT, grad), hidden, 0)
        r = _times(back * u.unsqueeze(-1), x.mT)
        to_B = r.mT @ z
        to_sigma, to_u = r.mul_(eps).sum(-2), (back * a).sum(-1)
        return [to_B, to_sigma, to_u, back.sum(-1), to_weight, to_bias]
