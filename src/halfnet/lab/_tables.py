"""Paper beside measured, as data: which row of which table came out, and by how much it differs.

What `halfnet report` shows in any form is computed here, from results and the paper's numbers only.
"""

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from halfnet import _fields
from halfnet.exceptions import HalfnetError, HalfnetFileError
from halfnet.lab import _results, specs
from halfnet.lab._results import Result
from halfnet.lab.specs import Paper, Table

AGREES, ABOVE, BELOW, NOT_RUN = "agrees", "above", "below", "not run"
VERDICTS = (AGREES, ABOVE, BELOW, NOT_RUN)
TOLERANCE = 2.0
"""So many combined standard deviations apart, two test means still agree."""

EXPLANATIONS = "explanations.toml"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of a table: what the paper says of it, and what was measured."""

    name: str
    architecture: Mapping[str, Any]
    paper: Paper | None
    """None: a row of the user's own."""
    result: Result | None
    """None: it was not run."""
    explanation: str = ""

    @property
    def params(self) -> int:
        """Learned numbers: those of the network that was trained, if one was."""
        if self.result is not None:
            return self.result.params
        assert self.paper is not None
        return self.paper.params

    @property
    def deviation(self) -> float | None:
        """The combined standard deviation of both test accuracies, in percent."""
        if self.paper is None or self.result is None:
            return None
        return math.hypot(self.paper.test.std, self.result.test_score.std)

    @property
    def difference(self) -> float | None:
        """Measured minus the paper's test mean, in combined standard deviations."""
        if self.paper is None or self.result is None:
            return None
        percent = self.result.test_score.mean - self.paper.test.mean
        if not self.deviation:
            return math.copysign(math.inf, percent) if percent else 0.0
        return percent / self.deviation

    @property
    def verdict(self) -> str | None:
        """One of `VERDICTS`; None for a row that the paper does not have."""
        if self.paper is None:
            return None
        if self.difference is None:
            return NOT_RUN
        if abs(self.difference) <= TOLERANCE:
            return AGREES
        return ABOVE if self.difference > 0 else BELOW

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the row: misprints, and why it came out as it did."""
        notes = [self.paper.note] if self.paper is not None else []
        if self.paper is not None and self.params != self.paper.params:
            notes.append(
                f"The network that was trained has {self.params:,} parameters, the paper's "
                f"{self.paper.params:,}."
            )
        if self.result is not None and len(self.result.seeds) == 1:
            notes.append("A single seed, which has no deviation.")
        return tuple(note for note in (*notes, self.explanation) if note)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A table: the paper's rows in its order, then the user's own."""

    key: str
    number: str
    """The paper's; empty for a table of the user's own."""
    title: str
    dataset: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What became of the paper's rows, and how the networks were trained."""

    rows: int
    measured: int
    verdicts: Mapping[str, int]
    explained: int
    """Of the rows that are below."""
    recipes: tuple[tuple[str, Mapping[str, Any]], ...]
    """Each data set with a recipe that was followed on it."""
    versions: tuple[str, ...]
    seconds: float


def read(folder: Path, preset: str, tables: Sequence[Table] | None = None) -> list[Comparison]:
    """Compare a folder's results of a preset with those that tables give, the paper's if None.

    Raises:
        HalfnetFileError: The folder's explanations are not what they should be.
        HalfnetError: There are no such results, or something cannot be read.
    """
    everything = list(_results.read_all(folder))
    results = [result for result in everything if result.preset == preset]
    if not results:
        others = ", ".join(sorted({result.preset for result in everything}))
        raise HalfnetError(
            f"no results of preset {preset!r} in {folder}"
            + (f", only of {others}" if others else "")
            + f"; halfnet reproduce --preset {preset} --results {folder} makes them"
        )
    return compare(results, _explanations(folder / EXPLANATIONS, everything), tables)


