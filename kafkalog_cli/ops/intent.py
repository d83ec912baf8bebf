"""The action that a writer plans on a partition, and the options of the command line about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique

from kafkalog_cli.errors import as_typed


@unique
class Action(Enum):
    """An action that changes a partition. The value is the name of the command."""

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
    """A planned action, and the options of the command line about it.

    `is_named`: `--topic` names the topic, or `is_named_alone` is true. `is_named_alone`: `--topic` or the paths of
    partitions name the partition's topic and no other. `in_place`: names of the files that are changed in place; None:
    not planned yet, so it may be any file. `has_own_limit`: `--free-bytes` is given. `makes_directory`: a new partition
    is created, with `topic_id` if a topic id is known. `drops_records`: records below the log end are removed, in a log
    directory with the clean shutdown marker. `argv` is the command line; () if there is none.
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
    argv: tuple[str, ...] = ()

    def with_option(self, option: str) -> str:
        """Return the command line with another option, ready to paste; only the option if its value is not known."""
        name, _, value = option.partition(" ")
        if value.rpartition("=")[2].isupper() or self.argv[:1] != (self.action.value,):
            return option
        end = self.argv.index("--") if "--" in self.argv else len(self.argv)  # the last value of an option holds
        words = ["kafkalog", *self.argv[:end], name, *([value] if value else []), *self.argv[end:]]
        return f"`{' '.join(map(as_typed, words))}`"
