"""Dense layers in the place of a model's half layers."""

from typing import TypeVar

import torch
from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils.parametrize import type_before_parametrizations

from halfnet._become import become
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn import _attention
from halfnet.nn._attention import HalfMultiheadAttention
from halfnet.nn._base import HalfLayer

M = TypeVar("M", bound=nn.Module)


def fold_(model: M) -> M:
    """Replace every half layer of `model` by the dense layer that computes the same, in place.

    What is left is made of torch's own layers, with weights equal to the half layers' to rounding,
    and can be exported, quantized or trained as such. Shared layers stay shared, and device, dtype,
    training mode, requires_grad and hooks stay. Attention that `convert_` took apart is
    `nn.MultiheadAttention` again.

    Args:
        model: A half layer, or any module that holds some.

    Returns:
        The same module.

    Examples:
        >>> model = halfnet.fold_(nn.Sequential(halfnet.HalfLinear(784, 64, rank=16), nn.ReLU()))
        >>> model[0]
        Linear(in_features=784, out_features=64, bias=True)
    """
    if not isinstance(model, nn.Module):
        raise HalfnetTypeError(f"model: expected a torch module, got {type(model).__name__}")
    halves = {name: m for name, m in model.named_modules() if isinstance(m, HalfLayer)}
    if not halves:
        raise HalfnetValueError(
            f"model: expected one with half layers, got {type(model).__name__} without any"
        )
    swaps: list[tuple[nn.Module, nn.Module, nn.Module]] = [
        (half, _folded(name, half), _pristine(half)) for name, half in halves.items()
    ]
    folded = {id(half): dense for half, dense, _ in swaps}
    for module in model.modules():
        if isinstance(module, HalfMultiheadAttention):
            parts = {name: getattr(module, name) for name in _attention.PROJECTIONS}
            layers = {name: folded.get(id(part), part) for name, part in parts.items()}
            swaps.append((module, _attention.unhalved(module, layers), module))
    for module, dense, pristine in swaps:  # from here on nothing fails
        become(module, dense, pristine)
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention) and type(module.out_proj) is nn.Linear:
            module.out_proj.__class__ = NonDynamicallyQuantizableLinear
    _attention.set_nesting(model)
    return model


def _folded(name: str, half: HalfLayer) -> nn.Module:
    if half._frozen.is_meta:
        raise HalfnetValueError(
            f"{name or 'model'}: expected a half layer with numbers, got one on the meta device"
        )
    with torch.no_grad():
        dense = half.to_dense()
    learned = dict(half.named_parameters())
    shifts = {id(half.u0)} if half.u0 is not None else set()
    for key, parameter in dense.named_parameters():
        sources = [p for p in learned.values() if (id(p) in shifts) == (key == "bias")]
        parameter.requires_grad_(any(p.requires_grad for p in sources))
    return dense


def _pristine(half: HalfLayer) -> HalfLayer:
    """Return a layer as it is when new, to tell what its user has put on it."""
    pristine: HalfLayer = type_before_parametrizations(half)(**half.config(), device="meta")
    return pristine
