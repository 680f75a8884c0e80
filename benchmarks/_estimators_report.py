"""The table and the figure of `estimators.py`, from its JSON alone."""

import json
import math
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "estimators.json"
PAGE = HERE.parent / "docs" / "estimators.md"
FIGURE = HERE.parent / "docs" / "images" / "estimators.png"
LAB_ROW = HERE.parent / "paper" / "results" / "paper" / "mnist" / "k=16.json"
LAB = "HalfNet, rank 16, the lab's recipe"
OURS, PEER, INK = "#1d5fd1", "#7d8592", "#1a1f29"


class Row(NamedTuple):
    """A method on a data set."""

    dataset: str
    method: str
    scores: list[float]
    fit: float
    predict: float
    learned: int
    keeps_rows: bool
    ranks: list[int]
    why: str | None
    """Why there are no more fits."""

    @property
    def score(self) -> float:
        return fmean(self.scores)


def rows() -> list[Row]:
    """Return what was measured, cells of one method and data set together."""
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for key, cell in json.loads(RESULTS.read_text())["cells"].items():
        dataset, method, *_ = key.split(" | ")
        together.setdefault((dataset, method), []).append(cell)
    found = []
    for (dataset, method), cells in together.items():
        fits = [fit for cell in cells for fit in cell["fits"]]
        found.append(
            Row(
                dataset,
                method,
                [fit["score"] for fit in fits],
                fmean(fit["fit"] for fit in fits) if fits else 0.0,
                fmean(fit["predict"] for fit in fits) if fits else 0.0,
                round(fmean(fit["learned"] for fit in fits)) if fits else 0,
                any(fit["keeps_rows"] for fit in fits),
                [fit["rank"] for fit in fits if isinstance(fit["rank"], int)],
                next((cell["why"] for cell in cells if cell["why"]), None),
            )
        )
    return found


# --- The table --------------------------------------------------------------------------------


def table(dataset: str, measured: list[Row]) -> str:
    """Return the methods of a data set as Markdown, the best first."""
    own = [row for row in measured if row.dataset == dataset]
    what = "R2" if dataset == "diabetes" else "accuracy, %"
    lines = [f"| {dataset} | {what} | learned | fit, s | predict, s |", "|---|---|---|---|---|"]
    lines += [_line(row) for row in sorted((r for r in own if r.scores), key=lambda r: -r.score)]
    lines += [f"| {row.method} | {row.why} | | | |" for row in own if not row.scores]
    return "\n".join(lines)


def _line(row: Row) -> str:
    factor, digits = (1, 3) if row.dataset == "diabetes" else (100, 2)
    spread = f" ± {factor * stdev(row.scores):.{digits}f}" if len(row.scores) > 1 else ""
    name = f"**{row.method}**" if row.method.startswith("HalfNet") else row.method
    if row.ranks:
        name += f" ({min(row.ranks)} to {max(row.ranks)})" if len(set(row.ranks)) > 1 else (
            f" ({row.ranks[0]})"
        )  # fmt: skip
    if row.why:
        name += f" ({len(row.scores)} fits, {row.why})"
    count = f"{row.learned:,}" + (" + rows" if row.keeps_rows else "")
    return (
        f"| {name} | {factor * row.score:.{digits}f}{spread} | {count} "
        f"| {_seconds(row.fit)} | {_seconds(row.predict)} |"
    )


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def headline(measured: list[Row]) -> str:
    """Return the lab's accuracy beside ours, and how the time of a fit compares with the MLP's."""
    by = {(row.dataset, row.method): row for row in measured if row.scores}
    ours = by["mnist", LAB]
    lab = fmean(json.loads(LAB_ROW.read_text())["test"])
    times = json.loads(RESULTS.read_text())["alternating fits, s"]
    plain, recipe, mlp = (median(times[name]) for name in ("HalfNet, rank 16", LAB, "MLP"))
    return (
        f"On MNIST `HalfNetClassifier(rank=16)` by the lab's recipe reaches "
        f"{100 * ours.score:.2f}% (mean of {len(ours.scores)} seeds; the lab's own five: "
        f"{lab:.2f}%). Fitted in turns, {len(times['MLP'])} times each, it takes {recipe:.2f} s, "
        f"`HalfNetClassifier(rank=16)` as it comes {plain:.2f} s, and `MLPClassifier` with as many "
        f"hidden units, epochs and rows a batch {mlp:.2f} s (medians): {mlp / recipe:.2f} and "
        f"{mlp / plain:.2f} times as long."
    )


def text(measured: list[Row]) -> str:
    datasets = dict.fromkeys(row.dataset for row in measured)
    return "\n\n".join([headline(measured), *(table(name, measured) for name in datasets)])


def put_into_page(markdown: str) -> None:
    """Replace what stands between the page's two marks."""
    page = PAGE.read_text()
    begin, end = "<!-- measured -->", "<!-- end of measured -->"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}\n\n{markdown.strip()}\n\n{end}{after}")


# --- The figure -------------------------------------------------------------------------------


def figure(measured: list[Row]) -> None:
    """Draw score against fit time, a panel for each data set."""
    datasets = list(dict.fromkeys(row.dataset for row in measured))
    lines = -(-len(datasets) // 2)
    fig, panels = plt.subplots(lines, 2, figsize=(12, 4.3 * lines), layout="constrained")
    for axes, dataset in zip(panels.flat, datasets, strict=False):
        own = [row for row in measured if row.dataset == dataset and row.scores]
        best = max(row.score for row in own)
        worst = sorted(row.score for row in own)[min(2, len(own) - 1)]
        low = min(worst, best - 0.02) - 0.25 * (best - worst)
        for row in own:
            mine = row.method.startswith("HalfNet")
            axes.errorbar(
                row.fit, max(row.score, low), stdev(row.scores) if len(row.scores) > 1 else None,
                fmt="o" if row.score >= low else "v", color=OURS if mine else PEER,
                markersize=7 if mine else 5.5, elinewidth=0.8, alpha=0.9, zorder=4 if mine else 3,
            )  # fmt: skip
        _names(axes, own, low)
        axes.set_xscale("log")
        axes.margins(x=0.22)
        axes.set_ylim(low - 0.03 * (best - low), best + 0.18 * (best - low))
        axes.set_title(dataset, loc="left", fontweight="bold", color=INK)
        axes.set_xlabel("seconds a fit")
        axes.set_ylabel("R2" if dataset == "diabetes" else "accuracy")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(FIGURE, dpi=85, pil_kwargs={"optimize": True})
    plt.close(fig)


def _names(axes: Any, own: list[Row], low: float) -> None:
    """Write the names beside their points, moved up or down where they would lie on each other."""
    axes.figure.canvas.draw()
    high = max(row.score for row in own)
    step = (high - low) / 15
    placed: list[tuple[float, float]] = []
    for row in sorted(own, key=lambda r: -r.score):
        x, y = math.log10(row.fit), max(row.score, low)
        while any(abs(x - a) < 0.75 and abs(y - b) < step for a, b in placed):
            y -= step
        placed.append((x, y))
        mine = row.method.startswith("HalfNet")
        axes.annotate(
            row.method, (row.fit, max(row.score, low)), (row.fit * 1.09, y), fontsize=7.5,
            va="center", color=OURS if mine else INK, fontweight="bold" if mine else "normal",
            zorder=5,
        )  # fmt: skip


def main() -> None:
    measured = rows()
    markdown = text(measured)
    print(markdown)
    figure(measured)
    if PAGE.exists():
        put_into_page(markdown)


if __name__ == "__main__":
    main()
