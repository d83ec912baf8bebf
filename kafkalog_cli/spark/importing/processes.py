"""Builds the partitions of a commit with several processes on the driver's machine, if that is faster."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event

from kafkalog_cli.errors import NotChanged
from kafkalog_cli.ops.importing.planning import Job
from kafkalog_cli.ops.importing.proving import JobDone

LEAST_BYTES = 64 << 20
"""The fewest bytes to build for which several processes are used: below, one is done before others have started."""
MOST_PROCESSES = 8
"""A limit on memory: each process holds batches of one partition."""
_LOOK_SECONDS = 0.2


def built(jobs: Sequence[Job], work: Callable[[Job], JobDone]) -> list[JobDone]:
    """Return the results of `work` for the jobs, in their order, from several processes.

    Processes are used, not threads, because compiled kernels do only a part of the work.

    Each process takes the locks that it needs. When one fails, the others end. Raises the exceptions of `work`, and
    NotChanged if a process was killed; the directories of unfinished partitions then stay.
    """
    count = min(len(jobs), _cores(), MOST_PROCESSES)
    # On other systems a process starts from scratch and imports all modules, which takes as long as a second of work.
    if count < 2 or sys.platform != "linux" or sum(job.size_bytes for job in jobs) < LEAST_BYTES:
        return [work(job) for job in jobs]
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    with ProcessPoolExecutor(count, context, _end_in_time, (os.getpid(), stop)) as pool:
        futures = [pool.submit(work, job) for job in jobs]
        try:
            for one in as_completed(futures):
                one.result()
            return [one.result() for one in futures]
        except BrokenProcessPool as error:
            reason = "a process that built a partition was killed: is there enough memory?"
            raise NotChanged(path=jobs[0].name, reason=reason) from error
        except BaseException:
            stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def _end_in_time(parent: int, stop: Event) -> None:
    """Start a thread that ends this process if `stop` is set or the parent is gone (a killed parent cannot set it)."""

    def watch() -> None:
        while os.getppid() == parent and not stop.is_set():
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="kafkalog-stop", daemon=True).start()
