"""A verb as a value, and the summary of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.session.work import Work

if TYPE_CHECKING:
    from kafkalog_cli.ops.session.session import Session

RequestT_contra = TypeVar("RequestT_contra", contravariant=True)


def never(_partition: Partition) -> bool:
    """Lock no partition before the verb runs: the verb takes the lock when it has something to change."""
    return False


@dataclass(frozen=True, slots=True)
class Verb(Generic[RequestT_contra]):
    """A verb: `run` plans the change of one partition and applies it, in any thread.

    `run` prints nothing. It raises KafkalogError, and OSError from the disk. `changes`: whether log directories are
    locked. `locks_first`: whether a partition is locked before `run` reads it. `counts_logs`: whether progress counts
    the bytes read from the partitions' logs. `when_locked` is called for each log directory while its lock is held.
    `is_about_runs`: the verb itself reports the runs that cannot be read.
    `stops_safely`: an interruption waits for a safe point, and partitions that are not done are named. Otherwise Ctrl-C
    ends the session at once, as suits a verb that only reads.
    """

    name: str
    run: Callable[[Work, RequestT_contra], Any]
    changes: bool = True
    locks_first: Callable[[Partition], bool] = never
    counts_logs: bool = True
    when_locked: Callable[[Session, str, RequestT_contra], None] | None = None
    is_about_runs: bool = False
    stops_safely: bool = True


class Summary(NamedTuple):
    """The end of a session: the exit code of all, and `codes` per partition.

    `not_done` contains the partitions that were not started, or were interrupted before any change.
    """

    code: ExitCode
    codes: tuple[ExitCode, ...] = ()
    failed: int = 0
    not_done: tuple[Partition, ...] = ()
