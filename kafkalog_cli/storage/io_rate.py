"""A limit on the bytes that a run reads and writes in a second, over all its threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

LEAST_PIECE_BYTES = 64 << 10
PIECE_SECONDS = 0.1


class IoRate:
    """Whoever has moved bytes waits until they were due: at `bytes_per_second`, however many threads move them.

    What was not used is not saved up. `piece_bytes` is how much to move at once, so that pauses are short and even.
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
        """So many bytes were moved: come back when the next ones may be."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
            left = self._free_at - now
        if left > 0:
            self._sleep(left)
