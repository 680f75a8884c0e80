"""Data by a name or a path: the lab's data sets, CSV, NPZ, and folders of images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetTypeError, HalfnetValueError
from halfnet.lab import _fields, data
from halfnet.lab._csv_file import read_csv
from halfnet.lab._image_folder import read_folder, size_from
from halfnet.lab._inputs import Array, Inputs, Labels, Layout, as_float32, nearest

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
    path = Path(source)
    if source not in data.NAMES and not path.exists():
        _not_found(path)
    kind = (
        "data set" if source in data.NAMES else "folder" if path.is_dir() else path.suffix.lower()
    )
    if target is not None and kind != ".csv":
        raise HalfnetValueError(f"target: expected none except for a CSV file, got {target!r}")
    if size is not None and kind != "folder":
        raise HalfnetValueError(f"size: expected none except for a folder of images, got {size!r}")
    if kind == "data set":
        inputs = _named(source)
    elif kind == "folder":
        inputs = read_folder(path, None if size is None else size_from(size), layout)
    elif kind == ".csv":
        inputs = read_csv(path, target, layout)
    elif kind == ".npz":
        inputs = _npz(path, labelled=layout is None)
    else:
        raise HalfnetFileError(f"{path}: expected a .csv, a .npz or a folder of images")
    if layout is None:
        return inputs
    inputs = inputs.test or inputs
    with _fields.in_file(source):
        _check_fits(inputs, layout)
    return inputs


def _not_found(path: Path) -> None:
    if path.suffix or len(path.parts) > 1:
        raise HalfnetError(f"cannot read {path}: there is no such file or folder")
    try:
        nearest("data set", str(path), data.NAMES)
    except HalfnetValueError as error:
        raise HalfnetValueError(f"{error}, and no file or folder has this name") from None


def _check_fits(inputs: Inputs, layout: Layout) -> None:
    """Raise unless a model of this layout can read the inputs."""
    if inputs.columns != layout.columns:
        raise HalfnetValueError("expected a table with the model's named columns" if layout.columns
                                else "expected the model's kind of data, got a table")  # fmt: skip
    if (shape := inputs.x.shape[1:]) != layout.shape:
        raise HalfnetValueError(
            f"expected inputs of shape {layout.shape} as the model learned, got {shape}"
        )
    if layout.pixels and not inputs.pixels:
        raise HalfnetTypeError(
            f"expected uint8 pixels as the model learned, got {inputs.x.dtype.name}"
        )


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
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files if key in wanted}
            names = ", ".join(file.files)
    except PermissionError as error:
        raise HalfnetError(f"cannot read {path}: {error.strerror}") from error
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
    if y.dtype.kind not in "iubU":
        raise HalfnetTypeError(f"{key}: expected integers or text, got {y.dtype}")
    if y.shape not in ((rows,), (rows, 1)):
        raise HalfnetValueError(f"{key}: expected a label for each of {rows} rows, got {y.shape}")
    labels: Labels = y.reshape(rows).astype(np.str_)
    return labels
