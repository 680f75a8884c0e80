"""What can be drawn: a half layer, a Geometry or a fitted estimator, as NumPy's numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from halfnet._geometry import Geometry
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn._base import HalfLayer
from halfnet.plot._canvas import Floats


class Learned:
    """A geometry, and how rows that its owner has become rows that it is of.

    Args:
        geometry: Of scaled inputs.
        scaling: An estimator's; None where inputs are as they are.
    """

    def __init__(self, geometry: Geometry, scaling: Any = None) -> None:
        B, sigma = geometry.B, geometry.sigma
        self._exact = Geometry(
            None if B is None else B.detach().cpu().double(),
            None if sigma is None else sigma.detach().cpu().double(),
        )
        self.binary, self._scaling = geometry.binary, scaling
        for name, part in (("B", self._exact.B), ("sigma", self._exact.sigma)):
            if part is not None and not part.isfinite().all():
                raise HalfnetValueError(f"source: expected finite numbers in {name}, got others")

    @property
    def diagonal(self) -> Floats:
        """Sigma's diagonal, (d,)."""
        unit = torch.eye(1, dtype=torch.float64)
        B, sigma = self._exact.B, self._exact.sigma
        parts = [unit.new_zeros(self._exact.fan_in)]
        parts += [] if B is None else [B.square().sum(1)]
        parts += [] if sigma is None else [sigma.square()]
        return sum(parts).numpy()  # type: ignore[union-attr]

    def directions(self, least: int, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """Return B's left singular vectors, (d, k), and its singular values, largest first.

        Args:
            least: How many of them there must be.
            weights: What B's rows are multiplied by before, (d,).
        """
        B = self._exact.B
        if B is None or B.shape[1] < least:
            raise HalfnetValueError(
                f"source: expected a rank of at least {least}, got {self._exact.rank}"
            )
        B = B if weights is None else B * torch.from_numpy(weights)[:, None]
        if not B.any():
            raise HalfnetValueError("source: expected a B that is not 0 everywhere, got zeros")
        vectors, values, _ = torch.linalg.svd(B, full_matrices=False)
        return vectors.numpy(), values.numpy()

    def rows(self, X: Any) -> Floats:
        """Return rows as the geometry reads them, (n, d) and finite."""
        try:
            rows = np.asarray(X.detach().cpu() if isinstance(X, torch.Tensor) else X, np.float64)
        except (TypeError, ValueError):
            raise HalfnetTypeError(f"X: expected numbers, got {type(X).__name__}") from None
        if rows.ndim < 2 or not rows.size or rows[0].size != self._exact.fan_in:
            raise HalfnetValueError(
                f"X: expected rows of {self._exact.fan_in} numbers, got shape {rows.shape}"
            )
        rows = rows.reshape(len(rows), -1)
        if not np.isfinite(rows).all():
            raise HalfnetValueError("X: expected finite numbers, got NaN or infinity")
        if self._scaling is not None:
            rows = (rows - self._scaling.mean) / self._scaling.scale
        return rows

    def kernel(self, rows: Floats, activation: str) -> Floats:
        """Return the closed form over all pairs of these rows."""
        if self.binary:
            raise HalfnetValueError("source: expected a continuous layer, got a binary one")
        return self._exact.kernel(torch.from_numpy(rows), activation=activation).numpy()


def learned(source: Any) -> Learned:
    """Return what a source has learned.

    Raises:
        HalfnetTypeError: It is none of the things that can be drawn.
        NotFittedError: It is an estimator that was not fitted, scikit-learn's own error.
    """
    if isinstance(source, HalfLayer):
        source = source.geometry
    if isinstance(source, Geometry):
        return Learned(source)
    check_fitted(source)
    geometry = getattr(source, "geometry_", None)
    if not isinstance(geometry, Geometry):
        raise HalfnetTypeError(
            "source: expected a half layer, a Geometry or a fitted estimator of halfnet.sklearn, "
            f"got {type(source).__name__}"
        )
    return Learned(geometry, source.scaling_)


def check_fitted(source: Any) -> None:
    """Raise scikit-learn's NotFittedError for one of our estimators that was not fitted."""
    if type(source).__module__.startswith("halfnet.sklearn"):
        from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415 (an extra)

        check_is_fitted(source)


def labels(name: str, y: Any, rows: int) -> npt.NDArray[Any]:
    """Return the labels of so many rows."""
    found = np.asarray(y.detach().cpu() if isinstance(y, torch.Tensor) else y)
    if found.shape != (rows,):
        raise HalfnetValueError(
            f"{name}: expected a label for each of {rows} rows, got shape {found.shape}"
        )
    return found
