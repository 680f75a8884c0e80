"""The metric view: a Mahalanobis distance, its methods, and scikit-learn's own checks."""

import doctest
import pickle

import numpy as np
import pytest
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.spatial.distance import cdist, mahalanobis
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import halfnet
from halfnet.sklearn import HalfNetMetric

X, Y = load_iris(return_X_y=True)
X = X * [1, 10, 0.1, 1000] + [0, 5, -3, 1e4]  # features whose units differ
D = X.shape[1]
NOISES = ("learned", "fixed", "none")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # before conftest.py looks, so that it keeps it


def make(**options):
    return HalfNetMetric(**{"rank": 2, "epochs": 40, "random_state": 0} | options)


@pytest.fixture(scope="module", params=NOISES)
def metric(request):
    return make(noise=request.param).fit(X, Y)


@pytest.fixture(scope="module")
def learned():
    return make().fit(X, Y)


@parametrize_with_checks([HalfNetMetric(epochs=3, random_state=0)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# --- The matrix, the components, and the distances --------------------------------------------


def test_the_matrix_is_the_geometrys_covariance_in_the_coordinates_of_x(metric):
    covariance = metric.geometry_.covariance().detach().double().numpy()
    deviations = X.std(axis=0)
    np.testing.assert_allclose(
        metric.get_mahalanobis_matrix(), covariance / np.outer(deviations, deviations), rtol=1e-6
    )


def test_components_are_exact_orthogonal_and_sorted(metric):
    components = metric.components_
    assert components.shape == ((2, D) if metric.noise == "none" else (D, D))
    matrix = metric.get_mahalanobis_matrix()
    np.testing.assert_allclose(components.T @ components, matrix, rtol=1e-12)
    np.testing.assert_array_equal(matrix, matrix.T)
    rows = components @ components.T
    lengths = np.diag(rows)
    assert (np.diff(lengths) <= 0).all()
    np.testing.assert_allclose(rows, np.diag(lengths), atol=1e-12 * lengths[0])
    assert np.linalg.matrix_rank(components * X.std(axis=0)) == len(components)


def test_the_first_columns_are_the_best_approximation(learned):
    exact = learned.get_mahalanobis_matrix()
    first = learned.components_[:2]
    values = np.linalg.eigvalsh(exact)
    error = np.linalg.norm(exact - first.T @ first, 2)
    assert error == pytest.approx(values[-3], rel=1e-6)


def test_distances_are_scipys_and_those_of_the_transform(metric):
    embedded = metric.transform(X)
    matrix = metric.get_mahalanobis_matrix()
    distances = cdist(embedded, embedded)
    pairs = [(0, 1), (3, 70), (10, 149), (60, 60)]
    ours = metric.pair_distance(X[np.array(pairs)])
    function = metric.get_metric()
    for (i, j), distance in zip(pairs, ours, strict=True):
        scipys = mahalanobis(X[i], X[j], matrix)
        assert distance == pytest.approx(scipys, rel=1e-9, abs=1e-12)
        assert distances[i, j] == pytest.approx(distance, rel=1e-9, abs=1e-11)
        assert function(X[i], X[j]) == pytest.approx(distance, rel=1e-12)
        assert function(X[i], X[j], squared=True) == pytest.approx(distance**2, rel=1e-12)
    with_matrix = cdist(X[:20], X, metric="mahalanobis", VI=matrix)
    np.testing.assert_allclose(distances[:20], with_matrix, rtol=1e-8, atol=1e-10)


def test_it_is_the_geometrys_distance_of_scaled_rows(learned):
    scaled = torch.from_numpy(learned.scaling_(X))
    B, sigma = learned.geometry_.B.double(), learned.geometry_.sigma.double()
    theirs = halfnet.Geometry(B, sigma).distance(scaled[0], scaled).detach().numpy()
    pairs = np.stack([np.broadcast_to(X[0], X.shape), X], axis=1)
    np.testing.assert_allclose(learned.pair_distance(pairs), theirs, rtol=1e-9, atol=1e-11)


finite = st.floats(-1e6, 1e6, width=32)
vectors = arrays(np.float64, (3, D), elements=finite)


@settings(max_examples=60, deadline=None)
@given(vectors)
def test_the_axioms_of_a_metric(learned, points):
    a, b, c = points
    d = learned.get_metric()
    scale = d(a, b) + d(b, c) + 1e-300
    assert d(a, b) >= 0
    assert d(a, a) == 0
    assert d(a, b) == d(b, a)
    assert d(a, c) <= d(a, b) + d(b, c) + 1e-12 * scale
    if (a != b).any():  # its matrix has full rank, so no two points are one
        smallest = np.linalg.svd(learned.components_, compute_uv=False)[-1]
        assert d(a, b) >= 0.999 * smallest * np.linalg.norm(a - b) > 0
    assert d(a + c, b + c) == pytest.approx(d(a, b), rel=1e-6, abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(vectors, st.floats(-100, 100))
def test_pairs_and_functions_agree_and_lengths_scale(learned, points, factor):
    a, b, _ = points
    one, far = learned.pair_distance([[a, b], [a, a + factor * (b - a)]])
    assert one == pytest.approx(learned.get_metric()(a, b), rel=1e-12)
    assert far == pytest.approx(abs(factor) * one, rel=1e-6, abs=1e-6)
    matrix = learned.get_mahalanobis_matrix()
    assert one == pytest.approx(mahalanobis(a, b, matrix), rel=1e-7, abs=1e-9)


def test_scores_are_minus_distances(learned):
    pairs = np.stack([X[:10], X[50:60]], axis=1)
    distances = learned.pair_distance(pairs)
    assert distances.shape == (10,)
    np.testing.assert_array_equal(learned.pair_score(pairs), -distances)
    np.testing.assert_array_equal(learned.score_pairs(pairs), distances)


def test_the_function_keeps_what_was_learned_and_can_be_pickled():
    metric = make(epochs=2).fit(X, Y)
    function = metric.get_metric()
    before = function(X[0], X[1])
    metric.set_params(random_state=5).fit(X, Y)
    assert metric.get_metric()(X[0], X[1]) != before
    assert pickle.loads(pickle.dumps(function))(X[0], X[1]) == before == function(X[0], X[1])


# --- What it is for ---------------------------------------------------------------------------


def test_neighbours_are_found_by_what_matters():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 400)
    noisy = random.normal(size=(400, 12)) * 3
    noisy[:, 4] = 2.0 * y + 0.5 * random.normal(size=400)
    plain = KNeighborsClassifier()
    informed = make_pipeline(make(rank=2), KNeighborsClassifier())
    before = cross_val_score(plain, noisy, y, cv=3).mean()
    after = cross_val_score(informed, noisy, y, cv=3).mean()
    assert before < 0.85
    assert after > 0.93
    matrix = make().fit(noisy, y).get_mahalanobis_matrix()
    assert np.diag(matrix * noisy.var(axis=0)).argmax() == 4


def test_numbers_as_targets():
    data, y = load_diabetes(return_X_y=True)
    metric = make(target="numbers", noise="none", epochs=10).fit(data, y)
    assert metric.components_.shape == (2, 10)
    both = make(target="numbers", epochs=2).fit(data, np.stack([y, -y], axis=1))
    assert both.transform(data).shape == data.shape
    with pytest.raises(halfnet.HalfnetError, match="y: expected classes, got continuous"):
        make().fit(data, y / 7)


def test_grid_search_clone_pickle_and_sparse_rows(learned):
    search = GridSearchCV(
        make_pipeline(make(epochs=2), KNeighborsClassifier()), {"halfnetmetric__rank": [1, 2]}, cv=2
    )
    assert search.fit(X, Y).best_params_["halfnetmetric__rank"] in (1, 2)
    copy = clone(learned)
    assert copy.get_params() == learned.get_params()
    assert not hasattr(copy, "components_")
    same = pickle.loads(pickle.dumps(learned))
    np.testing.assert_array_equal(same.transform(X), learned.transform(X))
    few = sparse.csr_array(X)
    np.testing.assert_allclose(learned.transform(few), learned.transform(X), rtol=1e-12)
    other = make().fit(few, Y)
    np.testing.assert_allclose(other.components_, learned.components_, rtol=1e-4, atol=1e-8)


def test_precision_and_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.astype(np.float32), columns=["a", "b", "c", "d"])
    metric = make(epochs=2).set_output(transform="pandas").fit(frame, Y)
    assert metric.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    out = metric.transform(frame)
    assert list(out.columns) == [f"halfnetmetric{i}" for i in range(4)]
    assert (out.dtypes == np.float32).all()
    assert metric.components_.dtype == np.float64
    with pytest.raises(ValueError, match="feature names should match"):
        metric.transform(frame.rename(columns={"a": "z"}))


def test_sample_weights_are_routed():
    weights = np.tile([1.0, 0.0, 1.0], 50)
    with sklearn.config_context(enable_metadata_routing=True):
        metric = make(epochs=2).set_fit_request(sample_weight=True)
        chain = make_pipeline(metric, KNeighborsClassifier())
        weighted = chain.fit(X, Y, sample_weight=weights)[0].components_
    plain = make(epochs=2).fit(X[weights > 0], Y[weights > 0])
    np.testing.assert_allclose(plain.components_, weighted)


# --- What it refuses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "both"}, r"target: expected one of 'classes', 'numbers', got 'both'"),
        ({"rank": 5}, r"rank: expected an integer from 0 to 4 .*got 5"),
        ({"rank": 0, "noise": "none"}, r"rank: expected .* 1"),
        ({"noise": "pink"}, "noise: expected one of"),
        ({"epochs": 0}, "epochs: expected"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(halfnet.HalfnetError, match=message):
        make(**options).fit(X, Y)


def test_bad_data(learned):
    with pytest.raises(NotFittedError):
        make().pair_distance([[X[0], X[1]]])
    with pytest.raises(NotFittedError):
        make().get_metric()
    with pytest.raises(NotFittedError):
        make().get_mahalanobis_matrix()
    with pytest.raises(ValueError, match="class"):
        make().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"[Ss]ample.weight"):
        make().fit(X, Y, sample_weight=np.zeros(len(X)))
    with pytest.raises(
        halfnet.HalfnetError, match=r"pairs: expected shape \(n, 2, 4\), got \(150, 4\)"
    ):
        learned.pair_distance(X)
    with pytest.raises(halfnet.HalfnetError, match=r"pairs: expected shape \(n, 2, 4\)"):
        learned.pair_score(np.zeros((3, 2, 5)))
    with pytest.raises(ValueError, match="NaN"):
        learned.pair_distance([[X[0], X[1] * np.nan]])
    with pytest.raises(halfnet.HalfnetError, match="v: expected a vector of 4 numbers"):
        learned.get_metric()(X[0], X[:2])


def test_the_docstrings_example_runs():
    runner = doctest.DocTestRunner()
    names = {"HalfNetMetric": HalfNetMetric}
    for example in doctest.DocTestFinder(recurse=False).find(HalfNetMetric, globs=names):
        runner.run(example)
    assert runner.tries > 5
    assert runner.failures == 0
