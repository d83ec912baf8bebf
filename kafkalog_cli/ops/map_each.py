"""`map_each`: the results of work on items, in their order, from threads or forked processes of this machine.

`spark/map_each.py` does the same with tasks of Spark. The work must change no log directory that it reads.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
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
from itertools import islice
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, of_the_system
from kafkalog_cli.log.reading.budget import LARGE_BUFFERS, started_pool

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

AHEAD = 2
"""Items started or queued per thread: the results that a slow item can hold up."""
POLL_SECONDS = 0.2
GROUP_ITEMS = 32
"""The most items of which a process sends the results together."""
LEAST_ITEMS = 16
"""The fewest items for which processes are forked: that takes as long as a few small ones."""
LEAST_BYTES = 64 << 20
"""The fewest bytes of large items for which processes are forked: below, one is done before others have started."""
GROUPS_PER_PROCESS = 4
"""Groups that a process gets on average: more of them end together, fewer send less."""
MOST_PROCESSES = 8
"""A limit on memory: each process holds the records of one large item."""
REPORT_BYTES = 64 << 20
"""The bytes that a process reads before it reports them."""


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


@dataclass(frozen=True, slots=True)
class Unplanned(Generic[ItemT, ResultT]):
    """Stands for an item that whoever works on it makes, from the partitions at `paths`."""

    plan: Callable[[], Item[ItemT] | Known[ResultT]]
    paths: tuple[str, ...] = ()


AnyItem = Item[ItemT] | Known[ResultT] | Unplanned[ItemT, ResultT]
Items = Iterable[AnyItem[ItemT, ResultT]]


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
    OF_MANY_ITEMS = auto()
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
    if forks is not Forks.NONE and sys.platform == "linux":  # other systems start a process from scratch, in seconds
        listed = [*items]
        is_large = forks is Forks.OF_LARGE_ITEMS
        groups, count = _large_groups(listed) if is_large else _equal_groups(listed, jobs)
        if count > 1:
            yield from _in_processes(groups, count, run, advance, runs_again=not is_large)
            return
        items, jobs = listed, min(jobs, len(listed))
    yield from _in_threads(iter(items), jobs, name, run, advance)


def run_item(
    work: Work[ItemT, ResultT],
    failed: Failed[ItemT, ResultT] | None,
    item: AnyItem[ItemT, ResultT],
    advance: Advance,
) -> ResultT:
    """Return the result for an item, and report the bytes that its work has not reported."""
    if isinstance(item, Unplanned):
        item = item.plan()
    if isinstance(item, Known):
        return item.result
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


def planned(items: Items[ItemT, ResultT]) -> Iterator[Item[ItemT] | Known[ResultT]]:
    """Yield the items, for work on them elsewhere."""
    return (item.plan() if isinstance(item, Unplanned) else item for item in items)


Run = Callable[[AnyItem[Any, ResultT], Advance], ResultT]
Group = Sequence[AnyItem[Any, ResultT]]


# ---- threads


def _in_threads(
    items: Iterator[AnyItem[Any, ResultT]], jobs: int, name: str, run: Run[ResultT], advance: Advance
) -> Iterator[ResultT]:
    """Yield the results from so many threads; from this thread if the system gives none."""
    pool = None
    if jobs > 1:
        keep_large_buffers_apart()
        pool = started_pool(jobs, name)
    if pool is None:
        yield from (run(item, advance) for item in items)
        return
    is_over = threading.Event()

    def report(size_bytes: int, subject: str = "", /) -> None:
        if is_over.is_set():
            raise KeyboardInterrupt
        advance(size_bytes, subject)

    def result(item: AnyItem[Any, ResultT]) -> ResultT:
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
    """Return how many processes can work at a time."""
    return len(os.sched_getaffinity(0))


def _equal_groups(items: Group[ResultT], jobs: int) -> tuple[list[Group[ResultT]], int]:
    """Return groups of equal numbers of items, and the number of processes for them; 0 if no process is forked."""
    if len(items) < LEAST_ITEMS or threading.active_count() > 1:  # a fork would wait for a lock of another thread
        return [], 0
    size = max(1, min(GROUP_ITEMS, len(items) // (jobs * GROUPS_PER_PROCESS)))
    return [items[at : at + size] for at in range(0, len(items), size)], jobs


def _large_groups(items: Group[ResultT]) -> tuple[list[Group[ResultT]], int]:
    """Return groups of about equal sizes, of which large items have their own, and the number of processes for them."""
    total_bytes = sum(map(_size_bytes, items))
    count = min(len(items), _cores(), MOST_PROCESSES)
    if count <= 1 or total_bytes < LEAST_BYTES:
        return [], 0
    groups: list[list[AnyItem[Any, ResultT]]] = [[]]
    size_bytes = 0
    for item in items:
        groups[-1].append(item)
        size_bytes += _size_bytes(item)
        if size_bytes >= total_bytes / count / GROUPS_PER_PROCESS:
            groups.append([])
            size_bytes = 0
    return [group for group in groups if group], count


def _size_bytes(item: AnyItem[Any, Any]) -> int:
    return item.size_bytes if isinstance(item, Item) else 0


def _in_processes(
    groups: Sequence[Group[ResultT]], count: int, run: Run[ResultT], advance: Advance, *, runs_again: bool
) -> Iterator[ResultT]:
    """Yield the results of the groups from so many processes, each of which gets the next group when it has none.

    When one fails, the others end. `runs_again`: this process works on the group of a process that was killed, as it
    does on groups for which the system gives no process.
    """
    coming, results = iter(range(len(groups))), dict[int, list[ResultT]]()
    processes: list[_Process[ResultT]] = []
    try:
        _start(processes, min(count, len(groups)), groups, run)
        for process in processes:
            process.work_on(next(coming, None))
        for number, group in enumerate(groups):
            while any(process.number == number for process in processes):
                for process in _ready(processes):
                    try:
                        found, size_bytes, subject = process.receive()
                    except EOFError:
                        if not runs_again:
                            raise ProcessKilled from None
                        process.number = None
                        continue
                    advance(size_bytes, subject)
                    if found is not None and process.number is not None:
                        results[process.number] = found
                        process.work_on(next(coming, None))
                advance(0)
            yield from results.pop(number) if number in results else [run(item, advance) for item in group]
    finally:
        for process in processes:
            process.end()


def _start(processes: list[_Process[ResultT]], count: int, groups: Sequence[Group[ResultT]], run: Run[ResultT]) -> None:
    """Add so many processes, or as many as the system gives."""
    # An interrupt must not raise in a fork, and not here before the fork is known: it would not be ended.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with suppress(OSError):  # too many processes
            processes.extend(_Process(groups, run) for _ in range(count))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _ready(processes: Iterable[_Process[ResultT]]) -> list[_Process[ResultT]]:
    """Wait for processes that have sent something or have ended, and return them; not long."""
    working, poll = {process.answers: process for process in processes if process.number is not None}, select.poll()
    for descriptor in working:
        poll.register(descriptor, select.POLLIN)
    return [working[descriptor] for descriptor, _ in poll.poll(POLL_SECONDS * 1000)]


class _Process(Generic[ResultT]):
    """A forked process, which begins with all that this one knows. It sends the results of a group when it is done.

    `number` is that of the group that it works on, None without. Interrupts must be blocked. Raises OSError if the
    system gives no process.
    """

    def __init__(self, groups: Sequence[Group[ResultT]], run: Run[ResultT]) -> None:
        self.number: int | None = None
        numbers, self._numbers = os.pipe()
        self.answers, answers = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
            if not self._pid:
                self._close()  # else the fork would wait for itself to read its results, after the other was killed
                _work_on(groups, run, numbers, answers, parent)
        except OSError:
            self._close()
            raise
        finally:
            os.close(numbers)
            os.close(answers)

    def work_on(self, number: int | None) -> None:
        """Have it work on a group (None: there is no more)."""
        self.number = number
        if number is not None:
            with suppress(BrokenPipeError):  # it was killed, as `receive` will show
                os.write(self._numbers, number.to_bytes(_NUMBER_BYTES, "little"))

    def receive(self) -> tuple[list[ResultT] | None, int, str]:
        """Return the results of the group, None if it goes on, and how many bytes of what were read.

        Raises EOFError if the process was killed, and the exception of the work.
        """
        size_bytes = int.from_bytes(_read(self.answers, _NUMBER_BYTES), "little")
        found, error, trace, *read = pickle.loads(_read(self.answers, size_bytes))
        if error is not None:
            raise error from RuntimeError(f"in a forked process:\n{trace}")
        return found, *read

    def end(self) -> None:
        """End the process now, unless it has ended."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._close()

    def _close(self) -> None:
        os.close(self._numbers)
        os.close(self.answers)


