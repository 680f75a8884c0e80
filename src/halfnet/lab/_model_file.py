"""The files that `halfnet train` writes: a model, the names of its classes, what its inputs are."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile

from torch import nn

from halfnet import _checkpoint
from halfnet.exceptions import HalfnetError
from halfnet.lab._inputs import Layout


def check_output(path: Path, *, overwrite: bool, read: Iterable[Path]) -> None:
    """Raise if a file cannot be written here: before the work that it is for, rather than after.

    Args:
        path: The file.
        overwrite: Whether it may exist.
        read: What the work reads, which it must not replace.
    """
    why = None
    try:
        if path.is_dir():
            why = "it is a folder"
        elif path.exists() and not path.is_file():  # to replace /dev/null would break the system
            why = "it is a device or the like"
        elif path.exists() and any(other.exists() and path.samefile(other) for other in read):
            why = "it is what is read"
        elif path.exists() and not overwrite:
            why = "it exists, and --overwrite was not given"
        elif not path.parent.exists():
            why = f"there is no folder {path.parent}"
        else:
            with TemporaryFile(dir=path.parent):
                pass
    except OSError as error:
        why = error.strerror or str(error)
    if why is not None:
        raise HalfnetError(f"cannot write {path}: {why}")


def save(model: nn.Module, layout: Layout, path: Path) -> None:
    """Write a model with its layout, whole or not at all."""
    try:
        _checkpoint.save(model, path, metadata=layout.to_metadata())
    except OSError as error:
        raise HalfnetError(f"cannot write {path}: {error.strerror or error}") from error


def load(path: Path) -> nn.Module:
    """Return the model of a file."""
    if path.is_dir():
        raise HalfnetError(f"cannot read {path}: expected the file of a model, got a folder")
    if not path.exists():
        raise HalfnetError(f"cannot read {path}: there is no such file")
    try:
        model: nn.Module = _checkpoint.load(path)
    except OSError as error:
        raise HalfnetError(f"cannot read {path}: {error.strerror or error}") from error
    return model.eval()


def layout_of(path: Path) -> Layout:
    """Return the layout of a file's model."""
    return Layout.from_metadata(_checkpoint.read_metadata(path), path)
