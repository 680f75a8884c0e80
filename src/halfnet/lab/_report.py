"""A report as a folder: report.md, report.html and figures/."""

from collections.abc import Sequence
from pathlib import Path

from halfnet.lab import _figures, _markdown, _page, _results, _tables, _wording
from halfnet.lab._tables import Comparison


def write(comparisons: Sequence[Comparison], preset: str, folder: Path) -> str:
    """Write a report, and return what it found in a few words.

    Raises:
        HalfnetError: Something cannot be written.
    """
    names = _figures.write(comparisons, folder / "figures")
    for name, text in (
        ("report.md", _markdown.render(comparisons, preset)),
        ("report.html", _page.render(comparisons, preset)),
    ):
        _results.write_atomically(folder / name, text.encode())
    return (
        f"{_wording.headline(_tables.summarize(comparisons))}\n"
        f"{folder / 'report.html'}, report.md and {len(names)} figures"
    )
