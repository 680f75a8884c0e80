"""How networks are trained, as data."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from halfnet import _fields
from halfnet._draws import KINDS
from halfnet._fields import Checked
from halfnet._init import Init
from halfnet.exceptions import HalfnetValueError

_Size: TypeAlias = Annotated[int, _fields.whole(1)]


@dataclass(frozen=True, kw_only=True)
class Recipe(Checked):
    """How to train on one data set with Adam. `init` and `draw` are those of the half layers."""

    rate: Annotated[float, _fields.number(0, 10, above=True)]
    batch_size: _Size
    epochs: _Size
    schedule: Annotated[str, _fields.one_of("constant", "cosine")] = "constant"
    warmup: Annotated[float, _fields.number(0, 1)] = 0.0
    """The fraction of all steps in which the rate rises from 0, before the cosine."""
    augmentation: Annotated[str, _fields.one_of("none", "flip-crop")] = "none"
    scaling: Annotated[str, _fields.one_of("unit", "standard")] = "unit"
    precision: Annotated[str, _fields.one_of("float32", "bfloat16")] = "float32"
    """What the products are computed in; parameters and their updates are float32 in both."""
    init: Annotated[str | Init, _fields.initial] = "default"
    draw: Annotated[str, _fields.one_of(*KINDS)] = "normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup and self.schedule == "constant":
            raise HalfnetValueError(
                f"warmup: expected 0 with schedule = 'constant', got {self.warmup}"
            )
