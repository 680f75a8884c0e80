"""halfnet reproduce: train rows of the paper's tables, and print them beside the paper's."""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfnet.lab.specs import Row, Table

_MOST = 1_000_000


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "reproduce",
        help="train rows of the paper's tables and compare",
        description="Train rows of the paper's tables, or of your own, and print what comes out "
        "beside the paper's numbers. Interrupted at any moment, the same command goes on from the "
        "last whole epoch, with the same numbers.",
        epilog="example: halfnet reproduce mnist --rows k=4 k=16",
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help="tables' names; none: all of them")
    add("--rows", nargs="+", metavar="ROW", help="only the rows of these names")
    add(
        "--specs",
        metavar="FILE",
        help="a TOML file with tables, presets or both of your own; without tables of its own, "
        "the paper's are trained",
    )
    add("--preset", default="paper", help="the recipe (default: %(default)s)")
    add("--seeds", type=_count, metavar="N", help="seeds 0 to N-1 (default: 5)")
    add("--epochs", type=_count, metavar="N", help="stop after N epochs")
    add("--quick", action="store_true", help="one epoch and two seeds, to see it work")
    add("--results", default="results", metavar="FOLDER", help="default: %(default)s")
    add("--again", action="store_true", help="train rows again that have a result")
    add("--jobs", type=_count, metavar="N", help="rows at once (default: cores / threads)")
    add("--threads", type=_count, default=1, metavar="N", help="a row's (default: %(default)s)")
    add("--list", action="store_true", help="list the tables and rows, and train nothing")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train what was asked for, and print a line a row."""
    from halfnet.lab import reproduce, specs  # noqa: PLC0415

    found = specs.load(arguments.specs) if arguments.specs else specs.paper()
    if not found.tables:
        found = specs.Specs(specs.paper().tables, found.presets)
    chosen = reproduce.choose(found, arguments.tables, arguments.rows)
    if arguments.list:
        _list(chosen, arguments.json)
        return 0
    plans = [
        reproduce.plan(
            found,
            table,
            row,
            preset=arguments.preset,
            seeds=range(arguments.seeds or (2 if arguments.quick else 5)),
            epochs=arguments.epochs or (1 if arguments.quick else None),
            threads=arguments.threads,
        )
        for table, row in chosen
    ]
    jobs = arguments.jobs or max(1, (os.cpu_count() or 1) // arguments.threads)
    outcomes = reproduce.run(
        plans,
        Path(arguments.results),
        jobs=jobs,
        again=arguments.again,
        show=None if arguments.json else sys.stdout,
    )
    failed = [outcome for outcome in outcomes if outcome.result is None]
    if arguments.json:
        print(json.dumps(reproduce.records_of(outcomes), indent=1))
        for outcome in failed:
            print(f"{outcome.plan.name}: {outcome.error}", file=sys.stderr)
    else:
        presets = dict.fromkeys(o.plan.preset for o in outcomes if o.result is not None)
        for preset in presets:
            print(f"results are in {Path(arguments.results) / preset}")
    return int(bool(failed))


def _count(text: str) -> int:
    """Return a number that an option takes; argparse says what is wrong with it."""
    if not text.isascii() or not text.isdigit() or len(text) > 7 or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {_MOST}, got {text!r}")
    return int(text)


def _list(rows: Iterable[tuple["Table", "Row"]], as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"table": table.key, "row": row.name} for table, row in rows], indent=1))
        return
    for table, row in rows:
        print(f"{table.key:15} {row.name}")
