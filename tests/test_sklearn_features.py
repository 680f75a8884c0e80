"""The random-feature view: features, the kernel that they lead to, scikit-learn's checks."""

import doctest
import pickle

import numpy as np
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import halfnet
from halfnet.sklearn import HalfNetFeatures

X, Y = load_iris(return_X_y=True)
X = X * [1, 10, 0.1, 1000] + [0, 5, -3, 1e4]  # features whose units differ
ACTIVATIONS = ("relu", "erf", "identity")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # before conftest.py looks, so that it keeps it


def make(n_components=50, **options):
    return HalfNetFeatures(n_components, **{"rank": 2, "epochs": 40, "random_state": 0} | options)


@pytest.fixture(scope="module", params=ACTIVATIONS)
def features(request):
    return make(activation=request.param).fit(X, Y)


@pytest.fixture
def learned():
    return make(epochs=5).fit(X, Y)


@parametrize_with_checks([HalfNetFeatures(20, epochs=3, random_state=0)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# --- Features and kernel ----------------------------------------------------------------------


def test_the_features_are_what_they_are_said_to_be(features):
    g = {"relu": lambda a: np.maximum(a, 0), "identity": lambda a: a,
         "erf": lambda a: torch.erf(torch.from_numpy(a)).numpy()}[features.activation]  # fmt: skip
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = g(scaled @ features.random_weights_) / np.sqrt(50)
    np.testing.assert_allclose(features.transform(X), expected, rtol=1e-9, atol=1e-12)


def test_the_weights_are_drawn_from_the_geometry():
    features = make(20_000).fit(X, Y)
    covariance = features.geometry_.covariance().detach().numpy()
    drawn = np.cov(features.random_weights_)
    np.testing.assert_allclose(drawn, covariance, atol=0.05 * np.abs(covariance).max())


def test_the_kernel_is_the_geometrys(features):
    geometry, scaled = features._exact(), torch.from_numpy(features.scaling_(X))
    theirs = geometry.kernel(scaled, activation=features.activation).numpy()
    np.testing.assert_allclose(features.kernel(X), theirs, rtol=1e-12)
    np.testing.assert_allclose(features.kernel(X[:9], X), theirs[:9], rtol=1e-7, atol=1e-12)
    np.testing.assert_array_equal(features.kernel(X, X), features.kernel(X))
    pair = features.kernel(X[3], X[77])
    assert isinstance(pair, float)
    assert pair == pytest.approx(theirs[3, 77], rel=1e-9)
    assert np.linalg.eigvalsh(theirs).min() > -1e-9 * theirs.max()


def test_many_rows_are_taken_a_part_at_a_time(features, monkeypatch):
    whole = features.kernel(X, X[:40])
    square = features.kernel(X)
    monkeypatch.setattr("halfnet.sklearn._features._NUMBERS", 1000)
    np.testing.assert_allclose(features.kernel(X, X[:40]), whole, rtol=1e-12)
    np.testing.assert_allclose(features.kernel(X), square, rtol=1e-7, atol=1e-12)


def test_inner_products_converge_to_the_kernel_at_the_rate_of_a_mean(features):
    """Many draws of n features: the error falls as n^-1/2, and none of it is bias."""
    rows = X[::10]
    exact = features.kernel(rows)
    counts, draws = np.array([16, 64, 256, 1024]), 40
    errors, bias = [], []
    for count in counts:
        products = np.empty((draws, *exact.shape))
        for seed in range(draws):
            drawn = features.redraw(count, random_state=seed).transform(rows)
            products[seed] = drawn @ drawn.T
        errors.append(np.sqrt(np.square(products - exact).mean()))
        bias.append(np.abs(products.mean(axis=0) - exact).mean())
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.04)
    assert bias[-1] < 3 * errors[-1] / np.sqrt(draws)
    assert errors[-1] < 0.06 * np.abs(exact).mean() + 0.06 * exact.max()


def test_redrawing_needs_no_fit_and_more_features_begin_with_the_same(learned):
    geometry = learned.geometry_.covariance().detach().clone()
    first = learned.redraw(30, random_state=4).random_weights_
    more = learned.redraw(500, random_state=4).random_weights_
    np.testing.assert_array_equal(more[:, :30], first)
    assert learned.transform(X).shape == (150, 500)
    assert learned.get_params()["n_components"] == 500
    assert len(learned.get_feature_names_out()) == 500
    other = learned.redraw(random_state=5).random_weights_
    assert other.shape == more.shape
    assert (other != more).all()
    torch.testing.assert_close(learned.geometry_.covariance(), geometry, rtol=0, atol=0)
    new = [learned.redraw(8).random_weights_ for _ in range(2)]
    assert (new[0] != new[1]).any()


def test_a_seed_makes_the_same_features():
    one, two = (make(epochs=2).fit(X, Y).transform(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    other = make(epochs=2, random_state=1).fit(X, Y).transform(X)
    assert not np.array_equal(one, other)


# --- In the place of a kernel, and of RBFSampler ----------------------------------------------


def test_kernel_machines_take_it():
    features = make().fit(X, Y)
    machine = SVC(kernel=features.kernel).fit(X, Y)
    assert machine.score(X, Y) > 0.94
    again = clone(machine).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))
    data, y = load_diabetes(return_X_y=True)
    data, y = data[:30], y[:30] / 100
    features = make(target="numbers").fit(data, y)
    slow = KernelRidge(kernel=features.kernel, alpha=0.1).fit(data, y)
    fast = KernelRidge(kernel="precomputed", alpha=0.1).fit(features.kernel(data), y)
    np.testing.assert_allclose(
        slow.predict(data[:10]), fast.predict(features.kernel(data[:10], data)), rtol=1e-5
    )


def test_a_linear_model_on_many_features_is_the_kernel_machine():
    data, y = load_diabetes(return_X_y=True)
    y = (y - y.mean()) / y.std()
    features = make(2000, target="numbers", noise="none").fit(data, y)
    linear = Ridge(alpha=0.05, fit_intercept=False).fit(features.transform(data), y)
    machine = KernelRidge(kernel="precomputed", alpha=0.05).fit(features.kernel(data), y)
    theirs = machine.predict(features.kernel(data))
    assert np.abs(linear.predict(features.transform(data)) - theirs).mean() < 0.05


def test_pipeline_clone_pickle_and_sparse_rows(learned):
    chain = make_pipeline(make(200), LogisticRegression(max_iter=1000)).fit(X, Y)
    assert chain.score(X, Y) > 0.94
    assert clone(learned).get_params() == learned.get_params()
    same = pickle.loads(pickle.dumps(learned))
    np.testing.assert_array_equal(same.transform(X), learned.transform(X))
    np.testing.assert_array_equal(same.kernel(X), learned.kernel(X))
    few = sparse.csr_array(X)
    np.testing.assert_allclose(learned.transform(few), learned.transform(X), rtol=1e-12)
    np.testing.assert_allclose(learned.kernel(few), learned.kernel(X), rtol=1e-12)


def test_frames_and_weights():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.astype(np.float32), columns=["a", "b", "c", "d"])
    features = make(3, epochs=2).set_output(transform="pandas").fit(frame, Y)
    out = features.transform(frame)
    assert list(out.columns) == ["halfnetfeatures0", "halfnetfeatures1", "halfnetfeatures2"]
    assert (out.dtypes == np.float32).all()
    assert features.kernel(frame).shape == (150, 150)
    assert SVC(kernel=features.kernel).fit(frame.to_numpy(), Y).score(frame.to_numpy(), Y) > 0.5
    weights = np.tile([1.0, 0.0, 1.0], 50)
    with sklearn.config_context(enable_metadata_routing=True):
        chain = make_pipeline(make(epochs=2).set_fit_request(sample_weight=True), PCA())
        chain.fit(X, Y, sample_weight=weights)
    plain = make(epochs=2).fit(X[weights > 0], Y[weights > 0])
    np.testing.assert_allclose(chain[0].random_weights_, plain.random_weights_)


