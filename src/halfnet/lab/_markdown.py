"""The report as Markdown."""

import re
from collections.abc import Iterable, Sequence

from halfnet.lab import _figures, _series, _tables, _wording
from halfnet.lab._tables import Comparison

_HEAD = (
    "row", "parameters", "train, paper", "train, measured", "test, paper", "test, measured",
    "difference", "verdict",
)  # fmt: skip


def render(comparisons: Sequence[Comparison], preset: str) -> str:
    """Return the page; its figures are those of `_figures.write` in figures/."""
    summary = _tables.summarize(comparisons)
    blocks = [
        "# The paper beside what was measured",
        f"**{_wording.headline(summary)}**",
        _wording.VERDICTS_MEAN,
        f"Preset {_escape(preset)}, trained for {_wording.duration(summary.seconds)} in all:",
        _table(*_wording.recipes(summary)),
        "\n".join(f"- {_escape(version)}" for version in summary.versions),
    ]
    for comparison in comparisons:
        blocks += _section(comparison)
    if spectra := _series.spectra(comparisons):
        blocks += [
            "## Spectra of the first layer",
            "![Singular values and cumulative energy](figures/spectrum.svg)",
            "\n".join(f"- {_escape(item.sentence())}" for item in spectra),
        ]
    return "\n\n".join(blocks) + "\n"


def _section(comparison: Comparison) -> list[str]:
    numbered = _wording.numbered(comparison.lines)
    rows = [
        [
            line.name,
            _wording.params(line),
            *_wording.scores(line),
            _wording.difference(line),
            line.verdict or "–",
        ]
        for line, *_ in numbered
    ]
    marks = ["".join(f"<sup>{number}</sup>" for number in numbers) for _, numbers, _ in numbered]
    notes = [
        f"{number}. {_escape(line.name)}: {_escape(note)}"
        for line, numbers, notes in numbered
        for number, note in zip(numbers, notes, strict=True)
    ]
    heading = _escape(_wording.title(comparison))
    figure = _figures.name_of(comparison)
    return [
        f"## {heading}",
        _table(_HEAD, rows, marks),
        *(["\n".join(notes)] if notes else []),
        f"![Test accuracy against parameters: {heading}](figures/{figure}.svg)",
    ]


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], marks: Iterable[str] | None = None
) -> str:
    """Write a table; `marks` are put behind the first cells as they are."""
    rows = list(rows)
    marks = [""] * len(rows) if marks is None else marks
    body = [
        [_escape(first) + mark, *map(_escape, rest)]
        for (first, *rest), mark in zip(rows, marks, strict=True)
    ]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *body))


def _escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|~&])", r"\\\1", " ".join(text.split()))
