"""A lock that dies with its process, so that one works and the others wait for it."""

import logging
import sys
from typing import BinaryIO

_log = logging.getLogger(__name__)


def wait_for_lock(file: BinaryIO) -> None:
    """Take the lock of an open file, however long that takes; to close the file gives it back."""
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415

        while True:
            try:
                file.seek(0)
                return msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            except OSError:  # it gives up after ten seconds
                continue
    import fcntl  # noqa: PLC0415

    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        # Some network file systems have no locks. Two at once may then spoil each other's work, but
        # what they spoil fails its check.
        _log.info("no lock on %s: %s", file.name, error)
