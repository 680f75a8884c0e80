"""The random-feature view: any number of features drawn from what was learned, and their kernel."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from scipy.special import erf
from sklearn.base import clone
from sklearn.utils.validation import check_array, check_is_fitted

from halfnet import _checks
from halfnet._draws import derived_seed
from halfnet._init import Init
from halfnet.exceptions import HalfnetValueError
from halfnet.sklearn._scaling import Array
from halfnet.sklearn._view import HalfNetView, in_dtype_of

_ACTIVATIONS = ("relu", "erf", "identity")
_MOST = 2**31 - 1
_NUMBERS = 2**22  # of rows or of a kernel matrix at a time: several such arrays are needed


class HalfNetFeatures(HalfNetView):
    """Random features whose distribution is learned, in the place of `RBFSampler`.

    A half network is trained to tell `y` from `X`. What is kept is the distribution N(0, Sigma)
    that its weights are drawn from: `transform` draws as many new weight vectors r as one likes and
    returns g(r . x) / sqrt(n_components). The inner product of two rows' features is an estimate
    of the kernel E[g(r . x) g(r . y)], which `kernel` computes in closed form; its error falls as
    1 / sqrt(n_components). A linear model on the features is thus an approximation of a kernel
    machine on `kernel`, as `RBFSampler` is of one on the RBF kernel.

    Args:
        n_components: Number of features; `redraw` gives another number without a new fit.
        rank: Columns of B, k; None is 16, or the number of input features where this is less.
        activation: g, of the features and of the network: "relu", "erf" or "identity", whose
            kernels have closed forms.
        target: What y holds: "classes", or "numbers" for a regression's geometry.
        hidden_units: Units of the network that the geometry is learned with; the first layer's is
            kept.
        noise: "learned" (sigma is learned), "fixed" (sigma is 1) or "none" (r = Bz).
        draw: "normal", or "orthogonal" for draws with orthogonal columns, in the network.
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
        random_state: An integer makes fits and features that are the same.
        verbose: Whether to draw a progress bar.

    Attributes:
        random_weights_: The drawn r, float64, (d, n_components), of scaled rows.
        geometry_: The `halfnet.Geometry` of scaled rows.
        network_: The network, an `nn.Sequential`, which reads scaled rows.
        n_features_in_: Number of input features.
        feature_names_in_: Their names, where X had some.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.svm import SVC
        >>> X, y = load_iris(return_X_y=True)
        >>> features = HalfNetFeatures(200, rank=2, random_state=0)
        >>> model = make_pipeline(features, LogisticRegression(max_iter=1000)).fit(X, y)
        >>> features.transform(X).shape
        (150, 200)
        >>> machine = SVC(kernel=features.kernel).fit(X, y)  # what more and more features lead to
    """

    def __init__(
        self,
        n_components: int = 100,
        rank: int | Sequence[int] | None = None,
        *,
        activation: str = "relu",
        target: str = "classes",
        hidden_units: int | Sequence[int] = (64,),
        noise: str = "learned",
        draw: str = "normal",
        init: str | Init = "default",
        scale: str | None = "auto",
        epochs: int | str = "auto",
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        schedule: str = "cosine",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        device: str = "cpu",
        dtype: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            rank,
            target=target,
            hidden_units=hidden_units,
            noise=noise,
            activation=activation,
            draw=draw,
            init=init,
            scale=scale,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule=schedule,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
        )
        self.n_components = n_components

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the geometry, and draw features from it.

        Args:
            X: Rows, an array, a frame or a sparse matrix, (n, d).
            y: Their classes; or numbers, (n,) or (n, outputs), with `target="numbers"`.
            sample_weight: What each row counts, (n,).

        Returns:
            This object.
        """
        count = _checks.integer("n_components", self.n_components, 1, _MOST)
        _checks.choice("activation", self.activation, _ACTIVATIONS)
        self._learn(X, y, sample_weight)
        return self._drawn(count, self._seed())

    def redraw(self, n_components: int | None = None, random_state: Any = None) -> Self:
        """Draw features anew from what was learned.

        One seed gives one sequence of features: more of them begin with the same ones.

        Args:
            n_components: How many; None is as many as now.
            random_state: An integer, a NumPy generator, or None for draws that are new.

        Returns:
            This object, with both as its parameters.
        """
        check_is_fitted(self)
        if n_components is None:
            n_components = self._n_features_out
        count = _checks.integer("n_components", n_components, 1, _MOST)
        seed = clone(self).set_params(random_state=random_state)._seed()
        self.set_params(n_components=n_components, random_state=random_state)
        return self._drawn(count, seed)

    def _drawn(self, count: int, seed: int) -> Self:
        sample = self._exact().sample(count, derived_seed(seed, "features"))
        self.random_weights_ = np.ascontiguousarray(sample.numpy().T)
        return self

    def transform(self, X: Any) -> Array:
        """Return the features of rows.

        Args:
            X: Rows, (n, d).

        Returns:
            (n, n_components), in the precision of X.
        """
        X = self._validated_rows(X)
        (weights,) = in_dtype_of(X, self.random_weights_)
        out = np.empty((X.shape[0], weights.shape[1]), X.dtype)
        height = max(1, _NUMBERS // X.shape[1])
        for top in range(0, len(out), height):
            part = slice(top, top + height)
            rows = X[part].toarray() if sparse.issparse(X) else X[part]
            np.matmul(self.scaling_(rows).astype(X.dtype, copy=False), weights, out=out[part])
            _activate(self.activation, out[part])
        out /= np.sqrt(X.dtype.type(weights.shape[1]))
        return out

    def kernel(self, X: Any, Y: Any = None) -> Array | float:
        """Return what the inner products of ever more features lead to, in closed form.

        It may be given to `SVC(kernel=...)`. `KernelRidge(kernel=...)` asks for one pair of rows at
        a time, which works and is slow; `KernelRidge(kernel="precomputed")` is the same model,
        fitted with `kernel(X)` and predicting from `kernel(X_new, X)`.

        Args:
            X: Rows, (n, d), or one of them, (d,).
            Y: Rows, (l, d), or one of them if X is; None for X.

        Returns:
            float64, (n, l); of two single rows a number.
        """
        check_is_fitted(self)
        single = np.ndim(X) == 1
        rows = self._scaled("X", X)
        others = rows if Y is None or Y is X else self._scaled("Y", Y)
        geometry, activation = self._exact(), self.activation
        if others is rows and len(rows) ** 2 <= _NUMBERS:
            matrix = geometry.kernel(rows, activation=activation).numpy()
        else:
            matrix = np.empty((len(rows), len(others)))
            height = max(1, _NUMBERS // len(others))
            for top in range(0, len(rows), height):
                part = geometry.kernel(rows[top : top + height], others, activation)
                matrix[top : top + height] = part.numpy()
        return float(matrix[0, 0]) if single else matrix

    def _scaled(self, name: str, X: Any) -> torch.Tensor:
        """Return rows that another estimator may have stripped of their names, scaled."""
        X = X[None] if isinstance(X, np.ndarray) and X.ndim == 1 else X
        X = check_array(X, accept_sparse="csr", dtype=np.float64, input_name=name)
        if X.shape[1] != self.n_features_in_:
            raise HalfnetValueError(
                f"{name}: expected {self.n_features_in_} features as in fit, got {X.shape[1]}"
            )
        rows = X.toarray() if sparse.issparse(X) else X
        return torch.from_numpy(self.scaling_(rows))

    @property
    def _n_features_out(self) -> int:
        return int(self.random_weights_.shape[1])


def _activate(activation: str, rows: Array) -> None:
    """Apply the function to each number, in place."""
    if activation == "relu":
        np.maximum(rows, 0, out=rows)
    elif activation == "erf":
        erf(rows, out=rows)
