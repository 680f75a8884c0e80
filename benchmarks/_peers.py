"""What `estimators.py` compares: estimators by name, each as its users would put it together.

Rows of images come as pixels from 0 to 1, tables as they are: a peer that needs columns of one size
gets a `StandardScaler`. Nothing was tuned on a test set; what is not a default is here, and is the
same for all that it applies to.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NeighborhoodComponentsAnalysis,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from halfnet.sklearn import (
    HalfNetClassifier,
    HalfNetFeatures,
    HalfNetMetric,
    HalfNetRegressor,
)

UNITS, BATCH, RANK, EPOCHS = 64, 128, 16, 10
LAB = "HalfNet, rank 16, the lab's recipe"
LONGER = "MLP, 200 epochs"  # scikit-learn's default


class Problem(NamedTuple):
    """What a method may know of a data set before it sees it."""

    rows: int
    features: int
    images: bool
    numbers: bool
    """Whether it is a regression."""

    @property
    def large(self) -> bool:
        return self.rows > 10_000

    @property
    def rank(self) -> int:
        return min(RANK, self.features)

    @property
    def epochs(self) -> int:
        """As HalfNet's "auto": ten passes, more where that would hardly be any steps."""
        return max(EPOCHS, math.ceil(300 / math.ceil(self.rows / BATCH)))

    @property
    def components(self) -> int:
        """How many random features."""
        return 1000 if self.large else 300


class Subsample:
    """Fits a step of a pipeline on some of the rows: for what cannot take all of them."""

    def __init__(self, inner: Any, rows: int) -> None:
        self.inner, self.rows = inner, rows

    def fit(self, X: Any, y: Any) -> "Subsample":
        index = np.random.default_rng(0).permutation(len(X))[: self.rows]
        self.inner.fit(X[index], y[index])
        return self

    def fit_transform(self, X: Any, y: Any) -> Any:
        return self.fit(X, y).transform(X)

    def transform(self, X: Any) -> Any:
        return self.inner.transform(X)


def methods(problem: Problem) -> dict[str, Callable[[int], Any]]:
    """Return by name what makes an estimator of a seed."""
    return (_regressors if problem.numbers else _classifiers)(problem)


def _classifiers(p: Problem) -> dict[str, Callable[[int], Any]]:
    few = 2000
    near = KNeighborsClassifier
    linear: dict[str, Any] = {"C": 10, "max_iter": 200}
    found = {
        "HalfNet, rank 16": lambda s: HalfNetClassifier(rank=p.rank, random_state=s),
        'HalfNet, rank="auto"': lambda s: HalfNetClassifier(
            rank="auto", cv=3 if p.large else 5, random_state=s
        ),
        "HalfNetMetric + 5-NN": lambda s: make_pipeline(
            HalfNetMetric(p.rank, random_state=s), near()
        ),
        'HalfNetMetric, noise="none" + 5-NN': lambda s: make_pipeline(
            HalfNetMetric(p.rank, noise="none", random_state=s), near()
        ),
        "HalfNetFeatures + logistic": lambda s: make_pipeline(
            HalfNetFeatures(p.components, p.rank, random_state=s), LogisticRegression(**linear)
        ),
        "MLP": lambda s: _scaled(p, MLPClassifier(**_mlp(p, s))),
        "RBFSampler + logistic": lambda s: _scaled(
            p, _with_gamma(RBFSampler(n_components=p.components, random_state=s), p),
            LogisticRegression(**linear),
        ),
        "Nystroem + logistic": lambda s: _scaled(
            p, _with_gamma(Nystroem(n_components=p.components, random_state=s), p),
            LogisticRegression(**linear),
        ),
        "NCA + 5-NN": lambda s: _scaled(
            p, _some(p, few, NeighborhoodComponentsAnalysis(p.rank, random_state=s)), near()
        ),
        "metric-learn NCA + 5-NN": lambda s: _scaled(
            p, _some(p, few, _metric_learn("NCA", n_components=p.rank, random_state=s)), near()
        ),
        "metric-learn LMNN + 5-NN": lambda s: _scaled(
            p, _some(p, few, _metric_learn("LMNN", random_state=s)), near()
        ),
        "5-NN": lambda s: _scaled(p, near()),
        "linear": lambda s: _scaled(p, LogisticRegression(max_iter=200)),
        "HistGradientBoosting": lambda s: HistGradientBoostingClassifier(random_state=s),
    }  # fmt: skip
    if p.large:
        found[LAB] = lambda s: HalfNetClassifier(
            rank=RANK, init="paper", learning_rate=1e-3, schedule="constant", epochs=EPOCHS,
            scale=None, random_state=s,
        )  # fmt: skip
    else:
        found[LONGER] = lambda s: _scaled(p, MLPClassifier(**_mlp(p, s, 200)))
    return found


