"""Where the tasks of a run are carried out: in threads, several at a time, with results in the order of the tasks."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.budget import LARGE_BUFFERS, started_pool

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")

AHEAD = 2
"""Tasks started or queued per thread: the results that a slow task can hold up."""


@dataclass(frozen=True, slots=True)
class Sized(Generic[T]):
    """A task, its size in bytes, and what it is about. `size_bytes` is None if the result is already known."""

    run: Callable[[], T]
    size_bytes: int | None
    about: Any = None


class InOrder(Generic[T]):
    """Iterates over the results of tasks, in its context. With one job, a task runs when its result is requested.

    If the system gives no threads, this thread runs the tasks. An exception of a task is raised when its result is due.
    An interrupt (Ctrl-C) loses no result: iteration may continue.
    """

    def __init__(self, tasks: Iterable[Callable[[], T]], jobs: int, name: str) -> None:
        self._tasks = iter(tasks)
        self._jobs = jobs
        self._name = name
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[T]] = deque()

    def stop(self) -> None:
        """Start no more tasks. Results of tasks that were already started still follow."""
        self._tasks = iter(())
        self._running = deque(future for future in self._running if not future.cancel())

    def __enter__(self) -> InOrder[T]:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._jobs > 1:
            self._begin()
        if self._jobs <= 1:
            return next(self._tasks)()
        if not self._running:
            raise StopIteration
        result = self._wait(self._running[0])
        self._running.popleft()
        return result

    def _begin(self) -> None:
        if self._pool is None:
            keep_large_buffers_apart()
            self._pool = started_pool(self._jobs, self._name)
            if self._pool is None:  # this thread runs the tasks
                self._jobs = 1
                return
        while len(self._running) < AHEAD * self._jobs:
            task = next(self._tasks, None)
            if task is None:
                return
            self._running.append(self._pool.submit(_as_job, task))

    def _wait(self, future: Future[T]) -> T:
        """Return the result. A task that failed is removed; an interrupt while waiting leaves it in the queue."""
        try:
            return future.result()
        except BaseException as error:
            if future.done() and (future.cancelled() or future.exception() is error):
                self._running.popleft()
            raise


def _as_job(task: Callable[[], T]) -> T:
    with LARGE_BUFFERS.job():
        return task()


_M_MMAP_THRESHOLD = -3
LARGE_BYTES = 256 << 10


def keep_large_buffers_apart() -> None:
    """Make each buffer of at least `LARGE_BYTES` return to the system when it is freed, whichever thread used it.

    By default, when the first large buffer is freed, glibc starts to keep buffers of that size in the heap of their
    thread. With four partitions at a time that is a third of all memory. On systems other than Linux this function does
    nothing.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)


ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Elsewhere(Protocol):
    """Runs a function in another process, to which function and argument are pickled."""

    def __call__(self, work: Callable[[ItemT], ResultT], item: ItemT, fs: Filesystem, path: str) -> ResultT:
        """Return `work(item)`, which reads the partition at `path`.

        Raises the exceptions of `work`, and KafkalogError if the item cannot be sent or run.
        """


class Engine(Protocol):
    """Runs work that only reads partitions."""

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Runs one piece of work in another process; None: the tasks of `in_order` do all work in this process."""

    def at_a_time(self, jobs: int) -> int:
        """Return how many tasks run at a time if `jobs` are wanted."""

    def in_order(self, tasks: Iterable[Sized[ResultT]], jobs: int, name: str) -> InOrder[ResultT]:
        """Run tasks several at a time, and return their results in order."""


class Threads:
    """The engine that runs work in threads of this process."""

    elsewhere = None

    def at_a_time(self, jobs: int) -> int:
        """See Engine."""
        return jobs

    def in_order(self, tasks: Iterable[Sized[ResultT]], jobs: int, name: str) -> InOrder[ResultT]:
        """See Engine. Uses `jobs` threads."""
        return InOrder((task.run for task in tasks), jobs, name)


THREADS = Threads()

POLL_SECONDS = 0.2
"""The time between two calls of a watcher."""


class JobWatcher(Protocol):
    """Gets the progress of a job."""

    def begin(self, work: str, total_bytes: int) -> None:
        """Start a phase: `work` names it in one word, `total_bytes` is its size."""

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """Report `size_bytes` more as done; 0: the job is still running. Called from any thread."""


class JobWatch(NamedTuple):
    """The watcher of a job (None: nobody watches), the job's name in one word, and the bytes of each task."""

    watcher: JobWatcher | None
    work: str
    sizes: Sequence[int]

    def begin(self) -> None:
        """Report the start of the job to the watcher."""
        if self.watcher is not None:
            self.watcher.begin(self.work, sum(self.sizes))

    def advance(self, size_bytes: int) -> None:
        """See JobWatcher."""
        if self.watcher is not None:
            self.watcher.advance(size_bytes)


def log_bytes(partition: Partition, wanted: frozenset[str] | None = None) -> int:
    """Return the bytes of a partition's log files; `wanted` limits the sum to these file names."""
    names = ((segment.log.path.rpartition("/")[2], segment.log.size_bytes) for segment in partition.segments)
    return sum(size_bytes for name, size_bytes in names if wanted is None or name in wanted)
