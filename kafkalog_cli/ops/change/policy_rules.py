"""Refusals by settings: retention and compaction must know what a broker would do, and must not do more.

A rule is a function (`Rule.find`) that returns the reason for the refusal, None if the rule does not apply.
"""

from __future__ import annotations

from enum import Enum, unique
from types import MappingProxyType
from typing import NamedTuple

from kafkalog_cli.errors import as_typed, shell_word
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY, Origin, Setting
from kafkalog_cli.ops.ownership import Places, owner_of

RETENTION_LIMITS = ("retention.ms", "retention.bytes")
_OF_BROKERS = (Origin.DYNAMIC_BROKER, Origin.DYNAMIC_DEFAULT_BROKER, Origin.STATIC_BROKER)


def _limits(partition: Partition) -> list[Setting]:
    """Return the retention limits that the broker also uses or that the command line sets."""
    return [partition.config[name] for name in RETENTION_LIMITS if partition.config.is_known(name)]


def no_policy(partition: Partition, intent: Intent) -> str | None:
    """Refuse if no source has the topic's cleanup.policy. Retain may assume `delete` for a topic that is named alone.

    The policy of a broker does not count for a topic that was compacted and whose own settings were not read.
    """
    policy = partition.config[CLEANUP_POLICY]
    if intent.erases:
        return None  # no record of another key is removed unless a source says that the topic is compacted
    was_compacted = ""
    if policy.is_known and not (
        intent.action is Action.RETAIN
        and policy.origin in _OF_BROKERS
        and partition.config.is_deleted
        and partition.topic_was_cleaned
        and any(source.is_of_topic for source in partition.config.unread)
    ):
        return None
    if intent.action is Action.RETAIN:
        if partition.topic_was_cleaned:
            if intent.has_own_limit:
                return None  # the plan leaves the topic unchanged, and says why
            was_compacted = ", and cleaner-offset-checkpoint lists it, so that it was compacted"
        elif intent.is_named_alone and any(limit.origin is Origin.COMMAND_LINE for limit in _limits(partition)):
            return None
    unknown = "which cleanup.policy this topic has" + (" of its own" if policy.is_known else "")
    return f"no source says {unknown}{was_compacted}. {_how_to_know(partition)}"


def _how_to_know(partition: Partition) -> str:
    """Return a sentence with the options that name the unread sources."""
    give = []
    own = next((source for source in partition.config.unread if source.is_of_topic), None)
    if own is not None:
        source = f"the cluster's metadata log with {own.option}" if own.option else _as_options(partition.topic)
        give.append(f"{source} ({own.why})")
    broker = next((source for source in partition.config.unread if not source.is_of_topic), None)
    if broker is not None:
        give.append(f"the broker's server.properties with {broker.option}")
    return f"Give {' and '.join(give)}"


def _as_options(topic: str) -> str:
    return f"the topic's settings with --topic {shell_word(topic)} and --config NAME=VALUE"


def no_limit(partition: Partition, intent: Intent) -> str | None:
    """Refuse if no source says how long, or how much, the topic keeps."""
    is_kept = partition.config.is_known(CLEANUP_POLICY) and not partition.config.is_deleted
    if intent.has_own_limit or is_kept or _limits(partition) or no_policy(partition, intent):
        return None
    return f"no source says which retention.ms or retention.bytes this topic has. {_how_to_know(partition)}"


def overridden_policy(partition: Partition, intent: Intent) -> str | None:
    """Refuse a command-line policy that deletes from a compacted topic, or compacts an uncompacted topic."""
    given, own = partition.config[CLEANUP_POLICY], partition.own_config[CLEANUP_POLICY]
    is_same = set(partition.config.cleanup_policy) == set(partition.own_config.cleanup_policy)
    is_same = is_same and own.is_known and partition.own_config.is_compacted
    if given.origin is not Origin.COMMAND_LINE or is_same:
        return None
    if intent.action is Action.COMPACT:
        is_other = partition.config.is_compacted and own.is_known and not partition.own_config.is_compacted
    else:
        is_other = partition.config.is_deleted and partition.own_config.is_compacted
    if is_other:
        because = own.explanation
    elif intent.action is Action.RETAIN and partition.config.is_deleted and partition.topic_was_cleaned:
        because = "cleaner-offset-checkpoint lists it, so that it was compacted"
    elif _is_damaged(partition):
        because = "the metadata log is damaged, and may have said that the topic is compacted"
    else:
        return None
    if intent.has_own_limit and intent.action is Action.RETAIN:
        return None  # --free-bytes protects the topic whatever --config says, and the plan says why
    option = f"--config {CLEANUP_POLICY}={given.text}"
    if intent.is_named_alone:
        return f"{option} overrides this topic's own policy: {because}"
    return (
        f"{option} does not override this topic's own policy: {because}."
        f" Leave it out, or name this topic alone with --topic {shell_word(partition.topic)}"
    )


