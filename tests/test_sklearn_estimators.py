"""The classifier and the regressor: what they learn, and how they fit into scikit-learn."""

import doctest
import io
import pickle
import re
import resource
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import halfnet.sklearn
from halfnet._engine._losses import BinaryCrossEntropy, SquaredError
from halfnet.sklearn import HalfNetClassifier, HalfNetRegressor
from halfnet.sklearn._network import Design, build
from halfnet.sklearn._scaling import Scaling, moments

torch.set_num_threads(1)
QUICK = {"hidden_units": 16, "rank": 2, "epochs": 40, "random_state": 0}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(iris):
    return HalfNetClassifier(**QUICK | {"epochs": 150}).fit(*iris)


def rows_and_numbers(n=120, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.stack([X[:, 0] + X[:, 1], 3 * X[:, 2]], 1) + 5


# -- what they learn ------------------------------------------------------------------------------


def test_the_defaults_do_well_on_tables():
    X, y = load_breast_cancer(return_X_y=True)
    assert HalfNetClassifier(random_state=0).fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.94
    X, y = load_diabetes(return_X_y=True)
    model = HalfNetRegressor(random_state=0, epochs=20).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.4


def test_a_fit_is_the_labs_network_and_training(iris):
    """The same seed, rows and recipe give what the lab's own loop makes, number for number."""
    from halfnet._draws import derived_seed  # noqa: PLC0415
    from halfnet._engine._recipe import Recipe  # noqa: PLC0415
    from halfnet._engine._training import Training  # noqa: PLC0415
    from halfnet.lab import specs  # noqa: PLC0415

    X, y = iris[0].astype(np.float32), iris[1]
    model = HalfNetClassifier(**QUICK, batch_size=32).fit(X, y)
    half = specs.Architecture(None, (specs.HalfSpec(units=16, rank=2),))
    network = specs.build(half, (4,), 3, seed=0)
    for key, value in (
        build(Design(features=4, units=(16,), ranks=(2,), outputs=3), 0).state_dict().items()
    ):
        assert torch.equal(network.state_dict()[key], value)
    recipe = Recipe(rate=3e-3, batch_size=32, epochs=40, schedule="cosine", warmup=0.05)
    rows = model.scaling_.rows(X, np.float32)
    training = Training([network], recipe, rows, y, seed=derived_seed(0, "order"))
    curve = [training.run_epoch().loss[0] for _ in range(40)]
    assert model.loss_curve_ == curve
    own = training.stack.models()[0]
    assert torch.equal(own.hidden1.B, model.network_.hidden1.B)


def test_a_fit_is_repeated_by_its_random_state_and_leaves_torchs_generator_alone(iris):
    before = torch.get_rng_state()
    first, again, other = (
        HalfNetClassifier(**QUICK | {"epochs": 2, "random_state": seed}).fit(*iris)
        for seed in (0, 0, 1)
    )
    assert torch.equal(before, torch.get_rng_state())
    proba = first.predict_proba(iris[0])
    np.testing.assert_array_equal(proba, again.predict_proba(iris[0]))
    assert not np.allclose(proba, other.predict_proba(iris[0]))
    np.random.seed(3)
    one = HalfNetClassifier(**QUICK | {"epochs": 2, "random_state": None}).fit(*iris)
    np.random.seed(3)
    two = HalfNetClassifier(**QUICK | {"epochs": 2, "random_state": None}).fit(*iris)
    np.testing.assert_array_equal(one.predict_proba(iris[0]), two.predict_proba(iris[0]))


def test_probabilities_are_what_the_network_and_the_scaling_say(fitted, iris):
    scaled = (iris[0] - iris[0].mean(0)) / iris[0].std(0)
    with torch.no_grad():
        expected = fitted.network_(torch.from_numpy(scaled)).softmax(-1).numpy()
    np.testing.assert_allclose(fitted.predict_proba(iris[0]), expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        np.exp(fitted.predict_log_proba(iris[0])), expected, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(fitted.predict(iris[0]), expected.argmax(1))
    np.testing.assert_allclose(fitted.decision_function(iris[0]), np.log(expected), rtol=1e-5)
    assert fitted.score(*iris) > 0.9
    assert fitted.n_iter_ == len(fitted.loss_curve_) == 150
    assert fitted.loss_curve_[-1] < fitted.loss_curve_[0] / 3


def test_of_two_classes_the_decision_is_one_number(iris):
    X, y = iris[0][:100], np.array(["no", "yes"])[iris[1][:100]]
    model = HalfNetClassifier(**QUICK).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    decision = model.decision_function(X)
    assert decision.shape == (100,)
    np.testing.assert_array_equal(model.predict(X) == "yes", decision > 0)
    p = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(decision, np.log(p / (1 - p)), rtol=1e-6)


def test_labels_of_which_a_row_may_have_any(iris):
    X = iris[0]
    Y = np.stack([iris[1] == 0, iris[1] > 0, X[:, 0] > 5.8], 1).astype(int)
    model = HalfNetClassifier(**QUICK | {"epochs": 200}).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.85
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), (p > 0.5).astype(int))
    np.testing.assert_allclose(model.decision_function(X), np.log(p / (1 - p)), rtol=1e-5)
    assert HalfNetClassifier(**QUICK).fit(X, sparse.csr_array(Y)).predict(X).shape == Y.shape


