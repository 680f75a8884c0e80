"""The files that `halfnet train` writes: a model, the names of its classes, what its inputs are."""

from pathlib import Path
from tempfile import TemporaryFile

from torch import nn

from halfnet import _checkpoint
from halfnet.exceptions import HalfnetError
from halfnet.lab._inputs import Layout


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise if a file cannot be written here: before the work that it is for, rather than after."""
    if path.is_dir():
        raise HalfnetError(f"cannot write {path}: it is a folder")
    if path.exists() and not overwrite:
        raise HalfnetError(f"cannot write {path}: it exists, and --overwrite was not given")
    try:
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise HalfnetError(f"cannot write {path}: {error.strerror or error}") from error


def save(model: nn.Module, layout: Layout, path: Path) -> None:
    """Write a model with its layout, whole or not at all."""
    try:
        _checkpoint.save(model, path, metadata=layout.to_metadata())
    except OSError as error:
        raise HalfnetError(f"cannot write {path}: {error.strerror or error}") from error


def load(path: Path) -> nn.Module:
    """Return the model of a file."""
    try:
        model: nn.Module = _checkpoint.load(path)
    except OSError as error:
        raise HalfnetError(f"cannot read {path}: {error.strerror or error}") from error
    return model.eval()


def layout_of(path: Path) -> Layout:
    """Return the layout of a file's model."""
    return Layout.from_metadata(_checkpoint.read_metadata(path), path)
