"""`map_each`: the results of work on items, in their order, from threads or forked processes of this machine.

`spark/map_each.py` does the same with tasks of Spark. The work must change no log directory that it reads.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, of_the_system
from kafkalog_cli.log.reading.budget import LARGE_BUFFERS, started_pool

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

AHEAD = 2
"""Items started or queued per thread: the results that a slow item can hold up."""
POLL_SECONDS = 0.2
GROUP_ITEMS = 128
"""Small items of one process: to fork takes as long as a few of them."""
LEAST_ITEMS = 64
"""The fewest small items for which a process is forked."""
SMALL_BYTES = 4 << 20
"""The size of a log from which threads do better: the library holds no lock of Python."""
LEAST_BYTES = 64 << 20
"""The fewest bytes of large items for which processes are forked: below, one is done before others have started."""
GROUPS_PER_PROCESS = 4
"""Groups of large items that a process gets on average: more of them end together, fewer save forks."""
MOST_PROCESSES = 8
"""A limit on memory: each process holds the records of one large item."""


@dataclass(frozen=True, slots=True)
class Item(Generic[ItemT]):
    """What is worked on: `value`, which takes about `size_bytes` to read, from the partitions at `paths`."""

    value: ItemT
    size_bytes: int = 0
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known(Generic[ResultT]):
    """Stands for an item whose result is known already."""

    result: ResultT


Items = Iterable[Item[ItemT] | Known[ResultT]]


class Advance(Protocol):
    """Hears of bytes that were read, from any thread."""

    def __call__(self, size_bytes: int, subject: str = "", /) -> None:
        """Add `size_bytes` of the file or directory `subject`; 0: the work goes on."""


Work = Callable[[ItemT, Advance], ResultT]
"""Returns the result for the value of an item. It may report the bytes that it reads; the rest is reported after it."""
Failed = Callable[[Item[ItemT], KafkalogError], ResultT]
"""Returns what stands for the result of an item whose work raised a KafkalogError or OSError."""


class Forks(Enum):
    """Which items are worked on in forked processes of this machine; threads work on the others."""

    NONE = auto()
    OF_SMALL_ITEMS = auto()
    """A small log costs more Python than reading, so threads only take turns: many items share a process."""
    OF_LARGE_ITEMS = auto()
    """Python does a part of the work on each record: large items have a process of their own."""


class MapEach(Protocol):
    """The signature of `map_each`."""

    def __call__(  # noqa: PLR0913
        self,
        items: Items[ItemT, ResultT],
        work: Work[ItemT, ResultT],
        *,
        jobs: int = 1,
        name: str = "",
        advance: Advance = ...,
        failed: Failed[ItemT, ResultT] | None = None,
        forks: Forks = Forks.NONE,
        fs: Filesystem | None = None,
    ) -> Generator[ResultT, None, None]:
        """See `map_each`. Another machine must see the same partitions through `fs`."""


class ProcessKilled(Exception):
    """A process that worked on a large item was killed."""


def do_not_report(size_bytes: int, subject: str = "", /) -> None:
    """Report nothing."""


def map_each(  # noqa: PLR0913
    items: Items[ItemT, ResultT],
    work: Work[ItemT, ResultT],
    *,
    jobs: int = 1,
    name: str = "",
    advance: Advance = do_not_report,
    failed: Failed[ItemT, ResultT] | None = None,
    forks: Forks = Forks.NONE,
    fs: Filesystem | None = None,
) -> Generator[ResultT, None, None]:
    """Yield the result of `work` for each item, in order; `items` is iterated in this thread, ahead of the results.

    `jobs` threads are used, which have this `name`; with one, an item is worked on when its result is requested. Close
    the iterator to end early: no more items are started, and threads end when their work reports bytes.

    Raises the exceptions of `work` (KafkalogError and OSError only if `failed` is None), and ProcessKilled.
    """
    del fs  # this machine sees what the caller sees
    run = partial(run_item, work, failed)
    items = iter(items)
    if forks is Forks.OF_LARGE_ITEMS:
        listed = [*items]
        total_bytes = sum(map(_size_bytes, listed))
        count = min(len(listed), _cores(), MOST_PROCESSES)
        if count > 1 and total_bytes >= LEAST_BYTES:
            groups = _large_groups(listed, total_bytes / count / GROUPS_PER_PROCESS)
            yield from _in_processes(groups, count, run, advance, runs_again=False)
            return
        items = iter(listed)
    elif forks is Forks.OF_SMALL_ITEMS and jobs > 1 and sys.platform == "linux" and threading.active_count() == 1:
        left: list[Item[ItemT] | Known[ResultT]] = []  # another thread might hold a lock, for which a fork would wait
        yield from _in_processes(_small_groups(items, left), jobs, run, advance, runs_again=True)
        items = chain(left, items)
    yield from _in_threads(items, jobs, name, run, advance)


def run_item(
    work: Work[ItemT, ResultT], failed: Failed[ItemT, ResultT] | None, item: Item[ItemT], advance: Advance
) -> ResultT:
    """Return the result for an item, and report the bytes that its work has not reported."""
    left_bytes = item.size_bytes

    def report(size_bytes: int, subject: str = "", /) -> None:
        nonlocal left_bytes
        left_bytes -= size_bytes
        advance(size_bytes, subject)

    try:
        result = work(item.value, report)
    except (KafkalogError, OSError) as error:
        if failed is None:
            raise
        path = next(iter(item.paths), "")
        result = failed(item, of_the_system(path, error) if isinstance(error, OSError) else error)
    if left_bytes > 0:
        advance(left_bytes, next(iter(item.paths), ""))
    return result


Run = Callable[[Item[Any], Advance], ResultT]


# ---- threads


def _in_threads(
    items: Iterator[Item[Any] | Known[ResultT]], jobs: int, name: str, run: Run[ResultT], advance: Advance
) -> Iterator[ResultT]:
    """Yield the results from so many threads; from this thread if the system gives none."""
    pool = None
    if jobs > 1:
        keep_large_buffers_apart()
        pool = started_pool(jobs, name)
    if pool is None:
        yield from (item.result if isinstance(item, Known) else run(item, advance) for item in items)
        return
    is_over = threading.Event()

    def report(size_bytes: int, subject: str = "", /) -> None:
        if is_over.is_set():
            raise KeyboardInterrupt
        advance(size_bytes, subject)

    def result(item: Item[Any] | Known[ResultT]) -> ResultT:
        if isinstance(item, Known):
            return item.result
        with LARGE_BUFFERS.job():
            return run(item, report)

    running = deque(pool.submit(result, item) for item in islice(items, AHEAD * jobs))
    try:
        while running:
            yield running.popleft().result()
            running.extend(pool.submit(result, item) for item in islice(items, 1))
    finally:
        is_over.set()
        pool.shutdown(cancel_futures=True)


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


# ---- processes


def _cores() -> int:
    """Return how many processes can work at a time. Other systems start a process from scratch, which takes seconds."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def _small_groups(
    items: Iterator[Item[Any] | Known[ResultT]], left: list[Item[Any] | Known[ResultT]]
) -> Iterator[list[Item[Any] | Known[ResultT]]]:
    """Yield groups of small items; the first group that is not worth a process goes to `left`."""
    while True:
        group = [*islice(items, GROUP_ITEMS)]
        is_small = max(map(_size_bytes, group), default=0) <= SMALL_BYTES
        if len(group) < LEAST_ITEMS or not is_small:
            left += group
            return
        yield group