def test_several_numbers_a_row_in_units_of_their_own():
    X, Y = rows_and_numbers()
    model = HalfNetRegressor(**QUICK | {"epochs": 300, "learning_rate": 1e-2})
    assert model.fit(X, Y).score(X, Y) > 0.95
    assert model.predict(X).shape == Y.shape
    scaled = clone(model).fit(X, Y * [1e6, 1e-6])
    np.testing.assert_allclose(scaled.predict(X), model.predict(X) * [1e6, 1e-6], rtol=1e-4)
    assert clone(model).fit(X, Y[:, 0]).predict(X).shape == (len(X),)


@pytest.mark.parametrize(
    "options",
    [
        {"noise": "none"},
        {"noise": "fixed", "rank": 0},
        {"binary": True},
        {"activation": "tanh"},
        {"activation": "erf"},
        {"activation": "logistic"},
        {"activation": "identity"},
        {"draw": "orthogonal"},
        {"init": "paper"},
        {"schedule": "constant"},
        {"hidden_units": (16, 8), "rank": (3, 2)},
        {"dtype": "float32", "n_draws": 2},
        {"batch_size": 32, "scale": None},
    ],
    ids=str,
)
def test_every_option_learns(options, iris):
    model = HalfNetClassifier(**QUICK | {"epochs": 250, "learning_rate": 1e-2} | options)
    assert model.fit(*iris).score(*iris) > 0.8
    layer = model.network_.hidden1
    for name in {"noise", "binary", "draw"} & options.keys():
        assert getattr(layer, name) == options[name]
    if "dtype" in options:
        assert layer.B.dtype == torch.float32
        assert len(model.networks_) == 2


def test_the_dtype_is_that_of_the_rows_unless_it_is_said(iris):
    def learned(X, **options):
        model = HalfNetClassifier(**QUICK | {"epochs": 1} | options).fit(X, iris[1])
        return model.network_.hidden1.B.dtype

    X = iris[0]
    assert learned(X) == learned(X.astype(np.float32), dtype="float64") == torch.float64
    assert learned(X.astype(np.float32)) == learned(X, dtype="float32") == torch.float32
    assert learned((X * 10).astype(np.uint8)) == torch.float32
    assert learned((X * 10).astype(np.int64)) == torch.float64


# -- weights --------------------------------------------------------------------------------------


def test_a_row_of_weight_two_is_two_rows_and_one_of_weight_zero_is_none(iris):
    rng = np.random.default_rng(0)
    X, y = iris[0][rng.permutation(150)[:40]], rng.integers(0, 3, 40)
    weight = rng.integers(0, 3, 40).astype(float)
    weighted = HalfNetClassifier(**QUICK).fit(X, y, sample_weight=weight)
    repeated = HalfNetClassifier(**QUICK).fit(
        X.repeat(weight.astype(int), 0), y.repeat(weight.astype(int))
    )
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6)


def test_rows_of_weight_zero_leave_batches_and_weights_alike_change_nothing(iris):
    X, y = iris
    some = np.random.default_rng(0).random(150) < 0.5
    options = QUICK | {"batch_size": 16, "epochs": 5}
    weighted = HalfNetClassifier(**options).fit(X, y, sample_weight=some * 7.0)
    alone = HalfNetClassifier(**options).fit(X[some], y[some])
    np.testing.assert_allclose(weighted.loss_curve_, alone.loss_curve_, rtol=1e-6)
    np.testing.assert_allclose(weighted.predict_proba(X), alone.predict_proba(X), rtol=1e-6)


