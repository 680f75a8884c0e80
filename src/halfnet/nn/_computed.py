"""A weight that is computed from what is learned: read like any tensor, and never written."""

from typing import Any, NoReturn, SupportsIndex

import torch
from torch import Tensor

from halfnet.exceptions import HalfnetTypeError


class ComputedWeight(Tensor):
    """A tensor whose writing methods raise, as what they wrote would be lost.

    So do those of its `data`. To torch it is a plain tensor, and what is computed from it is one.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def data(self) -> Tensor:
        """The same numbers without their history; as little to be written."""
        return self.detach().as_subclass(ComputedWeight)

    @data.setter
    def data(self, value: Tensor) -> None:
        _refuse(self)

    def __reduce_ex__(self, proto: SupportsIndex) -> Any:
        return self.as_subclass(Tensor).__reduce_ex__(proto)


def _refuse(self: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
    raise HalfnetTypeError(
        "weight: expected to be read only, as a half layer computes it from what it learns, got "
        "written in place; change B, sigma and u, or fold the layer by halfnet.fold_"
    )


_HARMLESS = ("requires_grad_", "share_memory_")
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
for _name in [
    *(n for n in dir(Tensor) if n.endswith("_") and not n.startswith("_") and n not in _HARMLESS),
    *(f"__i{operator}__" for operator in _OPERATORS),
    "__setitem__",
]:
    setattr(ComputedWeight, _name, _refuse)
