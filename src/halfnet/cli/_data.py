"""halfnet data: fetch and verify the data sets."""

import argparse
import json
from typing import Any


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "data",
        help="fetch the data sets and verify them",
        description="Fetch data sets once and verify their SHA-256, or say where they are kept.",
        epilog="example: halfnet data get mnist cifar10",
    )
    parser.add_argument("action", choices=("get", "where"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="a data set's name, or all")
    parser.add_argument("--folder", help="a folder with the original files, tried last")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fetch the data sets, or print the cache's folder."""
    from halfnet.lab import data  # noqa: PLC0415

    if arguments.action == "where":
        where = str(data.cache_folder())
        print(json.dumps({"cache": where}) if arguments.json else where)
        return 0
    places = data.get(arguments.names or "all", folder=arguments.folder)
    shown = {name: None if place is None else str(place) for name, place in places.items()}
    if arguments.json:
        print(json.dumps(shown, indent=1))
        return 0
    for name, place in shown.items():
        print(f"{name}: verified, {place or 'inside scikit-learn'}")
    return 0