def test_class_weights_are_sample_weights(iris):
    X, y = iris[0][40:120], iris[1][40:120]
    by_class = HalfNetClassifier(**QUICK, class_weight={0: 3.0, 1: 1.0, 2: 0.5}, scale=None)
    by_row = HalfNetClassifier(**QUICK, scale=None)
    by_class.fit(X, y)
    by_row.fit(X, y, sample_weight=np.array([3.0, 1.0, 0.5])[y])
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), rtol=1e-6)
    balanced = HalfNetClassifier(**QUICK, class_weight="balanced", scale=None).fit(X, y)
    by_row.fit(X, y, sample_weight=1 / np.bincount(y)[y])
    np.testing.assert_allclose(balanced.predict_proba(X), by_row.predict_proba(X), rtol=1e-6)


# -- stopping, going on ---------------------------------------------------------------------------


def test_early_stopping_keeps_the_best_epoch(iris):
    noise = np.random.default_rng(0).integers(0, 3, 150)  # nothing to learn: it only gets worse
    model = HalfNetClassifier(
        **QUICK | {"epochs": 500, "learning_rate": 1e-2},
        early_stopping=True, validation_fraction=0.4, n_iter_no_change=5,
    ).fit(iris[0], noise)  # fmt: skip
    assert model.n_iter_ < 200
    assert len(model.validation_scores_) == model.n_iter_
    assert model.best_validation_score_ == max(model.validation_scores_)
    long = HalfNetClassifier(**QUICK | {"epochs": 500, "learning_rate": 1e-2}).fit(iris[0], noise)
    assert long.loss_curve_[-1] < model.loss_curve_[-1]
    longer = clone(model).set_params(n_iter_no_change=8).fit(iris[0], noise)
    assert longer.n_iter_ == model.n_iter_ + 3
    np.testing.assert_array_equal(longer.predict_proba(iris[0]), model.predict_proba(iris[0]))
    confidence = model.predict_proba(iris[0]).max(1).mean()
    assert confidence < long.predict_proba(iris[0]).max(1).mean()  # it went back


def test_a_warm_start_goes_on(iris):
    model = HalfNetClassifier(**QUICK, warm_start=True).fit(*iris)
    first, loss = model.network_.hidden1.seed, model.loss_curve_[-1]
    model.set_params(random_state=1).fit(*iris)
    assert model.network_.hidden1.seed == first
    assert model.loss_curve_[0] < 1.3 * loss
    cold = clone(model).set_params(warm_start=False).fit(*iris)
    assert cold.loss_curve_[0] > 2 * loss
    with pytest.raises(ValueError, match="y: expected classes that were there at first, got 7"):
        model.fit(iris[0], np.where(iris[1] == 0, 7, iris[1]))


@pytest.mark.parametrize("options", [{}, {"n_draws": 2}, {"class_weight": {0: 2.0, 1: 1, 2: 1}}])
def test_partial_fit_learns_on(options, iris):
    X, y = iris
    order = np.random.default_rng(0).permutation(150)
    model = HalfNetClassifier(**QUICK | {"learning_rate": 2e-2, "batch_size": 16}, **options)
    for step in range(60):
        part = order[30 * (step % 5) : 30 * (step % 5) + 30]
        model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert model.n_iter_ == len(model.loss_curve_) == 60
    assert model.score(X, y) > 0.9
    X, Y = rows_and_numbers()
    regressor = HalfNetRegressor(**QUICK | {"learning_rate": 2e-2})
    for _ in range(150):
        regressor.partial_fit(X, Y)
    assert regressor.score(X, Y) > 0.9


def test_partial_fit_keeps_the_optimizers_memory(iris):
    X, y = iris
    options = QUICK | {"schedule": "constant", "batch_size": 256, "epochs": 3}
    whole = HalfNetClassifier(**options).fit(X, y)
    parts = HalfNetClassifier(**options)
    for _ in range(3):
        parts.partial_fit(X, y)
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), rtol=1e-8)


# -- draws and importances ------------------------------------------------------------------------


