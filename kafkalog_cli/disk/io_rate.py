"""A limit on the bytes per second that all threads of a run together read and write."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

LEAST_PIECE_BYTES = 64 << 10
PIECE_SECONDS = 0.1


class IoRate:
    """Limits I/O to `bytes_per_second` in total: a thread that has moved bytes waits until they were due.

    Unused bandwidth is not saved up. `piece_bytes` is the number of bytes to move at once for short, even pauses.
    """

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.piece_bytes = max(LEAST_PIECE_BYTES, int(bytes_per_second * PIECE_SECONDS))
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._free_at = clock()

    def take(self, size_bytes: int) -> None:
        """Count `size_bytes` as moved, and wait until the next bytes may be moved."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
            left = self._free_at - now
        if left > 0:
            self._sleep(left)
