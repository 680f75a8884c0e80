"""The table and the figure of `estimators.py`, from its JSON alone."""

import json
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from PIL import Image

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
    """Draw each data set's methods from the best down: score, its deviation, and the fit's time."""
    datasets = list(dict.fromkeys(row.dataset for row in measured))
    lines = -(-len(datasets) // 2)
    fig, panels = plt.subplots(lines, 2, figsize=(12.5, 3.9 * lines), layout="constrained")
    for axes, dataset in zip(panels.flat, datasets, strict=False):
        own = [row for row in measured if row.dataset == dataset and row.scores]
        _panel(axes, dataset, sorted(own, key=lambda row: row.score))
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(FIGURE, dpi=85)
    plt.close(fig)
    with Image.open(FIGURE) as image:  # a third of the bytes
        few = image.convert("RGB").quantize(48, dither=Image.Dither.NONE)
    few.save(FIGURE, optimize=True)


def _panel(axes: Any, dataset: str, own: list[Row]) -> None:
    factor = 1 if dataset == "diabetes" else 100
    shown = [row.score for row in own]
    best, middle = max(shown), median(shown)
    low = max(min(shown), best - 3.5 * (best - middle))  # what lies below is written at the edge
    for place, row in enumerate(own):
        colour = OURS if row.method.startswith("HalfNet") else PEER
        below = row.score < low
        axes.errorbar(
            factor * max(row.score, low), place,
            xerr=factor * stdev(row.scores) if len(row.scores) > 1 and not below else None,
            fmt="<" if below else "o", color=colour, markersize=6.5, elinewidth=1.4, alpha=0.95,
        )  # fmt: skip
        digits = 2 if factor == 1 else 1
        note = f"{_seconds(row.fit)} s" + (f"  ({factor * row.score:.{digits}f})" if below else "")
        axes.annotate(
            note, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8,
            color=INK,
        )  # fmt: skip
    axes.set_yticks(range(len(own)), [row.method for row in own], fontsize=8.5)
    for label, row in zip(axes.get_yticklabels(), own, strict=True):
        if row.method.startswith("HalfNet"):
            label.set(color=OURS, fontweight="bold")
    axes.set_title(dataset, loc="left", fontweight="bold", color=INK)
    axes.set_title("seconds a fit", loc="right", fontsize=8, color=INK)
    axes.set_xlabel("R2" if dataset == "diabetes" else "accuracy, %", fontsize=9)
    axes.tick_params(length=0)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)


def main() -> None:
    measured = rows()
    markdown = text(measured)
    print(markdown)
    figure(measured)
    if PAGE.exists():
        put_into_page(markdown)


if __name__ == "__main__":
    main()
