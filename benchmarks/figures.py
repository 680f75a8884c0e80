"""Draw the figures of docs/choosing.md, convert.md and speed.md from benchmarks/results/.

python benchmarks/figures.py
"""

import json
import math
from collections import defaultdict
from pathlib import Path
from statistics import mean

import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results"
IMAGES = Path(__file__).parent.parent / "docs" / "images"
FAN_INS = {
    "digits": 64, "mnist": 784, "fashion-mnist": 784, "mnist+standardized": 784,
    "mnist+two": 784, "mnist+conv": 2304, "cifar10-conv": 8192,
}  # fmt: skip
COLORS = ["#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#57606a"]


def results(name: str) -> list[dict]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def relative_errors(rows: list[dict]) -> dict[tuple, dict[tuple, float]]:
    """Return each setting's error over the best of its task and rank."""
    best: dict[tuple, float] = defaultdict(lambda: math.inf)
    for row in rows:
        key = (row["task"], row["rank"])
        best[key] = min(best[key], mean(row["errors"]))
    table: dict[tuple, dict[tuple, float]] = defaultdict(dict)
    for row in rows:
        key = (row["task"], row["rank"])
        table[row["sigma"], row["B"]][key] = mean(row["errors"]) / best[key]
    return table


def initial_values() -> None:
    rows = [
        row for row in results("initial_values")
        if row["kind"] == "learned" and row["epochs"] in (4, 30) and row["lr"] == 3e-3
        and row["u"] in (0, 1)
    ]  # fmt: skip
    table = relative_errors(rows)
    sigmas, Bs = [0.5, 1, 2, 4], [0.1, 0.3, 1, 3]
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    grid = [
        [math.exp(mean(map(math.log, table[sigma, B].values()))) for sigma in sigmas] for B in Bs
    ]
    left.imshow(grid, cmap="Blues", origin="lower", vmin=1, vmax=1.5)
    for i, j in ((i, j) for i in range(4) for j in range(4)):
        left.text(j, i, f"{grid[i][j]:.2f}", ha="center", va="center",
                  color="white" if grid[i][j] > 1.3 else "black")  # fmt: skip
    paper = math.exp(mean(map(math.log, table[0, 0].values())))
    left.set_xticks(range(4), sigmas)
    left.set_yticks(range(4), Bs)
    left.set(xlabel="sigma x sqrt(d)", ylabel="standard deviation of B x sqrt(d)")
    left.set_title(f"Error over the task's best; the paper's values: {paper:.2f}", fontsize=10)
    tasks = sorted({row["task"] for row in rows}, key=FAN_INS.__getitem__)
    for task in ("digits", "mnist", "mnist+conv", "cifar10-conv"):
        curve = [
            mean(v for (name, _), v in table[sigma, 0.1].items() if name == task)
            for sigma in sigmas
        ]
        right.plot(sigmas, curve, marker="o", label=f"{task}, d = {FAN_INS[task]}")
    right.set(xscale="log", xlabel="sigma x sqrt(d), with B at 0.1", ylabel="error over the best")
    right.set_xticks(sigmas, sigmas)
    right.set_xticks([], minor=True)
    right.grid(alpha=0.3)
    right.legend(frameon=False, fontsize=9)
    right.set_title("The same place at every fan-in", fontsize=10)
    fig.savefig(IMAGES / "initial_values.png", dpi=130)
    print(f"initial values: {len(rows)} settings of {len(tasks)} tasks; paper {paper:.2f}")


