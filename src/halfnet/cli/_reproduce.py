"""halfnet reproduce: train rows of the paper's tables, and print them beside the paper's."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


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
    add("--specs", metavar="FILE", help="a TOML file with tables and presets of your own")
    add("--preset", default="paper", help="the recipe (default: %(default)s)")
    add("--seeds", type=int, default=5, metavar="N", help="seeds 0 to N-1 (default: %(default)s)")
    add("--epochs", type=int, metavar="N", help="stop after N epochs")
    add("--quick", action="store_true", help="one epoch and two seeds, to see it work")
    add("--results", default="results", metavar="FOLDER", help="default: %(default)s")
    add("--again", action="store_true", help="train rows again that have a result")
    add("--jobs", type=int, metavar="N", help="rows at once (default: cores / threads)")
    add("--threads", type=int, default=1, metavar="N", help="a row's (default: %(default)s)")
    add("--list", action="store_true", help="list the tables and rows, and train nothing")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train what was asked for, and print a line a row."""
    from halfnet.lab import reproduce, specs  # noqa: PLC0415

    found = specs.load(arguments.specs) if arguments.specs else specs.paper()
    chosen = reproduce.choose(found, arguments.tables, arguments.rows)
    if arguments.list:
        for table, row in chosen:
            print(f"{table.key:16}{row.name}")
        return 0
    plans = [
        reproduce.plan(
            found,
            table,
            row,
            preset=arguments.preset,
            seeds=range(2 if arguments.quick else arguments.seeds),
            epochs=1 if arguments.quick else arguments.epochs,
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
    if arguments.json:
        print(json.dumps(reproduce.records_of(outcomes), indent=1))
    return int(any(outcome.result is None for outcome in outcomes))
