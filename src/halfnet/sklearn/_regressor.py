"""The regressor."""

from typing import Any, Self

from sklearn.base import RegressorMixin

from halfnet.sklearn import _targets
from halfnet.sklearn._base import HalfNetBase
from halfnet.sklearn._scaling import Array


class HalfNetRegressor(RegressorMixin, HalfNetBase):  # type: ignore[misc]
    """A network of half layers that predicts numbers."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit."""
        X, y = self._validated(X, y, y_numeric=True)
        weight = self._weights(X, sample_weight)
        targets = _targets.numbers(y, weight)
        self._train(X, targets, weight)
        self._mean, self._scale, self._one = targets.mean, targets.scale, y.ndim == 1
        return self

    def predict(self, X: Any) -> Array:
        """Return numbers."""
        out = self._outputs(self._validated_X(X)) * self._scale + self._mean
        return out[:, 0] if self._one else out
