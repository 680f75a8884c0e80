"""The scaling of inputs: how large they are must not matter to what a network learns first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from halfnet._engine._batches import Rows

Array: TypeAlias = npt.NDArray[Any]
Matrix: TypeAlias = Any
"""An array, or a sparse matrix in rows (CSR)."""

_NUMBERS = 2**22  # in a slice of rows, so that the copies of it stay small


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

    @classmethod
    def none(cls, features: int) -> Self:
        """Return the scaling that changes nothing."""
        return cls(np.zeros(features), np.ones(features))

    @classmethod
    def standard(cls, X: Matrix, weight: Array | None = None) -> Self:
        """Return the scaling to mean 0 and deviation 1 of each feature; a constant one becomes 0.

        Args:
            X: Rows.
            weight: What they count.
        """
        mean, variance = moments(X, weight)
        deviation = np.sqrt(variance)
        # The mean of equal numbers is not always that number.
        constant = deviation <= 10 * np.finfo(X.dtype).eps * np.abs(mean)
        return cls(mean, np.where(constant, 1.0, deviation))

    def __call__(self, X: Array) -> Array:
        """Return scaled rows, float64."""
        return (X - self.mean) / self.scale

    def rows(self, X: Matrix, dtype: Any) -> Array | Rows:
        """Return scaled rows to learn from: of an array a copy, a sparse matrix stays as it is."""
        if sparse.issparse(X):
            return SparseRows(X, self, dtype)
        out = np.empty(X.shape, dtype)
        for part, rows in chunks(X):
            out[part] = self(rows)
        return out


def moments(X: Matrix, weight: Array | None = None) -> tuple[Array, Array]:
    """Return the mean and the variance of each column, float64, by what rows count."""
    share = np.full(X.shape[0], 1 / X.shape[0]) if weight is None else weight / weight.sum()
    mean, variance = np.zeros((2, X.shape[1]))
    for part, rows in chunks(X):
        mean += share[part] @ rows
    for part, rows in chunks(X):  # a second time: the mean of squares would lose small variances
        variance += share[part] @ np.square(rows - mean)
    return mean, variance


class SparseRows:
    """Rows of a sparse matrix, made dense and scaled a batch at a time."""

    def __init__(self, X: Matrix, scaling: Scaling, dtype: Any) -> None:
        self._X, self._scaling, self._dtype = X, scaling, dtype

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._X.shape[0])

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Return the rows of an index; `dim` is 0."""
        rows = self._scaling(self._X[index.numpy()].toarray())
        return torch.from_numpy(rows.astype(self._dtype, copy=False))
