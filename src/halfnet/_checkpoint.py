"""Save and load a model together with its architecture, in one safetensors file.

The file's tensors are the model's state dict: what was learned, and for each half layer some 40
bytes that its draws are made from. Its metadata holds the architecture as JSON: class names and
the arguments that build them. Loading looks those names up among torch's layers, halfnet's, and
the classes that the caller gives; no name is imported and nothing is unpickled, so a file cannot
run code.
"""

import dataclasses
import hashlib
import inspect
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from halfnet import _checks
from halfnet._init import Init
from halfnet.exceptions import HalfnetFileError, HalfnetTypeError, HalfnetValueError
from halfnet.nn._base import HalfLayer
from halfnet.nn._conv import HalfConv1d, HalfConv2d, HalfConv3d
from halfnet.nn._linear import HalfLinear
from halfnet.nn._standardize import Standardize

_FORMAT = "halfnet-model-1"
_OWN_KEYS = ("format", "architecture", "modes", "sha256")
_MOST_MODULES = 100_000
_MOST_METADATA = 10_000_000  # characters of a caller's; safetensors refuses headers of 100 MB
_UNFIT = "expected one that its constructor's arguments rebuild"
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in _checks.DTYPES}
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_HALF_LAYERS: dict[str, type[nn.Module]] = {
    cls.__name__: cls for cls in (HalfLinear, HalfConv1d, HalfConv2d, HalfConv3d)
}
_OURS: dict[str, type[nn.Module]] = {**_HALF_LAYERS, "Standardize": Standardize}
# Arguments that say where and how tensors are made, which the saved tensors say themselves.
_STATE_SAYS = {"seed", "draw", "dtype"}  # of a half layer
_NOT_ARCHITECTURE = {"device", "dtype", "_weight", "_freeze"}

Node = dict[str, Any]


def save(
    model: nn.Module, path: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write `model`, architecture and learned numbers, to one safetensors file.

    Half layers, most of torch's layers and its containers are known (not those whose constructor's
    arguments cannot be read back, such as LSTM or MultiheadAttention). A class of your own is saved
    by its name and its constructor's arguments, which must stand on it as attributes of the same
    names; `load` is then given the class. That the file rebuilds the model is checked first, and it
    appears whole or not at all.

    Args:
        model: What to save.
        path: Where to; an existing file is replaced.
        metadata: Texts by their names to put beside the model; any reader of safetensors shows
            them.

    Examples:
        >>> model = nn.Sequential(halfnet.HalfLinear(784, 64, rank=16), nn.ReLU())
        >>> halfnet.save(model, "model.safetensors")
    """
    if not isinstance(model, nn.Module):
        raise HalfnetTypeError(f"model: expected a torch module, got {type(model).__name__}")
    texts = _checked_metadata({} if metadata is None else metadata)
    architecture = _describe(model, "model", {})
    tensors, _ = _split_shared(model)
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.is_meta or is_lazy(tensor):
            got = "the meta device" if isinstance(tensor, Tensor) else type(tensor).__name__
            got = "one that is not initialized yet" if is_lazy(tensor) else got
            raise HalfnetValueError(f"model: expected a tensor with data for {name}, got {got}")
    _check_rebuilds(model, architecture)
    path = Path(os.path.realpath(path))  # through a link, to the file that it names
    texts |= {"format": _FORMAT} | {
        key: json.dumps(value, separators=(",", ":"))
        for key, value in (("architecture", architecture), ("modes", _modes(model)))
    }
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        copies = {
            name: t.detach().clone(memory_format=torch.contiguous_format)
            for name, t in tensors.items()
        }
        with temporary.open("xb") as file:
            file.write(_sealed(to_bytes(copies, texts)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def _sealed(content: bytes) -> bytes:
    """Return a safetensors file with the SHA-256 of its numbers, and metadata in order.

    The library writes them in a new order each time; the same model should be the same bytes.
    """
    size = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:size])
    texts = header["__metadata__"] | {"sha256": hashlib.sha256(content[size:]).hexdigest()}
    header["__metadata__"] = dict(sorted(texts.items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text + content[size:]


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
    own = _by_name("classes", classes)
    with _opened(path) as (file, metadata):
        _check_sealed(path, metadata)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    try:
        model = _rebuilt(metadata, tensors, own)
    except Exception as error:  # a file may hold anything, and a constructor raise anything
        raise HalfnetFileError(f"{path}: the model cannot be rebuilt: {error}") from error
    return model.to(device)


def _check_sealed(path: str | os.PathLike[str], metadata: dict[str, str]) -> None:
    with open(path, "rb") as file:
        file.seek(int.from_bytes(file.read(8), "little"), os.SEEK_CUR)
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if metadata.get("sha256", found) != found:
        raise HalfnetFileError(
            f"{path}: its numbers do not have the SHA-256 that they were written with: the file "
            "was damaged or edited"
        )


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the texts that were given to `save`, without reading the model."""
    with _opened(path) as (_, metadata):
        return {key: value for key, value in metadata.items() if key not in _OWN_KEYS}


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[Any, dict[str, str]]]:
    """Open a file that `save` wrote, with all its metadata."""
    if os.path.isdir(path):
        raise HalfnetFileError(f"{path}: expected a file that halfnet.save wrote, got a folder")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise HalfnetFileError(
                    f"{path}: expected the format {_FORMAT!r} that halfnet.save writes, "
                    f"got {metadata.get('format')!r}"
                )
            yield file, metadata
    except SafetensorError as error:
        raise HalfnetFileError(f"{path}: expected a safetensors file: {error}") from error


