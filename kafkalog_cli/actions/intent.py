"""What a writer is about to do to a partition, and what the command line says about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique


@unique
class Action(Enum):
    """What changes a partition. The value is the command."""

    RECOVER = "recover"
    ROLL = "roll"
    RETAIN = "retain"
    COMPACT = "compact"
    TRUNCATE = "truncate"
    DELETE_RECORDS = "delete-records"
    APPEND = "append"
    IMPORT = "import"
    UNDO = "undo"
    PURGE = "purge"


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be done, and what the command line says about it.

    `is_named`: by `--topic`, or as `is_named_alone`: `--topic` or paths of partitions name the partition's topic, and
    no other. `in_place`: names of the files whose bytes change where they lie; None: not planned yet, so it may be
    any. `has_own_limit`: `--free-bytes`. `makes_directory`: of a new partition, with `topic_id` if one is known.
    `drops_records`: below the log end, in a log directory with the marker of a clean shutdown.
    """

    action: Action
    now_ms: int
    now_is_given: bool = False
    single_replica: bool = False
    is_named: bool = False
    is_named_alone: bool = False
    in_place: frozenset[str] | None = None
    has_own_limit: bool = False
    makes_directory: bool = False
    topic_id: str | None = None
    drops_records: bool = False