def _large_groups(
    items: Sequence[Item[Any] | Known[ResultT]], least_bytes: float
) -> Iterator[list[Item[Any] | Known[ResultT]]]:
    """Yield groups of items with at least so many bytes together; large items are alone."""
    group: list[Item[Any] | Known[ResultT]] = []
    size_bytes = 0
    for item in items:
        group.append(item)
        size_bytes += _size_bytes(item)
        if size_bytes >= least_bytes:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


def _size_bytes(item: Item[Any] | Known[Any]) -> int:
    return item.size_bytes if isinstance(item, Item) else 0


def _in_processes(
    groups: Iterator[Sequence[Item[Any] | Known[ResultT]]],
    count: int,
    run: Run[ResultT],
    advance: Advance,
    *,
    runs_again: bool,
) -> Iterator[ResultT]:
    """Yield the results of each group from a process of its own, `count` at a time. When one fails, the others end.

    `runs_again`: this process works on the group of a process that was killed.
    """
    from multiprocessing.connection import wait

    in_order: deque[_Process[ResultT]] = deque()
    try:
        while True:
            working = [process for process in in_order if process.results is None]
            for group in islice(groups, count - len(working)):
                in_order.append(_Process(group, run, advance, runs_again=runs_again))
            if not in_order:
                return
            working = [process for process in in_order if process.results is None]
            ready = wait([process.pipe for process in working], POLL_SECONDS) if working else []
            advance(0)
            for process in working:
                if process.pipe in ready:
                    process.take_results()
            while in_order and in_order[0].results is not None:
                yield from in_order.popleft().results or ()
    finally:
        for process in in_order:
            process.end()


