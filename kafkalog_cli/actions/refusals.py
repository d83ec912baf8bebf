"""When a writer refuses a partition or warns of it, and which flag lifts that: one table, and judging by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.actions.partition_facts import PartitionFacts
from kafkalog_cli.errors import ExitCode, Refused, UnsupportedFormat
from kafkalog_cli.format.checkpoint import can_name
from kafkalog_cli.storage.names import DirectoryKind
from kafkalog_cli.storage.settings.topic_config import CLEANUP_POLICY, Origin, Setting

RETENTION_LIMITS = ("retention.ms", "retention.bytes")


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


@unique
class Outcome(Enum):
    """What a rule that holds leads to."""

    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    WARNING = "warning"

    @property
    def exit_code(self) -> ExitCode:
        """The code of a partition to which that happened; a warning has none of its own."""
        codes = {Outcome.REFUSED: ExitCode.REFUSED, Outcome.UNSUPPORTED: ExitCode.UNSUPPORTED}
        return codes.get(self, ExitCode.OK)


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be done, and what the command line says about it.

    `is_named`: the partition was given by its own path or by `--topic`. `in_place`: names of the files whose bytes
    change where they lie; None: not planned yet, so it may be any. `has_own_limit`: `--free-bytes`.
    `makes_directory`: of a new partition, with `topic_id` if one is known. `drops_records`: below the log end, in
    a log directory with the marker of a clean shutdown.
    """

    action: Action
    now_ms: int
    now_is_given: bool = False
    single_replica: bool = False
    is_named: bool = False
    in_place: frozenset[str] | None = None
    has_own_limit: bool = False
    makes_directory: bool = False
    topic_id: str | None = None
    drops_records: bool = False


class Rule(NamedTuple):
    """A row of the table: `when` it holds, in words, and what finds it; `find` returns the reason, None if not.

    `flag` lifts it if `is_lifted` finds it on the command line; "" if nothing does. Settings as flags need no
    `is_lifted`: with them the rule does not hold.
    """

    name: str
    actions: frozenset[Action]
    outcome: Outcome
    when: str
    flag: str
    find: Callable[[PartitionFacts, Intent], str | None]
    is_lifted: Callable[[Intent], bool] = lambda _: False


class Verdict(NamedTuple):
    """A rule that holds for a partition; lifted by its flag it is a warning."""

    rule: Rule
    path: str
    reason: str
    is_lifted: bool = False

    @property
    def outcome(self) -> Outcome:
        """What it leads to."""
        return Outcome.WARNING if self.is_lifted else self.rule.outcome

    @property
    def message(self) -> str:
        """The reason, and the flag that would lift it."""
        needs_flag = self.rule.flag and self.outcome is not Outcome.WARNING
        return f"{self.reason} (to go on: {self.rule.flag})" if needs_flag else self.reason


def judge(facts: PartitionFacts, intent: Intent) -> tuple[Verdict, ...]:
    """The rules that hold, in the order of the table."""
    found = []
    for rule in RULES:
        reason = rule.find(facts, intent) if intent.action in rule.actions else None
        if reason is not None:
            found.append(Verdict(rule, facts.path, reason, rule.is_lifted(intent)))
    return tuple(found)


def raise_refusals(verdicts: Iterable[Verdict]) -> None:
    """Raises UnsupportedFormat or Refused with every reason, if one of the verdicts is not a mere warning."""
    found = [verdict for verdict in verdicts if verdict.outcome is not Outcome.WARNING]
    if not found:
        return
    kind = UnsupportedFormat if any(v.outcome is Outcome.UNSUPPORTED for v in found) else Refused
    raise kind(path=found[0].path, reason="; ".join(verdict.message for verdict in found))


def _foreign(facts: PartitionFacts, _: Intent) -> str | None:
    return None if facts.foreign is None else f"these are files of {facts.foreign}, not of Kafka"


def _metadata_log(facts: PartitionFacts, _: Intent) -> str | None:
    return "the metadata log is its controllers' alone" if facts.is_metadata_log else None


def _marked_directory(facts: PartitionFacts, _: Intent) -> str | None:
    if facts.kind is DirectoryKind.DELETE:
        return "its topic was deleted, or it was moved: a broker removes the directory at its next start"
    if facts.kind is DirectoryKind.FUTURE:
        return "it is a copy that a broker was making for another log directory"
    return None


def _twins(facts: PartitionFacts, _: Intent) -> str | None:
    return f"the partition lies in {', '.join(facts.twins)} too: no broker starts so" if facts.twins else None


