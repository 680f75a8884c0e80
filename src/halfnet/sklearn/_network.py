"""Networks of half layers: how they are built, and what they compute of many rows."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from halfnet._draws import derived_seed
from halfnet._init import Init
from halfnet.nn._linear import HalfLinear


class Erf(nn.Module):
    """The error function, whose kernel has a closed form as that of ReLU does."""

    def forward(self, x: Tensor) -> Tensor:
        """Return erf of each number."""
        return torch.erf(x)


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "logistic": nn.Sigmoid,
    "erf": Erf,
    "identity": nn.Identity,
}


@dataclass(frozen=True, kw_only=True)
class Design:
    """What a network is built from, besides its seed."""

    features: int
    units: tuple[int, ...]
    ranks: tuple[int, ...]
    outputs: int
    activation: str = "relu"
    noise: str = "learned"
    binary: bool = False
    draw: str = "normal"
    init: str | Init = "default"
    device: str = "cpu"
    dtype: torch.dtype = torch.float32


def build(design: Design, seed: int) -> nn.Sequential:
    """Return the network of a seed; that of the lab's `build` is the same, number for number.

    Its modules are hidden1, activation1, hidden2, ..., output. torch's generator stays as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derived_seed(seed, "initial values"))
        return nn.Sequential(OrderedDict(_modules(design, seed))).to(design.device)


def _modules(design: Design, seed: int) -> Iterator[tuple[str, nn.Module]]:
    sizes = pairwise((design.features, *design.units))
    for number, ((fan_in, units), rank) in enumerate(zip(sizes, design.ranks, strict=True), 1):
        yield (
            f"hidden{number}",
            HalfLinear(
                fan_in,
                units,
                rank,
                noise=design.noise,
                binary=design.binary,
                draw=design.draw,
                init=design.init,
                seed=derived_seed(seed, f"hidden{number}"),
                dtype=design.dtype,
            ),
        )
        yield f"activation{number}", ACTIVATIONS[design.activation]()
    yield "output", nn.Linear(design.units[-1], design.outputs, dtype=design.dtype)


def hidden_layers(network: nn.Sequential) -> list[HalfLinear]:
    """Return the half layers of a network in their order."""
    return [layer for layer in network.children() if isinstance(layer, HalfLinear)]


def dtype_of(network: nn.Sequential) -> type[np.floating[Any]]:
    """Return NumPy's name of the dtype that a network learns in."""
    double = next(network.parameters()).dtype == torch.float64
    return np.float64 if double else np.float32


class Forward:
    """What a network computes, in float64: so an answer hardly depends on the rows beside it."""

    def __init__(self, network: nn.Sequential) -> None:
        self._steps: list[nn.Module | tuple[Tensor, Tensor | None]] = []
        for layer in network.children():
            if isinstance(layer, HalfLinear | nn.Linear):
                bias = None if layer.bias is None else layer.bias.detach().cpu().double()
                self._steps.append((layer.weight.detach().cpu().double(), bias))
            else:
                self._steps.append(layer)

    @torch.inference_mode()
    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs for scaled rows, (n, outputs)."""
        for step in self._steps:
            x = F.linear(x, *step) if isinstance(step, tuple) else step(x)
        return x
