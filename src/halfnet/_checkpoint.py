"""Save and load a model together with its architecture, in one safetensors file.

The file's tensors are the model's state dict: what was learned, and 32 bytes a half layer for its
draws. Its metadata holds the architecture as JSON: class names and the arguments that build them.
Loading looks those names up among torch's layers, halfnet's, and the classes that the caller gives;
no name is imported and nothing is unpickled, so a file cannot run code.
"""

import dataclasses
import inspect
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from halfnet._init import Init
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetTypeError, HalfnetValueError
from halfnet.nn._base import HalfLayer
from halfnet.nn._conv import HalfConv1d, HalfConv2d, HalfConv3d
from halfnet.nn._linear import HalfLinear

_FORMAT = "halfnet-model-1"
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_HALF_LAYERS: dict[str, type[nn.Module]] = {
    cls.__name__: cls for cls in (HalfLinear, HalfConv1d, HalfConv2d, HalfConv3d)
}
# Arguments that say where and how tensors are made, which the saved tensors say themselves.
_NOT_ARCHITECTURE = {"device", "dtype", "_weight", "_freeze"}

Node = dict[str, Any]


def save(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write `model`, architecture and learned numbers, to one safetensors file.

    Half layers, torch's own layers and containers of them are known. A class of your own is saved
    by its name and its constructor's arguments, which must stand on it as attributes of the same
    names; `load` is then given the class. That the file rebuilds the model is checked first, and it
    appears whole or not at all.

    Args:
        model: What to save.
        path: Where to; an existing file is replaced.

    Examples:
        >>> model = nn.Sequential(halfnet.HalfLinear(784, 64, rank=16), nn.ReLU())
        >>> halfnet.save(model, "model.safetensors")
    """
    if not isinstance(model, nn.Module):
        raise HalfnetTypeError(f"model: expected a torch module, got {type(model).__name__}")
    architecture = _describe(model, "model", {})
    tensors, _ = _split_shared(model)
    for name, tensor in tensors.items():
        if tensor.is_meta:
            raise HalfnetValueError(f"model: expected data for {name}, got the meta device")
    _check_rebuilds(model, architecture)
    path = Path(path)
    metadata = {"format": _FORMAT, "architecture": json.dumps(architecture, separators=(",", ":"))}
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        copies = {
            name: t.detach().clone(memory_format=torch.contiguous_format)
            for name, t in tensors.items()
        }
        temporary.write_bytes(to_bytes(copies, metadata))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load(
    path: str | os.PathLike[str],
    *,
    classes: Iterable[type[nn.Module]] = (),
    device: torch.device | str = "cpu",
) -> Any:
    """Return the model that `save` wrote, or raise; no code of the file's is run.

    Args:
        path: The file.
        classes: Classes of your own that the model is made of.
        device: Where the model is put.

    Examples:
        >>> model = halfnet.load("model.safetensors")
    """
    own = {cls.__name__: cls for cls in classes}
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise HalfnetFileError(f"{path}: expected a safetensors file: {error}") from error
    if metadata.get("format") != _FORMAT:
        raise HalfnetFileError(
            f"{path}: expected the format {_FORMAT!r} that halfnet.save writes, "
            f"got {metadata.get('format')!r}"
        )
    try:
        with torch.random.fork_rng(devices=[]):  # initial values are about to be overwritten
            model = _build(json.loads(metadata["architecture"]), own, "model", {})
        _, shared = _split_shared(model)
        repeated = {name: tensors[owner] for name, owner in shared.items()}
        model.load_state_dict(tensors | repeated, assign=True)
    except (HalfnetError, RuntimeError, LookupError, TypeError, ValueError) as error:
        raise HalfnetFileError(f"{path}: the model cannot be rebuilt: {error}") from error
    for name, owner in shared.items():  # what was one tensor was assigned to each of its places
        _set_tensor(model, name, _get_tensor(model, owner))
    return model.to(device)


def _get_tensor(model: nn.Module, name: str) -> Tensor:
    path, _, key = name.rpartition(".")
    tensor: Tensor = getattr(model.get_submodule(path), key)
    return tensor


def _set_tensor(model: nn.Module, name: str, tensor: Tensor) -> None:
    path, _, key = name.rpartition(".")
    setattr(model.get_submodule(path), key, tensor)


# -- architecture to JSON ------------------------------------------------------------------------


def _describe(module: nn.Module, name: str, seen: dict[int, str]) -> Node:
    """Return the JSON node of a module; a module met before is a reference, so it stays shared."""
    if id(module) in seen:
        return {"same_as": seen[id(module)]}
    seen[id(module)] = name
    cls = type(module)
    node: Node = {"class": cls.__name__}
    if not _is_known(cls):
        node["own"] = True
    if not module.training:
        node["training"] = False
    if cls in _CONTAINERS:
        node["children"] = {
            key: _describe(child, f"{name}.{key}", seen)
            for key, child in module._modules.items()
            if child is not None
        }
        return node
    if isinstance(module, HalfLayer):
        arguments = module.config()
    else:
        arguments = _constructor_arguments(module, name)
    node["args"] = {key: _encode(value, f"{name}.{key}") for key, value in arguments.items()}
    return node


def _constructor_arguments(module: nn.Module, name: str) -> dict[str, Any]:
    """Read back what a module was built with: attributes named as its constructor's parameters."""
    arguments: dict[str, Any] = {}
    takes_none = type(module).__init__ is nn.Module.__init__
    if takes_none or type(module) is nn.Identity:  # which takes any and keeps none
        return arguments
    for key, parameter in inspect.signature(type(module)).parameters.items():
        if key in _NOT_ARCHITECTURE:
            continue
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if variadic or not hasattr(module, key):
            raise HalfnetValueError(
                f"model: expected each constructor argument of {name} "
                f"({type(module).__name__}) as an attribute of the same name, got none for "
                f"{key!r}; save its state_dict() instead"
            )
        value = getattr(module, key)
        arguments[key] = value is not None if key == "bias" else value
    return arguments


def _encode(value: Any, name: str) -> Any:
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, Init):
        return {"init": dataclasses.asdict(value)}
    if isinstance(value, (tuple, list)):
        return [_encode(item, name) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise HalfnetValueError(
        f"model: expected numbers, text or tuples of them as constructor arguments, got "
        f"{type(value).__name__} for {name}"
    )


def _split_shared(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the state dict without repetitions, and under which name each repeated one stands."""
    tensors: dict[str, Tensor] = {}
    shared: dict[str, str] = {}
    first: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        owner = first.setdefault(id(tensor), name)
        if owner == name:
            tensors[name] = tensor
        else:
            shared[name] = owner
    return tensors, shared


def _check_rebuilds(model: nn.Module, architecture: Node) -> None:
    own = {cls.__name__: cls for cls in map(type, model.modules()) if not _is_known(cls)}
    # A class of the user's may compute with numbers in its constructor, which meta has not.
    with torch.random.fork_rng(devices=[]), torch.device("cpu" if own else "meta"):
        twin = _build(architecture, own, "model", {})

    def outline(module: nn.Module) -> dict[str, Any]:
        tensors, shared = _split_shared(module)
        return {name: tuple(tensor.shape) for name, tensor in tensors.items()} | shared

    want, got = outline(model), outline(twin)
    if want != got:
        names = sorted(name for name in want.keys() | got.keys() if want.get(name) != got.get(name))
        raise HalfnetValueError(
            "model: expected one that its constructor's arguments rebuild, got differences at "
            f"{', '.join(names[:3])}; save its state_dict() instead"
        )


# -- JSON to architecture ------------------------------------------------------------------------


def _is_known(cls: type[nn.Module]) -> bool:
    return _HALF_LAYERS.get(cls.__name__) is cls or getattr(nn, cls.__name__, None) is cls


def _find(node: Node, own: dict[str, type[nn.Module]]) -> type[nn.Module]:
    name = node["class"]
    if node.get("own"):
        if name not in own:
            raise HalfnetValueError(f"classes: expected one named {name!r}, got {sorted(own)}")
        return own[name]
    found = _HALF_LAYERS.get(name) or getattr(nn, name, None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise HalfnetValueError(f"expected a layer of torch or halfnet, got {name!r}")
    return found


def _build(
    node: Node, own: dict[str, type[nn.Module]], name: str, built: dict[str, nn.Module]
) -> nn.Module:
    """Return the module of a JSON node; `built` holds those made so far by their names."""
    if "same_as" in node:
        return built[node["same_as"]]
    cls = _find(node, own)
    if "children" in node:
        if cls not in _CONTAINERS:
            raise HalfnetValueError(f"expected a container of torch, got {cls.__name__}")
        container: nn.Module = cls()
        built[name] = container
        for key, child in node["children"].items():
            container.add_module(key, _build(child, own, f"{name}.{key}", built))
        container.training = node.get("training", True)
        return container
    module = cls(**{key: _decode(value) for key, value in node["args"].items()})
    built[name] = module
    return module.train(node.get("training", True))


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if isinstance(value, dict):
        if "init" in value:
            return Init(**value["init"])
        dtype = getattr(torch, value["dtype"])
        if not isinstance(dtype, torch.dtype):
            raise HalfnetValueError(f"dtype: expected one of torch's, got {value['dtype']!r}")
        return dtype
    return value