def compare(
    results: Iterable[Result],
    explanations: Mapping[str, str] | None = None,
    tables: Sequence[Table] | None = None,
) -> list[Comparison]:
    """Put results beside the rows of tables, the paper's if None; explanations are by "table/row".

    Tables without any result are left out where others have some: they are not what was run.
    """
    explanations = explanations or {}
    tables = specs.paper().tables if tables is None else tables
    rest = {(result.table, result.row): result for result in results}
    if rest and not any((table.key, row.name) in rest for table in tables for row in table.rows):
        tables = []
    papers = []
    for table in tables:
        lines = [
            Line(
                name=row.name,
                architecture=asdict(row.architecture),
                paper=row.paper,
                result=rest.pop((table.key, row.name), None),
                explanation=explanations.get(f"{table.key}/{row.name}", ""),
            )
            for row in table.rows
            if row.paper is not None or (table.key, row.name) in rest
        ]
        papers.append((table, lines))
    own = _own_lines(rest.values(), explanations)
    return [
        Comparison(
            key=table.key,
            number=table.number,
            title=table.title,
            dataset=table.dataset,
            lines=(*lines, *own.pop(table.key, [])),
        )
        for table, lines in papers
    ] + [
        Comparison(key=key, number="", title=key, dataset=_dataset(lines), lines=tuple(lines))
        for key, lines in own.items()
    ]


def _own_lines(results: Iterable[Result], explanations: Mapping[str, str]) -> dict[str, list[Line]]:
    """Return the rows that the paper does not have by their tables, the smallest first."""
    own: dict[str, list[Line]] = {}
    for result in sorted(results, key=lambda result: (result.table, result.params, result.row)):
        line = Line(
            name=result.row,
            architecture=result.architecture,
            paper=None,
            result=result,
            explanation=explanations.get(f"{result.table}/{result.row}", ""),
        )
        own.setdefault(result.table, []).append(line)
    return own


def _dataset(lines: Iterable[Line]) -> str:
    return ", ".join(sorted({line.result.dataset for line in lines if line.result is not None}))


def _explanations(path: Path, results: Iterable[Result]) -> dict[str, str]:
    """Read a file of "table/row" = "why it came out so"; without one there are none."""
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise HalfnetError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise HalfnetFileError(f"{path}: expected TOML: {error}") from error
    known = [f"{table.key}/{row.name}" for table in specs.paper().tables for row in table.rows]
    known += [f"{result.table}/{result.row}" for result in results]
    with _fields.in_file(path):
        for key in content:
            if key not in known:
                _fields.unknown("row", key, known)
        return {key: _fields.text(key, text) for key, text in content.items()}


def measured(comparisons: Iterable[Comparison]) -> Iterator[tuple[Comparison, Line, Result]]:
    """Yield the rows that have results."""
    for comparison in comparisons:
        for line in comparison.lines:
            if line.result is not None:
                yield comparison, line, line.result


def summarize(comparisons: Iterable[Comparison]) -> Summary:
    """Count the paper's rows by their verdicts, and collect how the measured ones were trained."""
    comparisons = list(comparisons)
    lines = [line for comparison in comparisons for line in comparison.lines if line.paper]
    verdicts = Counter(line.verdict for line in lines)
    results = [result for *_, result in measured(comparisons)]
    recipes: list[tuple[str, Mapping[str, Any]]] = []
    for result in results:
        recipe = (result.dataset, {**result.recipe, "seeds": len(result.seeds)})
        if recipe not in recipes:
            recipes.append(recipe)
    return Summary(
        rows=len(lines),
        measured=len(lines) - verdicts[NOT_RUN],
        verdicts={verdict: verdicts[verdict] for verdict in VERDICTS},
        explained=sum(line.verdict == BELOW and bool(line.explanation) for line in lines),
        recipes=tuple(recipes),
        versions=tuple(dict.fromkeys(_provenance(result) for result in results)),
        seconds=sum(result.seconds for result in results),
    )


def _provenance(result: Result) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    threads = "1 thread" if result.threads == 1 else f"{result.threads} threads"
    return f"{versions}, commit {result.commit or 'unknown'}, {threads}"


def records(comparisons: Iterable[Comparison]) -> list[dict[str, Any]]:
    """Return an object for each row that has a result, for a program to read."""
    return [record(line.paper, result) for _, line, result in measured(comparisons)]


def record(paper: Paper | None, result: Result) -> dict[str, Any]:
    """Return a row's result and what the paper says of it, for a program to read."""
    return {
        "table": result.table,
        "row": result.row,
        "preset": result.preset,
        "seeds": list(result.seeds),
        "epochs": result.epochs,
        "params": result.params,
        "train_mean": result.train_score.mean,
        "train_std": result.train_score.std,
        "test_mean": result.test_score.mean,
        "test_std": result.test_score.std,
        "paper_params": paper.params if paper else None,
        "paper_train_mean": paper.train.mean if paper else None,
        "paper_train_std": paper.train.std if paper else None,
        "paper_test_mean": paper.test.mean if paper else None,
        "paper_test_std": paper.test.std if paper else None,
        "seconds": result.seconds,
    }
