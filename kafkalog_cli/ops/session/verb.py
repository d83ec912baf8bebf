"""A verb as a value, and the summary of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.partition import Partition


def never(_partition: Partition) -> bool:
    """Lock no partition before the verb runs: the verb takes the lock when it has something to change."""
    return False


@dataclass(frozen=True, slots=True)
class Verb:
    """The name of a verb, and how a session carries it out.

    `changes`: whether log directories are locked. `locks_first`: whether a partition is locked before the verb reads
    it. `counts_logs`: whether progress counts the bytes read from the partitions' logs. `is_about_runs`: the verb
    itself reports the runs that cannot be read.
    `stops_safely`: an interruption waits for a safe point, and partitions that are not done are named. Otherwise Ctrl-C
    ends the session at once, as suits a verb that only reads.
    """

    name: str
    changes: bool = True
    locks_first: Callable[[Partition], bool] = never
    counts_logs: bool = True
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
