"""What the figures show, as data: points of test accuracy, training curves and spectra."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from halfnet.lab._layout import padded
from halfnet.lab._results import Result, score
from halfnet.lab._spectra import PAPER_DIRECTIONS, cumulative_energy, directions_for
from halfnet.lab._tables import Comparison, Line
from halfnet.lab.specs import Score

HALF, HALF_FRONT, LOW_RANK, DENSE = "half", "half-front", "low-rank", "dense"
FAMILIES = {
    HALF: "half layers",
    HALF_FRONT: "half front end too",
    LOW_RANK: "low rank, learned",
    DENSE: "dense, learned",
}
"""What kinds of networks the figures tell apart, and what they call them."""

_SPECTRUM_TABLE, _SPECTRUM_LAYER = "mnist", "hidden1"
PAPER_ROW = "MLP h=64"
"""The row whose spectrum the paper has."""
SPECTRUM_ROWS = (PAPER_ROW, "k=4", "k=8", "k=16")
SPECTRUM_PANELS = (
    "Singular values, largest = 1",
    "Cumulative energy",
    "Deviation along Sigma's axes",
)


def family(line: Line) -> str:
    """Return the kind of a row's network, a key of `FAMILIES`."""
    front = line.architecture["front"]
    kinds = {layer["kind"] for layer in line.architecture["hidden"]}
    if front is not None and front["kind"] == "half":
        return HALF_FRONT
    return next((kind for kind in (HALF, LOW_RANK) if kind in kinds), DENSE)


def sweeps(comparison: Comparison) -> list[list[Line]]:
    """Return the half networks of a table from small to large, to be joined by a line."""
    half = [line for line in comparison.lines if family(line) == HALF]
    return [sorted(half, key=lambda line: line.params)] if len(half) > 1 else []


def scores(line: Line) -> list[tuple[Score, int]]:
    """Return a row's test accuracies, the paper's to be drawn at the left (-1), ours right (1)."""
    papers = [(line.paper.test, -1)] if line.paper else []
    return papers + ([(line.result.test_score, 1)] if line.result else [])


def accuracy_range(comparison: Comparison) -> tuple[float, float]:
    """Return the ends of an axis that shows a table's test accuracies with their bars."""
    found = [score for line in comparison.lines for score, _ in scores(line)]
    return padded([end for mean, std in found for end in (mean - std, mean + std)], 0.1)


def params_range(comparison: Comparison) -> tuple[float, float]:
    """Return the ends of a logarithmic axis that shows a table's parameters."""
    low, high = padded([math.log10(line.params) for line in comparison.lines], 0.08)
    return 10**low, 10**high


@dataclass(frozen=True, kw_only=True)
class Band:
    """Means over seeds, and one standard deviation to both sides."""

    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def band(columns: Iterable[Sequence[float]]) -> Band:
    """Return the band of numbers that are given place by place, each for all seeds."""
    found = [score(tuple(column)) for column in columns]
    return Band(
        mean=tuple(mean for mean, _ in found),
        low=tuple(mean - std for mean, std in found),
        high=tuple(mean + std for mean, std in found),
    )


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Of a row's first hidden layer."""

    name: str
    values: Band
    """Singular values of the weights, the largest of each seed being 1."""
    energy: Band
    """Cumulative, from 0 to 1."""
    axes: Band | None
    """Of a half layer: standard deviations along Sigma's axes, the largest of each seed being 1."""
    directions: tuple[tuple[int, ...], ...]
    """For each fraction of `PAPER_DIRECTIONS`, how many directions hold it in each seed."""

    def leading(self) -> list[tuple[float, int]]:
        """Return the fractions, each with the median over seeds of how many directions hold it."""
        return [
            (fraction, median_low(counts))
            for fraction, counts in zip(PAPER_DIRECTIONS, self.directions, strict=True)
        ]

    def sentence(self) -> str:
        """Say where the energy lies."""
        parts = [
            f"{fraction:.0%} of the energy in {count}{self._aside(fraction, counts)}"
            for (fraction, count), counts in zip(self.leading(), self.directions, strict=True)
        ]
        return f"{self.name}: {', '.join(parts)} of {len(self.values.mean)} directions"

    def _aside(self, fraction: float, counts: Sequence[int]) -> str:
        asides = []
        if min(counts) < max(counts):
            asides.append(f"{min(counts)} to {max(counts)} by seed")
        if self.name == PAPER_ROW:
            asides.append(f"paper: {PAPER_DIRECTIONS[fraction]}")
        return f" ({', '.join(asides)})" if asides else ""


def spectra(comparisons: Iterable[Comparison]) -> list[Spectrum]:
    """Return the spectra of the dense network and the half networks of MNIST that have results."""
    results = {
        line.name: line.result
        for comparison in comparisons
        if comparison.key == _SPECTRUM_TABLE
        for line in comparison.lines
    }
    return [
        _spectrum(name, result)
        for name in SPECTRUM_ROWS
        if (result := results.get(name)) is not None and _SPECTRUM_LAYER in result.spectra
    ]


def _spectrum(name: str, result: Result) -> Spectrum:
    layer = result.spectra[_SPECTRUM_LAYER]
    weights = layer["weights"]
    axes = [[math.sqrt(max(value, 0.0)) for value in seed] for seed in layer.get("covariance", [])]
    return Spectrum(
        name=name,
        values=_over_seeds([_relative(seed) for seed in weights]),
        energy=_over_seeds([cumulative_energy(seed) for seed in weights]),
        axes=_over_seeds([_relative(seed) for seed in axes]) if axes else None,
        directions=tuple(
            tuple(directions_for(seed, fraction) for seed in weights)
            for fraction in PAPER_DIRECTIONS
        ),
    )


def _relative(values: Sequence[float]) -> list[float]:
    return [value / max(values) for value in values]


def _over_seeds(seeds: Sequence[Sequence[float]]) -> Band:
    return band(list(zip(*seeds, strict=True)))
