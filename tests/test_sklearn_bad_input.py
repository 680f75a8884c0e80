"""What the estimators say of input that they can't use: one sentence, and nothing half-changed."""

import warnings

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from halfnet import HalfnetError, Init
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.sklearn import HalfNetClassifier, HalfNetRegressor

torch.set_num_threads(1)
X, Y = load_iris(return_X_y=True)
BASE = {"hidden_units": 8, "epochs": 2, "random_state": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 5}, r"rank: expected an integer from 0 to 4 \(X has n_features=4\), got 5"),
        ({"rank": -1}, "rank: expected an integer from 0 to 4"),
        ({"rank": 0, "noise": "none"}, "rank: expected an integer from 1 to 4"),
        ({"rank": (1, 2)}, "rank: expected one integer or 1 of them"),
        ({"rank": "best"}, "rank: expected one of 'auto', got 'best'"),
        ({"rank": 1.5}, "rank: expected an integer from 0 to 4"),
        (
            {"hidden_units": (8, 4), "rank": (2, 9)},
            r"rank: expected an integer from 0 to 8 \(hidden_units=8\), got 9",
        ),
        ({"hidden_units": ()}, "hidden_units: expected at least one layer, got none"),
        ({"hidden_units": 0}, "hidden_units: expected an integer from 1"),
        ({"hidden_units": "64"}, "hidden_units: expected an integer from 1"),
        ({"activation": "softmax"}, "activation: expected one of 'relu', 'tanh'"),
        ({"noise": "much"}, "noise: expected one of"),
        ({"binary": 1}, "binary: expected True or False, got 1"),
        ({"draw": "uniform"}, "draw: expected one of"),
        ({"init": "zeros"}, "init: expected one of"),
        ({"scale": "minmax"}, "scale: expected one of 'auto', 'standard', 'shared'"),
        ({"scale": True}, "scale: expected one of"),
        ({"epochs": 0}, "epochs: expected an integer from 1"),
        ({"epochs": "many"}, "epochs: expected one of 'auto', got 'many'"),
        ({"batch_size": 0}, "batch_size: expected an integer from 1"),
        ({"learning_rate": 0}, "learning_rate: expected a number above 0 and at most 10, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a finite number"),
        ({"schedule": "linear"}, "schedule: expected one of 'cosine', 'constant'"),
        ({"early_stopping": "yes"}, "early_stopping: expected True or False"),
        ({"validation_fraction": 1}, "validation_fraction: expected a number between 0 and 1"),
        ({"n_iter_no_change": 0}, "n_iter_no_change: expected an integer of at least 1"),
        ({"warm_start": 1}, "warm_start: expected True or False"),
        ({"device": "toaster"}, "device: expected one that torch can use here, got 'toaster'"),
        ({"dtype": "float16"}, "dtype: expected one of 'float32', 'float64', got 'float16'"),
        ({"random_state": -1}, "random_state: expected an integer from 0"),
        ({"n_draws": 0}, "n_draws: expected an integer from 1"),
        ({"rank": "auto", "cv": 1}, "cv: expected an integer of at least 2, got 1"),
        ({"rank": "auto", "cv": None}, "cv: expected a number of folds, a splitter or a list"),
        ({"rank": "auto", "cv": []}, "cv: expected folds with rows"),
        ({"class_weight": "even"}, "class_weight: expected 'balanced', a dict or None, got 'even'"),
        ({"class_weight": 3}, "class_weight: expected 'balanced', a dict from class to weight"),
        ({"class_weight": {0: -1.0, 1: 1, 2: 1}}, "class_weight: expected finite weights"),
        ({"verbose": "loud"}, "verbose: expected True or False or an integer"),
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_used_is_named_and_the_old_fit_stays(options, message):
    model = HalfNetClassifier(**BASE).fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises((HalfnetValueError, HalfnetTypeError), match=message) as caught:
        model.set_params(**options).fit(X, Y)
    assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_the_default_rank_and_auto_are_clipped_to_the_features():
    assert HalfNetClassifier(**BASE).fit(X, Y).rank_ == 4
    model = HalfNetClassifier(**BASE, rank="auto", cv=2).fit(X, Y)
    assert model.rank_path_.ranks.tolist() == [1, 2, 4]


