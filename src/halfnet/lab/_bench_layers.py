"""The layers that `halfnet bench` holds against `nn.Linear`."""

import math
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn import functional as F

from halfnet._engine._matmul import matmul
from halfnet.nn._linear import HalfLinear

_MOST = 2**28  # numbers in an intermediate result


class VeRA(nn.Module):
    """What peft's VeRA computes: a frozen weight and b * (A2 (a * (A1 x))), a and b learned.

    Kopiczko et al., "VeRA: Vector-based Random Matrix Adaptation", 2024. A1 and A2 are frozen
    draws, as is here the weight that would be a trained one, and nothing else is learned.
    """

    def __init__(self, inputs: int, outputs: int, rank: int, dtype: torch.dtype) -> None:
        super().__init__()
        draws = {"weight": (outputs, inputs), "A1": (rank, inputs), "A2": (outputs, rank)}
        for name, shape in draws.items():
            self.register_buffer(name, torch.randn(shape, dtype=dtype) / math.sqrt(shape[1]))
        self.a = Parameter(torch.full((rank,), 0.1, dtype=dtype))
        self.b = Parameter(torch.zeros(outputs, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Return the units' outputs for each input."""
        weight, first, second = self.get_buffer("weight"), *map(self.get_buffer, ("A1", "A2"))
        return F.linear(x, weight) + self.b * F.linear(self.a * F.linear(x, first), second)


def learned(module: nn.Module) -> int:
    """Return how many numbers a module learns."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def low_rank(inputs: int, outputs: int, rank: int, dtype: torch.dtype) -> nn.Module:
    """Return W = UV of this rank, as one would write it in torch."""
    return nn.Sequential(
        nn.Linear(inputs, rank, bias=False, dtype=dtype), nn.Linear(rank, outputs, dtype=dtype)
    )


def tensor_train(
    rows: int, inputs: int, outputs: int, numbers: int, dtype: torch.dtype
) -> nn.Module | None:
    """Return tensorly-torch's FactorizedLinear, two cores of about so many numbers in all.

    None where that package is not installed, or would need gigabytes between the two cores.
    """
    with suppress(ImportError):
        from tltorch import FactorizedLinear  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415

        (d1, d2), (m1, m2) = _factors(inputs), _factors(outputs)
        rank = max(1, round((numbers - outputs) / (m1 * d1 + m2 * d2)))
        if rows * d2 * m1 * rank > _MOST:
            return None
        layer: nn.Module = FactorizedLinear(
            (d1, d2), (m1, m2), bias=True, factorization="blocktt", rank=rank,
            implementation="factorized", dtype=dtype,
        )  # fmt: skip
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=0.1)
        return layer.to(dtype)
    return None


def _factors(size: int) -> tuple[int, int]:
    """Return the two factors of a number that are closest to each other, the smaller first."""
    small = next(n for n in range(math.isqrt(size), 0, -1) if size % n == 0)
    return small, size // small


def layers(
    rows: int, inputs: int, outputs: int, rank: int, dtype: torch.dtype
) -> dict[str, nn.Module]:
    """Return the layers of a cell of the grid, the dense one first."""
    half = HalfLinear(inputs, outputs, rank, dtype=dtype)
    numbers = learned(half)
    thin = max(1, min(inputs, outputs) // 16)
    same = max(1, round((numbers - outputs) / (inputs + outputs)))
    found: dict[str, nn.Module | None] = {
        "nn.Linear": nn.Linear(inputs, outputs, dtype=dtype),
        "half": half,
        "half, noise none": HalfLinear(inputs, outputs, thin, noise="none", dtype=dtype),
        "W = UV": low_rank(inputs, outputs, same, dtype),
        "tensorly-torch": tensor_train(rows, inputs, outputs, numbers, dtype),
        "VeRA-style": VeRA(inputs, outputs, rank, dtype),
    }
    return {name: layer for name, layer in found.items() if layer is not None}


def training_step(layer: nn.Module, x: Tensor, upstream: Tensor) -> Callable[[], None]:
    """Return forward, backward and fused Adam as one function."""
    parameters = [p for p in layer.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=1e-6, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x).backward(upstream)
        optimizer.step()

    return step


def inference(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    """Return forward without gradients as a function."""

    def run() -> None:
        with torch.inference_mode():
            layer(x)

    return run


class ByOneDNN(nn.Linear):
    """`nn.Linear` with its float32 products where a half layer has its: what both could gain."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the units' outputs for each input."""
        return matmul(x, self.weight.mT) + self.bias