def _regressors(p: Problem) -> dict[str, Callable[[int], Any]]:
    near = KNeighborsRegressor
    return {
        "HalfNet, rank 16": lambda s: HalfNetRegressor(rank=p.rank, random_state=s),
        'HalfNet, rank="auto"': lambda s: HalfNetRegressor(rank="auto", random_state=s),
        "HalfNetMetric + 5-NN": lambda s: make_pipeline(
            HalfNetMetric(p.rank, target="numbers", random_state=s), near()
        ),
        'HalfNetMetric, noise="none" + 5-NN': lambda s: make_pipeline(
            HalfNetMetric(p.rank, noise="none", target="numbers", random_state=s), near()
        ),
        "HalfNetFeatures + ridge": lambda s: make_pipeline(
            HalfNetFeatures(p.components, p.rank, target="numbers", random_state=s), Ridge()
        ),
        "MLP": lambda s: _scaled(p, _scaled_target(MLPRegressor(**_mlp(p, s)))),
        LONGER: lambda s: _scaled(p, _scaled_target(MLPRegressor(**_mlp(p, s, 200)))),
        "RBFSampler + ridge": lambda s: _scaled(
            p, _with_gamma(RBFSampler(n_components=p.components, random_state=s), p), Ridge()
        ),
        "Nystroem + ridge": lambda s: _scaled(
            p, _with_gamma(Nystroem(n_components=p.components, random_state=s), p), Ridge()
        ),
        "metric-learn MLKR + 5-NN": lambda s: _scaled(
            p, _metric_learn("MLKR", n_components=p.rank, random_state=s), near()
        ),
        "5-NN": lambda s: _scaled(p, near()),
        "linear": lambda s: _scaled(p, Ridge()),
        "HistGradientBoosting": lambda s: HistGradientBoostingRegressor(random_state=s),
    }  # fmt: skip


def _scaled(p: Problem, *steps: Any) -> Any:
    return make_pipeline(*steps) if p.images else make_pipeline(StandardScaler(), *steps)


def _mlp(p: Problem, seed: int, epochs: int | None = None) -> dict[str, Any]:
    """Return HalfNet's units, rows a batch and, if not told otherwise, epochs."""
    epochs = p.epochs if epochs is None else epochs
    return {
        "hidden_layer_sizes": (UNITS,), "batch_size": BATCH, "max_iter": epochs,
        "n_iter_no_change": epochs, "random_state": seed,
    }  # fmt: skip


def _scaled_target(regressor: Any) -> Any:
    """Bring y to mean 0 and deviation 1, as HalfNetRegressor does by itself."""
    return TransformedTargetRegressor(regressor, transformer=StandardScaler())


def _with_gamma(sampler: Any, p: Problem) -> Any:
    """Give an RBF kernel the width 1 / (features x variance), which SVC calls "scale"."""
    variance = 0.1 if p.images else 1.0  # about, of pixels from 0 to 1; of standardised columns
    return sampler.set_params(gamma=1 / (p.features * variance))


def _some(p: Problem, rows: int, step: Any) -> Any:
    return Subsample(step, rows) if p.large else step


def _metric_learn(name: str, **options: Any) -> Any:
    """Return an estimator of metric-learn 0.7, which calls scikit-learn by what it had before 1.8.

    `check_X_y` and `check_array` were told `force_all_finite`, which is now `ensure_all_finite`.
    """
    import metric_learn  # noqa: PLC0415 (which nothing else needs)
    from metric_learn import _util  # noqa: PLC0415

    for function in ("check_X_y", "check_array"):
        theirs = getattr(_util, function)
        if getattr(theirs, "renames", False):
            continue

        def renamed(*args: Any, theirs: Any = theirs, **keywords: Any) -> Any:
            if "force_all_finite" in keywords:
                keywords["ensure_all_finite"] = keywords.pop("force_all_finite")
            return theirs(*args, **keywords)

        renamed.renames = True  # type: ignore[attr-defined]
        setattr(_util, function, renamed)
    return getattr(metric_learn, name)(**options)


# --- How much was learned ---------------------------------------------------------------------


def learned(model: Any) -> int:
    """Return how many numbers a fitted model has from its data, but for rows that it keeps."""
    steps = model.named_steps.values() if hasattr(model, "named_steps") else [model]
    inner = (getattr(step, "inner", getattr(step, "regressor_", step)) for step in steps)
    return sum(_of_step(step) for step in inner)


def keeps_rows(model: Any) -> bool:
    """Return whether a fitted model holds training rows: to find neighbours, or as landmarks."""
    steps = model.named_steps.values() if hasattr(model, "named_steps") else [model]
    kinds = (KNeighborsClassifier, KNeighborsRegressor, Nystroem)
    return any(isinstance(step, kinds) for step in steps)


def _of_step(step: Any) -> int:
    if hasattr(step, "_predictors"):  # of trees: a threshold or a value each
        return sum(len(tree.nodes) for trees in step._predictors for tree in trees)
    return sum(int(np.prod(np.shape(part))) for part in _parts(step))


def _parts(step: Any) -> list[Any]:
    if isinstance(step, HalfNetMetric | HalfNetFeatures):
        return [part for part in (step.geometry_.B, step.geometry_.sigma) if part is not None]
    if isinstance(step, HalfNetClassifier | HalfNetRegressor):
        return list(step.network_.parameters())
    if isinstance(step, MLPClassifier | MLPRegressor):
        return [*step.coefs_, *step.intercepts_]
    if isinstance(step, Nystroem):
        return [step.normalization_]
    names = ("coef_", "intercept_", "components_")
    return [getattr(step, name) for name in names if hasattr(step, name)]
