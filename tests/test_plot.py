"""The plots: what is drawn, on which Axes, of which sources, and what is refused."""

import doctest
import importlib.util
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import halfnet
from halfnet import plot
from halfnet.sklearn import HalfNetClassifier, HalfNetFeatures, HalfNetMetric

ROOT = Path(__file__).parent.parent
X, Y = load_digits(return_X_y=True)
X, Y = X[:300] / 16, Y[:300]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # before conftest.py looks, so that it keeps it


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture
def layer():
    return halfnet.HalfLinear(64, 10, rank=4, init=halfnet.Init(B=1.0))


@pytest.fixture(scope="module")
def estimator():
    return HalfNetFeatures(30, rank=4, epochs=20, random_state=0).fit(X, Y)


DRAW = {
    "spectrum": plot.spectrum,
    "diagonal": plot.diagonal,
    "diagonal of data": lambda source, **k: plot.diagonal(source, X=X, **k),
    "directions": plot.directions,
    "directions of data": lambda source, **k: plot.directions(source, X=X, **k),
    "embedding": lambda source, **k: plot.embedding(source, X, Y, **k),
    "kernel": lambda source, **k: plot.kernel(source, X, Y, **k),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_each_takes_and_returns_an_axes_and_draws_the_same_on_both(draw, layer):
    state = mpl.rcParams.copy()
    new = draw(layer)
    assert isinstance(new, Axes)
    assert new.get_title(loc="left")
    figure, axes = plt.subplots(1, 2, layout="constrained")
    assert draw(layer, ax=axes[1]) is axes[1]
    assert mpl.rcParams == state
    assert not axes[0].has_data()
    for kind in ("lines", "images", "texts", "patches", "collections"):
        assert len(getattr(axes[1], kind)) == len(getattr(new, kind))
    figure.canvas.draw()
    new.figure.canvas.draw()


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_layers_geometries_and_estimators_are_sources(draw, layer, estimator):
    for source in (layer.geometry, layer.double(), estimator):
        assert draw(source).has_data()
    with pytest.raises(NotFittedError):
        draw(HalfNetMetric())
    for wrong in (torch.nn.Linear(64, 3), X, None, "layer"):
        with pytest.raises(halfnet.HalfnetError, match=r"source: expected a half layer, a Geom"):
            draw(wrong)
    with pytest.raises(halfnet.HalfnetError, match=r"ax: expected a matplotlib Axes .*got list"):
        draw(layer, ax=[1])


def test_spectrum_shows_singular_values_and_energy(layer):
    ax = plot.spectrum(layer, fractions=(0.5,))
    values = layer.geometry.spectrum().detach().numpy()
    bars = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(bars, values / values[0], rtol=1e-5)
    energy = ax.lines[0].get_ydata()
    np.testing.assert_allclose(energy, np.cumsum(values**2) / np.sum(values**2), rtol=1e-5)
    assert [text.get_text() for text in ax.texts] == [f"50%: {(energy < 0.5).sum() + 1}"]


@pytest.mark.parametrize("shape", [None, (8, 8), (4, 16), (4, 4, 4)])
def test_diagonal_shows_sigmas_diagonal(layer, shape):
    image = plot.diagonal(layer, shape).images[0].get_array()
    exact = layer.geometry.covariance().diagonal().detach().numpy()
    shape = shape or (8, 8)
    np.testing.assert_allclose(image, exact.reshape(-1, *shape[-2:]).sum(0), rtol=1e-5)


def test_diagonal_of_data_counts_what_varies(layer, estimator):
    image = plot.diagonal(layer, X=X).images[0].get_array()
    exact = layer.geometry.covariance().diagonal().detach().numpy() * X.var(axis=0)
    np.testing.assert_allclose(image.ravel(), exact, rtol=1e-5)
    assert image[0, 0] == 0  # a corner that is never anything but 0
    scaled = plot.diagonal(estimator, X=X * 1.0).images[0].get_array().ravel()
    theirs = estimator.geometry_.covariance().diagonal().detach().numpy()
    np.testing.assert_allclose(scaled, theirs * estimator.scaling_(X).var(axis=0), rtol=1e-5)


def test_directions_are_singular_vectors_with_their_energy(layer):
    vectors, values, _ = np.linalg.svd(layer.B.detach().numpy())
    ax = plot.directions(layer, count=3)
    assert len(ax.images) == 3
    for place, image in enumerate(ax.images):
        drawn = np.asarray(image.get_array()).ravel()
        assert drawn.max() == pytest.approx(1)
        cosine = drawn @ vectors[:, place] / np.linalg.norm(drawn)
        assert abs(cosine) == pytest.approx(1, abs=1e-5)
    share = values**2 / (values**2).sum()
    assert [text.get_text() for text in ax.texts] == [f"{i + 1}: {share[i]:.0%}" for i in range(3)]


def test_directions_of_data_are_those_of_b_times_deviations(layer):
    vectors, _, _ = np.linalg.svd(layer.B.detach().double().numpy() * X.std(axis=0)[:, None])
    drawn = np.asarray(plot.directions(layer, X=X).images[0].get_array()).ravel()
    cosine = drawn @ vectors[:, 0] / np.linalg.norm(drawn)
    assert abs(cosine) == pytest.approx(1, abs=1e-9)


def test_colours_and_filters():
    conv = halfnet.HalfConv2d(3, 8, kernel_size=5, rank=2)
    image = plot.directions(conv).images[0].get_array()
    assert image.shape == (5, 5, 3)
    assert 0 <= image.min() <= image.max() <= 1
    assert plot.diagonal(conv).images[0].get_array().shape == (5, 5)
    many = halfnet.HalfLinear(144, 30, rank=20)
    assert len(plot.directions(many).images) == 16
    assert len(plot.directions(many, count=20).images) == 20


def test_embedding_is_along_the_leading_directions(layer, estimator):
    ax = plot.embedding(layer, X)
    points = np.asarray(ax.collections[0].get_offsets())
    vectors, values, _ = np.linalg.svd(layer.B.detach().double().numpy(), full_matrices=False)
    theirs = X @ vectors[:, :2] * values[:2]
    np.testing.assert_allclose(np.abs(points), np.abs(theirs), rtol=1e-6, atol=1e-9)
    ax = plot.embedding(estimator, X, Y.astype(str))
    assert [text.get_text() for text in ax.texts] == [str(digit) for digit in range(10)]
    middle = np.median(np.asarray(ax.collections[0].get_offsets()), axis=0)
    assert np.isfinite(middle).all()
    many = plot.embedding(layer, X, np.arange(300) % 30)
    assert len(many.texts) == 30
    target = plot.embedding(layer, X, Y + 0.5)
    assert not target.texts
    np.testing.assert_array_equal(target.collections[0].get_array(), Y + 0.5)


def test_kernel_is_sorted_by_class_and_has_cosines(layer, estimator):
    order = np.argsort(Y, kind="stable")
    ax = plot.kernel(estimator, X, Y)
    image = np.asarray(ax.images[0].get_array())
    exact = estimator.kernel(X[order])
    lengths = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(image, exact / lengths / lengths[:, None], rtol=1e-7, atol=1e-9)
    assert [label.get_text() for label in ax.get_yticklabels()] == [str(i) for i in range(10)]
    plain = plot.kernel(layer, X, activation="erf", normalize=False).images[0].get_array()
    rows = torch.from_numpy(X)
    theirs = halfnet.Geometry(layer.B.double(), layer.sigma.double()).kernel(rows, rows, "erf")
    np.testing.assert_allclose(plain, theirs.detach(), rtol=1e-6, atol=1e-9)
    assert plot.kernel(layer, X, Y, max_rows=50).images[0].get_array().shape == (50, 50)


def test_rank_path():
    path = {4: [0.9, 0.94], 1: [0.5, 0.7], 16: [0.93, 0.93]}
    ax = plot.rank_path(path)
    line = ax.containers[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), [0.6, 0.92, 0.93])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "4", "16"]
    assert not ax.texts
    with pytest.raises(halfnet.HalfnetError, match="source: expected finite scores for each rank"):
        plot.rank_path({2: [np.nan]})
    with pytest.raises(halfnet.HalfnetError, match="source: expected finite scores for each rank"):
        plot.rank_path({})
    with pytest.raises(halfnet.HalfnetError, match="rank='auto' or a mapping"):
        plot.rank_path(3)