# --- What it refuses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components: expected an integer from 1 .*got 0"),
        ({"n_components": 2.5}, "n_components: expected an integer"),
        ({"activation": "tanh"}, "activation: expected one of 'relu', 'erf', 'identity'"),
        ({"rank": 5}, "rank: expected an integer from 0 to 4"),
        ({"target": "numbers", "noise": "white"}, "noise: expected one of"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(halfnet.HalfnetError, match=message):
        make(**options).fit(X, Y)


def test_bad_data(learned):
    for call in (lambda f: f.kernel(X), lambda f: f.transform(X), lambda f: f.redraw(3)):
        with pytest.raises(NotFittedError):
            call(make())
    with pytest.raises(halfnet.HalfnetError, match="Y: expected 4 features as in fit, got 3"):
        learned.kernel(X, X[:, :3])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        learned.kernel(X * np.nan)
    weights = learned.random_weights_.copy()
    for bad in ({"n_components": -1}, {"random_state": "x"}):
        with pytest.raises(ValueError, match=next(iter(bad)) + "|cannot be used to seed"):
            learned.redraw(**bad)
        np.testing.assert_array_equal(learned.random_weights_, weights)
        assert learned.n_components == 50


def test_the_docstrings_example_runs():
    runner = doctest.DocTestRunner()
    names = {"HalfNetFeatures": HalfNetFeatures}
    for example in doctest.DocTestFinder(recurse=False).find(HalfNetFeatures, globs=names):
        runner.run(example)
    assert runner.tries > 5
    assert runner.failures == 0
