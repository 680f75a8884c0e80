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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn

from halfnet import _checks, _fields
from halfnet.lab import _results, _run, _schedule, _wording, data
from halfnet.lab._download import progress_bars
from halfnet.lab._results import Result
from halfnet.lab._run import Plan, plan
from halfnet.lab._tables import Line, record
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
    chosen = list(dict.fromkeys(specs.table(key) for key in tables)) or specs.tables
    every = [(table, row) for table in chosen for row in table.rows]
    if rows is None:
        return every
    names = [rows] if isinstance(rows, str) else list(rows)
    known = {row.name: row for _, row in every}
    for name in names:
        _fields.named("row", name, known)
    return [(table, row) for table, row in every if row.name in names]


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

    Raises:
        HalfnetError: A data set cannot be had, or the folder of results not be written to. What
            befalls a single row is its outcome's error.
    """
    jobs = _checks.integer("jobs", jobs, 1)
    outcomes = {}
    if not again:
        for plan in plans:
            if result := _run.finished(plan, results):
                outcomes[plan] = Outcome(plan, result)
    left = [plan for plan in plans if plan not in outcomes]
    for plan in left:
        _results.check_writable(
            _results.place(results, plan.preset, plan.table.key, plan.row.name).parent
        )
    data.get(dict.fromkeys(plan.table.dataset for plan in left))
    with _Screen(left, show) as screen:
        for outcome in outcomes.values():
            screen.finished(outcome)
        place = checkpoints or data.cache_folder() / "checkpoints"
        for plan, event in _events(left, results, place, jobs, again):
            if isinstance(event, _run.Progress):
                screen.progress(plan, event)
            else:
                outcomes[plan] = event
                screen.finished(event)
    return [outcomes[plan] for plan in plans]


def _events(
    plans: Sequence[Plan], results: Path, checkpoints: Path, jobs: int, again: bool
) -> Iterator[tuple[Plan, _run.Progress | Outcome]]:
    """Run plans, and yield how far each is and at last its outcome."""
    if not plans:
        return
    for one, event in _schedule.run_all(plans, results, checkpoints, jobs, again=again):
        if isinstance(event, Result):
            yield one, Outcome(one, event)
        elif isinstance(event, _schedule.Failed):
            yield one, Outcome(one, None, event.reason)
        else:
            yield one, event


def records_of(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return an object for each result, as `halfnet report --json` prints them."""
    return [
        record(outcome.plan.row.paper, outcome.result)
        for outcome in outcomes
        if outcome.result is not None
    ]


class _Screen:
    """A line a finished row; and on a terminal bars below, one a row under way and one for all.

    `plans` are those to be run; rows that are finished already have no part in the time left.
    """

    def __init__(self, plans: Sequence[Plan], show: TextIO | None) -> None:
        self._stream = show
        self._epochs: dict[Plan, float] = dict.fromkeys(plans, 0.0)
        self._bars: dict[Plan, TaskID] = {}
        self._progress = progress_bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}"),
            show=show is not None,
        )

    def __enter__(self) -> "_Screen":
        self._progress.start()
        if len(self._epochs) > 1:
            total = sum(plan.recipe.epochs for plan in self._epochs)
            self._all = self._progress.add_task("all rows", total=total, scores="")
        else:  # shown before the row has begun
            for plan in self._epochs:
                self._bar(plan)
        self._print(HEADER)
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def progress(self, plan: Plan, news: _run.Progress) -> None:
        """Show how far a row is."""
        scores = ""
        if news.scores is not None:
            count = len(news.scores.loss)
            loss, accuracy = (sum(values) / count for values in news.scores)
            scores = f"loss {loss:.3f}, training accuracy {accuracy:.2f}%"
        bar = self._bar(plan)
        self._progress.update(bar, completed=news.done, total=news.total, scores=scores)
        self._advance(plan, plan.recipe.epochs * news.done / news.total)

    def _bar(self, plan: Plan) -> TaskID:
        if plan not in self._bars:
            self._bars[plan] = self._progress.add_task(plan.name, total=None, scores="")
        return self._bars[plan]

    def finished(self, outcome: Outcome) -> None:
        """Print a row's numbers beside the paper's."""
        if outcome.plan in self._bars:
            self._progress.remove_task(self._bars.pop(outcome.plan))
        if outcome.plan in self._epochs:
            self._advance(outcome.plan, outcome.plan.recipe.epochs)
        self._print(line(outcome))

    def _advance(self, plan: Plan, epochs: float) -> None:
        self._epochs[plan] = epochs
        if len(self._epochs) > 1:
            self._progress.update(self._all, completed=sum(self._epochs.values()))

    def _print(self, text: str) -> None:
        if self._stream is None:
            return
        if self._progress.disable or not self._stream.isatty():
            print(text, file=self._stream, flush=True)
        else:  # above the bars, on the same terminal
            self._progress.console.print(text, soft_wrap=True, markup=False, highlight=False)


HEADER = (
    f"{'table':15} {'row':17} {'learned':>9}  {'paper train':>13} {'measured':>13}  "
    f"{'paper test':>13} {'measured':>13}  {'verdict':9} {'time':>8}"
)


def line(outcome: Outcome) -> str:
    """Return a row's numbers, or why there are none, as one line below `HEADER`."""
    plan, result = outcome.plan, outcome.result
    start = f"{plan.table.key:15} {plan.row.name:17} "
    if result is None:
        return start + f"failed: {outcome.error}"
    paper_train, train, paper_test, test = _wording.scores(outcome.line())
    cut = plan.preset.endswith(_run.QUICK)  # too short to be measured by the paper
    verdict = "cut short" if cut else outcome.line().verdict or ""
    return (
        start + f"{result.params:9,}  {paper_train:>13} {train:>13}  {paper_test:>13} {test:>13}  "
        f"{verdict:9} {_wording.duration(result.seconds):>8}"
    )