def test_rank_path_of_an_estimator():
    model = HalfNetClassifier(rank="auto", cv=2, epochs=3, random_state=0).fit(X, Y)
    ax = plot.rank_path(model)
    means = model.rank_path_.scores.mean(axis=1)
    np.testing.assert_allclose(ax.containers[0].lines[0].get_ydata(), means)
    assert [text.get_text() for text in ax.texts] == [f"chosen: {model.rank_}"]
    with pytest.raises(NotFittedError):
        plot.rank_path(HalfNetClassifier(rank="auto"))
    with pytest.raises(halfnet.HalfnetError, match="fitted with rank='auto'"):
        plot.rank_path(HalfNetClassifier(rank=2, epochs=1).fit(X, Y))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: plot.diagonal(x, (8, 9)), r"shape: expected .* with 64 numbers .*\(8, 9\)"),
        (lambda x: plot.diagonal(x, 8), r"shape: expected \(h, w\) .*got 8"),
        (lambda x: plot.directions(x, (4, 4, 4)), r"shape: expected \(h, w\) or \(3, h, w\)"),
        (lambda x: plot.directions(x, count=5), r"count: expected an integer from 1 to 4"),
        (lambda x: plot.diagonal(halfnet.HalfLinear(7, 2, rank=1)), r"shape: expected .*got None"),
        (lambda x: plot.spectrum(halfnet.HalfLinear(64, 2, rank=0)), "rank of at least 1, got 0"),
        (lambda x: plot.embedding(halfnet.HalfLinear(64, 2, rank=1), X), "rank of at least 2"),
        (lambda x: plot.embedding(x, X[:, :3]), r"X: expected rows of 64 numbers, got shape"),
        (lambda x: plot.embedding(x, X * np.nan), r"X: expected finite numbers"),
        (lambda x: plot.embedding(x, "rows"), r"X: expected numbers, got str"),
        (lambda x: plot.embedding(x, X, Y[:5]), r"y: expected a label for each of 300 rows"),
        (lambda x: plot.kernel(x, X, activation="tanh"), "activation: expected one of"),
        (lambda x: plot.kernel(x, X, max_rows=0), "max_rows: expected an integer of at least 1"),
        (lambda x: plot.kernel(x, X * 0), "X: expected rows with a kernel above 0"),
        (
            lambda x: plot.kernel(halfnet.HalfLinear(64, 2, rank=1, binary=True), X),
            "source: expected a continuous layer, got a binary one",
        ),
        (lambda x: plot.spectrum(halfnet.Geometry(torch.zeros(4, 2))), "not 0 everywhere"),
        (lambda x: plot.spectrum(halfnet.Geometry(torch.ones(4, 2) / 0)), "finite numbers in B"),
        (lambda x: plot.spectrum(x, fractions=(1.5,)), "fraction: expected"),
    ],
)
def test_refused(call, message, layer):
    with pytest.raises(halfnet.HalfnetError, match=message):
        call(layer)
    assert not plt.get_fignums()


@pytest.mark.parametrize("name", plot.__all__)
def test_examples_run(name):
    names = {"plot": plot, "halfnet": halfnet, "torch": torch}
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder(recurse=False).find(
        getattr(plot, name), name, globs=names
    ):
        assert runner.run(example).failed == 0
    assert runner.tries > 0


def test_the_gallery_is_drawn(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "examples" / "gallery.py")
    gallery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gallery)
    monkeypatch.setattr(gallery, "EPOCHS", 3)
    monkeypatch.setattr(gallery, "SHOWN", 200)
    gallery.main(("digits",), tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert len(drawn) == 7
    for name in drawn:
        assert f"images/{name}" in page
        committed = ROOT / "docs" / "images" / name
        assert 5_000 < committed.stat().st_size < 150_000
    assert capsys.readouterr().out.count("kB") == 7