def test_draws_share_one_geometry_and_average_their_probabilities(iris):
    model = HalfNetClassifier(**QUICK | {"hidden_units": (16, 8)}, n_draws=3).fit(*iris)
    one, two, three = model.networks_
    for name in ("hidden1.B", "hidden1.sigma", "hidden2.B", "hidden2.sigma"):
        assert torch.equal(one.get_parameter(name), two.get_parameter(name))
        assert torch.equal(one.get_parameter(name), three.get_parameter(name))
    assert not torch.equal(one.hidden1.z, two.hidden1.z)
    assert not torch.equal(one.output.weight, two.output.weight)
    alone = HalfNetClassifier(**QUICK | {"hidden_units": (16, 8), "epochs": 1}).fit(*iris)
    assert torch.equal(one.hidden1.z, alone.network_.hidden1.z)
    scaled = torch.from_numpy(model.scaling_(iris[0]))
    with torch.no_grad():
        mean = torch.stack([net(scaled).softmax(-1) for net in model.networks_]).mean(0)
    np.testing.assert_allclose(model.predict_proba(iris[0]), mean, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("scale", ["standard", "shared", None])
def test_a_feature_that_tells_nothing_is_the_least_important(scale):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 6))
    X[:, 3] = rng.normal(size=400)
    y = X[:, [0, 1, 2, 4, 5]] @ [3.0, -2.0, 2.5, 2.0, -3.0] + np.abs(X[:, 0])
    model = HalfNetRegressor(rank=2, scale=scale, epochs=100, random_state=0).fit(X, y)
    importances = model.feature_importances_
    assert importances.argmin() == 3
    assert importances.sum() == pytest.approx(1)
    larger = clone(model).fit(X * [1, 1, 1, 1e3, 1, 1], y) if scale == "standard" else model
    np.testing.assert_allclose(larger.feature_importances_, importances, rtol=1e-5)


def test_a_constant_feature_has_no_importance_and_signs_have_none(iris):
    X = np.column_stack([iris[0], np.full(150, 0.1)])
    importances = HalfNetClassifier(**QUICK).fit(X, iris[1]).feature_importances_
    assert importances[-1] == 0
    assert (importances[:-1] > 0).all()
    binary = HalfNetClassifier(**QUICK | {"epochs": 1}, binary=True).fit(*iris)
    with pytest.raises(AttributeError, match="expected binary=False"):
        binary.feature_importances_


# -- scaling --------------------------------------------------------------------------------------


def test_moments_are_those_of_numpy_whatever_the_slices(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.sort(rng.normal(size=(500, 3)), 0) + np.array([0, 1e7, -3])
    weight = rng.integers(0, 4, 500).astype(float)
    for size in (2**16, 30):
        monkeypatch.setattr("halfnet.sklearn._scaling._NUMBERS", size)
        for w, rows in ((None, X), (weight, X.repeat(weight.astype(int), 0))):
            for form in (X, sparse.csr_array(X)):
                found = moments(form, w)
                np.testing.assert_allclose(found.mean, rows.mean(0), rtol=1e-12)
                np.testing.assert_allclose(found.variance, rows.var(0), rtol=1e-7)


def test_pixels_keep_their_sizes_beside_each_other():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 17, (200, 8)).astype(float)
    pixels[:, 0], pixels[:, 1] = 0, 16 * (rng.random(200) > 0.95)
    scaling = Scaling.fit(pixels)
    assert len(set(scaling.scale)) == 1
    np.testing.assert_allclose(scaling(pixels).mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(scaling.variance, scaling(pixels).var(0))
    columns = pixels * np.arange(1, 9)
    own = Scaling.fit(columns)
    np.testing.assert_allclose(own(columns)[:, 1:].std(0), 1)
    assert (own(columns)[:, 0] == 0).all()
    assert (Scaling.fit(pixels, None)(pixels) == pixels).all()


def test_a_sparse_matrix_is_learned_from_as_the_same_array_is(monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.random_array((90, 20), density=0.2, rng=rng, format="csr")
    y = (X[:, [0]].toarray()[:, 0] > 0).astype(int)
    dense = HalfNetClassifier(**QUICK | {"batch_size": 32}).fit(X.toarray(), y)
    for limit in (2**24, 0):  # kept dense, or made dense a batch at a time
        monkeypatch.setattr("halfnet.sklearn._scaling._DENSE", limit)
        for form in (X, sparse.coo_array(X), sparse.csr_matrix(X)):
            model = HalfNetClassifier(**QUICK | {"batch_size": 32}).fit(form, y)
            np.testing.assert_allclose(
                model.predict_proba(form), dense.predict_proba(X.toarray()), rtol=1e-6
            )


def test_a_sparse_matrix_is_never_made_dense_as_a_whole():
    """As an array these rows would take 0.4 GB, and their scaled copy as much again."""
    rng = np.random.default_rng(0)
    rows, columns = 2000, 50_000
    y = rng.integers(0, 2, rows)
    where = np.where(y == 1, rng.integers(0, 5, rows), rng.integers(5, columns, rows))
    X = sparse.csr_array((np.ones(rows, np.float32), (np.arange(rows), where)), (rows, columns))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = HalfNetClassifier(4, 1, epochs=1, batch_size=50, random_state=0).fit(X, y)
    assert model.predict(X[:500]).shape == (500,)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (peak - before) * (1 if sys.platform == "darwin" else 1024) < 3e8


# -- beside scikit-learn --------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_keep_their_names(frame, iris):
    names = ["a", "b", "c", "d"]
    table = frame({name: iris[0][:, i] for i, name in enumerate(names)})
    model = HalfNetClassifier(**QUICK).fit(table, iris[1])
    assert model.feature_names_in_.tolist() == names
    plain = HalfNetClassifier(**QUICK).fit(*iris)
    np.testing.assert_allclose(model.predict_proba(table), plain.predict_proba(iris[0]))
    other = frame({name: iris[0][:, i] for i, name in enumerate(["a", "b", "c", "e"])})
    with pytest.raises(ValueError, match="feature names"):
        model.predict(other)
    with pytest.raises(ValueError, match="4 features"):
        plain.predict(iris[0][:, :3])


def test_a_grid_search_over_the_rank_in_a_pipeline(iris):
    pipeline = make_pipeline(MinMaxScaler(), HalfNetClassifier(**QUICK))
    grid = {"halfnetclassifier__rank": [1, 3]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=1).fit(*iris)
    assert search.best_params_["halfnetclassifier__rank"] in (1, 3)
    assert search.best_estimator_[-1].network_.hidden1.rank in (1, 3)


def test_weights_are_routed_as_metadata(iris):
    weight = np.where(iris[1] == 0, 1.0, 0.0)
    with config_context(enable_metadata_routing=True):
        model = HalfNetClassifier(**QUICK).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=False)
        found = cross_validate(
            model, *iris, cv=3, params={"sample_weight": weight}, return_estimator=True
        )
        for estimator in found["estimator"]:
            assert (estimator.predict(iris[0]) == 0).mean() > 0.9  # the others counted nothing


def test_pickle_and_joblib_keep_all(fitted, iris):
    expected = fitted.predict_proba(iris[0])
    buffer = io.BytesIO()
    joblib.dump(fitted, buffer)
    buffer.seek(0)
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(buffer), clone(fitted).fit(*iris)):
        np.testing.assert_array_equal(copy.predict_proba(iris[0]), expected)


