"""The paper's figures by matplotlib, as SVG and PNG that are the same bytes in every run."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from halfnet._style import INK, STYLE
from halfnet.lab import _layout, _results, _series
from halfnet.lab._layout import Box
from halfnet.lab._series import Band, Spectrum
from halfnet.lab._spectra import PAPER_DIRECTIONS
from halfnet.lab._tables import Comparison, Line

_PAPER = "#7d8592"
COLOURS = {
    _series.HALF: "#1d5fd1",
    _series.HALF_FRONT: "#7b3fc4",
    _series.LOW_RANK: "#0d7a6b",
    _series.DENSE: "#c2500a",
}
_SPECTRUM_COLOURS = ("#c2500a", "#7fabf5", "#3f7de6", "#123f94")
_BESIDE = 2.6
"""How far the paper's points stand to the left and ours to the right, in points."""


def name_of(comparison: Comparison) -> str:
    """Return the name of a table's figure: that of a table of the user's own begins with own-."""
    return ("" if comparison.number else "own-") + _results.slug(comparison.key)


def write(comparisons: Sequence[Comparison], folder: Path) -> list[str]:
    """Draw every figure that there is something for, and return their names.

    Raises:
        HalfnetError: One of them cannot be written.
    """
    drawn = {name_of(comparison): accuracy(comparison) for comparison in comparisons}
    if found := _series.spectra(comparisons):
        drawn["spectrum"] = spectrum(found)
    for name, figure in drawn.items():
        for kind in ("svg", "png"):
            _results.write_atomically(folder / f"{name}.{kind}", _encoded(figure, kind))
    return list(drawn)


