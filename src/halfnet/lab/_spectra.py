"""How the energy of a weight matrix is spread over its singular directions.

The energy of a direction is its singular value squared. Of a covariance, pass the square roots of
its eigenvalues.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

from halfnet.exceptions import HalfnetValueError

PAPER_DIRECTIONS = {0.6: 9, 0.8: 17}
"""The paper's, of the 64 directions of its 784x64 MLP: so many hold this fraction of the energy."""


def cumulative_energy(values: Sequence[float]) -> list[float]:
    """Return the fraction of the energy that the leading 1, 2, ... directions hold, up to 1.0.

    Args:
        values: Singular values, in any order.
    """
    if not all(0 <= value < math.inf for value in values) or not any(values):
        raise HalfnetValueError(
            "values: expected finite singular values of at least 0, one of them above 0, "
            f"got {list(values)!r}"
        )
    largest = max(values)  # divided by, so that no square is too large or too small for a float
    sums = list(accumulate((value / largest) ** 2 for value in sorted(values, reverse=True)))
    return [part / sums[-1] for part in sums]


def directions_for(values: Sequence[float], fraction: float) -> int:
    """Return how many leading directions it takes to hold a fraction of the energy.

    Args:
        values: Singular values, in any order.
        fraction: Above 0, at most 1.
    """
    if not 0 < fraction <= 1:
        raise HalfnetValueError(f"fraction: expected a number above 0, at most 1, got {fraction!r}")
    return sum(part < fraction for part in cumulative_energy(values)) + 1
