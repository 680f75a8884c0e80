"""Draw the figures of docs/ from benchmarks/results/, and fill tables of docs/ from there.

python benchmarks/figures.py
"""

import json
import math
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

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


def fill(page: str, name: str, lines: list[str]) -> None:
    """Put lines between a page's two comments of a name."""
    path = IMAGES.parent / f"{page}.md"
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = path.read_text().partition(start)
    _, _, after = rest.partition(end)
    path.write_text("\n".join([before + start, *lines, end]) + after)


def row(*cells: object) -> str:
    return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"


def table(head: tuple[str, ...], rows: list[str]) -> list[str]:
    return ["", row(*head), "|" + "---|" * len(head), *rows, ""]


def bench() -> None:
    """Fill docs/speed.md from `halfnet bench --output build/bench`, once it is copied."""
    content = json.loads((RESULTS / "bench.json").read_text())
    targets = []
    for entry in content["targets"]:
        best, worst = f"{entry['best']:.2f}", f"{entry['worst']:.2f}"
        met = "met" if entry["met"] == entry["cases"] else f"{entry['met']} of {entry['cases']}"
        measured = worst if best == worst else f"{best} to {worst}"
        targets.append(row(entry["target"], f"{entry['limit']:.2f}", measured, met))
    fill("speed", "targets", table(("target", "at most", "measured", "cases met"), targets))
    for section, columns in {
        "step": ("half", "half, torch's products", "nn.Linear by oneDNN", "half, noise none",
                 "W = UV", "tensorly-torch", "VeRA-style"),
        "inference": ("plain", "frozen", "folded"),
        "memory": ("kept", "peak"),
        "network": ("half",),
    }.items():  # fmt: skip
        rows = []
        for record in (r for r in content["records"] if r["section"] == section):
            ms = record.get("ms", {})
            dense = ms.get("nn.Linear", ms.get("dense"))
            ratios = [record["ratios"].get(name) for name in columns]
            texts = [None if ratio is None else f"{ratio:.2f}" for ratio in ratios]
            first = [] if section == "memory" else [f"{dense:.3g}"]
            rows.append(row(record["cell"], *first, *texts))
        unit = () if section == "memory" else ("dense, ms",)
        fill("speed", section, table(("rows x inputs -> units", *unit, *columns), rows))


def structured_draw() -> None:
    """Fill docs/speed.md from benchmarks/structured_draw.py."""
    content = json.loads((RESULTS / "structured_draw.json").read_text())
    rows = content.get("speed", [])
    if rows:
        columns = tuple(rows[0]["over_dense"])[1:]
        lines = [
            row(*(f"{r[key]:,}" for key in "ndmk"), *(f"{r['over_dense'][c]:.2f}" for c in columns))
            for r in rows
        ]
        fill("speed", "structured speed", table(("rows", "d", "m", "k", *columns), lines))
    rows = content.get("accuracy", [])
    kinds = tuple(dict.fromkeys(r["draw"] for r in rows))
    errors = {(r["task"], r["rank"], r["draw"]): f"{mean(r['errors']):.2f}" for r in rows}
    cases = dict.fromkeys((r["task"], r["rank"]) for r in rows)
    lines = [row(*case, *(errors.get((*case, kind)) for kind in kinds)) for case in cases]
    fill("speed", "structured accuracy", table(("task", "rank", *kinds), lines))


def vision_transformer() -> None:
    """Draw accuracy against learned numbers, and fill docs/transformer.md."""
    found: dict[str, list[dict]] = defaultdict(list)
    searched = []
    for path in sorted((RESULTS / "vision_transformer").glob("*.json")):
        run = json.loads(path.read_text())
        if "test" in run:
            found[run["kind"]].append(run)
        else:
            searched.append(run)
    points = {kind: (runs[0], [run["test"] for run in runs]) for kind, runs in found.items()}
    fig, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    styles = {"half": ("o", COLORS[0], "half layers"), "lowrank": ("D", COLORS[1], "W = UV"),
              "dense": ("s", "black", "dense")}  # fmt: skip
    for name, (marker, color, label) in styles.items():
        for where, filled in (("all", True), ("attention", False), ("feedforward", False)):
            mine = [p for p in points.values() if (p[0]["name"], p[0]["where"]) == (name, where)]
            mine.sort(key=lambda point: point[0]["learned"])
            if not mine:
                continue
            x, y = [p[0]["learned"] for p in mine], [mean(p[1]) for p in mine]
            spread = [stdev(p[1]) if len(p[1]) > 1 else 0.0 for p in mine]
            axes.errorbar(x, y, spread, marker=marker, color=color, capsize=3, ms=6,
                          mfc=color if filled else "white", ls="-" if filled else "",
                          label=label if filled else None)  # fmt: skip
            for (run, _), a, b in zip(mine, x, y, strict=True):
                text = where if where != "all" else f"k={run['rank']}" if run["rank"] else ""
                axes.annotate(text, (a, b), textcoords="offset points", fontsize=8, color=color,
                              xytext=(9, -4), ha="left")  # fmt: skip
    axes.set(xscale="log", xlabel="learned numbers", ylabel="CIFAR-10 test accuracy, %")
    ticks = [25_000, 50_000, 100_000, 200_000, 320_000]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    seeds = max((len(scores) for _, scores in points.values()), default=0)
    axes.set_title(f"A small vision transformer: mean and deviation of {seeds} seeds", fontsize=10)
    fig.savefig(IMAGES / "vision_transformer.png", dpi=130)
    rows = [
        row(kind, f"{run['learned']:,}", f"{mean(scores):.2f}",
            f"{stdev(scores):.2f}" if len(scores) > 1 else "", len(scores),
            f"{mean(r['cpu_seconds'] for r in found[kind]) / run['epochs']:.0f}")
        for kind, (run, scores) in sorted(points.items(), key=lambda p: p[1][0]["learned"])
    ]  # fmt: skip
    head = ("model", "learned", "test, %", "deviation", "seeds", "CPU seconds an epoch")
    fill("transformer", "results", table(head, rows))
    tried = [
        row(run["kind"], f"{run['u']:g}" if run["name"] == "half" else "", f"{run['rate']:g}",
            f"{run['validation']:.2f}")
        for run in searched
    ]  # fmt: skip
    fill("transformer", "search", table(("model", "u", "rate", "validation, %"), tried))


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
    bench()
    structured_draw()
    vision_transformer()
    compression()


if __name__ == "__main__":
    main()