def _encoded(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with rc_context(STYLE):
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()


# --- Test accuracy against parameters --------------------------------------------------------


def accuracy(comparison: Comparison) -> Figure:
    """Draw a table: test accuracy against parameters, the paper's points beside ours."""
    with rc_context(STYLE):
        figure = Figure(figsize=(7.6, 4.6), layout="constrained")
        axes = figure.add_subplot()
        for sweep in _series.sweeps(comparison):
            _join(axes, sweep)
        for line in comparison.lines:
            _points(axes, line)
        _frame(axes, comparison)
        _legend(axes, comparison)
        _label(figure, axes, comparison)
    return figure


def _beside(axes: Axes, points: float) -> Any:
    figure = axes.get_figure()
    assert figure is not None
    return axes.transData + ScaledTranslation(points / 72, 0, figure.dpi_scale_trans)


def _join(axes: Axes, sweep: Sequence[Line]) -> None:
    """Connect the rows of a sweep, the paper's and ours."""
    papers = [(line.params, line.paper.test.mean) for line in sweep if line.paper]
    ours = [(line.params, line.result.test_score.mean) for line in sweep if line.result]
    if papers:
        axes.plot(
            *zip(*papers, strict=True),
            color=_PAPER,
            linewidth=0.9,
            linestyle=(0, (3, 3)),
            transform=_beside(axes, -_BESIDE),
        )
    if ours:
        axes.plot(
            *zip(*ours, strict=True),
            color=COLOURS[_series.HALF],
            linewidth=1.2,
            alpha=0.55,
            transform=_beside(axes, _BESIDE),
        )


def _points(axes: Axes, line: Line) -> None:
    style: dict[str, Any] = {"fmt": "o", "elinewidth": 1.1, "capsize": 2.2, "capthick": 1.1}
    if line.paper:
        axes.errorbar(
            line.params,
            line.paper.test.mean,
            line.paper.test.std,
            markersize=5.0,
            color=_PAPER,
            markerfacecolor="white",
            transform=_beside(axes, -_BESIDE),
            zorder=3,
            **style,
        )
    if line.result:
        score = line.result.test_score
        axes.errorbar(
            line.params,
            score.mean,
            score.std,
            markersize=5.5,
            color=COLOURS[_series.family(line)],
            transform=_beside(axes, _BESIDE),
            zorder=4,
            **style,
        )
    if line.paper and line.result:
        ends = [line.paper.test.mean, line.result.test_score.mean]
        axes.plot([line.params] * 2, ends, color=_PAPER, linewidth=0.8, zorder=2)


def _frame(axes: Axes, comparison: Comparison) -> None:
    low, high = _series.params_range(comparison)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(_series.accuracy_range(comparison))
    marks = _layout.log_ticks(low, high, 8)
    axes.set_xticks(marks, labels=[f"{mark:,.0f}" for mark in marks])
    axes.minorticks_off()
    axes.tick_params(length=0)
    axes.set_xlabel("learned parameters (logarithmic)")
    axes.set_ylabel("test accuracy, %")
    number = f"{comparison.number}  " if comparison.number else ""
    axes.set_title(number + comparison.title, color=INK, pad=30)


def _legend(axes: Axes, comparison: Comparison) -> None:
    shown = {_series.family(line) for line in comparison.lines if line.result}
    handles = [_handle(COLOURS[kind], name) for kind, name in _series.FAMILIES.items()
               if kind in shown]  # fmt: skip
    if any(line.paper for line in comparison.lines):
        handles.insert(0, _handle(_PAPER, "the paper", markerfacecolor="white"))
    axes.legend(
        handles=handles,
        ncols=len(handles),
        loc="lower left",
        bbox_to_anchor=(-0.012, 1.0),
        borderaxespad=0.2,
        handletextpad=0.2,
        columnspacing=1.2,
        labelcolor=INK,
    )


def _handle(colour: str, name: str, **style: Any) -> Line2D:
    return Line2D([], [], color=colour, marker="o", linestyle="", label=name, **style)


def _label(figure: Figure, axes: Axes, comparison: Comparison) -> None:
    """Write each row's name where it hides nothing."""
    figure.draw_without_rendering()  # the layout is made now, and kept
    figure.set_layout_engine("none")
    texts = [
        figure.text(0, 0, line.name, ha="center", va="center", color=INK, fontsize=8, zorder=6)
        for line in comparison.lines
    ]
    sizes = [(box.width + 3, box.height) for box in (text.get_window_extent() for text in texts)]
    marks = [_marks(axes, line, figure.dpi / 72) for line in comparison.lines]
    anchors = [own[-1] for own in marks]
    frame = axes.get_window_extent()
    inner = Box(frame.x0 + 2, frame.y0 + 2, frame.x1 - 2, frame.y1 - 2)
    papers = [box for own in marks for box in own[:-1]]
    boxes = _layout.place_labels(anchors, sizes, inner, papers, _paths(axes))
    to_fraction = figure.transFigure.inverted().transform  # fractions hold at every resolution
    for text, anchor, box in zip(texts, anchors, boxes, strict=True):
        text.set(position=to_fraction(box.centre))
        start = box.nearest(*anchor.centre)
        end = anchor.nearest(*start)
        if math.dist(start, end) > 6:
            ends = zip(to_fraction(start), to_fraction(end), strict=True)
            figure.add_artist(Line2D(*ends, color="#a2a9b4", linewidth=0.7))


def _paths(axes: Axes) -> list[list[tuple[float, float]]]:
    """Return the lines that are drawn, in pixels."""
    drawn = (line.get_transform().transform(line.get_path().vertices) for line in axes.get_lines())
    return [[(float(x), float(y)) for x, y in path] for path in drawn if len(path) > 1]


def _marks(axes: Axes, line: Line, pixels: float) -> list[Box]:
    """Return what the paper's point and then ours cover with their bars, in pixels."""
    boxes = []
    for score, side in _series.scores(line):
        x, low = axes.transData.transform((line.params, score.mean - score.std))
        _, high = axes.transData.transform((line.params, score.mean + score.std))
        x += side * _BESIDE * pixels
        boxes.append(Box(x - 3.5 * pixels, low - 3 * pixels, x + 3.5 * pixels, high + 3 * pixels))
    return boxes


# --- Spectra ---------------------------------------------------------------------------------


def spectrum(spectra: Sequence[Spectrum]) -> Figure:
    """Draw singular values, cumulative energy, and the axes of the learned covariances."""
    with rc_context(STYLE):
        figure = Figure(figsize=(11.4, 4.9), layout="constrained")
        shown = 3 if any(item.axes for item in spectra) else 2
        panels = figure.subplots(1, shown)
        for item in spectra:
            colour = _SPECTRUM_COLOURS[_series.SPECTRUM_ROWS.index(item.name)]
            for axes, band in zip(panels, (item.values, item.energy, item.axes), strict=False):
                if band is not None:
                    _band(axes, band, colour, item.name)
        for axes, title in zip(panels, _series.SPECTRUM_PANELS, strict=False):
            axes.set_title(title, color=INK)
            axes.set_xlabel("direction")
            axes.set_ylim(0, 1.03)
            axes.set_xlim(0, None)
            axes.tick_params(length=0)
        _mark_energy(panels[1], spectra[0])
        if spectra[0].name == _series.PAPER_ROW:
            panels[1].plot(
                list(PAPER_DIRECTIONS.values()), list(PAPER_DIRECTIONS), "o", color=_PAPER,
                markerfacecolor="white", markersize=6, label="the paper's MLP",
            )  # fmt: skip
        panels[1].legend(loc="lower right", labelcolor=INK)
        figure.supxlabel(
            "\n".join(item.sentence() for item in spectra),
            fontsize=8.5, color=INK, linespacing=1.5, x=0.01, ha="left",
        )  # fmt: skip
    return figure


def _band(axes: Axes, shown: Band, colour: str, name: str) -> None:
    places = range(1, len(shown.mean) + 1)
    axes.fill_between(places, shown.low, shown.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(places, shown.mean, color=colour, linewidth=1.6, label=name)


def _mark_energy(axes: Axes, item: Spectrum) -> None:
    """Point out how many directions hold the fractions of energy that the paper names."""
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1], labels=["0", "20%", "40%", "60%", "80%", "100%"])
    for fraction, count in item.leading():
        axes.plot(
            [0, count, count], [fraction, fraction, 0],
            color=INK, linewidth=0.9, linestyle=(0, (2, 2)),
        )  # fmt: skip
        axes.annotate(
            f"{count}", (count, 0), (3, 4), textcoords="offset points", fontsize=8.5, color=INK
        )
