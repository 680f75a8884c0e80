"""Curves: the spectrum of B, and the scores of the ranks that were tried."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from halfnet._style import INK
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.lab._spectra import cumulative_energy, directions_for
from halfnet.plot._canvas import BLUE, GREY, ORANGE, Floats, canvas, title
from halfnet.plot._source import check_fitted, learned


def spectrum(
    source: Any, *, fractions: tuple[float, ...] = (0.6, 0.8), ax: Axes | None = None
) -> Axes:
    """Draw B's singular values, and how much of their energy the leading ones hold.

    Args:
        source: A half layer, a `halfnet.Geometry` or a fitted estimator.
        fractions: Of the energy; how many directions hold each is written below its curve. The
            paper's are 60% and 80%.
        ax: To draw on; None is a new figure's.

    Returns:
        The Axes.

    Examples:
        >>> ax = plot.spectrum(halfnet.HalfLinear(784, 64, rank=16))
    """
    _, values = learned(source).directions(1)
    energy = cumulative_energy(values.tolist())
    counts = {part: directions_for(values.tolist(), part) for part in fractions}
    places = np.arange(1, len(values) + 1)
    marker = "o" if len(values) <= 32 else ""
    with canvas(ax, (5.4, 3.6)) as axes:
        bars = axes.bar(places, values / values[0], width=0.72, color=BLUE, alpha=0.85)
        (line,) = axes.plot(
            places, energy, color=ORANGE, linewidth=1.6, marker=marker, markersize=4.5,
            clip_on=False, zorder=4,
        )  # fmt: skip
        for fraction, count in counts.items():
            axes.plot(
                [0.4, count, count], [fraction, fraction, 0],
                color=INK, linewidth=0.9, linestyle=(0, (2, 2)), zorder=5,
            )  # fmt: skip
            axes.annotate(
                f"{fraction:.0%}: {count}", (count, fraction), (5, -10), fontsize=8.5, color=INK,
                textcoords="offset points", zorder=6,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "linewidth": 0,
                      "alpha": 0.85},
            )  # fmt: skip
        axes.legend(
            [tuple(bars), line], ["singular value, largest = 1", "cumulative energy"], ncols=2,
            loc="upper left", bbox_to_anchor=(-0.02, -0.17), borderaxespad=0.1, labelcolor=INK,
            frameon=False, fontsize=9, handlelength=1.4, columnspacing=1.4,
        )  # fmt: skip
        axes.set(xlim=(0.4, len(values) + 0.6), ylim=(0, 1.03), xlabel="direction of B")
        axes.set_xticks(_whole_ticks(len(values)))
        axes.set_yticks(np.linspace(0, 1, 6), [f"{part:.0%}" for part in np.linspace(0, 1, 6)])
        title(axes, "Spectrum of B")
    return axes


def rank_path(source: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the scores of the ranks that were tried: means, and bars of a standard deviation.

    Args:
        source: An estimator that was fitted with `rank="auto"`, or a mapping of ranks to scores,
            one a fold.
        ax: To draw on; None is a new figure's.

    Returns:
        The Axes.

    Examples:
        >>> ax = plot.rank_path({1: [0.81, 0.85], 4: [0.9, 0.92], 16: [0.93, 0.92]})
    """
    path, chosen = _path(source)
    ranks = sorted(path)
    scores = [path[rank] for rank in ranks]
    means = np.array([part.mean() for part in scores])
    bars = np.array([part.std() for part in scores])
    places = range(len(ranks))
    with canvas(ax, (5.0, 3.4)) as axes:
        for place, part in zip(places, scores, strict=True):
            axes.plot([place] * len(part), part, "o", color=GREY, alpha=0.35, markersize=3)
        axes.errorbar(
            places, means, bars, color=BLUE, fmt="o-", markersize=6, markerfacecolor="white",
            markeredgewidth=1.4, linewidth=1.5, capsize=3, zorder=3,
        )  # fmt: skip
        if chosen in path:
            place = ranks.index(chosen)
            axes.plot(place, means[place], "o", color=ORANGE, markersize=8, zorder=4)
            axes.annotate(
                f"chosen: {chosen}", (place, means[place] - bars[place]), (0, -6),
                textcoords="offset points", ha="center", va="top", color=ORANGE, fontsize=9,
                fontweight="bold",
            )  # fmt: skip
        axes.margins(x=0.1, y=0.18)
        axes.set_xticks(places, [str(rank) for rank in ranks])
        axes.set(xlabel="rank", ylabel="score")
        title(axes, "Rank, by cross-validation")
    return axes


def _path(source: Any) -> tuple[dict[int, Floats], int | None]:
    """Return the scores of each rank, and which rank was chosen."""
    chosen = None
    if not isinstance(source, Mapping):
        check_fitted(source)
        if not hasattr(source, "rank_path_"):
            raise HalfnetTypeError(
                "source: expected an estimator fitted with rank='auto' or a mapping of ranks to "
                f"scores, got {type(source).__name__}"
            )
        found, chosen = source.rank_path_, source.rank_
        source = dict(zip(found.ranks.tolist(), found.scores, strict=True))
    path = {rank: np.asarray(scores, np.float64).ravel() for rank, scores in source.items()}
    if not path or not all(len(scores) and np.isfinite(scores).all() for scores in path.values()):
        raise HalfnetValueError(f"source: expected finite scores for each rank, got {source!r}")
    return path, chosen


def _whole_ticks(count: int) -> list[int]:
    step = next(s for s in (1, 2, 4, 5, 10, 20, 50, 100, 10**9) if count <= 16 * s)
    return sorted({1, *range(step, count + 1, step)}) if step > 1 else list(range(1, count + 1))
