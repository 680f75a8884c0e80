"""Initial values of what a half layer learns."""

import math
from dataclasses import asdict, dataclass
from typing import NamedTuple

from halfnet import _checks


@dataclass(frozen=True)
class Init:
    """Initial values: B is normal with standard deviation `B`; the rest are constants.

    A value of None is the default's, which depends on the layer's fan-in and rank
    (docs/choosing.md has the measurements).

    Examples:
        >>> layer = halfnet.HalfLinear(784, 64, rank=16, init=halfnet.Init(sigma=0.5))
    """

    B: float | None = None
    sigma: float | None = None
    u: float | None = None
    u0: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None:
                low = 0 if name == "B" else -math.inf  # a standard deviation
                object.__setattr__(self, name, _checks.number(f"init.{name}", value, low))


class Values(NamedTuple):
    """Initial values, all of them numbers."""

    B: float
    sigma: float
    u: float = 1.0
    u0: float = 0.0


PAPER = Values(B=0.01, sigma=1.0)


def resolve(init: str | Init, fan_in: int, rank: int, *, noise: str, binary: bool) -> Values:
    """Return the initial values for a layer of this fan-in, rank and kind."""
    if not isinstance(init, Init):
        _checks.choice("init", init, ("default", "paper"))
        if init == "paper":
            return PAPER
        init = Init()
    given = {key: value for key, value in asdict(init).items() if value is not None}
    return _default(fan_in, rank, noise, binary)._replace(**given)


def _default(fan_in: int, rank: int, noise: str, binary: bool) -> Values:
    """Return what trained best on validation data at fan-ins from 64 to 8192 (docs/choosing.md).

    The outputs' size then doesn't depend on the fan-in, and B starts small beside sigma: it grows
    where the data want it.
    """
    scale = fan_in**-0.5
    if binary:  # weights of size 1 whatever B and sigma are: u brings the outputs to size
        return Values(B=0.003, sigma=0.01, u=scale)
    if noise == "fixed":
        return Values(B=0.03, sigma=1.0, u=scale)
    if noise == "none":
        return Values(B=0.3 * scale * max(rank, 1) ** -0.5, sigma=0.0)
    return Values(B=0.1 * scale, sigma=scale, u=2.0)
