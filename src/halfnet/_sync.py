"""The same draws in all processes of a distributed training."""

from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn._base import HalfLayer

M = TypeVar("M", bound=nn.Module)


def sync_(model: M, source: int = 0, group: Any = None) -> M:
    """Give `model` the draws that it has in process `source`, and keep DDP from sending them.

    Call it in every process, on the very module that `DistributedDataParallel` is then given, which
    brings all to the same parameters and buffers and would not know of the draws' seeds. A record
    of some 40 bytes a layer crosses the wire; z and eps are drawn from it, and are excepted from
    what DDP sends at the start and at each step.

    Args:
        model: A half layer, or any module that holds some, built alike in every process.
        source: The process whose draws are taken, by its number in all.
        group: The process group; None is the default one.

    Returns:
        The same module.
    """
    if not isinstance(model, nn.Module):
        raise HalfnetTypeError(f"model: expected a torch module, got {type(model).__name__}")
    if not dist.is_available() or not dist.is_initialized():
        raise HalfnetValueError(
            "model: expected torch.distributed with a process group, got none initialized"
        )
    layers = [(name, m) for name, m in model.named_modules() if isinstance(m, HalfLayer)]
    if not layers:
        raise HalfnetValueError(
            f"model: expected one with half layers, got {type(model).__name__} without any"
        )
    if meta := [name or "model" for name, layer in layers if layer._frozen.is_meta]:
        raise HalfnetValueError(
            f"{meta[0]}: expected a half layer with draws, got one on the meta device"
        )
    ours = [layer.get_extra_state() for _, layer in layers]
    home = layers[0][1]._frozen.device
    sizes = torch.tensor([len(record) for record in ours], device=home)
    totals = torch.stack([sizes.sum(), -sizes.sum()])
    dist.all_reduce(totals, dist.ReduceOp.MAX, group=group)
    if totals.sum():
        raise HalfnetValueError(
            f"model: expected the same half layers in every process, got {len(layers)} in this one"
        )
    records = torch.cat(ours).to(home)
    dist.broadcast(records, source, group=group)
    for (name, layer), record in zip(layers, records.cpu().split(sizes.tolist()), strict=True):
        try:
            layer.set_extra_state(record)
        except HalfnetValueError as error:
            raise HalfnetValueError(f"{name or 'model'}: {error}") from error
    ignored = {f"{name}.{draw}" if name else draw for name, _ in layers for draw in ("z", "eps")}
    ignored |= set(getattr(model, _IGNORED, ()))
    object.__setattr__(model, _IGNORED, sorted(ignored))
    return model


_IGNORED = "_ddp_params_and_buffers_to_ignore"  # the name that DistributedDataParallel reads
