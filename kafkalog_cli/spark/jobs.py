"""Spreads work over Spark tasks, one per item: results return to the driver, failures as the original errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from kafkalog_cli.spark.failures import plain_errors

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

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


def run_tasks(
    spark: SparkSession, items: Sequence[ItemT], work: Callable[[ItemT], ResultT], watch: JobWatch | None = None
) -> list[ResultT]:
    """Return the result of `work` for each item, in their order: one task per item, started in this order.

    Spark may retry a task, and files of a lost task stay: `work` must cope with both. The first task that fails for
    good ends the others. The watcher hears of each task once, when the task is done. Raises the KafkalogError of the
    task.
    """
    if not items:
        return []
    context = spark.sparkContext
    if watch is None or watch.watcher is None:
        with plain_errors():
            return list(context.parallelize(items, len(items)).map(work).collect())  # repartition does not spread
    done: Accumulator[int] = context.accumulator(0)
    sized = list(zip(watch.sizes, items, strict=True))
    with plain_errors(), _told(watch.watcher, watch.work, sum(watch.sizes), done):
        return list(context.parallelize(sized, len(sized)).map(_Counted(work, done)).collect())


@dataclass(frozen=True, slots=True)
class _Counted(Generic[ItemT, ResultT]):
    """Runs the work and adds its bytes to an accumulator: Spark counts each task once, failed attempts never."""

    work: Callable[[ItemT], ResultT]
    done: Accumulator[int]

    def __call__(self, sized: tuple[int, ItemT]) -> ResultT:
        """Run the work in the task."""
        size_bytes, item = sized
        result = self.work(item)
        self.done.add(size_bytes)
        return result


@contextmanager
def _told(watcher: JobWatcher, work: str, total_bytes: int, done: Accumulator[int]) -> Iterator[None]:
    """Call the watcher from a thread until the block ends. The thread uses no Java: only the job's own thread does."""
    has_ended = Event()

    def tell() -> None:
        told = 0
        is_last = False
        with suppress(OSError):  # nobody reads the progress now; the job matters more
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
    """Return a name that is unique per attempt of any task of the job; always "0" in the driver and without Spark."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return "0" if task is None else str(task.taskAttemptId())


def is_another_try() -> bool:
    """Whether an earlier attempt of this task failed or was lost."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0
