"""Folders of images of the user's own: a sub-folder a class, PNG or JPEG."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetValueError
from halfnet.lab._inputs import Inputs, Layout

_SUFFIXES = (".png", ".jpg", ".jpeg")
_GREY = ("1", "L", "LA")
_ORIENTATION = 0x0112  # the Exif tag
_TURNED = range(5, 9)  # orientations of a JPEG that swap its width and height
_LARGEST = 4096  # pixels of a side, to resize to
_COLOUR = ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV")

Size: TypeAlias = tuple[int, int]
"""(width, height), as Pillow has it."""


def read_folder(folder: Path, size: Size | None, layout: Layout | None) -> Inputs:
    """Read a folder of images: (n, height, width), or (n, 3, height, width) if one has colours.

    Args:
        folder: With a sub-folder a class.
        size: Bring the images to this width and height; None if they have one size.
        layout: Of the model that the images are for: then they may lie in the folder itself,
            without classes, and are resized if the model's own were. None for images to learn from.
    """
    try:
        found = _found(folder, flat=layout is not None)
        paths = [path for path, _ in found]
        if layout is not None and layout.resized:
            size = layout.shape[-1], layout.shape[-2]
        elif size is None:
            _check_sizes(paths, layout)
        colour = _with_colours(paths)
        if layout is not None:
            colour = _as_the_model(colour, layout, paths)
        pixels = [_decoded(path, size, "L" if colour is None else "RGB") for path in paths]
    except OSError as error:
        raise HalfnetError(f"cannot read {error.filename or folder}: {error.strerror}") from error
    x = np.stack(pixels)
    return Inputs(
        x if colour is None else np.ascontiguousarray(x.transpose(0, 3, 1, 2)),
        np.array([label for _, label in found]) if found[0][1] else None,
        files=tuple(str(path.relative_to(folder)) for path in paths),
        resized=size is not None,
    )


def _found(folder: Path, *, flat: bool) -> list[tuple[Path, str]]:
    """Return the images with their classes, "" if they lie in the folder itself."""
    entries = _entries(folder)
    if flat and entries and not any(path.is_dir() for path in entries):
        return [(path, "") for path in entries if _is_image(path)]
    found = []
    for entry in entries:
        if not entry.is_dir():
            raise HalfnetFileError(f"{entry}: expected only sub-folders beside it, one a class")
        images = [path for path in _entries(entry) if _is_image(path)]
        if not images:
            raise HalfnetFileError(f"{entry}: expected PNG or JPEG images, got none")
        found += [(path, entry.name) for path in images]
    if not found:
        raise HalfnetFileError(f"{folder}: expected sub-folders with images, one a class, got none")
    return found


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _is_image(path: Path) -> bool:
    if path.suffix.lower() not in _SUFFIXES or not path.is_file():
        raise HalfnetFileError(f"{path}: expected a PNG or JPEG image")
    return True


def _check_sizes(paths: list[Path], layout: Layout | None) -> None:
    """Raise unless all images have one size, and that of the model's if they are for one."""
    if layout is None:
        why, advice = "the images before it have", "; --size, such as 32x32, resizes all of them"
        size = _size(paths[0])
    else:
        why, advice = "the model learned", ""
        size = layout.shape[-1], layout.shape[-2]
    for path in paths:
        if (got := _size(path)) != size:
            raise HalfnetFileError(
                f"{path}: expected {_text(size)} pixels as {why}, got {_text(got)}{advice}"
            )


def _with_colours(paths: list[Path]) -> Path | None:
    """Return the first image with colours, None without; nothing is decoded yet."""
    colour = None
    for path in paths:
        with _opened(path) as image:
            mode: str = image.mode
        if mode not in _GREY + _COLOUR:
            raise HalfnetFileError(f"{path}: expected 8 bits a colour, got Pillow's mode {mode!r}")
        if mode in _COLOUR and colour is None:
            colour = path
    return colour


def _as_the_model(colour: Path | None, layout: Layout, paths: list[Path]) -> Path | None:
    """Return what decides between grey and colours for a model: grey images can have colours."""
    if len(layout.shape) == 3:
        return paths[0]
    if colour is not None:
        raise HalfnetFileError(f"{colour}: expected a grey image as the model learned, got colours")
    return None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from PIL import Image  # noqa: PLC0415  a user of tables needs no Pillow

    try:
        opened = Image.open(path, formats=["PNG", "JPEG"])
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # Pillow fails on damaged bytes in many ways
        raise HalfnetFileError(f"{path}: expected a PNG or JPEG image: {error}") from error
    with opened as image:
        try:
            yield image
        except HalfnetError:
            raise
        except Exception as error:  # as above
            raise HalfnetFileError(f"{path}: the image is damaged: {error}") from error


def _size(path: Path) -> Size:
    """Return an image's size as it is shown, without decoding it."""
    with _opened(path) as image:
        width, height = image.size
        turned = image.getexif().get(_ORIENTATION) in _TURNED
    return (height, width) if turned else (width, height)


def _decoded(path: Path, size: Size | None, mode: str) -> Any:
    """Return the pixels as they are shown: turned as a camera noted, on white where transparent."""
    from PIL import Image, ImageOps  # noqa: PLC0415

    with _opened(path) as image:
        shown = ImageOps.exif_transpose(image)
        if shown.has_transparency_data:
            white = Image.new("RGBA", shown.size, "white")
            shown = Image.alpha_composite(white, shown.convert("RGBA"))
        pixels = shown.convert(mode)
    return np.asarray(pixels if size is None else pixels.resize(size))


def size_from(text: str) -> Size:
    """Read a size as people write it, "32x32": width, then height."""
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise HalfnetValueError(f"size: expected WIDTHxHEIGHT, such as 32x32, got {text!r}")
    if max(int(width), int(height)) > _LARGEST:
        raise HalfnetValueError(f"size: expected sides of at most {_LARGEST} pixels, got {text!r}")
    return int(width), int(height)


def _text(size: Size) -> str:
    return "x".join(map(str, size))
