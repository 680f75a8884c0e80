"""Initial values of what a half layer learns."""

from dataclasses import asdict, dataclass
from typing import NamedTuple

from halfnet import _checks


@dataclass(frozen=True)
class Init:
    """Initial values: B is normal with standard deviation `B`; the rest are constants.

    A value of None is the default's, which depends on the layer's fan-in and rank
    (docs/choosing.md has the measurements).

    Example:
        >>> layer = HalfLinear(784, 64, rank=16, init=Init(sigma=0.5))
    """

    B: float | None = None
    sigma: float | None = None
    u: float | None = None
    u0: float | None = None


class Values(NamedTuple):
    """Initial values, all of them numbers."""

    B: float
    sigma: float
    u: float = 1.0
    u0: float = 0.0


PAPER = Values(B=0.01, sigma=1.0)


def resolve(init: str | Init, fan_in: int, rank: int) -> Values:
    """Return the initial values for a layer of this fan-in and rank."""
    if not isinstance(init, Init):
        _checks.choice("init", init, ("default", "paper"))
        return PAPER if init == "paper" else _default(fan_in, rank)
    given = {key: value for key, value in asdict(init).items() if value is not None}
    return _default(fan_in, rank)._replace(**given)


def _default(fan_in: int, rank: int) -> Values:
    return Values(B=0.84 * fan_in**-0.5, sigma=2.8 * fan_in**-0.5)
