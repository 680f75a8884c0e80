"""What a model learns, layer by layer, beside its dense form."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from halfnet._resample import built_as
from halfnet._table import Table
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn._base import HalfLayer


@dataclass(frozen=True)
class SummaryRow:
    """One layer: its weight's shape, its rank, and how many numbers and bytes it is."""

    name: str
    kind: str
    weight: str
    rank: int | None
    learned: int = field(metadata={"summed": True})
    dense: int = field(metadata={"summed": True})
    bytes: int = field(metadata={"summed": True})


def summary(model: nn.Module) -> Table[SummaryRow]:
    """Return a table of the layers that have parameters: what they learn and what they are on disk.

    Each row has the layer's name and kind, the shape of its weight, the rank of a half layer, the
    numbers that it learns, those that its dense form has, and the bytes of its part of the state
    dict. A parameter that several layers share is counted where it stands first.

    Args:
        model: Any module.

    Examples:
        >>> model = nn.Sequential(halfnet.HalfLinear(784, 64, 16), nn.ReLU(), nn.Linear(64, 10))
        >>> print(halfnet.summary(model))
        name   kind        weight    rank  learned   dense   bytes
        0      HalfLinear  64 x 784    16   13,456  50,240  53,864
        2      Linear      10 x 64             650     650   2,600
        total                               14,106  50,890  56,464
    """
    if not isinstance(model, nn.Module):
        raise HalfnetTypeError(f"model: expected a torch module, got {type(model).__name__}")
    seen: set[int] = set()
    rows = [_row(built_as(name), module, seen) for name, module in model.named_modules()]
    table = Table(row for row in rows if row is not None)
    if not table:
        raise HalfnetValueError(
            f"model: expected one with parameters, got {type(model).__name__} without any"
        )
    return table


def _row(name: str, module: nn.Module, seen: set[int]) -> SummaryRow | None:
    own = [p for p in module._parameters.values() if p is not None and id(p) not in seen]
    seen.update(map(id, own))
    half = module if isinstance(module, HalfLayer) else None
    if not own and half is None:
        return None
    learned = dense = sum(p.numel() for p in own)
    size = sum(p.nbytes for p in own)
    size += sum(
        buffer.nbytes
        for key, buffer in module._buffers.items()
        if buffer is not None and key not in module._non_persistent_buffers_set
    )
    weight = module._parameters.get("weight")
    shape = tuple(weight.shape) if isinstance(weight, Tensor) else ()
    if half is not None:
        shape = (half.units, *half._layout)
        dense = half.units * half.fan_in + (0 if half.u0 is None else half.units)
        size += half.get_extra_state().nbytes
    sizes = " x ".join(map(str, shape))
    rank = None if half is None else half.rank
    return SummaryRow(name, type(module).__name__, sizes, rank, learned, dense, size)