@pytest.mark.parametrize("kind", [HalfNetClassifier, HalfNetRegressor])
@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
def test_what_is_no_number_is_refused_wherever_it_is(kind, bad):
    rows = X.copy()
    rows[3, 1] = bad
    model = kind(**BASE)
    for form in (rows, sparse.csr_array(rows)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.fit(form, Y)
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.predict(rows)
    y = Y.astype(float)
    y[0] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(model).fit(X, y)


@pytest.mark.parametrize("kind", [HalfNetClassifier, HalfNetRegressor])
def test_no_rows_and_one_row(kind):
    with pytest.raises(ValueError, match="0 sample"):
        kind(**BASE).fit(np.empty((0, 4)), [])
    model = kind(**BASE).fit(X, Y)
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(np.empty((0, 4)))
    assert model.predict(X[:1]).shape == (1,)
    assert HalfNetRegressor(**BASE).fit(X[:1], [7.0]).predict(X[:1]) == pytest.approx(7, abs=3)
    with pytest.raises(HalfnetValueError, match="at least 2 rows to choose it"):
        HalfNetRegressor(**BASE, rank="auto").fit(X[:1], [1.0])


def test_one_class_only():
    message = "y: expected at least 2 classes, got 1 class only, 'cat'"
    with pytest.raises(HalfnetValueError, match=message):
        HalfNetClassifier(**BASE).fit(X, ["cat"] * 150)
    with pytest.raises(HalfnetValueError, match="classes: expected at least 2 classes, got 1"):
        HalfNetClassifier(**BASE).partial_fit(X[:5], Y[:5], classes=[0])


def test_targets_of_the_wrong_kind():
    classifier, regressor = HalfNetClassifier(**BASE), HalfNetRegressor(**BASE)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        classifier.fit(X, Y + 0.5)
    with pytest.raises(ValueError, match="y: expected one class a row, or a matrix of 0 and 1"):
        classifier.fit(X, np.stack([Y, Y + 1], 1))
    with pytest.raises(ValueError, match="could not convert string to float"):
        regressor.fit(X, np.array(["a", "b", "c"])[Y])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier.fit(X, Y[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        regressor.fit(X, None)


@pytest.mark.parametrize("kind", [HalfNetClassifier, HalfNetRegressor])
def test_weights_that_weigh_nothing(kind):
    for fit in (kind(**BASE).fit, kind(**BASE).partial_fit):
        with pytest.raises(HalfnetValueError, match="sample_weight: expected at least one that is"):
            fit(X, Y, sample_weight=np.zeros(150))
        with pytest.raises(ValueError, match=r"[Nn]egative"):
            fit(X, Y, sample_weight=-np.ones(150))
        with pytest.raises(ValueError, match=r"shape"):
            fit(X, Y, sample_weight=np.ones(3))
    with pytest.raises(HalfnetValueError, match="some above 0 in each part of each fold"):
        kind(**BASE, rank="auto", cv=[(np.arange(50), np.arange(50, 150))]).fit(
            X, Y, sample_weight=(np.arange(150) < 50).astype(float)
        )


def test_weights_that_leave_a_class_out():
    model = HalfNetClassifier(**BASE | {"epochs": 100}).fit(X, Y, sample_weight=(Y > 0) * 1.0)
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.predict(X) > 0).mean() > 0.9
    assert HalfNetClassifier(**BASE, class_weight="balanced").fit(X, Y, (Y > 0) * 1.0).n_iter_ == 2


def test_partial_fit_says_what_it_cannot_do():
    model = HalfNetClassifier(**BASE)
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as caught:
        clone(model).set_params(rank="auto").partial_fit(X, Y)
    assert "rank: expected a number for partial_fit" in str(caught.value.__cause__)
    with pytest.raises(HalfnetValueError, match="class_weight: expected a dict for partial_fit"):
        clone(model).set_params(class_weight="balanced").partial_fit(X, Y)
    model.partial_fit(X, Y)
    with pytest.raises(HalfnetValueError, match=r"classes: expected those of the first call, \[0"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(HalfnetValueError, match="classes that were there at first, got 9 too"):
        model.partial_fit(X, np.where(Y == 0, 9, Y))
    regressor = HalfNetRegressor(**BASE).partial_fit(X, Y)
    with pytest.raises(HalfnetValueError, match="y: expected 1 numbers a row as at first, got 2"):
        regressor.partial_fit(X, np.stack([Y, Y], 1))


def test_early_stopping_needs_rows_to_keep_apart():
    model = HalfNetClassifier(**BASE, early_stopping=True)
    with pytest.raises(HalfnetValueError, match="early_stopping: expected enough rows"):
        model.fit(X[[0, 1, 60]], Y[[0, 1, 60]])


def test_a_training_that_bursts_names_the_rate():
    with pytest.raises(HalfnetError, match="learning_rate: expected one that training converges"):
        HalfNetRegressor(hidden_units=(8, 8), init=Init(u=1e30), dtype="float32").fit(X, Y)


def test_unfitted_and_unseen():
    for kind in (HalfNetClassifier, HalfNetRegressor):
        with pytest.raises(NotFittedError):
            kind().predict(X)
        with pytest.raises(ValueError, match="expecting 4 features"):
            kind(**BASE).fit(X, Y).predict(X[:, :2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HalfNetClassifier(**BASE).fit(X, Y).predict(X)
