"""A verb as a value, what all partitions of a session share, and how a session ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkalog_cli.actions.partition_facts import Places
from kafkalog_cli.actions.root_state import Roots
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.actions.session.options import Context, SessionOptions
from kafkalog_cli.actions.session.work import Work
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.storage.partition import Partition

if TYPE_CHECKING:
    from kafkalog_cli.actions.session.session import Session

RequestT_contra = TypeVar("RequestT_contra", contravariant=True)


def never(_partition: Partition) -> bool:
    """No partition is locked before it is looked at: the verb asks for the lock when it has something to change."""
    return False


@dataclass(frozen=True, slots=True)
class Verb(Generic[RequestT_contra]):
    """What is done to each partition: `run` plans and applies it, in any thread or in a task elsewhere.

    `run` prints nothing. It raises KafkalogError, and OSError as the disk has it. `changes`: whether log
    directories are locked. `locks_first`: whether a partition is locked before it is looked at. `counts_logs`:
    whether progress counts the bytes of the partitions' logs that are read. `when_locked` is called for each log
    directory under its lock.
    """

    name: str
    run: Callable[[Work, RequestT_contra], Any]
    changes: bool = True
    locks_first: Callable[[Partition], bool] = never
    counts_logs: bool = True
    when_locked: Callable[[Session, str, RequestT_contra], None] | None = None


@dataclass(slots=True)
class SharedState:
    """What all partitions of a session share; tasks elsewhere get a copy. `sharers`: processes that share the disk."""

    verb: Verb[Any]
    context: Context
    options: SessionOptions
    clock: Clock
    run_id: str
    argv: tuple[str, ...]
    roots: Roots
    request: Any = None
    settings: SettingsSource | None = None
    places: Places = field(default_factory=dict)
    named_paths: frozenset[str] = frozenset()
    named_topics: frozenset[str] = frozenset()
    sharers: int = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """How a session ended. `codes`: of each partition; `not_done`: what was not begun, or broken off unchanged."""

    code: ExitCode
    codes: tuple[ExitCode, ...] = ()
    failed: int = 0
    not_done: tuple[Partition, ...] = ()
