"""The table of refusals: when a writer refuses a partition or warns about it, and which option lifts the refusal."""

import os
from collections.abc import Callable, Iterable
from enum import Enum, unique
from typing import NamedTuple, cast

from kafkalog_cli.disk.directory_contents import foreign_layout, holds_partition
from kafkalog_cli.disk.fs import FileStatus, WritableFilesystem
from kafkalog_cli.disk.lock import real_directory
from kafkalog_cli.disk.names import DirectoryKind, FileKind, moved_aside, moved_out, place_outside
from kafkalog_cli.errors import ExitCode, Refused, Skipped, UnsupportedFormat, shell_word
from kafkalog_cli.format.checkpoint import can_name
from kafkalog_cli.log.partition import Partition, unusable_files
from kafkalog_cli.ops.change.policy_rules import Action as Action  # noqa: PLC0414  (re-exported with the table)
from kafkalog_cli.ops.change.policy_rules import Intent as Intent  # noqa: PLC0414
from kafkalog_cli.ops.change.policy_rules import (
    illegal_setting,
    never_deletes,
    no_limit,
    no_policy,
    other_topic,
    outdated_settings,
    overridden_policy,
    unread_policy,
)
from kafkalog_cli.ops.ownership import other_directories, owner_of, replication_of


@unique
class RuleOutcome(Enum):
    """The result of a rule that applies."""

    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    WARNING = "warning"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a partition to which the rule applies; OK for a warning."""
        codes = {RuleOutcome.REFUSED: ExitCode.REFUSED, RuleOutcome.UNSUPPORTED: ExitCode.UNSUPPORTED}
        return codes.get(self, ExitCode.OK)


class Rule(NamedTuple):
    """A row of the table. `when` describes the rule in words; `find` returns the reason, None if it does not apply.

    `skips`: the partition is reported as skipped, and the reason itself names the option. `flag` is the option that
    lifts the rule if `is_lifted` finds it on the command line; "" if no option does. Options that change settings need
    no `is_lifted`: with them the rule does not apply.
    """

    name: str
    actions: frozenset[Action]
    outcome: RuleOutcome
    when: str
    find: Callable[[Partition, Intent], str | None]
    flag: str = ""
    is_lifted: Callable[[Intent], bool] = lambda _: False
    skips: bool = False


class AppliedRule(NamedTuple):
    """A rule that applies to a partition. If its option lifts it, it is a warning.

    `way_on` is the command with the option that lifts the rule, or the option alone.
    """

    rule: Rule
    path: str
    reason: str
    is_lifted: bool = False
    way_on: str = ""

    @property
    def outcome(self) -> RuleOutcome:
        """The rule's outcome, or WARNING if the rule is lifted."""
        return RuleOutcome.WARNING if self.is_lifted else self.rule.outcome

    @property
    def message(self) -> str:
        """The reason, and the option that would lift the rule."""
        needs_flag = self.rule.flag and not self.rule.skips and self.outcome is not RuleOutcome.WARNING
        return f"{self.reason} (to go on: {self.way_on or self.rule.flag})" if needs_flag else self.reason


def judge(partition: Partition, intent: Intent) -> tuple[AppliedRule, ...]:
    """Return the rules that apply, in the order of the table.

    For compaction of a topic that is not compacted, only the rules about its policy are checked: nothing else would be
    done to it.
    """
    found = []
    is_done_with = intent.action is Action.COMPACT and not intent.erases and not partition.config.is_compacted
    for rule in RULES:
        if is_done_with and not rule.actions <= _BY_POLICY:
            continue
        reason = rule.find(partition, intent) if intent.action in rule.actions else None
        if reason is not None:
            way_on = intent.with_option(rule.flag) if rule.flag else ""
            found.append(AppliedRule(rule, partition.path, reason, rule.is_lifted(intent), way_on))
        if found and rule.find is _metadata_log:
            break  # nobody but a controller changes it, whatever the other rules say
    return tuple(found)


def raise_refusals(verdicts: Iterable[AppliedRule]) -> None:
    """Raise UnsupportedFormat, Skipped or Refused with all reasons, unless all verdicts are warnings.

    A command that lifts a rule is named only if no other rule would refuse it, else only its option.
    """
    found = [verdict for verdict in verdicts if verdict.outcome is not RuleOutcome.WARNING]
    if not found:
        return
    kind = UnsupportedFormat if any(v.outcome is RuleOutcome.UNSUPPORTED for v in found) else Refused
    if all(verdict.rule.skips for verdict in found):
        kind = Skipped
    if not all(verdict.rule.flag for verdict in found):
        found = [verdict._replace(way_on="") for verdict in found]
    raise kind(path=found[0].path, reason="; ".join(verdict.message for verdict in found))


