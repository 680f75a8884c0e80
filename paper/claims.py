"""Draw the figures of docs/claims.md and fill in its tables, from paper/claims/ alone.

    python paper/claims.py

A table stands in the page between <!-- begin NAME --> and <!-- end NAME -->; the words around it
are written by hand.
"""

import json
import re
from pathlib import Path
from statistics import fmean, stdev

import matplotlib.pyplot as plt
from scipy import stats

from halfnet.lab import _results, specs

HERE = Path(__file__).parent
CLAIMS = HERE / "claims"
PAGE = HERE.parent / "docs" / "claims.md"
IMAGES = HERE.parent / "docs" / "images"
HALF, UV, DENSE, GREY = "#1f6feb", "#bc4c00", "#57606a", "#8c959f"
PRESETS = {"paper": "the paper's recipe", "cosine": "better initial values, decaying rate"}
DATASETS = {"mnist": "MNIST", "fashion": "Fashion-MNIST"}
RANKS = (0, 1, 2, 4, 8, 16, 32, 48, 64)


def result(preset, table, row):
    return _results.read(_results.place(CLAIMS, preset, table, row))


def experiment(name):
    return json.loads((CLAIMS / f"{name}.json").read_text())


def shown(values):
    """Return a mean and a standard deviation as text."""
    return f"{fmean(values):.2f} ± {stdev(values):.2f}"


def table(header, rows):
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def save(figure, name):
    figure.savefig(IMAGES / f"claims-{name}.png", dpi=110)
    plt.close(figure)


def tidy(axes):
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#d0d7de", linewidth=0.6)
    axes.set_axisbelow(True)


# --- The rank, on to the width, and W = UV ----------------------------------------------------


def ranks():
    """Draw test accuracy against learned numbers; return the table of all four sweeps."""
    figure, panels = plt.subplots(2, 2, figsize=(10, 7), layout="constrained", sharex=True)
    rows = []
    for up, (key, dataset) in zip(panels, DATASETS.items(), strict=True):
        for axes, (preset, recipe) in zip(up, PRESETS.items(), strict=True):
            _sweep(axes, preset, f"{key}-ranks")
            axes.set_title(f"{dataset}, {recipe}", fontsize=10, loc="left")
            rows += _sweep_rows(preset, f"{key}-ranks", dataset)
    panels[0, 0].legend(frameon=False, loc="lower right", fontsize=9)
    for axes in panels[1]:
        axes.set_xlabel("learned numbers")
    for axes in panels[:, 0]:
        axes.set_ylabel("test accuracy, %")
    save(figure, "ranks")
    header = ["data, recipe", "", *(f"k={k}" if k else "no B" for k in RANKS), "dense"]
    return table(header, rows)