def _checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    texts = dict(metadata)
    for key, value in texts.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise HalfnetTypeError(f"metadata: expected texts by name, got {key!r}: {value!r:.50}")
        if key in _OWN_KEYS:
            raise HalfnetValueError(f"metadata: expected names other than {', '.join(_OWN_KEYS)}")
    size = sum(len(key) + len(value) for key, value in texts.items())
    if size > _MOST_METADATA:
        raise HalfnetValueError(
            f"metadata: expected at most {_MOST_METADATA:,} characters, got {size:,}"
        )
    return texts


def _rebuilt(
    metadata: dict[str, str], tensors: dict[str, Tensor], own: dict[str, type[nn.Module]]
) -> nn.Module:
    architecture, modes = (json.loads(metadata[key]) for key in ("architecture", "modes"))
    # Nothing is allocated or drawn until the shapes are known to be those of the file's tensors.
    # A class of the user's may compute with numbers in its constructor, which meta has not.
    with torch.random.fork_rng(devices=[]), torch.device("cpu" if own else "meta"):
        model = _Builder(own).build(architecture, "model")
    expected, shared = _split_shared(model)
    for name, tensor in expected.items():
        if name not in tensors or tensors[name].shape != tensor.shape:
            got = tuple(tensors[name].shape) if name in tensors else "none"
            raise HalfnetValueError(f"{name}: expected shape {tuple(tensor.shape)}, got {got}")
    repeated = {name: tensors[owner] for name, owner in shared.items()}
    model.load_state_dict(tensors | repeated, assign=True)
    for name, owner in shared.items():  # what was one tensor was assigned to each of its places
        _set_tensor(model, name, _get_tensor(model, owner))
    _set_modes(model, modes)
    return model


# Modes: what a model's modules and parameters are switched to, which is not architecture.


def _modes(model: nn.Module) -> dict[str, Any]:
    return {
        "evaluating": [name for name, module in model.named_modules() if not module.training],
        "frozen": [name for name, p in model.named_parameters() if not p.requires_grad],
        # No tensor in the file shows the dtype of a half layer that learns nothing.
        "dtypes": {
            name: str(layer._frozen.dtype).removeprefix("torch.")
            for name, layer in model.named_modules()
            if isinstance(layer, HalfLayer) and next(layer.parameters(), None) is None
        },
    }


def _set_modes(model: nn.Module, modes: dict[str, Any]) -> None:
    for name, dtype in modes.get("dtypes", {}).items():
        model.get_submodule(name).to(_DTYPES[dtype])
    for name, module in model.named_modules():
        module.training = name not in modes["evaluating"]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in modes["frozen"])


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
    if cls in _CONTAINERS:
        node["children"] = {
            key: _describe(child, f"{name}.{key}", seen)
            for key, child in module._modules.items()
            if child is not None
        }
        return node
    if isinstance(module, HalfLayer) and cls in _HALF_LAYERS.values():
        arguments = module.config()
    else:
        arguments = _constructor_arguments(module, name)
    node["args"] = {key: _encode(value, f"{name}.{key}") for key, value in arguments.items()}
    return node


def _constructor_arguments(module: nn.Module, name: str) -> dict[str, Any]:
    """Read back what a module was built with: attributes named as its constructor's parameters."""
    arguments: dict[str, Any] = {}
    for key in _constructor_names(type(module)):
        if not hasattr(module, key):
            raise HalfnetValueError(
                f"model: expected each constructor argument of {name} "
                f"({type(module).__name__}) as an attribute of the same name, got none for "
                f"{key!r}; save its state_dict() instead"
            )
        value = getattr(module, key)
        is_tensor = key == "bias" and (value is None or isinstance(value, Tensor))
        arguments[key] = value is not None if is_tensor else value
    return arguments


