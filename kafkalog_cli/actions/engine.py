"""Where the work on partitions is done: in threads here, or wherever an engine carries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from kafkalog_cli.actions.in_order import InOrder, Sized
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.partition import Partition

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Place(NamedTuple):
    """The partition that an item is about, as it lies on the disk of whoever plans.

    `log_dir` None: it lies in none. `is_locked`: nobody else changes it, so that it must be found as it is.
    """

    fs: Filesystem
    path: str
    log_dir: str | None
    is_locked: bool


class Engine(Protocol):
    """Work on partitions: what is done to one is a function of an item, and what comes back is a value."""

    @property
    def is_here(self) -> bool:
        """Whether `do` calls the function in this process; else it is pickled, and so are item and result."""

    def at_a_time(self, jobs: int) -> int:
        """How many tasks run at a time where so many are wanted."""

    def in_order(self, tasks: Iterable[Sized[ResultT]], jobs: int, name: str) -> InOrder[ResultT]:
        """Runs tasks, which call `do`, several at a time; their results in their order."""

    def do(self, work: Callable[[ItemT], ResultT], item: ItemT, place: Place) -> ResultT:
        """`work(item)`. Raises what that raises, and KafkalogError where it cannot be carried to where it is done."""


class Threads:
    """The engine that is here."""

    is_here = True

    def at_a_time(self, jobs: int) -> int:
        """See Engine."""
        return jobs

    def in_order(self, tasks: Iterable[Sized[ResultT]], jobs: int, name: str) -> InOrder[ResultT]:
        """See Engine; `jobs` threads."""
        return InOrder((task.run for task in tasks), jobs, name)

    def do(self, work: Callable[[ItemT], ResultT], item: ItemT, place: Place) -> ResultT:
        """See Engine."""
        del place
        return work(item)


THREADS = Threads()


def log_bytes(partition: Partition, wanted: frozenset[str] | None = None) -> int:
    """Bytes of a partition's log files, or of those that are wanted."""
    names = ((segment.log.path.rpartition("/")[2], segment.log.size_bytes) for segment in partition.segments)
    return sum(size_bytes for name, size_bytes in names if wanted is None or name in wanted)