def _sweep(axes, preset, key):
    for name, color, ranks, marker in (
        ("k={}", HALF, RANKS, "o"),
        ("W=UV k={}", UV, RANKS[1:], "s"),
    ):
        found = [result(preset, key, name.format(k)) for k in ranks]
        axes.errorbar(
            [r.params for r in found],
            [r.test_score.mean for r in found],
            [r.test_score.std for r in found],
            color=color, marker=marker, markersize=4, linewidth=1.4, capsize=2,
            label="half layer" if color == HALF else "W = UV, both learned",
        )  # fmt: skip
    dense = result(preset, key, "dense")
    axes.errorbar(
        dense.params, dense.test_score.mean, dense.test_score.std,
        color=DENSE, marker="D", markersize=5, capsize=2, linestyle="none", label="dense",
    )  # fmt: skip
    axes.axhline(dense.test_score.mean, color=DENSE, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xticks([2000, 5000, 10000, 20000, 50000], ["2k", "5k", "10k", "20k", "50k"])
    axes.xaxis.minorticks_off()
    axes.set_ylim(bottom=75 if key.startswith("fashion") else 84)
    tidy(axes)


def _sweep_rows(preset, key, dataset):
    dense = result(preset, key, "dense").test
    for name, label in (("k={}", "half"), ("W=UV k={}", "W = UV")):
        cells = []
        for k in RANKS:
            if k == 0 and label != "half":
                cells.append("-")
                continue
            cells.append(shown(result(preset, key, name.format(k)).test))
        first = f"{dataset}, {preset}" if label == "half" else ""
        yield [first, label, *cells, shown(dense) if label == "half" else ""]


# --- The geometry, and not the values -----------------------------------------------------------

REDRAWN = {
    "trained": ("as trained", DENSE, "D"),
    "trained draw, output, u, u0 refitted": ("trained draw, output, u, u0 refitted", GREY, "D"),
    "redrawn, output, u, u0 refitted": ("redrawn, output, u, u0 refitted", HALF, "o"),
    "redrawn, output refitted": ("redrawn, output refitted", "#54aeff", "o"),
    "never learned, output, u, u0 refitted": ("never learned, output, u, u0", UV, "s"),
    "never learned, output refitted": ("never learned, output", "#fb8f44", "s"),
}


def redrawn():
    """Draw what is left when the draw is another one; return the table."""
    found = {key: value for key, value in experiment("redraw").items() if key != "provenance"}
    groups = {}
    for key in found:
        dataset, preset, rank = key.split(" ")
        groups.setdefault((dataset, preset), []).append(int(rank.removeprefix("k=")))
    names = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
    groups = dict(sorted(groups.items(), reverse=True))  # the paper's data set and recipe first
    figure, panels = plt.subplots(
        1, len(groups), figsize=(11.5, 4.6), layout="constrained", squeeze=False
    )
    rows = []
    for axes, ((dataset, preset), ranks) in zip(panels[0], groups.items(), strict=True):
        ranks.sort()
        for number, (name, (label, color, marker)) in enumerate(REDRAWN.items()):
            values = [found[f"{dataset} {preset} k={k}"][name] for k in ranks]
            axes.errorbar(
                [i + 0.05 * (number - 2.5) for i in range(len(ranks))],
                [fmean(v) for v in values], [stdev(v) for v in values],
                color=color, marker=marker, markersize=4, linewidth=1.2, capsize=2, label=label,
            )  # fmt: skip
        axes.set_xticks(range(len(ranks)), [f"k={k}" if k else "no B" for k in ranks])
        axes.set_title(f"{names[dataset]}, {PRESETS[preset]}", fontsize=9.5, loc="left")
        tidy(axes)
        for k in ranks:
            case = found[f"{dataset} {preset} k={k}"]
            cells = [shown(case[name]) for name in ("redrawn, nothing refitted", *REDRAWN)]
            rows.append([f"{names[dataset]}, {preset}", f"k={k}" if k else "no B", *cells])
    panels[0, 0].set_ylabel("test accuracy, %")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save(figure, "redrawn")
    header = ["data, recipe", "rank", "redrawn, nothing refitted"]
    return table([*header, *(label for label, *_ in REDRAWN.values())], rows)


# --- The spread over draws ------------------------------------------------------------------


def spread():
    """Draw the standard deviation over twenty seeds against the rank; return the table."""
    names = [*(f"k={k}" for k in RANKS if k != 48), "dense"]
    found = [result("paper", "mnist-spread", name) for name in names]
    n = len(found[0].test)
    std = [r.test_score.std for r in found]
    low, high = ((n - 1) / stats.chi2.ppf(q, n - 1) for q in (0.975, 0.025))
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    axes.errorbar(
        range(len(names)), std,
        [[s * (1 - low**0.5) for s in std], [s * (high**0.5 - 1) for s in std]],
        color=HALF, marker="o", markersize=5, capsize=3, linestyle="none",
    )  # fmt: skip
    axes.set_xticks(range(len(names)), ["no B", *names[1:]])
    axes.set_ylim(bottom=0)
    axes.set_ylabel("standard deviation of\nthe test accuracy, %")
    axes.set_title(f"MNIST, {n} seeds, 95% intervals", fontsize=10, loc="left")
    tidy(axes)
    save(figure, "spread")
    rows = [
        ["mean", *(f"{r.test_score.mean:.2f}" for r in found)],
        ["standard deviation", *(f"{s:.2f}" for s in std)],
        ["95% interval", *(f"{s * low**0.5:.2f} - {s * high**0.5:.2f}" for s in std)],
    ]
    return table(["test accuracy, %", "no B", *names[1:]], rows)


# --- Half filters ---------------------------------------------------------------------------


def filters():
    """Return the table of Half-Half by the rank of the filters, at two learning rates."""
    names = [*(f"Half-Half k={k}/32" for k in (8, 16, 32, 64)), "Full-Half k=32"]
    rows = []
    for name in names:
        found = [result(preset, "cifar10-filters", name) for preset in ("short-slower", "short")]
        cells = [shown(scores) for r in found for scores in (r.train, r.test)]
        rows.append([name, f"{found[0].params:,}", *cells])
    recipes = [f"{part}, rate {rate}" for rate in ("1e-3", "3e-3") for part in ("training", "test")]
    return table(["network", "learned", *recipes], rows)


# --- The binary collapse ---------------------------------------------------------------------


def binary():
    """Return the table of what was tried."""
    found = {key: value for key, value in experiment("binary").items() if key != "provenance"}
    rows = [
        [
            *name.replace("|r|", "abs(r)").split("; "),  # a bar would end a cell
            shown(case["train"]),
            shown(case["test"]),
            f"{fmean(case['alike']):.2f}",
        ]
        for name, case in found.items()
    ]
    return table(["layer", "gradient", "training, %", "test, %", "likeness of units"], rows)


# --- Two half layers ---------------------------------------------------------------------------

CHANGES = {
    "as-it-is": "the recipe of the tables",
    "longer": "15 epochs",
    "smaller-batches": "batches of 64",
    "faster": "rate 2e-3",
    "larger-b": "B of deviation 0.1 at the start",
    "smaller-sigma": "sigma = 0.3 at the start",
}


def layers():
    """Return the table of what was changed in the recipe of networks of two half layers."""
    columns = [("two-layers", f"k={k}") for k in (2, 16, 32)]
    columns += [("one-layer", f"k={k}") for k in (2, 16)]
    rows = []
    for preset, change in CHANGES.items():
        found = [result(preset, *column).test for column in columns]
        rows.append([change, *map(shown, found)])
    tables = {table.key: table for table in specs.paper().tables}
    printed = []
    for key, row in columns:
        paper = tables["mnist-two" if key == "two-layers" else "mnist"].row(row).paper.test
        printed.append(f"{paper.mean:.2f} ± {paper.std:.2f}")
    header = ["", *(f"{key.replace('-', ' ')}, {row}" for key, row in columns)]
    return table(header, [["the paper", *printed], *rows])


TABLES = {
    "ranks": ranks, "redrawn": redrawn, "spread": spread, "filters": filters, "binary": binary,
    "layers": layers,
}  # fmt: skip


def filled(page):
    """Return the page with its tables as the results have them now."""

    def fill(match):
        return f"{match[1]}\n\n{TABLES[match[2]]()}\n\n{match[4]}"

    return re.sub(r"(<!-- begin (\w+) -->)(.*?)(<!-- end \2 -->)", fill, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