def _foreign(partition: Partition, intent: Intent) -> str | None:
    entries: Iterable[FileStatus] = partition.entries
    if intent.action is Action.IMPORT or intent.makes_directory:  # the directory that it is to be made in
        entries = partition.fs.list_directory(partition.path.rpartition("/")[0] or "/")
    found = foreign_layout(partition.fs, entries)
    return None if found is None else f"these are files of {found}, not of Kafka"


def _metadata_log(partition: Partition, _: Intent) -> str | None:
    return "only controllers may change the metadata log" if partition.directory.is_metadata_log else None


def _marked_directory(partition: Partition, _: Intent) -> str | None:
    if partition.directory.kind is DirectoryKind.DELETE:
        return "its topic was deleted, or it was moved: a broker removes the directory at its next start"
    if partition.directory.kind is DirectoryKind.FUTURE:
        return "it is a copy that a broker was making for another log directory"
    return None


def _twins(partition: Partition, intent: Intent) -> str | None:
    twins, is_set_aside = other_directories(partition, intent.places)
    if not twins:
        return None
    compare = f"`kafkalog verify {shell_word(partition.path)} --against {shell_word(twins[0])}`"
    which = f"{compare} shows which is more complete"
    where = f"the partition is also in {', '.join(twins)}"
    if is_set_aside:
        return f"{where}: this directory is set aside, and no broker serves it. {which}"
    return f"{where}: a broker does not start with both. {which}: keep that directory, and move the other away"


def _odd_files(partition: Partition, _: Intent) -> str | None:
    found = [odd.path.rpartition("/")[2] for odd in unusable_files(partition.fs, partition.entries)]
    if not found:
        return None
    moves = ", ".join(moved_aside(f"{partition.path}/{name}") for name in found)
    names = ", ".join(found)
    return f"these entries have names of Kafka's files, but are directories, pipes or links: {names}; {moves}"


def _foreign_link(partition: Partition, _: Intent) -> str | None:
    fs, path = partition.fs, partition.path
    if fs.status(path) is None or real_directory(fs, path) == path or holds_partition(fs, partition.entries):
        return None
    what = f"it is a symbolic link to {os.path.realpath(path)}, which holds no file of a partition"
    return f"{what}; {moved_out(path)} moves the link out of the log directory"


def _odd_topic(partition: Partition, _: Intent) -> str | None:
    if can_name(partition.topic):
        return None
    what = f"the topic name {partition.topic!r} has blanks or is not UTF-8"
    return f"{what}: no checkpoint can have it, and no broker made it"


_REMOTE = "remote.storage.enable"


def _tiered(partition: Partition, intent: Intent) -> str | None:
    config, cluster = partition.config, partition.cluster
    if config.remote_storage_enable:
        return f"the partition is tiered: {config[_REMOTE].explanation}"
    if cluster is not None and cluster.is_complete and partition.topic in cluster.topics:
        return None  # the metadata log would have the setting
    log_start = partition.line(FileKind.LOG_START_CHECKPOINT)
    if config.is_configured(_REMOTE) or log_start is None or not partition.segments:
        return None
    # The log start is also lower if a broker was killed, or freeing was interrupted, before the checkpoint was written.
    first = partition.segments[0].base_offset
    if log_start >= first:
        return None
    return (
        f"the partition is tiered: the log starts at {log_start}, below the first segment here ({first}), and no source"
        f" has {_REMOTE}=false; if it is not: {intent.with_option(f'--config {_REMOTE}=false')}"
    )


def _not_assigned(partition: Partition, _: Intent) -> str | None:
    own = owner_of(partition)
    if not own.not_assigned_because or own.other_topic_because:
        return None
    return f"{own.not_assigned_because}: a broker sets the directory aside as -stray, and no client sees its records"


def _replicated(partition: Partition, _: Intent) -> str | None:
    found, _because = replication_of(partition)
    if found is None or len(found.replicas) < 2:
        return None
    return f"other replicas will follow or diverge: {found.words}"


def _unknown_replication(partition: Partition, intent: Intent) -> str | None:
    found, because = replication_of(partition)
    if found is not None or (intent.action in _GROWING and _not_assigned(partition, intent)):
        return None
    return f"whether the partition has other replicas is not known: {because}"


