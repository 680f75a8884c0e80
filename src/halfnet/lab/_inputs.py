"""What a user's data are once they are read, and what a model remembers of them."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from halfnet.exceptions import HalfnetFileError, HalfnetValueError

Array: TypeAlias = npt.NDArray[Any]
Labels: TypeAlias = npt.NDArray[np.str_]
Indices: TypeAlias = npt.NDArray[np.int64]


def nearest(what: str, name: str, known: Iterable[str]) -> NoReturn:
    """Raise for an unknown name with the one that is nearest: there may be thousands to list."""
    names = {option.casefold(): option for option in known}
    best = names[difflib.get_close_matches(name.casefold(), names, n=1, cutoff=0.0)[0]]
    raise HalfnetValueError(f"unknown {what} {name!r}: the nearest name is {best!r}")


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows to learn from or to predict: uint8 pixels or float32 numbers, (n, ...)."""

    x: Array = field(repr=False)
    labels: Labels | None = field(default=None, repr=False)
    """The class of each row by its name; None where the data do not say."""
    test: "Inputs | None" = None
    """Rows that the data keep apart to test on."""
    brightest: int = 255
    """The largest value that a pixel can have."""
    columns: tuple[str, ...] = ()
    """Names of the numbers of a row, where they have any."""
    target: str = ""
    """The name of the labels' column, if it has one."""
    files: tuple[str, ...] = ()
    """Where each row was read from, where that is a file of its own."""
    resized: bool = False
    """Whether the images were brought to one size."""

    @property
    def pixels(self) -> bool:
        """Whether `x` are pixels, rather than numbers in units of their own."""
        return self.x.dtype == np.uint8


@dataclass(frozen=True)
class Layout:
    """What a trained model's inputs and outputs mean; it is kept in the model's file."""

    classes: tuple[str, ...]
    """The name of each output."""
    shape: tuple[int, ...]
    """Of one input."""
    pixels: bool
    columns: tuple[str, ...] = ()
    target: str = ""
    resized: bool = False
    brightest: int = 255
    """What the largest value of a pixel could be."""

    @classmethod
    def of(cls, inputs: Inputs, classes: tuple[str, ...]) -> Self:
        """Return the layout of data whose labels are these classes."""
        return cls(
            classes=classes,
            shape=inputs.x.shape[1:],
            pixels=inputs.pixels,
            columns=inputs.columns,
            target=inputs.target,
            resized=inputs.resized,
            brightest=inputs.brightest,
        )

    def to_metadata(self) -> dict[str, str]:
        """Return the texts that `from_metadata` reads."""
        inputs = {key: value for key, value in vars(self).items() if key != "classes"}
        return {"classes": json.dumps(self.classes), "inputs": json.dumps(inputs)}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], path: Path) -> Self:
        """Read what `to_metadata` wrote to the file at `path`.

        Raises:
            HalfnetFileError: It is not there, or is something else.
        """
        try:
            classes, inputs = json.loads(metadata["classes"]), json.loads(metadata["inputs"])
            layout = cls(classes=_texts(classes), **_layout_fields(**inputs))
            if len(layout.classes) < 2:
                raise ValueError
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise HalfnetFileError(
                f"{path}: expected a model that halfnet train wrote, got one that does not say what"
                " its inputs and classes are"
            ) from error
        return layout

    def index(self, labels: Labels) -> Indices:
        """Return the classes' numbers of labels."""
        return numbered(labels, self.classes)


def _layout_fields(
    *, shape: Any, pixels: Any, columns: Any, target: Any, resized: Any, brightest: Any
) -> dict[str, Any]:
    if not all(isinstance(size, int) and size > 0 for size in (*shape, brightest)):
        raise TypeError
    if not (2 if resized else 1) <= len(shape) <= 3:
        raise ValueError
    return {
        "shape": tuple(shape),
        "pixels": bool(pixels),
        "columns": _texts(columns),
        "target": str(target),
        "resized": bool(resized),
        "brightest": brightest,
    }


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError
    return tuple(value)


def classes_of(labels: Labels, what: str = "labels") -> tuple[str, ...]:
    """Return the different labels, in the order of numbers if all of them are integers.

    Args:
        labels: Of all rows.
        what: What an error calls them.

    Raises:
        HalfnetValueError: There is a single one, or so many that they can be no classes.
    """
    names = [str(name) for name in np.unique(labels)]
    if len(names) < 2:
        raise HalfnetValueError(f"{what}: expected at least two classes, got only {names[0]!r}")
    if 2 * len(names) > len(labels):
        raise HalfnetValueError(
            f"{what}: expected a few classes that repeat, got {len(names):,} different ones in "
            f"{len(labels):,} rows, such as {names[0]!r}"
        )
    try:
        return tuple(sorted(names, key=int))
    except ValueError:
        return tuple(names)


def numbered(labels: Labels, classes: tuple[str, ...]) -> Indices:
    """Return each label's place among the classes."""
    places = {name: place for place, name in enumerate(classes)}
    names, inverse = np.unique(labels, return_inverse=True)
    for name in names:
        if str(name) not in places:
            nearest("class", str(name), classes)
    order = np.array([places[str(name)] for name in names], dtype=np.int64)
    return order[inverse]


def as_float32(x: Array) -> Array:
    """Return numbers as float32; one that is none in it becomes infinite or NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(np.float32)