def unread_policy(partition: Partition, intent: Intent) -> str | None:
    """Warn that records are removed by a policy of the command line or a broker, where the topic's own may be another.

    A policy of the command line counts without a warning for a topic that is named alone.
    """
    config, own = partition.config, partition.own_config
    given, unread = config[CLEANUP_POLICY], next((one for one in own.unread if one.is_of_topic), None)
    retains, is_option = intent.action is Action.RETAIN, given.origin is Origin.COMMAND_LINE
    is_given = (is_option and not intent.is_named_alone) or given.origin in _OF_BROKERS
    is_used = config.is_deleted if retains else config.is_compacted
    if not is_given or not is_used or unread is None:
        return None
    if overridden_policy(partition, intent) or no_policy(partition, intent):
        return None
    if intent.has_own_limit and partition.topic_was_cleaned:
        return None
    loss = "is compacted, it loses its last values" if retains else "is not compacted, it loses records"
    policy = f"--config {CLEANUP_POLICY}={given.text}" if is_option else given.explanation
    others = "compacted topics" if retains else "topics that are not compacted"
    source = f" With {unread.option} {others} are skipped" if unread.option else f" Give {_as_options(partition.topic)}"
    return f"{policy} counts, but the topic's own policy is not known ({unread.why}): if the topic {loss}.{source}"


def never_deletes(partition: Partition, intent: Intent) -> str | None:
    """Refuse a topic whose policy has no `delete`, as a broker does (Partition.deleteRecordsOnLeader)."""
    policy = partition.config[CLEANUP_POLICY]
    if not policy.is_known or partition.config.is_deleted:
        return None
    option = intent.with_option(f"--config {CLEANUP_POLICY}=compact,delete")
    more = "" if policy.origin is Origin.INTERNAL_TOPIC else f" (to go on: {option})"
    return (
        f"a broker deletes no records of this topic, by {policy.explanation}: it answers DeleteRecords"
        f" with POLICY_VIOLATION{more}"
    )


def other_topic(partition: Partition, intent: Intent) -> str | None:
    """Refuse if the settings in use belong to another topic with the directory's name."""
    sure = (Origin.COMMAND_LINE, Origin.INTERNAL_TOPIC)
    used = (partition.config[name] for name in _used(partition, intent))
    is_used = any(one.is_known and one.origin not in sure for one in used)
    other = owner_of(partition).other_topic_because
    return f"{other}, so that its settings do not apply to this directory" if other and is_used else None


def _is_damaged(partition: Partition) -> bool:
    return partition.cluster is not None and not partition.cluster.is_complete


def _used(partition: Partition, intent: Intent) -> list[str]:
    """Return the names of the settings that decide which records are removed."""
    return [CLEANUP_POLICY, *(RETENTION_LIMITS if intent.action is Action.RETAIN else ())]


def illegal_setting(partition: Partition, intent: Intent) -> str | None:
    """Refuse values in the metadata log that no broker accepts."""
    used = _used(partition, intent)
    found = [problem for problem in partition.config.problems if problem.name in used]
    return "; ".join(f"{p.origin.words}: {p.reason}" for p in found) if found else None


def outdated_settings(partition: Partition, intent: Intent) -> str | None:
    """Refuse settings that later records of a damaged metadata log may have changed."""
    if not _is_damaged(partition):
        return None
    sure = (Origin.COMMAND_LINE, Origin.INTERNAL_TOPIC)
    used = [partition.config[name] for name in _used(partition, intent)]
    found = [s.explanation for s in used if s.origin not in sure and s.origin is not Origin.DEFAULT]
    return f"the metadata log is damaged, there may be later settings: {', '.join(found)}" if found else None


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


class Intent(NamedTuple):
    """A planned action, and the options of the command line about it.

    `is_named_alone`: `--topic` or the paths of partitions name the partition's topic and no other. `in_place`: names of
    the files that are changed in place; None: not planned yet, so it may be any file. `has_own_limit`: `--free-bytes`
    is given. `makes_directory`: a new partition is created, with `topic_id` if a topic id is known. `drops_records`:
    records below the log end are removed, in a log directory with the clean shutdown marker. `erases`: all records of
    some keys are removed, whatever the policy is. `argv` is the command line; () if there is none. `places` are the
    directories of the partitions in the log directories of the run.
    """

    action: Action
    now_ms: int
    places: Places = MappingProxyType({})
    now_is_given: bool = False
    single_replica: bool = False
    is_named_alone: bool = False
    in_place: frozenset[str] | None = None
    has_own_limit: bool = False
    makes_directory: bool = False
    topic_id: str | None = None
    drops_records: bool = False
    erases: bool = False
    argv: tuple[str, ...] = ()

    def with_option(self, option: str) -> str:
        """Return the command line with another option, ready to paste; only the option if its value is not known."""
        name, _, value = option.partition(" ")
        if value.rpartition("=")[2].isupper() or self.argv[:1] != (self.action.value,):
            return option
        end = self.argv.index("--") if "--" in self.argv else len(self.argv)  # the last value of an option holds
        words = ["kafkalog", *self.argv[:end], name, *([value] if value else []), *self.argv[end:]]
        return f"`{' '.join(map(as_typed, words))}`"