def _work_on(groups: Sequence[Group[Any]], run: Run[Any], numbers: int, answers: int, parent: int) -> NoReturn:
    """Work on groups in a fork. Interrupts stay blocked: the process that forked it ends it."""
    try:
        threading.Thread(target=_end_with, args=(parent,), name="kafkalog-end", daemon=True).start()
        gc.freeze()  # a collection would write to all objects, whose pages are shared
        while True:
            _send(answers, _results_of(groups[int.from_bytes(_read(numbers, _NUMBER_BYTES), "little")], run, answers))
    finally:
        os._exit(1)


def _results_of(group: Group[ResultT], run: Run[ResultT], answers: int) -> _Answer[ResultT]:
    """Return the answer of a fork about a group. While it works, it sends what it has read."""
    read_bytes, read = 0, ""

    def report(size_bytes: int, subject: str = "", /) -> None:
        nonlocal read_bytes, read
        read_bytes, read = read_bytes + size_bytes, subject or read
        if read_bytes >= REPORT_BYTES:
            _send(answers, (None, None, "", read_bytes, read))
            read_bytes = 0

    try:
        found = [run(item, report) for item in group]
    except Exception as error:
        import traceback

        return None, error, traceback.format_exc(), 0, ""
    return found, None, "", read_bytes, read


_Answer = tuple[list[ResultT] | None, Exception | None, str, int, str]
_NUMBER_BYTES = 8


def _send(descriptor: int, answer: _Answer[Any]) -> None:
    data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    with open(descriptor, "wb", closefd=False) as pipe:
        pipe.write(len(data).to_bytes(_NUMBER_BYTES, "little") + data)


def _read(descriptor: int, size_bytes: int) -> bytearray:
    """Return so many bytes of a pipe. Raises EOFError if it ends before."""
    data = bytearray()
    while len(data) < size_bytes:
        part = os.read(descriptor, size_bytes - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _end_with(parent: int) -> None:
    """End this process when the one that forked it is gone: killed, it ends no fork."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)