class _Process(Generic[ResultT]):
    """A forked process, which begins with all that this one knows. It sends the results of a group when it is done.

    `results` is None while it works. If the system gives no process, this one has worked on the group.
    """

    def __init__(
        self, group: Sequence[Item[Any] | Known[ResultT]], run: Run[ResultT], advance: Advance, *, runs_again: bool
    ) -> None:
        from multiprocessing import get_context

        self._group, self._run, self._advance, self._runs_again = group, run, advance, runs_again
        self.results: list[ResultT] | None = None
        context = get_context("fork")
        self.pipe, sending = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_work_on, args=(self._items, run, self.pipe, sending, os.getpid()), daemon=True
        )
        # An interrupt must not raise in the fork, and not here before the fork is known: it would not be ended.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        except OSError:  # too many processes
            self.results = self._work_here()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            sending.close()

    @property
    def _items(self) -> list[Item[Any]]:
        return [item for item in self._group if isinstance(item, Item)]

    def take_results(self) -> None:
        """Set `results`, now that the process has sent them or has ended. Raises its exception, and ProcessKilled."""
        try:
            found, error, trace = self.pipe.recv()
        except (EOFError, OSError):
            if not self._runs_again:
                raise ProcessKilled from None
            self.results = self._work_here()
        else:
            if error is not None:
                raise error from RuntimeError(f"in a forked process:\n{trace}")
            for item in self._items:
                self._advance(item.size_bytes, next(iter(item.paths), ""))
            self.results = self._in_order(found)
        self.end()

    def _work_here(self) -> list[ResultT]:
        return self._in_order(self._run(item, self._advance) for item in self._items)

    def _in_order(self, found: Iterable[ResultT]) -> list[ResultT]:
        results = iter(found)
        return [item.result if isinstance(item, Known) else next(results) for item in self._group]

    def end(self) -> None:
        """End the process now, unless it has ended."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self.pipe.close()


def _work_on(
    items: Sequence[Item[Any]], run: Run[Any], receiving: Connection, sending: Connection, parent: int
) -> None:
    """Work on items in a fork. Interrupts stay blocked: the process that forked it ends it."""
    receiving.close()  # else this process would wait for itself to read its results, after the other was killed
    threading.Thread(target=_end_with, args=(parent,), name="kafkalog-end", daemon=True).start()
    gc.freeze()  # a collection would write to all objects, whose pages are shared
    try:
        answer: Any = [run(item, do_not_report) for item in items], None, ""
    except Exception as error:
        import traceback

        answer = None, error, traceback.format_exc()
    with suppress(OSError):  # the other process was killed
        sending.send(answer)


def _end_with(parent: int) -> None:
    """End this process when the one that forked it is gone: killed, it ends no fork."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)
