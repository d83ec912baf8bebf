"""Runs the work of an import in several processes of this machine, one item at a time in each."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event
from typing import TypeVar

from kafkalog_cli.errors import NotChanged
from kafkalog_cli.ops.engine import POLL_SECONDS, JobWatch

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

LEAST_BYTES = 64 << 20
"""The fewest bytes to read for which several processes are used: below, one is done before others have started."""
MOST_PROCESSES = 8
"""A limit on memory: each process holds batches of one partition."""


def in_processes(
    log_dir: str, items: Sequence[ItemT], work: Callable[[ItemT], ResultT], watch: JobWatch
) -> list[ResultT]:
    """Return the results of `work` for the items, in their order, from several processes.

    Processes are used, not threads, because compiled kernels do only a part of the work.

    Each process takes the locks that it needs. When one fails, the others end. Raises the exceptions of `work`, and
    NotChanged if a process was killed; what unfinished work has made in `log_dir` then stays.
    """
    if watch.watcher is not None:
        watch.watcher.begin(watch.work, sum(watch.sizes))
    count = min(len(items), _cores(), MOST_PROCESSES)
    # On other systems a process starts from scratch and imports all modules, which takes as long as a second of work.
    if count < 2 or sys.platform != "linux" or sum(watch.sizes) < LEAST_BYTES:
        return [_told(work(item), size_bytes, watch) for item, size_bytes in zip(items, watch.sizes, strict=True)]
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    with ProcessPoolExecutor(count, context, _end_in_time, (os.getpid(), stop)) as pool:
        futures = [pool.submit(work, item) for item in items]
        sizes = dict(zip(futures, watch.sizes, strict=True))
        try:
            for one in _as_completed(futures, watch):
                _told(one.result(), sizes[one], watch)
            return [one.result() for one in futures]
        except BrokenProcessPool as error:
            reason = "a process of the import was killed: is there enough memory?"
            raise NotChanged(path=log_dir, reason=reason) from error
        except BaseException:
            stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _as_completed(futures: Sequence[Future[ResultT]], watch: JobWatch) -> Iterator[Future[ResultT]]:
    """Yield the futures as they end; the watcher hears meanwhile that the job is running."""
    waiting = set(futures)
    while waiting:
        ended, waiting = wait(waiting, POLL_SECONDS, FIRST_COMPLETED)
        yield from ended
        if not ended and watch.watcher is not None:
            watch.watcher.advance(0)


def _told(result: ResultT, size_bytes: int, watch: JobWatch) -> ResultT:
    """Return the result, after the watcher has heard of it."""
    if watch.watcher is not None:
        watch.watcher.advance(size_bytes)
    return result


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def _end_in_time(parent: int, stop: Event) -> None:
    """Start a thread that ends this process if `stop` is set or the parent is gone (a killed parent cannot set it).

    Ctrl-C is for the parent, which sets `stop`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent and not stop.is_set():
            time.sleep(POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="kafkalog-stop", daemon=True).start()
