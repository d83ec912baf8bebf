"""Pools of threads where the system may refuse threads: by a limit of processes, or for want of memory."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


def started_pool(most: int, name: str) -> ThreadPoolExecutor | None:
    """Return a pool of as many threads as the system gives, at most `most`; None for none.

    All its threads run already, so that it needs no thread later. A pool that cannot start a thread for a task raises,
    but keeps the task, which another thread may run then.
    """
    from concurrent.futures import ThreadPoolExecutor

    while most:
        pool, all_run, started = ThreadPoolExecutor(most, name), Event(), 0
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
