"""HalfNet of rising rank against a linear and a dense model, on scikit-learn's digits.

Prints a table and saves a plot: accuracy on held-out digits against the numbers learned.
"""

import time
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F

import halfnet

HIDDEN, SEEDS, EPOCHS, BATCH = 64, 5, 40, 64
PLOT = Path("build/digits.png")


def models():
    """Yield a series, a label and a function that makes the model."""
    yield "linear", "linear", lambda: nn.Linear(64, 10)
    for units in (8, 16, 32, 64):
        yield "dense", f"h={units}", lambda h=units: network(nn.Linear(64, h), h)
    yield "half", "random", lambda: half(rank=0, noise="fixed", affine=False)
    for rank in (0, 1, 2, 4, 8, 16):
        yield "half", f"k={rank}", lambda k=rank: half(rank=k)


def half(**options):
    return network(halfnet.HalfLinear(64, HIDDEN, **options))


def network(hidden, units=HIDDEN):
    return nn.Sequential(hidden, nn.ReLU(), nn.Linear(units, 10))


def accuracy(model, train, test):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = train
    for _ in range(EPOCHS):
        for index in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
    x, y = test
    with torch.no_grad():
        return 100 * (model(x).argmax(1) == y).float().mean().item()


def digits():
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16, labels, test_size=0.3, random_state=0, stratify=labels)
    x, x_test, y, y_test = (torch.from_numpy(part) for part in split)
    return (x.float(), y), (x_test.float(), y_test)


def run():
    """Yield series, label, learned numbers, and mean and deviation of the accuracy over seeds."""
    train, test = digits()
    for series, label, make in models():
        scores = []
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            model = make()
            scores.append(accuracy(model, train, test))
        scores = torch.tensor(scores)
        learned = sum(parameter.numel() for parameter in model.parameters())
        yield series, label, learned, scores.mean().item(), scores.std().item()


STYLES = {
    "half": ("o", "#1f6feb", f"half layer of {HIDDEN} units, rank k"),
    "dense": ("D", "#bc4c00", "dense layer of h units"),
    "linear": ("s", "#57606a", "no hidden layer"),
}


def plot(rows):
    fig, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for series, (marker, color, name) in STYLES.items():
        points = [row[1:] for row in rows if row[0] == series]
        labels, learned, mean, std = zip(*points, strict=True)
        axes.errorbar(learned, mean, std, marker=marker, capsize=3, color=color, label=name)
        above = series == "half"
        for label, x, y, error in zip(labels, learned, mean, std, strict=True):
            axes.annotate(
                label, (x, y + error if above else y - error), textcoords="offset points",
                xytext=(0, 4 if above else -12), ha="center", fontsize=8, color=color,
            )  # fmt: skip
    axes.set(xscale="log", xlabel="learned numbers", ylabel="test accuracy, %")
    ticks = [600, 1000, 2000, 3000, 5000]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_title(f"scikit-learn's digits: mean and standard deviation of {SEEDS} seeds")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(PLOT, dpi=150)


def main():
    torch.set_num_threads(1)  # such small products gain nothing from more
    start = time.perf_counter()
    rows = []
    print(f"\n{'model':14}{'learned':>8}  test accuracy, % ({SEEDS} seeds each)", flush=True)
    for series, label, learned, mean, std in run():
        rows.append((series, label, learned, mean, std))
        name = label if series == label else f"{series}, {label}"
        bar = "█" * round((mean - 90) * 4)
        print(f"{name:14}{learned:8,}  {mean:5.1f} ± {std:3.1f}  {bar}", flush=True)
    plot(rows)
    print(f"\nThe bars begin at 90%. The plot is in {PLOT}. ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