def _odd_files(facts: PartitionFacts, _: Intent) -> str | None:
    if not facts.odd_files:
        return None
    return f"no regular files, though they have the names of a segment's: {', '.join(facts.odd_files)}; move them away"


def _odd_topic(facts: PartitionFacts, _: Intent) -> str | None:
    if can_name(facts.topic):
        return None
    return f"no checkpoint can name the topic {facts.topic!r}, which has blanks or is no text: no broker made it"


def _tiered(facts: PartitionFacts, _: Intent) -> str | None:
    return f"the partition is tiered: {facts.tiered_because}" if facts.tiered_because else None


def _replicated(facts: PartitionFacts, _: Intent) -> str | None:
    found = facts.replication
    if found is None or len(found.replicas) < 2:
        return None
    return f"other replicas will follow or diverge: {found.words}"


def _unknown_replication(facts: PartitionFacts, _: Intent) -> str | None:
    if facts.replication is not None:
        return None
    return f"whether the partition has other replicas is not known: {facts.unknown_because}"


def _linked(facts: PartitionFacts, intent: Intent) -> str | None:
    found = [name for name in facts.linked if intent.in_place is None or name in intent.in_place]
    return f"links, or files with a second name elsewhere: {', '.join(found)}" if found else None


def _clock(facts: PartitionFacts, intent: Intent) -> str | None:
    if facts.newest is None or facts.newest.mtime_ms <= intent.now_ms:
        return None
    ahead = (facts.newest.mtime_ms - intent.now_ms) / 1000
    return f"{facts.newest.name} was written {ahead:.0f} s after now: one of two clocks is wrong"


def _limits(facts: PartitionFacts) -> list[Setting]:
    """The limits that somebody has set."""
    return [facts.config[name] for name in RETENTION_LIMITS if facts.config.is_configured(name)]


def _no_policy(facts: PartitionFacts, intent: Intent) -> str | None:
    if facts.config.is_configured(CLEANUP_POLICY):
        return None
    if intent.action is Action.RETAIN:
        has_limit = any(limit.origin is Origin.COMMAND_LINE for limit in _limits(facts))
        if facts.is_in_cleaner_checkpoint:
            return "its cleanup.policy is not known, and cleaner-offset-checkpoint lists it: it was compacted"
        if intent.is_named and has_limit:
            return None
    return "its cleanup.policy is not known: nothing is deleted or cleaned on Kafka's default"


def _no_limit(facts: PartitionFacts, intent: Intent) -> str | None:
    is_kept = facts.config.is_configured(CLEANUP_POLICY) and not facts.config.is_deleted
    if intent.has_own_limit or is_kept or _limits(facts):
        return None
    return "no limit is set: nothing is deleted on Kafka's default"


def _used(facts: PartitionFacts, intent: Intent) -> list[str]:
    """The settings that decide what goes."""
    return [CLEANUP_POLICY, *(RETENTION_LIMITS if intent.action is Action.RETAIN else ())]


def _illegal(facts: PartitionFacts, intent: Intent) -> str | None:
    used = _used(facts, intent)
    found = [problem for problem in facts.config.problems if problem.name in used]
    return "; ".join(f"{p.origin.words}: {p.reason}" for p in found) if found else None


def _outdated(facts: PartitionFacts, intent: Intent) -> str | None:
    if not facts.metadata_is_damaged:
        return None
    sure = (Origin.COMMAND_LINE, Origin.INTERNAL_TOPIC)
    used = [facts.config[name] for name in _used(facts, intent)]
    found = [s.explanation for s in used if s.origin not in sure and s.origin is not Origin.DEFAULT]
    return f"the metadata log is damaged, there may be later settings: {', '.join(found)}" if found else None


def _no_topic_id(_: PartitionFacts, intent: Intent) -> str | None:
    if not intent.makes_directory or intent.topic_id is not None:
        return None
    return "a new partition without a topic id: a broker sets it aside as -stray and starts an empty one"


def _no_marker(_: PartitionFacts, intent: Intent) -> str | None:
    if not intent.drops_records:
        return None
    return (
        "records below the log end go, so .kafka_cleanshutdown stays away: the broker leaves every in-sync replica set"
        " when it starts, and recovers all partitions of the log directory"
    )


def _resolved(facts: PartitionFacts, _: Intent) -> str | None:
    return None if facts.resolved_path is None else f"the path leads to {facts.resolved_path}"


