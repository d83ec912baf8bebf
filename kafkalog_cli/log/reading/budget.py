"""Bounds of memory and threads: of readers that work side by side, only one has large buffers at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

LARGE_BYTES = 16 << 20
"""A larger batch, as stored or decompressed, needs the turn. Brokers take 1 MiB by default (message.max.bytes)."""


class LargeBuffers:
    """The turn to have large buffers, which a job in a thread of its own takes, also several times.

    Other threads never wait, because threads of a user may wait for each other.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._of_thread = threading.local()

    @contextmanager
    def job(self) -> Iterator[None]:
        """Make the calling thread a job until the end, which also gives back the turn."""
        self._of_thread.turns = 0
        try:
            yield
        finally:
            for _ in range(self._of_thread.__dict__.pop("turns")):
                self._lock.release()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other job has the turn, and take it."""
        if not self._is_job():
            yield
            return
        self._lock.acquire()
        self._of_thread.turns += 1
        try:
            yield
        finally:
            if self._is_job():  # an iterator may be closed later, even in another thread
                self._of_thread.turns -= 1
                self._lock.release()

    def _is_job(self) -> bool:
        return "turns" in self._of_thread.__dict__


LARGE_BUFFERS = LargeBuffers()


def started_pool(most: int, name: str) -> ThreadPoolExecutor | None:
    """Return a pool of as many threads as the system gives, at most `most`; None for none.

    All its threads run already, so that it needs no thread later. A pool that cannot start a thread for a task raises,
    but keeps the task, which another thread may run then.
    """
    from concurrent.futures import ThreadPoolExecutor

    while most:
        pool, all_run, started = ThreadPoolExecutor(most, name), threading.Event(), 0
        try:
            while started < most:
                pool.submit(all_run.wait)
                started += 1
            return pool
        except (RuntimeError, MemoryError):  # "can't start new thread"
            most = started
        finally:
            all_run.set()
        pool.shutdown()
    return None
