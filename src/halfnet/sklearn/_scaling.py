"""The scaling of inputs: how large they are must not matter to what a network learns first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from halfnet._engine._batches import Rows

Array: TypeAlias = npt.NDArray[Any]
Matrix: TypeAlias = Any
"""An array, or a sparse matrix in rows (CSR)."""

_NUMBERS = 2**16  # in a slice of rows, so that what is made of it stays in a core's cache

_DENSE = 2**24  # numbers that are kept dense: rows of a sparse matrix take long to look up


def chunks(X: Matrix) -> Iterator[tuple[slice, Array]]:
    """Yield slices of some megabytes and the rows in them, those of a sparse matrix as arrays."""
    height = max(1, _NUMBERS // max(1, X.shape[1]))
    for top in range(0, X.shape[0], height):
        part = slice(top, min(top + height, X.shape[0]))
        yield part, X[part].toarray() if sparse.issparse(X) else X[part]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Maps each feature x to (x - mean) / scale."""

    mean: Array
    """float64, (n_features,)."""
    scale: Array
    """float64, (n_features,)."""
    variance: Array
    """Of each scaled feature: 1 where its own deviation was its scale; (n_features,)."""

    @classmethod
    def fit(cls, X: Matrix, kind: str | None = "auto", weight: Array | None = None) -> Self:
        """Return the scaling that suits rows.

        Args:
            X: Rows.
            kind: "standard": each feature to mean 0 and deviation 1. "shared": each to mean 0, and
                all by one scale, so that they keep their sizes beside each other. "auto": shared
                where features look like pixels, see `Moments.alike`. None: nothing is changed.
            weight: What the rows count.
        """
        found = moments(X, weight)
        constant = found.smallest == found.largest
        variance = np.where(constant, 0.0, found.variance)
        # The mean of equal numbers is not always that number.
        mean = np.where(constant, found.smallest, found.mean)
        if kind is None:
            return cls(np.zeros(X.shape[1]), np.ones(X.shape[1]), variance)
        if kind == "shared" or (kind == "auto" and found.alike):
            scale = np.full(X.shape[1], np.sqrt(variance.mean()) or 1.0)
        else:
            scale = np.where(variance > 0, np.sqrt(variance), 1.0)
        return cls(mean, scale, variance / scale**2)

    def __call__(self, X: Array) -> Array:
        """Return scaled rows, float64."""
        return (X - self.mean) / self.scale

    def parts(self, dtype: Any) -> tuple[Array, Array]:
        """Return what to subtract and what to multiply by then, in the dtype of the rows."""
        return self.mean.astype(dtype, copy=False), (1 / self.scale).astype(dtype, copy=False)

    def rows(self, X: Matrix, dtype: Any) -> Array | Rows:
        """Return scaled rows to learn from: of an array a copy, a large sparse matrix stays one."""
        if sparse.issparse(X) and X.shape[0] * X.shape[1] > _DENSE:
            return SparseRows(X, self, dtype)
        out = np.empty(X.shape, dtype)
        mean, factor = self.parts(X.dtype)
        for part, rows in chunks(X):
            np.multiply(rows - mean, factor, out=out[part], casting="same_kind")
        return out


class Moments(NamedTuple):
    """What is to be known of each column, float64."""

    mean: Array
    variance: Array
    smallest: Array
    largest: Array

    @property
    def alike(self) -> bool:
        """Whether the columns look like pixels or indicators: one unit, so one scale.

        All have the same smallest number, and most the same largest one; columns of a single
        number, as an image's corners often are, do not count.
        """
        varies = self.smallest < self.largest
        smallest, largest = self.smallest[varies], self.largest[varies]
        if len(largest) < 2 or (smallest != smallest[0]).any():
            return False
        return bool((largest == largest.max()).mean() > 0.5)


def moments(X: Matrix, weight: Array | None = None) -> Moments:
    """Return the moments of the columns, by what rows count.

    Each slice has its own, and two of them become one (Chan, Golub and LeVeque, 1979): so memory is
    read once, and the small variance of large numbers is not lost.
    """
    total, mean, squares = 0.0, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    smallest, largest = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    for part, every in chunks(X):
        weights = np.ones(len(every)) if weight is None else weight[part]
        counts = slice(None) if weight is None else weights > 0
        rows, count = every[counts], weights[counts]
        own = count.sum()
        if own == 0:
            continue
        np.minimum(smallest, rows.min(0), out=smallest)
        np.maximum(largest, rows.max(0), out=largest)
        numbers = rows.astype(np.float64)
        center = count @ numbers / own
        numbers -= center
        numbers *= numbers
        total += own
        away = center - mean
        mean += away * (own / total)
        squares += count @ numbers + away**2 * (own * (total - own) / total)
    return Moments(mean, squares / total, smallest, largest)


class SparseRows:
    """Rows of a sparse matrix, made dense and scaled a batch at a time."""

    def __init__(self, X: Matrix, scaling: Scaling, dtype: Any) -> None:
        self._X, self._dtype = X, dtype
        self._mean, self._factor = scaling.parts(X.dtype)

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._X.shape[0])

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Return the rows of an index; `dim` is 0."""
        rows = self._X[index.numpy()].toarray()
        rows -= self._mean
        rows *= self._factor
        return torch.from_numpy(rows.astype(self._dtype, copy=False))