def _linked(partition: Partition, intent: Intent) -> str | None:
    fs, path = cast(WritableFilesystem, partition.fs), partition.path  # only writers ask
    files = [file for s in partition.segments for file in (s.log, s.offset_index, s.time_index, s.txn_index) if file]
    linked = [file for file in files if file.is_symlink or fs.attributes(file.path).link_count > 1]
    names = [file.path.rpartition("/")[2] for file in linked]
    found = [name for name in names if intent.in_place is None or name in intent.in_place]
    if not found:
        return None
    away = shell_word(place_outside(path))
    return (
        f"symbolic links, or files with more than one hard link: {', '.join(found)}; {moved_out(path)}, then"
        f" `cp -aL {away} {shell_word(path)}` gives the partition files of its own; then the same command again"
    )


def _clock(partition: Partition, intent: Intent) -> str | None:
    files = [entry for entry in partition.entries if entry.is_file]
    newest = max(files, key=lambda entry: entry.mtime_ms, default=None)
    if newest is None or newest.mtime_ms <= intent.now_ms:
        return None
    ahead = (newest.mtime_ms - intent.now_ms) / 1000
    return (
        f"{newest.path.rpartition('/')[2]} was written {ahead:.0f} s after now: the clock of this machine is wrong, or"
        " was wrong when the file was written"
    )


def _no_topic_id(_: Partition, intent: Intent) -> str | None:
    if not intent.makes_directory or intent.topic_id is not None:
        return None
    return (
        "a new partition without a topic id: a broker sets the directory aside as -stray and starts an empty partition."
        " Give the topic's id with --topic-id ID, or the directory of the metadata log with --metadata DIR"
    )


def _no_marker(_: Partition, intent: Intent) -> str | None:
    if not intent.drops_records:
        return None
    return (
        "records below the log end are removed, so .kafka_cleanshutdown is not restored: the broker"
        " leaves every in-sync replica set"
        " when it starts, and recovers all partitions of the log directory"
    )


def _resolved(partition: Partition, _: Intent) -> str | None:
    path, real = os.path.abspath(partition.path), os.path.realpath(partition.path)  # noqa: PTH100
    return None if path == real else f"the path leads to {real}"


_EVERY = frozenset(Action)
_OTHER_REPLICAS = frozenset({Action.APPEND, Action.TRUNCATE, Action.DELETE_RECORDS})
_GROWING = frozenset({Action.APPEND, Action.IMPORT})
_KNOWN_REPLICAS = _OTHER_REPLICAS | {Action.IMPORT}
_TIERED = frozenset({Action.RETAIN, Action.DELETE_RECORDS, Action.COMPACT, Action.TRUNCATE})
_IN_PLACE = frozenset({Action.RECOVER, Action.ROLL, Action.TRUNCATE, Action.APPEND, Action.UNDO})
_BY_POLICY = frozenset({Action.RETAIN, Action.COMPACT})
_DROPPING = frozenset({Action.TRUNCATE, Action.RECOVER})
_REFUSED, _WARNING = RuleOutcome.REFUSED, RuleOutcome.WARNING

