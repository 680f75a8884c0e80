"""Checks of what a caller passes in. Each failure is one sentence: argument, expected, got."""

import math
import numbers
import operator
from collections.abc import Collection
from typing import Any

import torch

from halfnet.exceptions import HalfnetTypeError, HalfnetValueError

SEED_LIMIT = 2**64
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def integer(name: str, value: Any, low: int, high: int | None = None, why: str = "") -> int:
    """Return `value` as an int between `low` and `high`; `why` explains the upper bound."""
    span = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    expected = span + (f" ({why})" if why else "")
    try:
        number = operator.index(value)
    except TypeError:
        raise HalfnetTypeError(f"{name}: expected {expected}, got {value!r}") from None
    if isinstance(value, bool):
        raise HalfnetTypeError(f"{name}: expected {expected}, got {value!r}")
    if number < low or (high is not None and number > high):
        raise HalfnetValueError(f"{name}: expected {expected}, got {value!r}")
    return number


def boolean(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        raise HalfnetTypeError(f"{name}: expected True or False, got {value!r}")
    return value


def number(name: str, value: Any, low: float = -math.inf) -> float:
    """Return `value` as a finite float of at least `low`."""
    expected = "a finite number" + (f" of at least {low:g}" if low > -math.inf else "")
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise HalfnetTypeError(f"{name}: expected {expected}, got {value!r}")
    try:
        result = float(value)
    except OverflowError:  # an integer beyond the largest float
        result = math.inf
    if not low <= result < math.inf:
        raise HalfnetValueError(f"{name}: expected {expected}, got {value!r}")
    return result


def choice(name: str, value: Any, options: Collection[str]) -> str:
    """Return `value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        error = HalfnetValueError if isinstance(value, str) else HalfnetTypeError
        raise error(f"{name}: expected one of {', '.join(map(repr, options))}, got {value!r}")
    return value


def sizes(name: str, value: Any, count: int, low: int) -> tuple[int, ...]:
    """Return `count` integers of at least `low`, from one integer or a sequence of `count`."""
    if isinstance(value, (tuple, list)):
        if len(value) != count:
            raise HalfnetValueError(
                f"{name}: expected one integer or {count} of them, got {value!r}"
            )
        return tuple(integer(name, item, low) for item in value)
    return (integer(name, value, low),) * count


def floating_dtype(name: str, value: torch.dtype | None) -> torch.dtype:
    """Return a real floating-point dtype; None is torch's default."""
    dtype = torch.get_default_dtype() if value is None else value
    if dtype not in DTYPES:
        names = ", ".join(str(known).removeprefix("torch.") for known in DTYPES)
        raise HalfnetTypeError(f"{name}: expected one of torch's {names}, got {value!r}")
    return dtype


def seed_or_new(name: str, value: Any) -> int:
    """Return a seed; None takes one from torch's global generator, so `manual_seed` governs it."""
    if value is None:
        return int(torch.empty((), dtype=torch.int64, device="cpu").random_())
    return integer(name, value, 0, SEED_LIMIT - 1)
