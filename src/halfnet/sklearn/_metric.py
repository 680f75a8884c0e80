"""The metric view: a Mahalanobis distance that is learned, for scikit-learn and its neighbours."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from halfnet import _checks
from halfnet.exceptions import HalfnetValueError
from halfnet.sklearn._scaling import Array
from halfnet.sklearn._view import HalfNetView, in_dtype_of


class HalfNetMetric(HalfNetView):
    """A Mahalanobis metric, learned from classes (or numbers) a minibatch at a time.

    A half network is trained to tell `y` from `X`; the covariance Sigma = BB' + diag(sigma^2) that
    its first layer's weights are drawn from is the metric: d(x, y)^2 = (x - y)' M (x - y). M is in
    the coordinates of the X that was given: with the scaling's s, M = diag(1/s) Sigma diag(1/s).

    The methods have the names and the arguments of the package metric-learn, so that one may stand
    where the other stood. Where y is given to `fit`, `transform` makes the rows whose Euclidean
    distances are the learned ones, for a `KNeighborsClassifier` in a pipeline.

    `components_` is exact, so its size depends on `noise`: with "learned" or "fixed" M has full
    rank and `components_` is (d, d); with "none" M = BB' and `components_` is (k, d), the form to
    take where few dimensions are wanted. Either way its rows are orthogonal and sorted, so that the
    first columns of `transform` are the best approximation of so many dimensions.

    Args:
        rank: Columns of B, k; None is 16, or the number of features where this is less.
        target: What y holds: "classes", or "numbers" for a metric of a regression.
        hidden_units: Units of the network's hidden layers; the first layer's geometry is the
            metric.
        noise: "learned" (sigma is learned), "fixed" (sigma is 1) or "none" (M = BB').
        activation: "relu", "tanh", "logistic", "erf" or "identity".
        draw: "normal", or "orthogonal" for draws with orthogonal columns.
        init: "default", "paper", or a `halfnet.Init`.
        scale: "standard" (each feature to mean 0 and deviation 1), "shared" (each to mean 0, all by
            one scale), "auto" (shared where features look like pixels, else standard) or None.
        epochs: Passes over the data; "auto" is 10, or more where the rows are so few that these
            would hardly be any steps.
        batch_size: Rows of a step.
        learning_rate: Of Adam.
        schedule: "cosine" (with a warm-up) or "constant".
        early_stopping: Whether to stop where the score on rows kept apart rises no more.
        validation_fraction: How many rows early stopping keeps apart.
        n_iter_no_change: How many epochs early stopping waits.
        device: As in torch.
        dtype: "float32" or "float64"; None is that of X.
        random_state: An integer makes fits that are the same.
        verbose: Whether to draw a progress bar.

    Attributes:
        components_: L, float64, (d, d) or (k, d): M = L'L.
        geometry_: The `halfnet.Geometry` of scaled rows.
        network_: The network, an `nn.Sequential`, which reads scaled rows.
        n_features_in_: Number of features.
        feature_names_in_: Their names, where X had some.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> from sklearn.pipeline import make_pipeline
        >>> X, y = load_iris(return_X_y=True)
        >>> metric = HalfNetMetric(rank=2, random_state=0)
        >>> neighbours = make_pipeline(metric, KNeighborsClassifier()).fit(X, y)
        >>> bool(neighbours.score(X, y) > 0.9)
        True
        >>> metric.pair_distance([[X[0], X[1]], [X[0], X[149]]]).shape
        (2,)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the metric.

        Args:
            X: Rows, an array, a frame or a sparse matrix, (n, d).
            y: Their classes; or numbers, (n,) or (n, outputs), with `target="numbers"`.
            sample_weight: What each row counts, (n,).

        Returns:
            This object.
        """
        self._learn(X, y, sample_weight)
        geometry = self._exact()
        parts = [] if geometry.B is None else [geometry.B.numpy()]
        parts += [] if geometry.sigma is None else [np.diag(geometry.sigma.numpy())]
        self.components_ = _sorted_factor(np.hstack(parts) / self.scaling_.scale[:, None])
        return self

    def transform(self, X: Any) -> Array:
        """Return rows whose Euclidean distances are the learned distances, X L'.

        Args:
            X: Rows, (n, d).

        Returns:
            (n, d) or, with noise="none", (n, k); in the precision of X.
        """
        X = self._validated_rows(X)
        (components,) = in_dtype_of(X, self.components_)
        return np.asarray(X @ components.T)

    def get_mahalanobis_matrix(self) -> Array:
        """Return M, float64, (d, d)."""
        check_is_fitted(self)
        matrix: Array = self.components_.T @ self.components_
        return (matrix + matrix.T) / 2  # which rounding would otherwise leave a little unsymmetric

    def pair_distance(self, pairs: Any) -> Array:
        """Return the learned distance of each pair.

        Args:
            pairs: (n, 2, d).

        Returns:
            float64, (n,).
        """
        check_is_fitted(self)
        pairs = check_array(
            pairs, dtype=np.float64, allow_nd=True, ensure_2d=False, input_name="pairs"
        )
        if pairs.ndim != 3 or pairs.shape[1:] != (2, self.n_features_in_):
            raise HalfnetValueError(
                f"pairs: expected shape (n, 2, {self.n_features_in_}), got {pairs.shape}"
            )
        return _length((pairs[:, 0] - pairs[:, 1]) @ self.components_.T)

    def pair_score(self, pairs: Any) -> Array:
        """Return minus the learned distance of each pair: the larger, the more alike.

        Args:
            pairs: (n, 2, d).

        Returns:
            float64, (n,).
        """
        return -self.pair_distance(pairs)

    def score_pairs(self, pairs: Any) -> Array:
        """Return `pair_distance`, under the name that it had before metric-learn 0.7.

        Args:
            pairs: (n, 2, d).

        Returns:
            float64, (n,).
        """
        return self.pair_distance(pairs)

    def get_metric(self) -> "Mahalanobis":
        """Return the distance as a function of two vectors, for arguments called `metric`.

        It keeps what is learned now, whatever is fitted later, and can be pickled.
        """
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy())

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class Mahalanobis:
    """A distance of two vectors, |L(u - v)|.

    Args:
        components: L, (r, d).
    """

    def __init__(self, components: Array) -> None:
        self._components = components

    def __call__(self, u: Any, v: Any, squared: bool = False) -> float:
        """Return the distance.

        Args:
            u: A vector, (d,).
            v: Another.
            squared: Whether to return its square.
        """
        u, v = (self._vector(name, vector) for name, vector in (("u", u), ("v", v)))
        length = float(_length((u - v) @ self._components.T))
        return length**2 if _checks.boolean("squared", squared) else length

    def _vector(self, name: str, value: Any) -> Array:
        vector = np.asarray(value, dtype=np.float64)
        if vector.shape != self._components.shape[1:]:
            raise HalfnetValueError(
                f"{name}: expected a vector of {self._components.shape[1]} numbers, "
                f"got shape {vector.shape}"
            )
        return vector


def _length(rows: Array) -> Array:
    length: Array = np.sqrt(np.square(rows).sum(-1))
    return length


def _sorted_factor(factor: Array) -> Array:
    """Return L, (r, d), with L'L = FF' for a factor F, (d, p): rows orthogonal, longest first.

    The decomposition is of the factor, not of its product, which would lose half of the digits.
    """
    vectors, values, _ = np.linalg.svd(factor, full_matrices=False)
    largest = vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])]
    return np.ascontiguousarray((vectors * (np.sign(largest) * values)).T)
