"""The file formats in which the data sets are published, and how each becomes a uint8 array.

A decoder takes one file's bytes and the shape that the file must fill. None of them executes
anything that the file says: CIFAR-10's pickles are read opcode by opcode and never unpickled.
"""

import gzip
import io
import json
import pickletools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from halfnet.exceptions import HalfnetFileError

Array: TypeAlias = npt.NDArray[np.uint8]
Shape: TypeAlias = tuple[int, ...]

KEYS = ("train_images", "train_labels", "test_images", "test_labels")


class Form(NamedTuple):
    """One way in which an array is published: files of equal length, and their decoder."""

    files: tuple[str, ...]
    decode: Callable[[bytes, Shape], Array]


def _as_array(raw: bytes, shape: Shape) -> Array:
    expected = int(np.prod(shape))
    if len(raw) != expected:
        raise HalfnetFileError(f"holds {len(raw)} bytes of data, expected {expected}")
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


def idx(raw: bytes, shape: Shape) -> Array:
    """Decode an idx file: a magic number (0, 0, uint8's code, dimensions), the shape, the data."""
    header = bytes((0, 0, 8, len(shape))) + np.array(shape, dtype=">u4").tobytes()
    if not raw.startswith(header):
        raise HalfnetFileError(f"is not an idx file of shape {shape}")
    return _as_array(raw[len(header) :], shape)


def idx_gz(raw: bytes, shape: Shape) -> Array:
    """Decode a gzipped idx file, and read no more of it than a right one holds."""
    header_and_one_more = 4 + 4 * len(shape) + 1
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        return idx(file.read(int(np.prod(shape)) + header_and_one_more), shape)


def cifar_bin_labels(raw: bytes, shape: Shape) -> Array:
    """Decode the labels of CIFAR-10's binary version: one byte before each image."""
    return _as_array(raw, (shape[0], 1 + 3 * 32 * 32))[:, 0]


def cifar_bin_images(raw: bytes, shape: Shape) -> Array:
    """Decode the images of CIFAR-10's binary version."""
    return _as_array(raw, (shape[0], 1 + 3 * 32 * 32))[:, 1:].reshape(shape)


def cifar_pickle_labels(raw: bytes, shape: Shape) -> Array:
    """Read the labels from a batch of CIFAR-10's Python version: small integers after "labels"."""
    labels, last = bytearray(), None
    for opcode, argument, _ in pickletools.genops(raw):
        if isinstance(argument, str | bytes):
            last = argument
        elif (
            isinstance(argument, int) and opcode.name == "BININT1" and last in ("labels", b"labels")
        ):
            labels.append(argument)
    return _as_array(bytes(labels), shape)


def cifar_pickle_images(raw: bytes, shape: Shape) -> Array:
    """Read the images from a batch of CIFAR-10's Python version: its longest string."""
    strings = (argument for _, argument, _ in pickletools.genops(raw))
    longest = max((s for s in strings if isinstance(s, str | bytes)), key=len, default=b"")
    pixels = longest.encode("latin-1") if isinstance(longest, str) else longest
    return _as_array(pixels, shape)


def cifar_png(raw: bytes, shape: Shape) -> Array:
    """Decode a picture that holds one RGB image of 32x32 a row."""
    from PIL import Image  # noqa: PLC0415  only this form needs Pillow

    with Image.open(io.BytesIO(raw), formats=["PNG"]) as picture:
        if (picture.size, picture.mode) != ((32 * 32, shape[0]), "RGB"):
            raise HalfnetFileError(f"is a {picture.mode} picture of {picture.size} pixels")
        pixels = np.asarray(picture)
    return pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)


def json_labels(raw: bytes, shape: Shape) -> Array:
    """Decode a JSON list of labels."""
    return _as_array(bytes(json.loads(raw)), shape)


def idx_forms(key: str) -> tuple[Form, ...]:
    """Return the files that MNIST and Fashion-MNIST keep an array in."""
    split, content = key.split("_")
    dimensions = 3 if content == "images" else 1
    name = f"{'t10k' if split == 'test' else split}-{content}-idx{dimensions}-ubyte"
    return Form((name,), idx), Form((f"{name}.gz",), idx_gz)


def cifar10_forms(key: str) -> tuple[Form, ...]:
    """Return the files that CIFAR-10 keeps an array in."""
    split, content = key.split("_")
    batches = ["test_batch"] if split == "test" else [f"data_batch_{i}" for i in range(1, 6)]
    images = content == "images"
    return (
        Form(tuple(f"{b}.bin" for b in batches), cifar_bin_images if images else cifar_bin_labels),
        Form(tuple(batches), cifar_pickle_images if images else cifar_pickle_labels),
        Form(tuple(f"{b}.png" for b in batches), cifar_png)
        if images
        else Form((f"{split}_lables.json",), json_labels),
    )
