"""halfnet report: the paper beside what was measured, as Markdown, a page and figures."""

import argparse
import json
from pathlib import Path
from typing import Any

_RESULTS = Path("paper/results")


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="show results beside the paper's",
        description="Turn the results of `halfnet reproduce` into report.md, report.html and "
        "figures (SVG and PNG), with the paper's numbers beside them.",
        epilog="example: halfnet report --output build/report",
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help=f"a folder of results (default: {_RESULTS} of the checkout)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        default=Path("build/report"),
        help="where to write to (default: %(default)s)",
    )
    parser.add_argument(
        "--preset", metavar="NAME", default="paper", help="whose results (default: %(default)s)"
    )
    parser.add_argument(
        "--specs", metavar="FILE", help="a TOML file with tables of your own, for their titles"
    )
    parser.add_argument("--json", action="store_true", help="print JSON and write no files")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the report, or print its rows."""
    from halfnet.lab import _report, _tables, specs  # noqa: PLC0415

    tables = specs.load(arguments.specs).tables if arguments.specs else None
    results = arguments.results or _default_results()
    comparisons = _tables.read(results, arguments.preset, tables)
    if arguments.json:
        print(json.dumps(_tables.records(comparisons), indent=1))
        return 0
    print(_report.write(comparisons, arguments.preset, arguments.output))
    return 0


def _default_results() -> Path:
    """Return the results of the checkout that one stands in, or else of the package's own."""
    return _RESULTS if _RESULTS.is_dir() else Path(__file__).parents[3] / _RESULTS
