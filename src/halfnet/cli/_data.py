"""halfnet data: fetch and verify the data sets."""

import argparse
import json
from typing import Any

from halfnet.exceptions import HalfnetValueError


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "data",
        help="list the data sets, fetch and verify them",
        description="List the data sets; get some once and verify their SHA-256; or say where they "
        "are kept.",
        epilog="example: halfnet data get mnist cifar10",
    )
    parser.add_argument("action", choices=("list", "get", "where"))
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="of data sets to get (default: all)"
    )
    parser.add_argument("--folder", help="a folder with the original files, tried last")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List or fetch the data sets, or print the cache's folder."""
    from halfnet.lab import data  # noqa: PLC0415

    if arguments.names and arguments.action != "get":
        raise HalfnetValueError(
            f"NAME: expected none with {arguments.action}, got {arguments.names[0]!r}"
        )
    if arguments.action == "where":
        where = str(data.cache_folder())
        print(json.dumps({"cache": where}) if arguments.json else where)
        return 0
    if arguments.action == "list":
        _list(arguments.json)
        return 0
    places = data.get(arguments.names or "all", folder=arguments.folder)
    shown = {name: None if place is None else str(place) for name, place in places.items()}
    if arguments.json:
        print(json.dumps(shown, indent=1))
        return 0
    for name, place in shown.items():
        print(f"{name}: verified, {place or 'inside scikit-learn'}")
    return 0


def _list(as_json: bool) -> None:
    """Print the data sets with their sizes."""
    from halfnet.lab._sources import KNOWN  # noqa: PLC0415

    sets = {
        name: {"train": known.train, "test": known.test, "image": known.image}
        for name, known in KNOWN.items()
    }
    if as_json:
        print(json.dumps(sets, indent=1))
        return
    for name, known in KNOWN.items():
        size = " x ".join(map(str, known.image))
        print(f"{name:14} {known.train:6,} images to train on, {known.test:6,} to test on, {size}")