def test_params_are_kept_and_an_unfitted_one_says_so(iris):
    model = HalfNetClassifier(rank=3, n_draws=2)
    assert clone(model).get_params() == model.get_params()
    for ask in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(model, ask)(iris[0])
    for name in ("geometry_", "feature_importances_"):
        with pytest.raises(NotFittedError):
            getattr(model, name)


def test_verbose_draws_one_line_on_stderr(iris, capsys):
    HalfNetClassifier(**QUICK, verbose=True, early_stopping=True).fit(*iris)
    out, error = capsys.readouterr()
    assert not out
    assert "epoch 40/40 [########################] 100%  loss 0." in error
    assert "held out" in error
    assert error.count("\n") == 1
    HalfNetClassifier(**QUICK).fit(*iris)
    assert not capsys.readouterr().err


def test_the_estimators_need_none_of_the_labs_packages():
    code = (
        "import sys\n"
        "for name in ('rich', 'matplotlib', 'PIL'): sys.modules[name] = None\n"
        "from halfnet.sklearn import HalfNetClassifier\n"
        "HalfNetClassifier(epochs=1).fit([[0.0, 1], [1, 0], [1, 1], [0, 0]], [0, 1, 0, 1])\n"
        "assert not [name for name in sys.modules if name.startswith('halfnet.lab')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_losses_are_torchs():
    outputs, y = torch.randn(3, 4, 7), torch.randint(0, 2, (4, 7)).float()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(outputs[1], y, reduction="none")
    torch.testing.assert_close(BinaryCrossEntropy()(outputs, y)[1], expected.mean(0))
    torch.testing.assert_close(SquaredError()(outputs, y)[2], (outputs[2] - y).square().mean(0))
    right = ((outputs > 0).float() == y).all(1)
    assert torch.equal(BinaryCrossEntropy().right(outputs, y), right)


@pytest.mark.parametrize("name", halfnet.sklearn.__all__)
def test_every_name_is_in_the_reference_and_its_examples_run(name):
    thing = getattr(halfnet.sklearn, name)
    pages = Path(__file__).parent.parent / "docs"
    assert f"halfnet.sklearn.{name}" in (pages / "api.md").read_text()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in doctest.DocTestFinder(recurse=False).find(thing, name):
        assert example.examples
        assert runner.run(example).failed == 0


def test_each_parameter_is_documented():
    for kind in (HalfNetClassifier, HalfNetRegressor):
        documented = re.findall(r"^ {4,8}(\w+): ", kind.__doc__, re.MULTILINE)
        assert set(kind().get_params()) <= set(documented)
