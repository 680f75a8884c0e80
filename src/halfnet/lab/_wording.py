"""How numbers and verdicts are said, the same on every page of a report."""

from collections.abc import Iterable, Mapping
from typing import Any

from halfnet.lab._tables import (
    ABOVE,
    AGREES,
    BELOW,
    NOT_RUN,
    TOLERANCE,
    Comparison,
    Line,
    Summary,
)
from halfnet.lab.specs import Score

MINUS = "\N{MINUS SIGN}"

VERDICTS_MEAN = (
    f"Accuracies are in percent, mean ± standard deviation over the seeds. A row {AGREES} if its "
    f"mean test accuracy lies within {TOLERANCE:g} combined standard deviations (sd) of the "
    f"paper's, sqrt(s_paper² + s_measured²), and is {ABOVE} or {BELOW} if it lies further off."
)


def headline(summary: Summary) -> str:
    """Say how many rows came out how."""
    counts = summary.verdicts
    told = [
        _counted(counts[AGREES], "agrees", "agree"),
        _counted(counts[ABOVE], "is above", "are above"),
        _counted(counts[BELOW], "is below", "are below"),
    ]
    if summary.explained:
        told[-1] += f" ({summary.explained} explained)"
    if counts[NOT_RUN]:
        told.append(_counted(counts[NOT_RUN], "was not run", "were not run"))
    return f"{summary.measured} of {summary.rows} rows have results: {', '.join(told)}."


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def title(comparison: Comparison) -> str:
    """Return the heading of a table."""
    if comparison.number:
        return f"{comparison.number} · {comparison.title}"
    return f"{comparison.title} ({comparison.dataset}, not in the paper)"


def score(value: Score | None, runs: int = 2) -> str:
    """Say a mean and a standard deviation, which a single run has not."""
    if value is None:
        return "–"
    return f"{value.mean:.2f} ± {value.std:.2f}" if runs > 1 else f"{value.mean:.2f}"


def signed(value: float, digits: int) -> str:
    """Say a difference, with a plus or a real minus."""
    rounded = round(value, digits) + 0.0  # which makes a -0 a 0
    return f"{rounded:+.{digits}f}".replace("-", MINUS)


def difference(line: Line) -> str:
    """Say how far a row's test accuracy lies from the paper's."""
    return "–" if line.difference is None else f"{signed(line.difference, 1)} sd"


def scores(line: Line) -> tuple[str, str, str, str]:
    """Say train and then test accuracy, each as the paper has it and as it was measured."""
    paper, result = line.paper, line.result
    runs = len(result.seeds) if result else 0
    return (
        score(paper.train if paper else None),
        score(result.train_score if result else None, runs),
        score(paper.test if paper else None),
        score(result.test_score if result else None, runs),
    )


def params(line: Line) -> str:
    """Say how many numbers a network learns, and what the paper prints if that is a misprint."""
    printed = line.paper.printed_params if line.paper else None
    return f"{line.params:,}" + (f" (printed: {printed:,})" if printed else "")


def summary_of(line: Line) -> str:
    """Say everything of a row in a few lines."""
    *_, paper, measured = scores(line)
    parts = [f"{line.name} · {line.params:,} parameters"]
    if line.paper:
        parts.append(f"paper {paper}")
    if line.result:
        parts.append(f"measured {measured}")
    if line.difference is not None:
        parts.append(f"{difference(line)}: {line.verdict}")
    elif line.verdict:
        parts.append(line.verdict)
    return "\n".join(parts)


def duration(seconds: float) -> str:
    """Say how long something took."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def recipes(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Return a table of how the networks were trained: its head and its rows."""
    keys = list(dict.fromkeys(key for _, recipe in summary.recipes for key in recipe))
    rows = [
        [dataset, *(_setting(recipe.get(key)) for key in keys)]
        for dataset, recipe in summary.recipes
    ]
    return ["data set", *(key.replace("_", " ") for key in keys)], rows


def _setting(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {item}" for key, item in value.items() if item is not None)
    return "–" if value is None else str(value)


def numbered(lines: Iterable[Line]) -> list[tuple[Line, list[int], tuple[str, ...]]]:
    """Return each row with its notes and their numbers, which count on through the table."""
    found, count = [], 0
    for line in lines:
        numbers = list(range(count + 1, count + 1 + len(line.notes)))
        count += len(numbers)
        found.append((line, numbers, line.notes))
    return found
