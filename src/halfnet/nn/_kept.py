"""Effective weights that are made once and kept, for as long as `frozen` says."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn import functional as F

from halfnet.exceptions import HalfnetTypeError, HalfnetValueError

M = TypeVar("M", bound=nn.Module)


class Kept(NamedTuple):
    """What replaces a layer's computation: the dense weight, or two thin factors of it."""

    factors: tuple[Tensor, ...]
    bias: Tensor | None
    made_of: tuple[Tensor, ...]
    places: tuple[int, ...]  # which tensor stood in each of the layer's places
    versions: list[int]  # how often what it was made of had been written to

    def linear(self, x: Tensor) -> Tensor:
        """Return what the layer computes of `x`."""
        if len(self.factors) == 2:
            x = F.linear(x, self.factors[0])
        return F.linear(x, self.factors[-1], self.bias)


class Keeping(nn.Module):
    """A module that can keep what it makes of its parameters and buffers.

    It is used where nothing learns from it, so where gradients are off or no parameter takes any,
    and made anew when a parameter or a buffer was written to or replaced. So whatever is done
    within the block comes out as it would outside.
    """

    _kept: Kept | None = None
    _keepers: int = 0  # how many blocks are open

    def _factors(self) -> tuple[Tensor, ...]:
        """Return the dense weight, or two thin factors of it where they are cheaper."""
        raise NotImplementedError

    def _kept_now(self) -> Kept | None:
        """Return what is kept, made anew if need be, or None where it can't stand in.

        At batch 1 each microsecond here counts: the checks are what Python does fastest.
        """
        if is_compiling():
            return None
        parameters = self._parameters.values()
        if torch.is_grad_enabled() and any(p is not None and p.requires_grad for p in parameters):
            return None
        kept = self._kept
        places = tuple(map(id, (*parameters, *self._buffers.values())))
        if (
            kept is None
            or kept.places != places
            or kept.versions != [t._version for t in kept.made_of]
        ):
            kept = self._kept = self._keep(places)
        return kept

    def _keep(self, places: tuple[int, ...]) -> Kept | None:
        made_of = [
            tensor
            for name, tensor in (*self._parameters.items(), *self._buffers.items())
            if tensor is not None and name != "u0"  # which stays itself
        ]
        if (
            self._modules  # a parametrization, which may compute anew each time
            or any(t.is_inference() for t in made_of)  # whose writes are not counted
            or any(type(t) is not nn.Parameter for t in self._parameters.values() if t is not None)
        ):  # the last: torch.func put something else in their place
            return None
        versions = [t._version for t in made_of]
        with torch.inference_mode(False), torch.no_grad():
            bias = self._parameters["u0"]
            return Kept(self._factors(), bias, tuple(made_of), places, versions)


_lock = Lock()


def _keeps(module: nn.Module) -> bool:
    """Whether it is, at the end of a block, still what it was: `fold_` may have been there."""
    return isinstance(module, Keeping)


@contextmanager
def frozen(model: M) -> Iterator[M]:
    """Keep each half layer's effective weight while the block lasts: inference as fast as dense.

    The weight is made once, and costs the memory of the dense layer's; with noise="none" the thin
    factors stay where they are cheaper. It is used where no gradient is asked of what the layer
    learns: under `torch.no_grad` or `torch.inference_mode`, or where the parameters take none.
    Elsewhere, and in code that torch.compile made, the layer computes as outside. A parameter that
    changes within the block is noticed, and the weight is made anew. Blocks can be nested, also in
    several threads.

    Args:
        model: A half layer or any module that holds some.

    Examples:
        >>> model = nn.Sequential(halfnet.HalfLinear(784, 64, rank=16), nn.ReLU())
        >>> with halfnet.frozen(model), torch.no_grad():
        ...     model(torch.randn(2, 784)).shape
        torch.Size([2, 64])
    """
    if not isinstance(model, nn.Module):
        raise HalfnetTypeError(f"model: expected a torch module, got {type(model).__name__}")
    layers = [module for module in model.modules() if isinstance(module, Keeping)]
    if not layers:
        raise HalfnetValueError(
            f"model: expected one with half layers, got {type(model).__name__} without any"
        )
    with _lock:
        for layer in layers:
            layer._keepers += 1
    try:
        with torch.no_grad():
            for layer in layers:
                layer._kept_now()
        yield model
    finally:
        with _lock:
            for layer in filter(_keeps, layers):
                layer._keepers -= 1
                if not layer._keepers:
                    layer._kept = None
