"""Where the work on partitions runs: in threads of this process, or in another engine such as Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.in_order import InOrder, Sized

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Place(NamedTuple):
    """The partition that an item is about, as the planning process sees it.

    `log_dir` is None if the partition is in no log directory. `is_locked`: nobody else changes the partition, so the
    worker must find it exactly as planned.
    """

    fs: Filesystem
    path: str
    log_dir: str | None
    is_locked: bool


class Engine(Protocol):
    """Runs work on partitions: a function takes an item and returns a value."""

    @property
    def is_here(self) -> bool:
        """Whether `do` calls the function in this process; otherwise function, item and result are pickled."""

    def at_a_time(self, jobs: int) -> int:
        """Return how many tasks run at a time if `jobs` are wanted."""

    def in_order(self, tasks: Iterable[Sized[ResultT]], jobs: int, name: str) -> InOrder[ResultT]:
        """Run tasks, which call `do`, several at a time, and return their results in order."""

    def do(self, work: Callable[[ItemT], ResultT], item: ItemT, place: Place) -> ResultT:
        """Return `work(item)`. Raises the exceptions of `work`, and KafkalogError if the item cannot be sent or run."""


class Threads:
    """The engine that runs work in threads of this process."""

    is_here = True

    def at_a_time(self, jobs: int) -> int:
        """See Engine."""
        return jobs

    def in_order(self, tasks: Iterable[Sized[ResultT]], jobs: int, name: str) -> InOrder[ResultT]:
        """See Engine. Uses `jobs` threads."""
        return InOrder((task.run for task in tasks), jobs, name)

    def do(self, work: Callable[[ItemT], ResultT], item: ItemT, place: Place) -> ResultT:
        """See Engine."""
        del place
        return work(item)


THREADS = Threads()


def log_bytes(partition: Partition, wanted: frozenset[str] | None = None) -> int:
    """Return the bytes of a partition's log files; `wanted` limits the sum to these file names."""
    names = ((segment.log.path.rpartition("/")[2], segment.log.size_bytes) for segment in partition.segments)
    return sum(size_bytes for name, size_bytes in names if wanted is None or name in wanted)
