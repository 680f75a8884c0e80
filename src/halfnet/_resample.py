"""New draws for a whole model."""

from typing import TypeVar

from torch import nn

from halfnet import _checks
from halfnet._draws import derived_seed
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn._base import HalfLayer

M = TypeVar("M", bound=nn.Module)


def resample_(module: M, seed: int | None = None) -> M:
    """Redraw z and eps of every half layer in `module`, in place; what was learned stays.

    Each layer's weights are then a new sample from its learned geometry. Its seed is derived from
    `seed` and its qualified name, so one number redraws a model, each layer differently. A layer
    that a model uses twice is redrawn once, and stays shared.

    Args:
        module: A half layer or any module that holds some.
        seed: From 0 to 2**64 - 1; None takes one from torch's global generator.

    Returns:
        The same module.

    Examples:
        >>> model = nn.Sequential(halfnet.HalfLinear(784, 64, rank=16), nn.ReLU())
        >>> model = halfnet.resample_(model, seed=1)
    """
    if not isinstance(module, nn.Module):
        raise HalfnetTypeError(f"module: expected a torch module, got {type(module).__name__}")
    layers = [(n, m) for n, m in module.named_modules() if isinstance(m, HalfLayer)]
    if not layers:
        raise HalfnetValueError(
            f"module: expected one with half layers, got {type(module).__name__} without any"
        )
    seed = _checks.seed_or_new("seed", seed)
    for name, layer in layers:
        layer.redraw(seed_of(seed, name))
    return module


def seed_of(seed: int, name: str) -> int:
    """Return the seed of the layer of this qualified name, from a whole model's."""
    return derived_seed(seed, built_as(name))


def built_as(name: str) -> str:
    """Return the name that a module was built with: torch.compile wraps it under another."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")
