"""The command line: `halfnet COMMAND`, one module a command.

Exit codes: 0, done; 1, something that was asked for could not be done, which one line on stderr
says; 2, the command was not understood; 130, interrupted.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from halfnet._version import __version__
from halfnet.exceptions import HalfnetError

__all__ = ["main"]

# Each is a module of this package with a function `register(commands)`, which adds its parser and
# sets its default `run`: a function of the parsed arguments that returns an exit code.
_COMMANDS = ("data", "train", "predict", "reproduce", "spectrum")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except HalfnetError as error:
        print(f"halfnet {parsed.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nhalfnet {parsed.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        sys.stderr.close()
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="halfnet",
        description="Randomized layers whose geometry is learned.",
        epilog="example: halfnet reproduce mnist --rows k=4",
    )
    parser.add_argument("--version", action="version", version=f"halfnet {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        importlib.import_module(f"halfnet.cli._{name}").register(commands)
    return parser
