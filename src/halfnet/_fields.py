"""Checks of what a file of specs says, and of the dataclasses that it is read into.

A field's annotation holds its check: a function of the field's name and value that returns the
value to keep or raises. So each rule stands once, beside the field, and holds for a file and for
what is made in Python.
"""

import difflib
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, NoReturn, TypeAlias, TypeVar, get_type_hints

from halfnet import _checks
from halfnet._init import Init
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetTypeError, HalfnetValueError

MOST = 1_000_000  # units, epochs and the like: beyond it lies a slip of the finger

T = TypeVar("T")
C = TypeVar("C", bound="Checked")
Check: TypeAlias = Callable[[str, Any], Any]


# --- Names -----------------------------------------------------------------------------------


def unknown(what: str, name: str, known: Iterable[str]) -> NoReturn:
    """Raise, naming the known name that is nearest."""
    names = {option.casefold(): option for option in known}
    if not names:
        raise HalfnetValueError(f"unknown {what} {name!r}: there are none")
    nearest = names[difflib.get_close_matches(name.casefold(), names, n=1, cutoff=0.0)[0]]
    listed = ", ".join(names.values())
    raise HalfnetValueError(
        f"unknown {what} {name!r}: the nearest name is {nearest!r} (of {listed})"
    )


def named(what: str, name: Any, options: Mapping[str, T]) -> T:
    """Return the option of this name."""
    if not isinstance(name, str):
        raise HalfnetTypeError(f"{what}: expected a name, got {name!r}")
    if name not in options:
        unknown(what, name, options)
    return options[name]


@contextmanager
def within(place: str) -> Iterator[None]:
    """Say of an error inside where it is."""
    try:
        yield
    except HalfnetError as error:
        raise type(error)(f"{place}, {error}") from None


@contextmanager
def in_file(name: str | os.PathLike[str]) -> Iterator[None]:
    """Make an error inside one of the file."""
    try:
        yield
    except HalfnetError as error:
        raise HalfnetFileError(f"{name}: {error}") from None


# --- Checks of single values -----------------------------------------------------------------


def whole(low: int, high: int = MOST) -> Check:
    """Check for an integer."""
    return lambda name, value: _checks.integer(name, value, low, high)


def number(low: float, high: float, *, above: bool = False) -> Check:
    """Check for a number, which is kept as a float; with `above`, `low` itself is too low."""
    span = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"

    def check(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise HalfnetTypeError(f"{name}: expected a number {span}, got {value!r}")
        if not low <= value <= high or (above and value == low):
            raise HalfnetValueError(f"{name}: expected a number {span}, got {value!r}")
        return float(value)

    return check


def one_of(*options: str) -> Check:
    """Check for one of some words."""

    def check(name: str, value: Any) -> str:
        if isinstance(value, str) and value not in options:
            unknown(name, value, options)
        return _checks.choice(name, value, options)

    return check


def flag(name: str, value: Any) -> bool:
    """Check for true or false."""
    if not isinstance(value, bool):
        raise HalfnetTypeError(f"{name}: expected true or false, got {value!r}")
    return value


def text(name: str, value: Any) -> str:
    """Check for a string."""
    if not isinstance(value, str):
        raise HalfnetTypeError(f"{name}: expected text, got {value!r}")
    return value


def label(name: str, value: Any) -> str:
    """Check a name that people read: tables print it."""
    if text(name, value) != value.strip() or not value.isprintable() or not 0 < len(value) <= 100:
        raise HalfnetValueError(
            f"{name}: expected 1 to 100 printable characters without spaces around, got {value!r}"
        )
    return str(value)


def slug(name: str, value: Any) -> str:
    """Check a name that people type and that files are called by."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text(name, value)) or len(value) > 100:
        raise HalfnetValueError(
            f"{name}: expected lower-case letters and digits with single dashes between, "
            f"got {value!r}"
        )
    return str(value)


def initial(name: str, value: Any) -> str | Init:
    """Check initial values: "default", "paper", or a table or `Init` of numbers."""
    if isinstance(value, Init):
        value = {key: item for key, item in asdict(value).items() if item is not None}
    if not isinstance(value, dict):
        return str(one_of("default", "paper")(name, value))
    known = [item.name for item in fields(Init)]
    for key in value:
        if key not in known:
            unknown(f"key of {name}", key, known)
    # B's is a standard deviation.
    return Init(
        **{
            key: number(0 if key == "B" else -1000, 1000)(f"{name}.{key}", item)
            for key, item in value.items()
        }
    )


def optional(check: Check) -> Check:
    """Check for None or what `check` lets through."""
    return lambda name, value: None if value is None else check(name, value)


@dataclass(frozen=True)
class Checked:
    """Base of the frozen dataclasses whose annotations hold checks."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for check in getattr(hint, "__metadata__", ()):
                object.__setattr__(self, name, check(name, getattr(self, name)))


# --- Reading ---------------------------------------------------------------------------------


def known_keys(raw: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise for a key that is not known."""
    known = list(known)
    for key in raw:
        if key not in known:
            unknown("key", key, known)


def mapping(name: str, raw: Any) -> dict[str, Any]:
    """Return `raw` if it has keys and values."""
    if not isinstance(raw, dict):
        raise HalfnetTypeError(f"{name}: expected keys and values, got {reprlib.repr(raw)}")
    return raw


def items(raw: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list under a key, which may be missing."""
    found = raw.get(key, [])
    if not isinstance(found, list):
        raise HalfnetTypeError(f"{key}: expected a list, got {reprlib.repr(found)}")
    return found


def distinct(what: str, names: list[str]) -> None:
    """Raise if a name stands twice."""
    for name in names:
        if names.count(name) > 1:
            raise HalfnetValueError(f"{what} {name!r}: expected once, got {names.count(name)}")


def read(cls: type[C], raw: Mapping[str, Any], also: tuple[str, ...] = ()) -> C:
    """Make a dataclass of the keys, each of which must be a field of it or one of `also`."""
    known = [item for item in fields(cls) if item.init]
    known_keys(raw, [*also, *(item.name for item in known)])
    for item in known:
        if item.default is MISSING and item.name not in raw:
            raise HalfnetValueError(f"{item.name}: expected a value, got none")
    return cls(**{key: value for key, value in raw.items() if key not in also})
