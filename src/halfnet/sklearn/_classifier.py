"""The classifier."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from torch import Tensor

from halfnet._init import Init
from halfnet.exceptions import HalfnetValueError
from halfnet.sklearn import _targets
from halfnet.sklearn._data import Data
from halfnet.sklearn._predictor import HalfNetPredictor, can_learn_on
from halfnet.sklearn._scaling import Array
from halfnet.sklearn._targets import Targets


class HalfNetClassifier(ClassifierMixin, HalfNetPredictor):  # type: ignore[misc]
    """A classifier of half layers: it learns the geometry that its random weights are drawn from.

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
        class_weight: A factor for each class as a dict, or "balanced": none counts more for having
            more rows.
        n_draws: Networks of other draws that share one geometry, B and sigma, and are trained
            together; their probabilities are averaged. docs/sklearn.md says when that helps.
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
        classes_: The classes, sorted; of labels that a row may have any of, their numbers.
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
        >>> from sklearn.datasets import load_iris
        >>> from halfnet.sklearn import HalfNetClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> classifier = HalfNetClassifier(rank=2, random_state=0).fit(X, y)
        >>> classifier.predict_proba(X[:5]).shape
        (5, 3)
        >>> bool(classifier.score(X, y) > 0.9)
        True
    """

    def __init__(
        self,
        hidden_units: int | Sequence[int] = (64,),
        rank: int | Sequence[int] | str | None = None,
        *,
        noise: str = "learned",
        binary: bool = False,
        activation: str = "relu",
        draw: str = "normal",
        init: str | Init = "default",
        class_weight: Any = None,
        n_draws: int = 1,
        cv: Any = 5,
        scale: str | None = "auto",
        epochs: int | str = "auto",
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        schedule: str = "cosine",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        device: str = "cpu",
        dtype: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            hidden_units,
            rank,
            noise=noise,
            binary=binary,
            activation=activation,
            draw=draw,
            init=init,
            n_draws=n_draws,
            cv=cv,
            scale=scale,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule=schedule,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the network to rows and their classes.

        Args:
            X: Rows, (n, features): an array, a sparse matrix or a frame.
            y: Their classes, of any type that can be sorted, (n,); or a matrix of 0 and 1, (n,
                labels), of which a row may have any.
            sample_weight: What the rows count, (n,); None: all the same.
        """
        begun = self.warm_start and hasattr(self, "networks_")
        X, y = self._validated(X, y, reset=not begun)
        weight = self._weights(X, sample_weight)
        targets = _targets.classes(y, self.classes_ if begun else None)
        by_class = self._class_weights(y, targets, weight)
        self._forget()
        self._train(X, targets, weight, by_class)
        self._remember(targets)
        return self

    @available_if(can_learn_on)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go through rows once, from where the last call stopped, at a constant learning rate.

        The first call decides on the scaling of the inputs, so let its rows be like the others.

        Args:
            X: Rows, as in `fit`.
            y: Their classes.
            classes: All classes that there will be; the first call needs them where its rows do not
                hold each.
            sample_weight: What the rows count.
        """
        first = not hasattr(self, "networks_")
        X, y = self._validated(X, y, reset=first)
        weight = self._weights(X, sample_weight)
        known = self._known(y, classes, first)
        targets = _targets.classes(y, known)
        if isinstance(self.class_weight, str):
            raise HalfnetValueError(
                "class_weight: expected a dict for partial_fit, which does not see all rows, got "
                f"{self.class_weight!r}"
            )
        self._learn_on(Data(X, targets, weight, self._class_weights(y, targets, weight)))
        self._remember(targets)
        return self

    def _known(self, y: Array, classes: Any, first: bool) -> Array | None:
        given = None if classes is None else np.unique(np.asarray(classes))
        if first:
            if given is None or y.ndim == 2:
                return None
            if len(given) < 2:
                raise HalfnetValueError(
                    f"classes: expected at least 2 classes, got {len(given)} class"
                )
            chosen: Array = given
            return chosen
        if given is not None and not np.array_equal(given, self.classes_):
            raise HalfnetValueError(
                f"classes: expected those of the first call, {self.classes_.tolist()}, got "
                f"{given.tolist()}"
            )
        known: Array = self.classes_
        return known

    def _class_weights(self, y: Array, targets: Targets, weight: Array | None) -> Array | None:
        """Return the factor of each row by its class; "balanced" counts rows as they weigh."""
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str) and targets.kind == _targets.CLASSES:
            if self.class_weight != "balanced":
                raise HalfnetValueError(
                    f"class_weight: expected 'balanced', a dict or None, got {self.class_weight!r}"
                )
            sums = np.bincount(targets.y, weight, minlength=targets.outputs)
            present = sums > 0  # rows of another class weigh nothing in any case
            factors = sums.sum() / (present.sum() * np.where(present, sums, 1.0))
            balanced: Array = factors[targets.y]
            return balanced
        try:
            per_row: Array = compute_sample_weight(self.class_weight, y)
        except (TypeError, AttributeError) as error:
            raise HalfnetValueError(
                "class_weight: expected 'balanced', a dict from class to weight or None, got "
                f"{self.class_weight!r}"
            ) from error
        if not np.isfinite(per_row).all() or (per_row < 0).any() or not per_row.any():
            raise HalfnetValueError(
                "class_weight: expected finite weights of at least 0, not all of them 0, got "
                f"{self.class_weight!r}"
            )
        return per_row

    def _remember(self, targets: Targets) -> None:
        self.classes_ = targets.classes
        self._kind = targets.kind

    def _log_probabilities(self, X: Any) -> tuple[Tensor, Tensor]:
        """Return log p and log(1 - p), means over the draws of p, (n, outputs)."""
        out = torch.from_numpy(self._outputs(self._validated_rows(X)))
        count = np.log(len(out))
        if self._kind == _targets.LABELS:
            yes, no = (torch.nn.functional.logsigmoid(sign * out) for sign in (1, -1))
            return yes.logsumexp(0) - count, no.logsumexp(0) - count
        yes = out.log_softmax(-1).logsumexp(0) - count
        return yes, (-yes.expm1()).log()

    def decision_function(self, X: Any) -> Array:
        """Return how much speaks for each class: the logarithm of its probability.

        Of two classes it is one number for each row, the logarithm of the odds of the second; and
        of labels that a row may have any of, that of each label's odds.
        """
        yes, no = self._log_probabilities(X)
        if self._kind == _targets.LABELS:
            return (yes - no).numpy()
        out: Array = yes.numpy()
        return out[:, 1] - out[:, 0] if len(self.classes_) == 2 else out

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes or labels, (n, classes), means over the draws."""
        return self._log_probabilities(X)[0].exp().numpy()

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`."""
        return self._log_probabilities(X)[0].numpy()

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row, or its labels as 0 and 1."""
        yes, no = self._log_probabilities(X)
        if self._kind == _targets.LABELS:
            return (yes > no).numpy().astype(np.int64)
        classes: Array = self.classes_[yes.argmax(-1).numpy()]
        return classes

    def __sklearn_tags__(self) -> Tags:
        """Say that a row may have several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
