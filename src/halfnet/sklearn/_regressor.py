"""The regressor."""

from typing import Any, Self

from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from halfnet.sklearn import _targets
from halfnet.sklearn._data import Data
from halfnet.sklearn._predictor import HalfNetPredictor
from halfnet.sklearn._scaling import Array
from halfnet.sklearn._targets import Targets


class HalfNetRegressor(RegressorMixin, HalfNetPredictor):  # type: ignore[misc]
    """TODO."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the network to rows and their numbers.

        Args:
            X: Rows, (n, features): an array, a sparse matrix or a frame.
            y: Their numbers, (n,) or (n, outputs).
            sample_weight: What the rows count, (n,); None: all the same.
        """
        begun = self.warm_start and hasattr(self, "networks_")
        X, y = self._validated(X, y, reset=not begun, y_numeric=True)
        weight = self._weights(X, sample_weight)
        targets = self._targets(y, weight, begun)
        self._forget()
        self._train(X, targets, weight)
        self._remember(targets, y)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go through rows once, from where the last call stopped, at a constant learning rate.

        The first call decides on the scaling of inputs and targets, so let its rows be like the
        others.

        Args:
            X: Rows, as in `fit`.
            y: Their numbers.
            sample_weight: What the rows count.
        """
        first = not hasattr(self, "networks_")
        X, y = self._validated(X, y, reset=first, y_numeric=True)
        weight = self._weights(X, sample_weight)
        targets = self._targets(y, weight, not first)
        self._learn_on(Data(X, targets, weight))
        self._remember(targets, y)
        return self

    def _targets(self, y: Array, weight: Array | None, begun: bool) -> Targets:
        if begun:
            return _targets.numbers(y, weight, mean=self._target_mean, scale=self._target_scale)
        return _targets.numbers(y, weight)

    def _remember(self, targets: Targets, y: Array) -> None:
        self._target_mean, self._target_scale = targets.mean, targets.scale
        self._flat = y.ndim == 1
        self.n_outputs_ = targets.outputs

    def predict(self, X: Any) -> Array:
        """Return the numbers of each row, (n,) or (n, outputs), means over the draws."""
        out = self._outputs(self._validated_rows(X)).mean(0)
        numbers: Array = out * self._target_scale + self._target_mean
        return numbers[:, 0] if self._flat else numbers

    def __sklearn_tags__(self) -> Tags:
        """Say that a row may have several numbers."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
