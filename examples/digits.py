"""HalfNet of rising rank against a linear and a dense model, on scikit-learn's digits.

Prints a table and saves a plot: accuracy on held-out digits against the numbers learned.
"""

import sys
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
    """Yield a name and a function that makes the model, from few learned numbers to many."""
    yield "random", lambda: half(rank=0, noise="fixed", affine=False)
    for rank in (0, 1, 2, 4, 8, 16):
        yield f"half, rank {rank}", lambda rank=rank: half(rank=rank)
    yield "linear", lambda: nn.Linear(64, 10)
    yield "dense", lambda: network(nn.Linear(64, HIDDEN))


def half(**options):
    return network(halfnet.HalfLinear(64, HIDDEN, **options))


def network(hidden):
    return nn.Sequential(hidden, nn.ReLU(), nn.Linear(HIDDEN, 10))


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
    """Yield name, learned numbers, and mean and standard deviation of the accuracy over seeds."""
    train, test = digits()
    for name, make in models():
        scores = []
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            model = make()
            scores.append(accuracy(model, train, test))
        scores = torch.tensor(scores)
        learned = sum(parameter.numel() for parameter in model.parameters())
        yield name, learned, scores.mean().item(), scores.std().item()


def plot(rows):
    fig, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    ranks = [row for row in rows if row[0].startswith(("half", "random"))]
    _, learned, mean, std = zip(*ranks, strict=True)
    axes.errorbar(learned, mean, std, marker="o", capsize=3, color="#1f6feb", label="half layer")
    for (name, *_), x, y in zip(ranks, learned, mean, strict=True):
        label = name.replace("half, rank ", "k=")
        axes.annotate(label, (x, y), textcoords="offset points", xytext=(6, -12), fontsize=9)
    for (name, x, y, error), marker in zip(rows[-2:], "sD", strict=True):
        color = "#57606a" if name == "linear" else "#bc4c00"
        axes.errorbar(x, y, error, marker=marker, capsize=3, color=color, ls="", label=name)
    axes.set(xscale="log", xlabel="learned numbers", ylabel="test accuracy, %")
    axes.set_title(f"Digits, 64-{HIDDEN}-10: mean and standard deviation of {SEEDS} seeds")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(PLOT, dpi=150)


def main():
    start = time.perf_counter()
    rows = []
    print(f"\n{'model':14}{'learned':>9}  accuracy, %   ({SEEDS} seeds each)", flush=True)
    for name, learned, mean, std in run():
        rows.append((name, learned, mean, std))
        bar = "#" * round((mean - 60) / 2)
        print(f"{name:14}{learned:9,}  {mean:5.1f} ± {std:3.1f}  {bar}", flush=True)
    plot(rows)
    print(f"\nThe plot is in {PLOT}. ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    sys.exit(main())
