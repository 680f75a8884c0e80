"""The command line: `halfnet COMMAND`, one module a command.

Exit codes: 0, done; 1, something that was asked for could not be done, which one line on stderr
says; 2, the command was not understood; 130, interrupted.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress

from halfnet._version import __version__
from halfnet.exceptions import HalfnetError

__all__ = ["main"]

# Each is a module of this package with a function `register(commands)`, which adds its parser and
# sets its default `run`: a function of the parsed arguments that returns an exit code.
_COMMANDS = ("data", "train", "predict", "reproduce", "report", "spectrum", "bench")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        code = int(parsed.run(parsed))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(f"\nhalfnet {parsed.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        pass
    except Exception as error:
        print(f"halfnet {parsed.command}: {_why(error)}", file=sys.stderr)
    _drop_output()
    return 1


def _why(error: Exception) -> str:
    """Return what a user is told of an error; one that nobody foresaw is raised again."""
    if isinstance(error, HalfnetError):
        return str(error)
    if isinstance(error, OSError):  # of stdout on a full disk, say
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror or error}"
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # Python's, torch's
        return "there is not enough memory for this"
    raise error


def _drop_output() -> None:
    """Close a stdout that cannot be written: Python would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            sys.stdout.close()


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
