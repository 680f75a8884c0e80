"""The regressor."""

from typing import Any, Self

from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from halfnet.sklearn import _targets
from halfnet.sklearn._data import Data
from halfnet.sklearn._predictor import HalfNetPredictor, can_learn_on
from halfnet.sklearn._scaling import Array
from halfnet.sklearn._targets import Targets


class HalfNetRegressor(RegressorMixin, HalfNetPredictor):  # type: ignore[misc]
    """A regressor of half layers: it learns the geometry that its random weights are drawn from.

    Needs `pip install 'halfnet[sklearn]'`. Inputs are scaled, so they may have any units. All that
    is random comes from `random_state`: a number gives the same fit again, and the network that
    `halfnet train` builds from that seed.

    Args:
        hidden_units: Units of each hidden layer.
        rank: Columns of B in each layer: a number, one for each layer, "auto" (chosen by
            cross-validation, see `rank_path_`), or None for 16, or the number of inputs where that
            is smaller. A number above the inputs is an error.
        noise: "learned" (sigma is learned), "fixed" (sigma is 1) or "none" (r = B z).
        binary: Whether the weights of the hidden layers are -1 and +1.
        activation: "relu", "tanh", "logistic", "erf" or "identity".
        draw: "normal", or "orthogonal" for a z with orthogonal columns.
        init: Initial values: "default", "paper" or a `halfnet.Init`.
        n_draws: Networks of other draws that share one geometry, B and sigma, and are trained
            together; their predictions are averaged. docs/sklearn.md says when that helps.
        cv: With rank="auto" the folds: a number, a splitter or a list of splits.
        scale: "standard": each feature to mean 0 and deviation 1. "shared": each to mean 0, and all
            by one scale. "auto": shared where features look like pixels (all have one smallest
            number, most of them one largest), standard elsewhere. None: as they are.
        epochs: Passes over the rows; "auto": 10, or more where that is less than 300 steps.
        batch_size: Rows in a step.
        learning_rate: Of Adam.
        schedule: "cosine", after a rise over the first 5% of steps, or "constant".
        early_stopping: Whether to keep rows apart, stop where the loss on them has not fallen for
            `n_iter_no_change` epochs, and go back to the best epoch.
        validation_fraction: The share of rows that early stopping keeps apart.
        n_iter_no_change: Its patience, in epochs.
        warm_start: Whether `fit` goes on from the last fit, with its draws, scaling and rank.
        device: Where to train, as torch names it. Predictions are made on the CPU, in float64.
        dtype: "float32" or "float64" to train in; None: that of X, float32 for small integers.
            float32 takes half the time and memory on large data.
        random_state: A number, a `RandomState` or None for NumPy's own.
        verbose: Whether to draw a progress bar on stderr.

    There is no `n_jobs`: networks that are trained together, as those of rank="auto", are one
    product for torch, which has threads of its own (`torch.set_num_threads`).

    Attributes:
        n_outputs_: Numbers to a row of y.
        rank_: The rank, one for each layer where they differ.
        rank_path_: With rank="auto": `ranks`, `scores` (ranks, folds), their `mean` and `std`.
        networks_: An `nn.Sequential` for each draw, which reads scaled rows. `network_` is the
            first.
        geometry_: The learned `halfnet.Geometry` of the first layer, of scaled rows.
        scaling_: What was done to rows: `mean` and `scale`.
        feature_importances_: The share of each feature in the learned geometry.
        loss_curve_: The mean loss of each epoch.
        n_iter_: Epochs done.
        validation_scores_: With early stopping the score on the rows kept apart after each epoch.
        n_features_in_: Features of X; `feature_names_in_` their names, where X is a frame.

    Examples:
        >>> from sklearn.datasets import load_diabetes
        >>> from halfnet.sklearn import HalfNetRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> regressor = HalfNetRegressor(rank=4, random_state=0).fit(X, y)
        >>> regressor.predict(X[:5]).shape
        (5,)
    """

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

    @available_if(can_learn_on)  # type: ignore[untyped-decorator]
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