def rank_and_rate() -> None:
    rows = results("rank_and_rate")
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    fig, panels = plt.subplots(1, len(tasks), figsize=(12, 3.4), layout="constrained")
    for axes, task in zip(panels, tasks, strict=True):
        for lr, color in zip(sorted({row["lr"] for row in rows}), COLORS, strict=False):
            curve = [
                r for r in rows if r["task"] == task and r["lr"] == lr and r["rank"] is not None
            ]
            axes.plot([r["rank"] for r in curve], [mean(r["errors"]) for r in curve],
                      marker="o", ms=4, color=color, label=f"rate {lr:g}")  # fmt: skip
        dense = min(mean(r["errors"]) for r in rows if r["task"] == task and r["rank"] is None)
        axes.axhline(dense, color="black", ls=":", lw=1.2, label="dense, its best rate")
        ranks = sorted({row["rank"] for row in rows if row["rank"] is not None})
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(-0.4, 90)
        axes.set_xticks(ranks, ranks, fontsize=8)
        axes.set_xticks([], minor=True)
        axes.set_yscale("log")
        axes.set_title(f"{task}, d = {FAN_INS[task]}", fontsize=10)
        axes.set(xlabel="rank")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="y", which="both", labelsize=8)
        axes.grid(alpha=0.3, which="both")
    panels[0].set_ylabel("validation error, %")
    panels[-1].legend(frameon=False, fontsize=8)
    fig.savefig(IMAGES / "rank_and_rate.png", dpi=130)


def paths() -> None:
    rows = results("paths")
    fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    limits = {"train": 1, "train, no input gradient": 0.5, "inference": 0.5}
    for (mode, limit), color in zip(limits.items(), COLORS, strict=False):
        points = [row for row in rows if row["mode"] == mode]
        ratio = [row["factored"] / row["materialised"] for row in points]
        axes.scatter([row["n"] / row["m"] for row in points], ratio, s=28, color=color, label=mode)
        axes.axvline(limit * (1.04 if mode == "inference" else 1), color=color, ls="--", lw=1)
    axes.axhline(1, color="black", lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="rows / units")
    axes.set_ylabel("time factored / time materialised")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_yticks([0.05, 0.1, 0.2, 0.5, 1, 2])
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.set_title("Left of its dashed line, a layer factors", fontsize=10)
    fig.savefig(IMAGES / "paths.png", dpi=130)


def compression() -> None:
    rows = results("compression")
    tasks = {
        "mnist": "MNIST, 784-256-10",
        "fashion-mnist": "Fashion-MNIST, 784-256-10",
        "fashion-mnist+conv": "Fashion-MNIST, conv-2304-64-10",
    }
    stages = {"as it is": "replaced", "refitted": "output refitted", "fine-tuned": "fine-tuned"}
    names = {"fresh": "fresh", "moments": "moments", "lstsq": "lstsq", "svd": "truncated SVD"}
    fig, grid = plt.subplots(3, 3, figsize=(10, 9), layout="constrained")
    for line, (task, title) in zip(grid, tasks.items(), strict=True):
        dense = [row for row in rows if row["task"] == task and row["start"] == "dense"]
        for axes, (stage, label) in zip(line, stages.items(), strict=True):
            for (start, name), color in zip(names.items(), COLORS, strict=False):
                points: dict[int, list[float]] = defaultdict(list)
                for row in rows:
                    if (row["task"], row["start"]) == (task, start) and stage in row:
                        points[row["parameters"]].append(row[stage])
                sizes = sorted(points)
                means = [mean(points[size]) for size in sizes]
                low, high = ([f(points[size]) for size in sizes] for f in (min, max))
                axes.plot(sizes, means, marker="o", ms=4, color=color, label=name)
                axes.fill_between(sizes, low, high, color=color, alpha=0.15, lw=0)
            axes.axhline(mean(row["test"] for row in dense), color="black", ls="--", lw=0.8)
            axes.set_xscale("log")
            axes.set_xticks([], minor=True)
            ticks = [10_000, 20_000, 40_000, 80_000] if "conv" in task else [5_000, 15_000, 50_000]
            axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
            axes.set_title(f"{title}\n{label}", fontsize=9)
            axes.tick_params(labelsize=8)
            axes.grid(alpha=0.3)
            if stage == "fine-tuned":
                axes.set_ylim(bottom={"mnist": 86, "fashion-mnist": 80}.get(task, 84))
        line[0].set_ylabel("test accuracy, %")
    for axes in grid[-1]:
        axes.set_xlabel("learned numbers of the network")
    grid[0, 0].legend(frameon=False, fontsize=8)
    fig.savefig(IMAGES / "compression.png", dpi=130)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    initial_values()
    rank_and_rate()
    paths()
    compression()


if __name__ == "__main__":
    main()
