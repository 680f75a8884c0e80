"""halfnet spectrum: how many directions hold the energy of a layer's weights."""

import argparse
import json
from pathlib import Path
from typing import Any

_FRACTIONS = (0.6, 0.8, 0.9)
_PAPER_ROW = ("mnist", "MLP h=64")  # the row whose spectrum the paper shows
_HEIGHT, _WIDTH = 10, 64  # of a chart, in characters


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "spectrum",
        help="show the singular values' energy of trained layers",
        description="Print how many singular directions hold 60%, 80% and 90% of the energy of "
        "each hidden layer's weights: of a result of `halfnet reproduce`, or of a model file.",
        epilog="example: halfnet spectrum --table mnist --row 'MLP h=64'",
    )
    add = parser.add_argument
    add("model", nargs="?", metavar="MODEL", help="a file of halfnet train or halfnet.save")
    add(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="a folder of results (default: paper/results of the checkout)",
    )
    add("--preset", default="paper", help="the result's recipe (default: %(default)s)")
    add("--table", default=_PAPER_ROW[0], help="the result's table (default: %(default)s)")
    add("--row", default=_PAPER_ROW[1], help="the result's row (default: %(default)s)")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the energies."""
    from halfnet.lab import _layer_spectra, _spectra  # noqa: PLC0415

    paper = {}
    if arguments.model is not None:
        title, layers = arguments.model, _layer_spectra.of_file(Path(arguments.model))
    else:
        place = arguments.preset, arguments.table, arguments.row
        title = "{1}, {2} (preset {0})".format(*place)
        layers = _layer_spectra.of_result(arguments.results or _default_results(), *place)
        if place[1:] == _PAPER_ROW:
            paper = _spectra.PAPER_DIRECTIONS
    records = [_layer_spectra.record(*layer, _FRACTIONS, paper) for layer in layers.items()]
    if arguments.json:
        print(json.dumps(records, indent=1))
    else:
        print("\n\n".join([title, *map(_text, records)]))
    return 0


def _default_results() -> Path:
    from halfnet.cli import _report  # noqa: PLC0415

    return _report._default_results()


def _text(record: dict[str, Any]) -> str:
    size, runs = record["size"], record["runs"]
    lines = [f"{record['layer']}: {size} directions" + (f", {runs} seeds" if runs > 1 else "")]
    for energy in record["energies"]:
        counts, mean = energy["directions"], energy["mean"]
        line = f"{energy['fraction']:4.0%} of the energy in the leading {mean:g} of {size}"
        if runs > 1:
            line += f" (each seed: {', '.join(map(str, counts))})"
        if energy["paper"] is not None:
            line += f", paper {energy['paper']}"
        lines.append(line)
    return "\n".join([*lines, "", _chart(record["cumulative"])])


def _chart(cumulative: list[float]) -> str:
    """Draw the energy that the leading directions hold, a column each or for a few of them."""
    step = -(-len(cumulative) // _WIDTH)
    columns = cumulative[step - 1 :: step]
    lines = []
    for row in range(_HEIGHT, 0, -1):
        filled = "".join(_cell(value * _HEIGHT - row + 1) for value in columns)
        lines.append(f"{row / _HEIGHT:5.0%} |{filled.rstrip()}")
    first, last = str(step), str(step * len(columns))
    space = len(columns) - len(first)
    axis = f"{first}{last:>{space}}" if space > len(last) else last.rjust(len(columns))
    return "\n".join([*lines, f"      +{'-' * len(columns)}", f"       {axis} directions"])


def _cell(part: float) -> str:
    """Return a block as high as this part of a line."""
    return " ▁▂▃▄▅▆▇█"[round(8 * min(1.0, max(0.0, part)))]