_EVERY = frozenset(Action)
_OTHER_REPLICAS = frozenset({Action.APPEND, Action.TRUNCATE, Action.DELETE_RECORDS})
_KNOWN_REPLICAS = _OTHER_REPLICAS | {Action.IMPORT}
_TIERED = frozenset({Action.RETAIN, Action.DELETE_RECORDS, Action.COMPACT, Action.TRUNCATE})
_IN_PLACE = frozenset({Action.RECOVER, Action.ROLL, Action.TRUNCATE, Action.APPEND, Action.UNDO})
_BY_POLICY = frozenset({Action.RETAIN, Action.COMPACT})
_DROPPING = frozenset({Action.TRUNCATE, Action.RECOVER})
_REFUSED, _WARNING = Outcome.REFUSED, Outcome.WARNING

RULES = (
    Rule("foreign-layout", _EVERY, Outcome.UNSUPPORTED, "the files are those of Redpanda or BookKeeper", "", _foreign),
    Rule("metadata-log", _EVERY, _REFUSED, "the partition is one of `__cluster_metadata`", "", _metadata_log),
    Rule("marked-directory", _EVERY, _REFUSED, "the directory is a `-delete` or `-future` one", "", _marked_directory),
    Rule("twins", _EVERY, _REFUSED, "the partition lies in two of the log directories given", "", _twins),
    Rule(
        "odd-files",
        _EVERY - {Action.PURGE},
        _REFUSED,
        "what has the name of a segment's file is a directory, a pipe, a socket, a device, or a link to nothing",
        "",
        _odd_files,
    ),
    Rule(
        "odd-topic",
        _EVERY - {Action.PURGE, Action.UNDO},
        _REFUSED,
        "the topic's name has blanks or is no text, so that no checkpoint can name it",
        "",
        _odd_topic,
    ),
    Rule(
        "tiered",
        _TIERED,
        _REFUSED,
        "`remote.storage.enable` is true, or the log starts below the first segment here and neither a metadata log"
        " nor `--config remote.storage.enable=false` says that the topic is not tiered",
        "",
        _tiered,
    ),
    Rule(
        "replicated",
        _KNOWN_REPLICAS,
        _REFUSED,
        "the metadata log shows more than one replica",
        "--single-replica",
        _replicated,
        lambda intent: intent.single_replica,
    ),
    Rule(
        "unknown-replication",
        _OTHER_REPLICAS,
        _REFUSED,
        "there is no metadata log, it is damaged, it does not have the partition, or has it with another topic id",
        "--single-replica",
        _unknown_replication,
        lambda intent: intent.single_replica,
    ),
    Rule(
        "linked-files",
        _IN_PLACE,
        _REFUSED,
        "a file that is changed in place is a symbolic link or has more than one name (a backup by hard links)",
        "",
        _linked,
    ),
    Rule(
        "clock",
        _EVERY,
        _REFUSED,
        "now is before the time of the partition's newest file",
        "--now TIME",
        _clock,
        lambda intent: intent.now_is_given,
    ),
    Rule(
        "no-policy",
        _BY_POLICY,
        _REFUSED,
        "`cleanup.policy` is Kafka's default; `delete` is assumed by retain for a partition named by its path or by"
        " `--topic`, with a limit in `--config`, unless `cleaner-offset-checkpoint` lists it",
        "--config cleanup.policy=...",
        _no_policy,
    ),
    Rule(
        "no-limit",
        frozenset({Action.RETAIN}),
        _REFUSED,
        "`retention.ms` and `retention.bytes` are Kafka's defaults, without `--free-bytes`",
        "--config retention.ms=..., --config retention.bytes=... or --free-bytes",
        _no_limit,
    ),
    Rule(
        "illegal-setting",
        _BY_POLICY,
        _REFUSED,
        "a setting that decides what goes has a value in the metadata log that no broker takes",
        "--config NAME=VALUE",
        _illegal,
    ),
    Rule(
        "outdated-settings",
        _BY_POLICY,
        _REFUSED,
        "the metadata log is damaged, and a setting that decides what goes is from it or from a source that is weaker",
        "--config NAME=VALUE",
        _outdated,
    ),
    Rule("linked-directory", _EVERY, _WARNING, "the path has symbolic links: where it leads is shown", "", _resolved),
    Rule(
        "no-topic-id",
        _EVERY,
        _WARNING,
        "a new partition directory is made and no topic id is known",
        "--topic-id ID",
        _no_topic_id,
    ),
    Rule(
        "marker-stays-away",
        _DROPPING,
        _WARNING,
        "records below the log end go, in a log directory that was cleanly shut down",
        "",
        _no_marker,
    ),
)
"""Every rule, in the order in which they are looked at; docs/refusals.md is written from it."""
