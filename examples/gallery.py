"""Every plot of `halfnet.plot` on real data, as docs/gallery.md shows them.

python examples/gallery.py [folder]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_diabetes, load_digits

from halfnet import plot
from halfnet.lab import data
from halfnet.sklearn import HalfNetClassifier, HalfNetFeatures, HalfNetRegressor

NAMES = ("digits", "mnist", "fashion-mnist")
RANK, EPOCHS, SHOWN, DPI = 16, "auto", 1200, 80
FOLDER = Path(__file__).parent.parent / "docs" / "images"
CLOTHES = np.array(
    ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
)


def images(name):
    """Return images as rows of pixels from 0 to 1, and their classes."""
    found = data.load(name)
    rows = found.train_images.reshape(len(found.train_images), -1) / np.float32(found.brightest)
    labels = found.train_labels.astype(int)
    return rows.astype(np.float32), CLOTHES[labels] if name == "fashion-mnist" else labels


def fitted(X, y):
    return HalfNetClassifier(rank=RANK, epochs=EPOCHS, random_state=0).fit(X, y)


def panels(models, size, draw, *, vertical=False):
    """Return a figure with a panel for each data set."""
    shape = (len(models), 1) if vertical else (1, len(models))
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
    for ax, (name, (model, X, y)) in zip(axes.flat, models.items(), strict=True):
        draw(model, X, y, ax)
        entitle(ax, name)
    return figure


def entitle(ax, name):
    """Put the data set's name before what the plot is called."""
    ax.set_title(f"{name}: {ax.get_title(loc='left')}", loc="left", fontweight="bold", fontsize=11)


def figures(names):
    """Yield the name of each figure and the figure."""
    models = {}
    for name in names:
        X, y = images(name)
        models[name] = (fitted(X, y), X, y)
    n = len(models)
    large = {name: models[name] for name in names if models[name][1].shape[1] > 100} or models
    yield "spectrum", panels(models, (4.6 * n, 3.4), lambda m, X, y, ax: plot.spectrum(m, ax=ax))
    yield (
        "diagonal",
        panels(models, (4.3 * n, 3.6), lambda m, X, y, ax: plot.diagonal(m, X=X, ax=ax)),
    )
    yield (
        "directions",
        panels(
            large, (10, 3.2 * len(large)), lambda m, X, y, ax: plot.directions(m, X=X, ax=ax),
            vertical=True,
        ),
    )  # fmt: skip
    yield (
        "embedding",
        panels(
            models, (4.8 * n, 4.3),
            lambda m, X, y, ax: plot.embedding(m, X[:SHOWN], y[:SHOWN], ax=ax),
        ),
    )  # fmt: skip
    yield (
        "kernel",
        panels(
            models, (4.8 * n, 4.1),
            lambda m, X, y, ax: plot.kernel(m, X[:SHOWN], y[:SHOWN], max_rows=150, ax=ax),
        ),
    )  # fmt: skip
    yield "rank_path", rank_paths()
    yield "convergence", convergence()


def rank_paths():
    """Draw how a rank is chosen, on two of scikit-learn's data sets."""
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.4), layout="constrained")
    tasks = {
        "digits": (HalfNetClassifier, load_digits),
        "diabetes": (HalfNetRegressor, load_diabetes),
    }
    for ax, (name, (estimator, load)) in zip(axes, tasks.items(), strict=True):
        X, y = load(return_X_y=True)
        model = estimator(rank="auto", epochs=EPOCHS, random_state=0).fit(X, y)
        plot.rank_path(model, ax=ax)
        ax.set_ylabel("accuracy" if name == "digits" else "R2")
        entitle(ax, name)
    return figure


def errors(counts: Sequence[int], draws: int):
    """Return how far the inner products of so many features are from the kernel, on digits."""
    X, y = load_digits(return_X_y=True)
    features = HalfNetFeatures(rank=RANK, epochs=EPOCHS, random_state=0).fit(X, y)
    rows = X[:200]
    exact = features.kernel(rows)
    found = []
    for count in counts:
        squares = []
        for seed in range(draws):
            drawn = features.redraw(count, random_state=seed).transform(rows)
            squares.append(np.square(drawn @ drawn.T - exact).mean())
        found.append(np.sqrt(np.mean(squares) / np.square(exact).mean()))
    return np.array(found)


def convergence(counts=(16, 32, 64, 128, 256, 512, 1024, 2048, 4096), draws=20):
    """Draw the error of random features against their number."""
    found = errors(counts, draws)
    slope = np.polyfit(np.log(counts), np.log(found), 1)[0]
    figure, ax = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
    ax.plot(counts, found, "o", color="#1d5fd1", markersize=6, label="measured")
    line = found[0] * np.sqrt(counts[0] / np.asarray(counts))
    ax.plot(counts, line, color="#7d8592", linestyle="--", label="1 / sqrt(n)", zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="features, n")
    ax.set_ylabel("error of inner products / kernel")
    ax.set_xticks(counts, [f"{count:,}" for count in counts], fontsize=8)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5])
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    ax.set_title(f"digits: features to kernel, slope {slope:.3f}", loc="left", fontweight="bold")
    return figure


def write(figure, path):
    """Save a figure; one of many colours with 256 of them, which is a third of the bytes."""
    figure.savefig(path, dpi=DPI, pil_kwargs={"optimize": True})
    plt.close(figure)
    if path.stat().st_size > 140_000:
        with Image.open(path) as image:
            few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


def main(names=NAMES, folder=FOLDER):
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures(names):
        path = folder / f"gallery_{name}.png"
        write(figure, path)
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(folder=Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
