"""How the C library hands memory out while networks train."""

import ctypes
import sys

_MMAP_MAX, _TRIM_THRESHOLD = -4, -1  # of mallopt, from the GNU C library's malloc.h


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, rather than give it back and ask again.

    Each training step makes the same tensors of some megabytes, which the GNU C library would get
    from the kernel and return each time: up to half of a step went into fresh pages. Elsewhere
    this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, -1)
