"""The paper's rows, run for real: `halfnet reproduce` in Python.

    from pathlib import Path
    from halfnet.lab import reproduce, specs

    chosen = reproduce.choose(specs.paper(), ["mnist"], ["k=4"])
    plans = [reproduce.plan(specs.paper(), table, row) for table, row in chosen]
    outcomes = reproduce.run(plans, Path("results"), jobs=2)

A row's seeds are trained at once, by the one loop that the lab has; rows run side by side in
processes of their own. A run that is interrupted, at any moment and by anything, goes on from the
last whole epoch when it is called again, and ends with the same numbers.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from halfnet.lab import _results, _run, _schedule, data
from halfnet.lab._results import Result
from halfnet.lab._run import Plan, plan
from halfnet.lab._tables import Line, compare, records
from halfnet.lab.specs import Row, Specs, Table

__all__ = ["Outcome", "Plan", "choose", "plan", "records_of", "run"]


@dataclass(frozen=True)
class Outcome:
    """What came of a plan: a result, or why there is none."""

    plan: Plan
    result: Result | None
    error: str = ""

    def line(self) -> Line:
        """Return the row's numbers beside the paper's."""
        row = self.plan.row
        return Line(
            name=row.name,
            architecture=asdict(row.architecture),
            paper=row.paper,
            result=self.result,
        )


def choose(
    specs: Specs, tables: Iterable[str] = (), rows: Iterable[str] | None = None
) -> list[tuple[Table, Row]]:
    """Return the rows of these names in the tables of these names; no names: all of them.

    Raises:
        HalfnetValueError: A table is not there, or a row in none of the tables.
    """
    chosen = [specs.table(key) for key in tables] or list(specs.tables)
    if rows is None:
        return [(table, row) for table in chosen for row in table.rows]
    names = [rows] if isinstance(rows, str) else list(rows)
    for name in names:
        if not any(row.name == name for table in chosen for row in table.rows):
            chosen[0].row(name)  # raises, with the nearest name
    return [(table, row) for table in chosen for row in table.rows if row.name in names]


def run(
    plans: Sequence[Plan],
    results: Path,
    *,
    jobs: int = 1,
    again: bool = False,
    checkpoints: Path | None = None,
    show: TextIO | None = None,
) -> list[Outcome]:
    """Run plans, `jobs` at once, and return what came of them, in their order.

    Args:
        plans: The rows, from `plan`.
        results: A folder; each row's result is written to PRESET/TABLE/ROW.json in it.
        jobs: How many rows are trained side by side.
        again: Train rows again that have a result of the same recipe and seeds there.
        checkpoints: A folder for what is under way; None for one in the cache.
        show: Where to print a line a row; None prints none. Bars are drawn on a terminal's stderr.
    """
    data.get(dict.fromkeys(plan.table.dataset for plan in plans))
    outcomes = {} if again else {plan: found for plan in plans if (found := _done(plan, results))}
    left = [plan for plan in plans if plan not in outcomes]
    with _Screen(plans, show) as screen:
        for outcome in outcomes.values():
            screen.finished(outcome)
        if left:
            place = checkpoints or data.cache_folder() / "checkpoints"
            for plan, event in _schedule.run_all(left, results, place, jobs):
                if isinstance(event, _run.Progress):
                    screen.progress(plan, event)
                    continue
                outcome = (
                    Outcome(plan, event)
                    if isinstance(event, Result)
                    else Outcome(plan, None, event.reason)
                )
                outcomes[plan] = outcome
                screen.finished(outcome)
    return [outcomes[plan] for plan in plans]


def records_of(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return an object for each result, as `halfnet report --json` prints them."""
    return records(compare(outcome.result for outcome in outcomes if outcome.result is not None))


def _done(plan: Plan, results: Path) -> Outcome | None:
    """Return the result that a plan has already."""
    path = _results.place(results, plan.preset, plan.table.key, plan.row.name)
    found = _results.read_or_set_aside(path)
    if found is None:
        return None
    wanted = plan.identity()
    have = {key: getattr(found, key) for key in wanted if key != "versions"}
    del wanted["versions"]
    same = json.dumps(have, sort_keys=True) == json.dumps(wanted, sort_keys=True)
    return Outcome(plan, found) if same else None


class _Screen:
    """A line a finished row; and on a terminal bars below, one a row under way and one for all."""

    def __init__(self, plans: Sequence[Plan], show: TextIO | None) -> None:
        # Rich would fold and colour lines on a terminal; elsewhere they are printed as they are.
        self._stream = show
        self._total = sum(plan.recipe.epochs for plan in plans)
        self._epochs: dict[Plan, float] = dict.fromkeys(plans, 0.0)
        self._bars: dict[Plan, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}"),
            console=Console(stderr=True),
            disable=show is None or not sys.stderr.isatty(),
            transient=True,
        )

    def __enter__(self) -> "_Screen":
        self._progress.start()
        if len(self._epochs) > 1:
            self._all = self._progress.add_task("all rows", total=self._total, scores="")
        if self._stream is not None:
            self._print(HEADER)
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def progress(self, plan: Plan, news: _run.Progress) -> None:
        """Show how far a row is."""
        if plan not in self._bars:
            self._bars[plan] = self._progress.add_task(plan.name, total=news.total, scores="")
        scores = ""
        if news.scores is not None:
            count = len(news.scores.loss)
            loss, accuracy = (sum(values) / count for values in news.scores)
            scores = f"loss {loss:.3f}, training accuracy {accuracy:.2f}%"
        self._progress.update(self._bars[plan], completed=news.done, scores=scores)
        self._advance(plan, plan.recipe.epochs * news.done / news.total)

    def finished(self, outcome: Outcome) -> None:
        """Print a row's numbers beside the paper's."""
        if outcome.plan in self._bars:
            self._progress.remove_task(self._bars.pop(outcome.plan))
        self._advance(outcome.plan, outcome.plan.recipe.epochs)
        if self._stream is not None:
            self._print(line(outcome))

    def _advance(self, plan: Plan, epochs: float) -> None:
        self._epochs[plan] = epochs
        if len(self._epochs) > 1:
            self._progress.update(self._all, completed=sum(self._epochs.values()))

    def _print(self, text: str) -> None:
        self._progress.stop()
        print(text, file=self._stream, flush=True)
        self._progress.start()


HEADER = (
    f"{'table':15} {'row':17} {'learned':>9}  {'paper train':>13} {'measured':>13}  "
    f"{'paper test':>13} {'measured':>13}  {'verdict':9} {'time':>7}"
)


def line(outcome: Outcome) -> str:
    """Return a row's numbers, or why there are none, as one line below `HEADER`."""
    plan, result = outcome.plan, outcome.result
    start = f"{plan.table.key:15} {plan.row.name:17} "
    if result is None:
        return start + f"failed: {outcome.error}"
    paper = plan.row.paper
    cells = []
    for theirs, ours in (
        (paper and paper.train, result.train_score),
        (paper and paper.test, result.test_score),
    ):
        cells += [_accuracy(theirs), _accuracy(ours), ""]
    verdict = outcome.line().verdict or ""
    return (
        start + f"{result.params:9,}  {cells[0]:>13} {cells[1]:>13}  {cells[3]:>13} "
        f"{cells[4]:>13}  {verdict:9} {_duration(result.seconds):>7}"
    )


def _accuracy(score: Any) -> str:
    return "-" if score is None else f"{score.mean:.2f} ± {score.std:.2f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