RULES = (
    Rule("foreign-layout", _EVERY, RuleOutcome.UNSUPPORTED, "the files are those of Redpanda or BookKeeper", _foreign),
    Rule("metadata-log", _EVERY, _REFUSED, "the partition is one of `__cluster_metadata`", _metadata_log),
    Rule("marked-directory", _EVERY, _REFUSED, "the directory is a `-delete` or `-future` one", _marked_directory),
    Rule("twins", _EVERY, _REFUSED, "the partition lies in two of the log directories given", _twins),
    Rule(
        "odd-files",
        _EVERY - {Action.PURGE},
        _REFUSED,
        "an entry with the name of a file of Kafka is a directory, a pipe, a device, or a link that is not followed",
        _odd_files,
    ),
    Rule(
        "foreign-link",
        _EVERY - {Action.PURGE, Action.IMPORT},
        _REFUSED,
        "the directory is a symbolic link to a directory that has no file of a partition",
        _foreign_link,
    ),
    Rule(
        "odd-topic",
        _EVERY - {Action.PURGE, Action.UNDO},
        _REFUSED,
        "the topic's name has blanks or is not UTF-8, so that no checkpoint can have it",
        _odd_topic,
    ),
    Rule(
        "tiered",
        _TIERED,
        _REFUSED,
        "`remote.storage.enable` is true, or the log starts below the first segment here and neither a metadata log"
        " nor `--config remote.storage.enable=false` says that the topic is not tiered",
        _tiered,
    ),
    Rule(
        "not-assigned",
        _GROWING,
        _REFUSED,
        "the metadata log has the topic, but not this partition, or this broker is none of its replicas",
        _not_assigned,
    ),
    Rule(
        "replicated",
        _KNOWN_REPLICAS,
        _REFUSED,
        "the metadata log shows more than one replica",
        _replicated,
        "--single-replica",
        lambda intent: intent.single_replica,
    ),
    Rule(
        "unknown-replication",
        _OTHER_REPLICAS,
        _REFUSED,
        "there is no metadata log, it is damaged, it does not have the partition, or has it with another topic id",
        _unknown_replication,
        "--single-replica",
        lambda intent: intent.single_replica,
    ),
    Rule(
        "linked-files",
        _IN_PLACE,
        _REFUSED,
        "a file that is changed in place is a symbolic link or has more than one name (a backup by hard links)",
        _linked,
    ),
    Rule(
        "clock",
        _EVERY,
        _REFUSED,
        "now is before the time of the partition's newest file",
        _clock,
        "--now TIME",
        lambda intent: intent.now_is_given,
    ),
    Rule(
        "no-policy",
        _BY_POLICY,
        _REFUSED,
        "no source sets `cleanup.policy`, and the metadata log or `--broker-config` was not read. For a topic that is"
        " named alone, by `--topic` or the paths of its partitions, retain assumes `delete` if `--config` has a limit."
        " It does not if `cleaner-offset-checkpoint` lists the topic; then `log.cleanup.policy` does not count either."
        " `compact --erase-keys` needs no policy for a topic that is named: it then removes no other records",
        no_policy,
        "--broker-config FILE",
        skips=True,
    ),
    Rule(
        "overridden-policy",
        _BY_POLICY,
        _REFUSED,
        "`--config cleanup.policy` has `delete` for a topic that is compacted by another source or by"
        " `cleaner-offset-checkpoint`, or it has `compact` for a topic that is not compacted. With"
        " `--free-bytes`, which"
        " skips compacted topics, the rule does not apply",
        overridden_policy,
        "--topic TOPIC",
        lambda intent: intent.is_named_alone,
        skips=True,
    ),
    Rule(
        "never-deletes",
        frozenset({Action.DELETE_RECORDS}),
        _REFUSED,
        "the topic's `cleanup.policy` has no `delete`: a broker answers DeleteRecords with POLICY_VIOLATION. The policy"
        " of an internal topic cannot be overridden",
        never_deletes,
    ),
    Rule(
        "other-topic",
        _BY_POLICY,
        _REFUSED,
        "the metadata log has another topic with this name, by its id",
        other_topic,
        skips=True,
    ),
    Rule(
        "no-limit",
        frozenset({Action.RETAIN}),
        _REFUSED,
        "no source sets `retention.ms` or `retention.bytes`, and the metadata log or `--broker-config` was not read;"
        " without `--free-bytes`",
        no_limit,
        "--broker-config FILE",
        skips=True,
    ),
    Rule(
        "illegal-setting",
        _BY_POLICY,
        _REFUSED,
        "a setting that decides which records are removed has a value in the metadata log that no broker accepts",
        illegal_setting,
        "--config NAME=VALUE",
    ),
    Rule(
        "outdated-settings",
        _BY_POLICY,
        _REFUSED,
        "the metadata log is damaged, and a setting that decides which records are removed comes from it"
        " or from a weaker source",
        outdated_settings,
        "--config NAME=VALUE",
    ),
    Rule("linked-directory", _EVERY, _WARNING, "the path has symbolic links: where it leads is shown", _resolved),
    Rule(
        "unread-policy",
        _BY_POLICY,
        _WARNING,
        "`--config cleanup.policy` has `delete` (retain) or `compact` (compact), and the topic is not named alone; or a"
        " broker's `log.cleanup.policy` has it. No metadata log has the topic, or the log is damaged",
        unread_policy,
    ),
    Rule(
        "no-topic-id",
        _EVERY,
        _WARNING,
        "a new partition directory is made and no topic id is known",
        _no_topic_id,
        "--topic-id ID",
    ),
    Rule(
        "marker-stays-away",
        _DROPPING,
        _WARNING,
        "records below the log end are removed, in a log directory that was cleanly shut down",
        _no_marker,
    ),
)
"""All rules, in the order in which they are checked. docs/refusals.md is generated from them."""
