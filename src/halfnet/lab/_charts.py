"""The figures of the page: inline SVG whose colours are the page's, and what to say on hovering.

Whatever has `data-tip` shows that text when it is pointed at; what has the same `data-row` lights
up together.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from halfnet.lab import _layout, _results, _series, _wording
from halfnet.lab._layout import Box
from halfnet.lab._results import Result
from halfnet.lab._series import Band, Spectrum
from halfnet.lab._spectra import PAPER_DIRECTIONS
from halfnet.lab._tables import Comparison, Line
from halfnet.lab.specs import Score

_BESIDE = 4.0
"""How far the paper's points stand to the left and ours to the right."""
_LETTER, _LINE = 7.2, 14.0
_COLUMNS = 60
"""At most so many places along an axis answer to the pointer."""

Point = tuple[float, float]


def identity(comparison: Comparison, line: Line) -> str:
    """Return the name of a row in the page."""
    return f"{_results.slug(comparison.key)}--{_results.slug(line.name)}"


@dataclass(frozen=True)
class _Panel:
    """A frame with axes."""

    frame: Box
    across: tuple[float, float]
    up: tuple[float, float]
    log: bool = False

    def x(self, value: float) -> float:
        """Return where a value lies along the horizontal axis."""
        low, high = self.across
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        left, right = self.frame.left, self.frame.right
        return left + (value - low) / (high - low) * (right - left)

    def y(self, value: float) -> float:
        """Return where a value lies along the vertical axis."""
        low, high = self.up
        return self.frame.bottom - (value - low) / (high - low) * (
            self.frame.bottom - self.frame.top
        )

    def axes(self, across: Iterable[float], up: Iterable[float], label: str) -> str:
        """Draw ticks, and what the horizontal axis shows."""
        left, top, right, bottom = self.frame
        parts = []
        for value in up:
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
            parts.append(_text(left - 7, y + 4, f"{value:g}", "tick", "end"))
        for value in across:
            x = self.x(value)
            parts.append(f'<path class="grid" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
            parts.append(_text(x, bottom + 17, f"{value:,.0f}", "tick"))
        parts.append(f'<path class="axis" d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"/>')
        parts.append(_text((left + right) / 2, bottom + 35, label, "label"))
        return "".join(parts)

    def points(self, values: Sequence[float]) -> list[Point]:
        """Return the points of a curve over 1, 2, ..."""
        return [(self.x(i), self.y(value)) for i, value in enumerate(values, 1)]

    def band(self, band: Band, style: str) -> str:
        """Draw a curve over 1, 2, ... with what lies one standard deviation to its sides."""
        around = self.points(band.high) + self.points(band.low)[::-1]
        return (
            f'<g class="{style}"><path class="band" d="{_path(around)}Z"/>'
            f'<path class="curve" d="{_path(self.points(band.mean))}"/></g>'
        )

    def columns(self, tips: Sequence[str]) -> str:
        """Draw what answers to the pointer at 1, 2, ..., nothing to be seen before."""
        step = math.ceil(len(tips) / _COLUMNS)
        width = (self.x(2) - self.x(1)) * step
        top, height = self.frame.top, self.frame.bottom - self.frame.top
        return "".join(
            f'<rect class="column" x="{self.x(i + 1) - width / 2:.1f}" y="{top:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}" data-tip="{escape(tips[i])}"/>'
            for i in range(0, len(tips), step)
        )


def _text(x: float, y: float, text: str, style: str, anchor: str = "middle") -> str:
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _path(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _svg(
    width: float, height: float, style: str, label: str, content: str, role: str = "img"
) -> str:
    return (
        f'<svg class="{style}" viewBox="0 0 {width:g} {height:g}" role="{role}" '
        f'aria-label="{escape(label)}">{content}</svg>'
    )


# --- Test accuracy against parameters --------------------------------------------------------


def accuracy(comparison: Comparison) -> str:
    """Draw a table's test accuracies against parameters, for a wide and for a narrow screen."""
    label = f"Test accuracy against parameters: {comparison.title}"
    return "".join(
        _svg(width, height, f"chart {style}", label, _accuracy(comparison, width, height), "group")
        for style, width, height in (("wide", 780.0, 420.0), ("narrow", 350.0, 360.0))
    )


def _accuracy(comparison: Comparison, width: float, height: float) -> str:
    frame = Box(44, 12, width - 10, height - 44)
    across, up = _series.params_range(comparison), _series.accuracy_range(comparison)
    panel = _Panel(frame, across, up, log=True)
    joined = [path for sweep in _series.sweeps(comparison) for path in _joined(panel, sweep)]
    marks = [_marks(panel, line) for line in comparison.lines]
    anchors = [own[-1] for own in marks]
    boxes = _layout.place_labels(
        anchors,
        [(len(line.name) * _LETTER + 6, _LINE) for line in comparison.lines],
        Box(frame.left + 2, frame.top, frame.right, frame.bottom - 2),
        [box for own in marks for box in own[:-1]],
        [points for _, points in joined],
    )
    return "".join(
        [
            panel.axes(
                _layout.log_ticks(*across, 8 if width > 500 else 4),
                _layout.ticks(*up, 8),
                "learned parameters (logarithmic)",
            ),
            *(f'<path class="{style}" d="{_path(points)}"/>' for style, points in joined),
            *(
                _row(panel, comparison, line, anchor, box)
                for line, anchor, box in zip(comparison.lines, anchors, boxes, strict=True)
            ),
        ]
    )


def _joined(panel: _Panel, sweep: Sequence[Line]) -> list[tuple[str, list[Point]]]:
    """Return the lines through the paper's points and through ours, with their styles."""
    paths: dict[int, list[Point]] = {-1: [], 1: []}
    for line in sweep:
        for score, side in _series.scores(line):
            paths[side].append((panel.x(line.params) + side * _BESIDE, panel.y(score.mean)))
    styles = {-1: "join paper", 1: f"join {_series.HALF}"}
    return [(styles[side], points) for side, points in paths.items() if len(points) > 1]


def _marks(panel: _Panel, line: Line) -> list[Box]:
    """Return what the paper's point and then ours cover with their bars."""
    return [
        Box(x - 5, panel.y(score.mean + score.std) - 5, x + 5, panel.y(score.mean - score.std) + 5)
        for score, side in _series.scores(line)
        for x in [panel.x(line.params) + side * _BESIDE]
    ]


def _row(panel: _Panel, comparison: Comparison, line: Line, anchor: Box, box: Box) -> str:
    """Draw a row: its points with bars, its name, and a line between them if they are apart."""
    x, found = panel.x(line.params), _series.scores(line)
    heights = [panel.y(score.mean) for score, _ in found]
    parts = [f'<path class="tie" d="M{x:.1f} {heights[0]:.1f}V{heights[-1]:.1f}"/>']
    start = box.nearest(*anchor.centre)
    end = anchor.nearest(*start)
    if math.dist(start, end) > 7:
        parts.append(f'<path class="lead" d="{_path((start, end))}"/>')
    parts += [_point(panel, x + side * _BESIDE, score, side) for score, side in found]
    (middle, centre) = box.centre
    parts.append(_text(middle, centre + 4, line.name, "name"))
    top, bottom = min(heights) - 11, max(heights) + 11
    parts.append(
        f'<rect class="hit" x="{x - 12:.1f}" y="{top:.1f}" width="24" height="{bottom - top:.1f}"/>'
    )
    tip = escape(_wording.summary_of(line))
    return (
        f'<g class="point {_series.family(line)}" tabindex="0" role="img" aria-label="{tip}" '
        f'data-row="{escape(identity(comparison, line))}" data-tip="{tip}">{"".join(parts)}</g>'
    )


def _point(panel: _Panel, x: float, score: Score, side: int) -> str:
    y, low, high = (panel.y(score.mean + part * score.std) for part in (0, -1, 1))
    bar = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 3:.1f} {low:.1f}h6M{x - 3:.1f} {high:.1f}h6"
    style = "paper" if side < 0 else "ours"
    return f'<g class="{style}"><path d="{bar}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="4.4"/></g>'


# --- Training curves -------------------------------------------------------------------------


def curves(comparison: Comparison) -> list[tuple[Line, str]]:
    """Draw loss and accuracy over the epochs of each row of a table that has them, on one scale."""
    results = [
        (line, line.result)
        for line in comparison.lines
        if line.result is not None and line.result.epochs > 1
    ]
    bands = [[_series.band(result.curves[key]) for key in _CURVES] for _, result in results]
    ranges = [
        _layout.padded([end for band in found for end in (*band.low, *band.high)], 0.04)
        for found in zip(*bands, strict=True)
    ]
    return [
        (line, _curves(comparison, line, result, own, ranges))
        for (line, result), own in zip(results, bands, strict=True)
    ]


_CURVES = ("loss", "accuracy")


def _curves(
    comparison: Comparison,
    line: Line,
    result: Result,
    bands: Sequence[Band],
    ranges: Sequence[tuple[float, float]],
) -> str:
    tips = [
        f"{line.name} · epoch {epoch}\nloss {loss:.3f}\naccuracy {accuracy:.2f}"
        for epoch, (loss, accuracy) in enumerate(zip(bands[0].mean, bands[1].mean, strict=True), 1)
    ]
    parts = []
    for i, (band, up) in enumerate(zip(bands, ranges, strict=True)):
        panel = _Panel(Box(36 + 170 * i, 22, 160 + 170 * i, 118), (1, result.epochs), up)
        parts += [
            panel.axes((1, result.epochs), _layout.ticks(*up, 4), "epoch"),
            _text(panel.frame.left, 12, _CURVES[i], "label", "start"),
            panel.band(band, _series.family(line)),
            panel.columns(tips),
        ]
    label = f"Training curves: {comparison.title}, {line.name}"
    return _svg(340, 156, "chart", label, "".join(parts))


# --- Spectra ---------------------------------------------------------------------------------


def spectrum(spectra: Sequence[Spectrum]) -> list[tuple[str, str]]:
    """Draw the spectra's three panels, each with its title."""
    shown = zip(
        _series.SPECTRUM_PANELS,
        (
            [(item, item.values) for item in spectra],
            [(item, item.energy) for item in spectra],
            [(item, item.axes) for item in spectra if item.axes is not None],
        ),
        strict=True,
    )
    return [
        (title, _svg(360, 290, "chart", title, _spectrum(bands, title)))
        for title, bands in shown
        if bands
    ]


def _spectrum(bands: Sequence[tuple[Spectrum, Band]], title: str) -> str:
    most = max(len(band.mean) for _, band in bands)
    panel = _Panel(Box(40, 10, 350, 246), (0, most + 1), (0, 1.03))
    parts = [panel.axes(_layout.ticks(0, most, 7), _layout.ticks(0, 1, 6), "direction")]
    parts += [panel.band(band, f"spectrum-{spectrum_index(item)}") for item, band in bands]
    if title == _series.SPECTRUM_PANELS[1]:
        for fraction, count in bands[0][0].leading():
            corner = ((0, fraction), (count, fraction), (count, 0))
            points = [(panel.x(x), panel.y(y)) for x, y in corner]
            parts.append(f'<path class="mark" d="{_path(points)}"/>')
            parts.append(_text(panel.x(count) + 4, panel.y(0) - 5, f"{count}", "name", "start"))
        if bands[0][0].name == _series.PAPER_ROW:
            circles = (
                f'<circle cx="{panel.x(count):.1f}" cy="{panel.y(fraction):.1f}" r="4"/>'
                for fraction, count in PAPER_DIRECTIONS.items()
            )
            parts.append(f'<g class="paper">{"".join(circles)}</g>')
    tips = [
        "\n".join(
            [f"direction {i + 1}"]
            + [f"{item.name}: {band.mean[i]:.3f}" for item, band in bands if i < len(band.mean)]
        )
        for i in range(most)
    ]
    return "".join([*parts, panel.columns(tips)])


def spectrum_index(item: Spectrum) -> int:
    """Return the number of a spectrum's colour."""
    return _series.SPECTRUM_ROWS.index(item.name)