def _constructor_names(cls: type[nn.Module]) -> list[str]:
    """Return the names of a constructor's arguments; one that takes any number is refused."""
    if cls.__init__ is nn.Module.__init__ or cls is nn.Identity:  # which takes any and keeps none
        return []
    names = []
    for key, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise HalfnetValueError(
                f"model: expected named constructor arguments, got *{key} in {cls.__name__}; save "
                "its state_dict() instead"
            )
        if key not in _NOT_ARCHITECTURE:
            names.append(key)
    return names


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
    own = _by_name("model", (c for c in map(type, model.modules()) if not _is_known(c)))
    # A class of the user's may compute with numbers in its constructor, which meta has not.
    try:
        with torch.random.fork_rng(devices=[]), torch.device("cpu" if own else "meta"):
            twin = _Builder(own).build(architecture, "model")
        same = _describe(twin, "model", {}) == architecture
    except Exception as error:  # the user's constructors may raise anything
        raise HalfnetValueError(f"model: {_UNFIT}, but building it failed: {error}") from error

    def outline(module: nn.Module) -> dict[str, Any]:
        tensors, shared = _split_shared(module)
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        return shapes | shared | {f"{n}.": _kind(m) for n, m in module.named_modules()}

    want, got = outline(model), outline(twin)
    names = sorted(name for name in want.keys() | got.keys() if want.get(name) != got.get(name))
    if names or not same:
        where = ", ".join(names[:3]) or "the arguments of the rebuilt one"
        raise HalfnetValueError(
            f"model: {_UNFIT}, got differences at {where}; save its state_dict() instead"
        )


def _kind(module: nn.Module) -> str:
    """Return a module's class and what it was built with, but for what its tensors say."""
    cls = type(module)
    if isinstance(module, HalfLayer):
        config = module.config()
        return f"{cls.__name__} {[config[key] for key in sorted(config.keys() - _STATE_SAYS)]}"
    return f"{cls.__name__} {module.extra_repr() if _is_known(cls) else ''}"


# -- JSON to architecture ------------------------------------------------------------------------


def _is_known(cls: type[nn.Module]) -> bool:
    return _OURS.get(cls.__name__) is cls or getattr(nn, cls.__name__, None) is cls


def _by_name(argument: str, classes: Iterable[type[nn.Module]]) -> dict[str, type[nn.Module]]:
    """Return a user's classes by their names, all that a file says of them: they must differ."""
    own: dict[str, type[nn.Module]] = {}
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
            raise HalfnetTypeError(f"{argument}: expected classes of modules, got {cls!r:.50}")
        if own.setdefault(cls.__name__, cls) is not cls:
            raise HalfnetValueError(
                f"{argument}: expected classes of different names, got two named {cls.__name__!r}"
            )
    return own


class _Builder:
    """Builds the modules of JSON nodes, each name looked up among known classes."""

    def __init__(self, own: dict[str, type[nn.Module]]) -> None:
        self.own = own
        self.built: dict[str, nn.Module] = {}
        self.sizes: dict[str, int] = {}  # modules in each, a shared one counted at each place

    def build(self, node: Any, name: str) -> nn.Module:
        """Return the module of a node that stands at `name`."""
        if not isinstance(node, dict):
            raise HalfnetValueError(f"{name}: expected a JSON object, got {type(node).__name__}")
        if "same_as" in node:
            original = node["same_as"]
            if original not in self.sizes:  # it may be what is being built: a module in itself
                raise HalfnetValueError(f"{name}: expected a module built before, got {original!r}")
            self._count(name, self.sizes[original])
            return self.built[original]
        cls = self._find(node)
        if cls in _CONTAINERS:
            return self._container(cls, node, name)
        arguments = {key: _decode(value) for key, value in dict(node["args"]).items()}
        if cls not in _HALF_LAYERS.values() and set(arguments) != set(_constructor_names(cls)):
            raise HalfnetValueError(f"{name}: expected the arguments of {cls.__name__}")
        module = cls(**arguments)
        self.built[name] = module
        self._count(name, 1)
        return module

    def _container(self, cls: type[nn.Module], node: Node, name: str) -> nn.Module:
        container = cls()
        self.built[name] = container
        size = 1
        for key, child in dict(node["children"]).items():
            place = f"{name}.{key}"
            container.add_module(key, self.build(child, place))
            size += self.sizes[place]
        self._count(name, size)
        return container

    def _count(self, name: str, size: int) -> None:
        # Shared modules in shared modules double at each level, and with them every state dict.
        if size > _MOST_MODULES:
            raise HalfnetValueError(f"{name}: expected at most {_MOST_MODULES} modules, got {size}")
        self.sizes[name] = size

    def _find(self, node: Node) -> type[nn.Module]:
        name = node["class"]
        if node.get("own"):
            if name not in self.own:
                raise HalfnetValueError(
                    f"classes: expected one named {name!r}, got {sorted(self.own)}"
                )
            return self.own[name]
        found = _OURS.get(name) or getattr(nn, name, None)
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise HalfnetValueError(f"expected a layer of torch or halfnet, got {name!r}")
        return found


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if isinstance(value, dict):
        if "init" in value:
            return Init(**value["init"])
        return _checks.floating_dtype("dtype", _DTYPES.get(value["dtype"], value["dtype"]))
    return value
