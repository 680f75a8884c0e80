"""The dense layers that half layers stand in for: what builds one, and which can be replaced."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import Parameter, is_lazy

from halfnet import _checks
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError

Dense: TypeAlias = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d

LINEAR_SIZES = ("in_features", "out_features")
CONV_SIZES = (
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
    "padding_mode",
)  # fmt: skip


def sizes(dense: nn.Module) -> dict[str, Any]:
    """Return the arguments that say a dense layer's shape."""
    names = LINEAR_SIZES if isinstance(dense, nn.Linear) else CONV_SIZES
    return {name: getattr(dense, name) for name in names}


def fan_in(dense: Dense) -> int:
    """Return the number of weights of each unit."""
    return dense.weight[0].numel()


def check_replaceable(name: str, dense: nn.Module, kind: type[nn.Module]) -> None:
    """Raise unless all that a dense layer is stands in its two parameters and its shape."""
    if not isinstance(dense, kind):
        got = type(dense).__name__
        raise HalfnetTypeError(f"{name}: expected an nn.{kind.__name__}, got {got}")
    problem = next(_problems(dense), "")
    if problem:
        raise HalfnetValueError(
            f"{name}: expected an nn.{kind.__name__} with plain weights, got {problem}"
        )


def _problems(dense: nn.Module) -> Iterator[str]:
    """Yield what a half layer would lose of a dense layer."""
    if any(is_lazy(parameter) for parameter in dense.parameters()):
        yield "a lazy one, whose fan-in is not known before its first input"
    own = {*dense._parameters, *dense._buffers, *dense._modules}
    if more := sorted(own - {"weight", "bias"}):
        yield f"one that also has {', '.join(more)}, which its weight may be computed from"
    if not {"weight", "bias"} <= dense._parameters.keys() or dense.weight is None:
        yield "one whose weight and bias are not parameters"
    if "forward" in dense.__dict__:
        yield "a forward that was put in the place of its own"
    if dense._state_dict_hooks or dense._load_state_dict_pre_hooks:
        yield "hooks on its state dict"
    for key, parameter in dense.named_parameters():
        yield from (f"a {key} {problem}" for problem in parameter_problems(parameter))


def parameter_problems(parameter: Tensor) -> Iterator[str]:
    """Yield why numbers cannot be taken over from a parameter."""
    if type(parameter) is not Parameter or type(parameter.data) is not Tensor:
        yield f"of type {type(parameter.data).__name__}"
    if parameter.is_meta:
        yield "on the meta device, without numbers"
    if parameter.dtype not in _checks.DTYPES:
        yield f"of {parameter.dtype}"
    if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
        yield "with hooks"
    if not torch.isfinite(parameter).all():
        yield "with numbers that are not finite"
