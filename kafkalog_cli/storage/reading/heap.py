"""How the C library keeps memory that was given back: large buffers apart, so that threads do not hoard them."""

from __future__ import annotations

import sys
from contextlib import suppress

_M_MMAP_THRESHOLD = -3
LARGE_BYTES = 256 << 10


def keep_large_buffers_apart() -> None:
    """From now on a buffer of `LARGE_BYTES` goes back to the system when it is freed, whichever thread had it.

    glibc would take the first large one that is freed for a sign to keep all that are as large in the heap of their
    thread: with four partitions at a time, a third of all memory. Elsewhere nothing is done.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
