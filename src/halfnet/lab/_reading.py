"""Data by a name or a path: the lab's data sets, CSV, NPZ, and folders of images."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.lib.npyio import NpzFile

from halfnet import _fields
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetTypeError, HalfnetValueError
from halfnet.lab import data
from halfnet.lab._csv_file import read_csv
from halfnet.lab._image_folder import read_folder, size_from
from halfnet.lab._inputs import (
    Array,
    Inputs,
    Labels,
    Layout,
    as_float32,
    classes_of,
    nearest,
    numbered,
)

# The kinds of data, as messages call them.
_NAMED, _FOLDER = "a data set by its name", "a folder of images"
_CSV, _NPZ = "a CSV file", "an NPZ file"

_TRAIN_KEYS = (("x", "y"), ("train_images", "train_labels"), ("x_train", "y_train"))
_TEST_KEYS = (("test_images", "test_labels"), ("x_test", "y_test"))


def read(
    source: str,
    *,
    target: str | None = None,
    size: str | None = None,
    layout: Layout | None = None,
) -> Inputs:
    """Read data to learn from, or for the model of a layout.

    Args:
        source: A data set's name, a .csv, a .npz, or a folder of images.
        target: The labels' column of a CSV file; None for the last.
        size: "32x32" brings the images of a folder to this width and height.
        layout: Of the model that the data are for: they may then lack labels, and of data that have
            a part to test on it is that part. None for data to learn from.

    Raises:
        HalfnetError: They are not what they should be; the message says where.
    """
    kind = _kind(source)
    if target is not None and kind != _CSV:
        raise HalfnetValueError(f"target: expected none except for a CSV file, got {target!r}")
    if size is not None and kind != _FOLDER:
        raise HalfnetValueError(f"size: expected none except for a folder of images, got {size!r}")
    if layout is not None:
        with _fields.in_file(source):
            _check_kind(kind, layout)
    inputs = _inputs(kind, source, target, size, layout)
    with _fields.in_file(source):
        if layout is None:
            _check_labels(inputs)
            return inputs
        inputs = inputs.test or inputs
        _check_fits(inputs, layout)
    return inputs


def _kind(source: str) -> str:
    """Return which of the four kinds of data this is."""
    path = Path(source)
    if source in data.NAMES:
        return _NAMED
    if not source or not path.exists():
        _not_found(source)
    if path.is_dir():
        return _FOLDER
    kinds = {".csv": _CSV, ".npz": _NPZ}
    if path.suffix.lower() not in kinds:
        raise HalfnetFileError(f"{path}: expected a .csv, a .npz or a folder of images")
    return kinds[path.suffix.lower()]


def _not_found(source: str) -> NoReturn:
    path = Path(source)
    if path.suffix or len(path.parts) > 1:
        raise HalfnetError(f"cannot read {path}: there is no such file or folder")
    try:
        nearest("data set", source, data.NAMES)
    except HalfnetValueError as error:
        raise HalfnetValueError(f"{error}, and no file or folder has this name") from None


def _inputs(
    kind: str, source: str, target: str | None, size: str | None, layout: Layout | None
) -> Inputs:
    if kind == _NAMED:
        return _named(source)
    if kind == _FOLDER:
        return read_folder(Path(source), None if size is None else size_from(size), layout)
    if kind == _CSV:
        return read_csv(Path(source), target, layout)
    return _npz(Path(source), labelled=layout is None)


def _check_kind(kind: str, layout: Layout) -> None:
    """Raise if no data of a kind can be for a model of this layout."""
    if layout.columns and kind != _CSV:
        raise HalfnetValueError(f"expected {_CSV} as the model learned, got {kind}")
    if kind == _CSV and not layout.columns:
        raise HalfnetValueError(f"expected inputs without names as the model learned, got {kind}")
    if kind == _FOLDER and not (layout.pixels and len(layout.shape) > 1):
        raise HalfnetValueError(f"expected {_NPZ} of numbers as the model learned, got {kind}")


def _check_labels(inputs: Inputs) -> None:
    """Raise unless the labels are classes that can be learned and tested on."""
    if inputs.labels is None:
        raise HalfnetValueError("expected labels to learn, got none")
    what = f"column {inputs.target!r}" if inputs.target else "labels"
    classes = classes_of(inputs.labels, what)
    if inputs.test is not None and inputs.test.labels is not None:
        with _fields.within("rows to test on"):
            numbered(inputs.test.labels, classes)


def _check_fits(inputs: Inputs, layout: Layout) -> None:
    """Raise unless a model of this layout can read the inputs, and knows their classes."""
    if (shape := inputs.x.shape[1:]) != layout.shape:
        raise HalfnetValueError(
            f"expected inputs of shape {layout.shape} as the model learned, got {shape}"
        )
    if layout.pixels and not inputs.pixels:
        raise HalfnetTypeError(
            f"expected uint8 pixels as the model learned, got {inputs.x.dtype.name}"
        )
    if layout.pixels and (brightest := inputs.x.max()) > layout.brightest:
        raise HalfnetValueError(
            f"expected pixels from 0 to {layout.brightest} as the model learned, got {brightest}"
        )
    if inputs.labels is not None:
        layout.index(inputs.labels)


def _named(name: str) -> Inputs:
    found = data.load(name)
    return Inputs(
        found.train_images,
        found.train_labels.astype(np.str_),
        test=Inputs(found.test_images, found.test_labels.astype(np.str_)),
        brightest=found.brightest,
    )


# --- NPZ -------------------------------------------------------------------------------------


def _npz(path: Path, *, labelled: bool) -> Inputs:
    wanted = [key for pair in (*_TRAIN_KEYS, *_TEST_KEYS) for key in pair]
    try:
        with path.open("rb") as raw:  # NumPy does not close a path that is no NPZ file
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, NpzFile):
                raise ValueError("it holds one array without a name, as a .npy does")
            arrays = {key: file[key] for key in file.files if key in wanted}
            names = ", ".join(file.files)
    except OSError as error:
        raise HalfnetError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # zip, zlib and NumPy fail on damaged bytes in every way there is
        raise HalfnetFileError(f"{path}: expected an NPZ file of plain arrays: {error}") from error
    with _fields.in_file(path):
        test = _part(arrays, _TEST_KEYS, labelled)
        whole = _part(arrays, _TRAIN_KEYS, labelled) or (None if labelled else test)
        if whole is None:
            pairs = ", or ".join(f"{x} and {y}" for x, y in _TRAIN_KEYS)
            raise HalfnetValueError(f"expected arrays {pairs}, got {names or 'none'}")
        if test is not None and (test.x.shape[1:], test.pixels) != (
            whole.x.shape[1:],
            whole.pixels,
        ):
            raise HalfnetValueError(
                f"expected inputs to test on like those to learn from, {whole.x.dtype} of shape "
                f"{whole.x.shape[1:]}, got {test.x.dtype} of shape {test.x.shape[1:]}"
            )
    return replace(whole, test=test)


def _part(
    arrays: dict[str, Array], keys: tuple[tuple[str, str], ...], labelled: bool
) -> Inputs | None:
    """Return the rows from the first pair of names that is there."""
    for key, label_key in keys:
        if key in arrays:
            x = _numbers(key, arrays[key])
            if label_key in arrays:
                return Inputs(x, _labels(label_key, arrays[label_key], len(x)))
            if labelled:
                raise HalfnetValueError(f"expected labels {label_key} beside {key}, got none")
            return Inputs(x)
    return None


def _numbers(key: str, x: Array) -> Array:
    if not isinstance(x, np.ndarray):  # but the bytes of another file
        raise HalfnetTypeError(f"{key}: expected an array, got something else")
    if x.dtype.kind not in "iufb":
        raise HalfnetTypeError(f"{key}: expected numbers, got {x.dtype}")
    if x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise HalfnetValueError(
            f"{key}: expected rows (n, columns) or images (n, height, width) or (n, channels, "
            f"height, width), got shape {x.shape}"
        )
    if x.ndim == 4 and x.shape[-1] in (1, 3, 4) and x.shape[1] not in (1, 3, 4):
        raise HalfnetValueError(
            f"{key}: expected images (n, channels, height, width), got shape {x.shape}; "
            f"{key}.transpose(0, 3, 1, 2) puts the channels first"
        )
    if x.dtype == np.uint8:
        return x
    x = as_float32(x)
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        place = tuple(bad[0].tolist())
        raise HalfnetValueError(f"{key}: expected finite numbers, got {x[place]} at {list(place)}")
    return x


def _labels(key: str, y: Any, rows: int) -> Labels:
    if not isinstance(y, np.ndarray):
        raise HalfnetTypeError(f"{key}: expected an array, got something else")
    if y.dtype.kind not in "iubU":
        raise HalfnetTypeError(f"{key}: expected integers or text, got {y.dtype}")
    if y.shape not in ((rows,), (rows, 1)):
        raise HalfnetValueError(f"{key}: expected a label for each of {rows} rows, got {y.shape}")
    labels: Labels = y.reshape(rows).astype(np.str_)
    return labels
