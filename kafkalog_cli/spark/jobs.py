"""Work spread over tasks of Spark: one task an item, its result back to the driver, failures as what they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from kafkalog_cli.spark.failures import told_plainly

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

POLL_SECONDS = 0.2
"""How often a watcher is told."""


class Watcher(Protocol):
    """Wants to know how far a job is."""

    def begin(self, work: str, total_bytes: int) -> None:
        """So much is to be done from now on; `work` is what, in a word."""

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """So much more is done, 0: the job goes on; called from any thread."""


class Watch(NamedTuple):
    """Who is told how far the tasks are, None: nobody; what they do, in a word, and how many bytes each is about."""

    watcher: Watcher | None
    work: str
    sizes: Sequence[int]


def run_tasks(
    spark: SparkSession, items: Sequence[ItemT], work: Callable[[ItemT], ResultT], watch: Watch | None = None
) -> list[ResultT]:
    """What `work` makes of each item, in their order; one task each, begun in this order.

    A task may be tried again, and what a lost one made stays where it made it: `work` must bear that. The first that
    fails for good ends the others. A watcher hears of each task once, when it is done. Raises the KafkalogError that a
    task raised.
    """
    if not items:
        return []
    context = spark.sparkContext
    if watch is None or watch.watcher is None:
        with told_plainly():
            return list(context.parallelize(items, len(items)).map(work).collect())  # repartition does not spread
    done: Accumulator[int] = context.accumulator(0)
    sized = list(zip(watch.sizes, items, strict=True))
    with told_plainly(), _told(watch.watcher, watch.work, sum(watch.sizes), done):
        return list(context.parallelize(sized, len(sized)).map(_Counted(work, done)).collect())


@dataclass(frozen=True, slots=True)
class _Counted(Generic[ItemT, ResultT]):
    """The work, of which Spark hands on what it came to: of each task once, of tries that failed nothing."""

    work: Callable[[ItemT], ResultT]
    done: Accumulator[int]

    def __call__(self, sized: tuple[int, ItemT]) -> ResultT:
        """In the task."""
        size_bytes, item = sized
        result = self.work(item)
        self.done.add(size_bytes)
        return result


@contextmanager
def _told(watcher: Watcher, work: str, total_bytes: int, done: Accumulator[int]) -> Iterator[None]:
    """The watcher is told from a thread, which does not speak to Java: that belongs to whoever waits for the job."""
    has_ended = Event()

    def tell() -> None:
        told = 0
        is_last = False
        with suppress(OSError):  # nobody reads it any more; the job matters more
            while not is_last:
                is_last = has_ended.wait(POLL_SECONDS)
                now = done.value
                watcher.advance(now - told)
                told = now

    watcher.begin(work, total_bytes)
    thread = Thread(target=tell, name=f"kafkalog-{work}-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def attempt() -> str:
    """A name that no other try of any task of the job has; in the driver, or without Spark, always the same."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return "0" if task is None else str(task.taskAttemptId())


def is_another_try() -> bool:
    """Whether a try of this task came before, and failed or was lost."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0
