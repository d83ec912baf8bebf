"""The plan of a compaction: whether a log is dirty enough, which segments become one, and the values of an erasure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, unique
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.cleaning.choosing import (
    CheckpointState,
    CleaningLimits,
    Dirt,
    LogEnds,
    SegmentTimes,
    UpTo,
    find_dirt,
    group_segments,
)
from kafkalog_cli.broker.cleaning.cleaner import CleaningCounts
from kafkalog_cli.broker.cleaning.explaining import RecordFate
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.cleaning.marks import Causes
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.format.kafka_version import KafkaVersion
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.log_end import largest_timestamp
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.header import first_timestamp
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY
from kafkalog_cli.ops.change.plans import (
    LogPlan,
    Unready,
    check_finished,
    check_logs,
    delay_or_setting,
    fingerprints_of,
    load_settings,
    open_log,
    refused,
    whole_end_of,
)
from kafkalog_cli.ops.change.purge import DELAY, NEVER_MS, PurgePlan, plan_purge
from kafkalog_cli.ops.change.retain.plan import RemovedSegment, RetainPlan
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places
from kafkalog_cli.results import (
    ABSENT,
    FLAT,
    NULL_IS_ZERO,
    NUMBER_OF,
    Before,
    Count,
    Hidden,
    Named,
    PathName,
    of,
    result,
)  # fmt: skip


@unique
class Choice(Enum):
    """Whether a log is cleaned, and why. The value is the word in machine output."""

    DIRTY = "dirty"  # the dirty ratio is above min.cleanable.dirty.ratio
    OVERDUE = "max-compaction-lag"
    FORCED = "forced"
    ERASING = "erase-keys"
    ERASING_ONLY = "erase-keys-only"  # the topic is not compacted: no other record is removed
    NOT_DIRTY_ENOUGH = "not-dirty-enough"
    NOTHING_DIRTY = "nothing-dirty"
    NOTHING_TO_ERASE = "no-such-key"  # no record of the keys, and not dirty enough
    NOT_COMPACTED = "cleanup-policy"  # cleanup.policy has no "compact"
    EMPTY = "no-segment"
    DAMAGED = "damaged"  # the log has damage and is left unchanged

    @property
    def is_cleaned(self) -> bool:
        """Whether the log is cleaned."""
        return self in (Choice.DIRTY, Choice.OVERDUE, Choice.FORCED, Choice.ERASING, Choice.ERASING_ONLY)


class Estimate(NamedTuple):
    """The counts of a cleaning, found without writing."""

    records: Annotated[int, "records that the cleaning reads, with control records"]
    gone: Annotated[int, "records that it removes"]
    causes: Annotated[Causes, "the removed records by cause"]

    @property
    def keyless(self) -> Annotated[int, Before("causes"), "removed records without a key"]:
        """The removed records without a key."""
        return self.causes.keyless


class SegmentChange(NamedTuple):
    """Base offsets of segments before and after a cleaning."""

    sources: tuple[int, ...]
    made: Annotated[tuple[int, ...], "of the segments that were made from them"]


class Compaction(NamedTuple):
    """The result of a cleaning."""

    end_offset: Annotated[int, "the log is clean below this offset"]
    segments: tuple[SegmentChange, ...]
    counts: Annotated[CleaningCounts, FLAT]
    passes: Annotated[int, Before("segments"), "the number of cleaning passes, 1"] = 1


@dataclass(frozen=True, slots=True)
class CompactionRetention:
    """The retention of a cleaned log."""

    run: Annotated[str | None, "the run that removed segments; undo it first; null if nothing was removed"]
    plan: Hidden[RetainPlan]
    removed: ClassVar[Annotated[list[RemovedSegment], "the removed segments"]] = of("plan.removed")
    removed_bytes: ClassVar[Annotated[Count, "sizes of their logs"]] = of("plan.removed_bytes")
    rolled: ClassVar[Annotated[bool, "all segments are removed, and an empty segment starts at the log's end"]] = of(
        "plan.rolls"
    )
    delay_ms: ClassVar[Annotated[Count, "how long the removed files stay as .deleted"]] = of("plan.delay_ms")
    unlinked_files: ClassVar[Annotated[Count, NUMBER_OF, "files of earlier runs that were due"]] = of("plan.due.files")
    unlinked_bytes: ClassVar[Annotated[Count, NULL_IS_ZERO, "their sizes"]] = of("plan.due.size_bytes")


@result("kafkalog.compaction/1")
@dataclass(frozen=True, slots=True)
class CompactPlan(LogPlan):
    """The result of compact for a partition, or of its dry run.

    The offsets below `dirt.first_uncleanable` are cleaned, with keys collected from `first_dirty` on, which is below
    `dirt.first_dirty` if the clean part is cleaned again. `due` contains files of earlier runs that are removed now.
    """

    choice: Annotated[Choice, "whether the log is cleaned, and why; the first five: it is cleaned"] = (
        Choice.NOT_COMPACTED
    )
    dirt: Hidden[Dirt | None] = None
    first_dirty_offset: ClassVar[
        Annotated[int | None, "the log is clean below it; null if unknown: refused, damaged, not compacted, no segment"]
    ] = of("dirt.first_dirty")
    first_uncleanable_offset: ClassVar[
        Annotated[int | None, "the end of the cleanable part, the base offset of a segment"]
    ] = of("dirt.first_uncleanable")
    up_to: ClassVar[Annotated[UpTo | None, "the limit that ends the cleanable part"]] = of("dirt.up_to")
    cleaner_checkpoint: ClassVar[
        Annotated[CheckpointState | None, "whether the line in cleaner-offset-checkpoint is used"]
    ] = of("dirt.checkpoint")
    clean_bytes: ClassVar[Annotated[int | None, "of segments that begin before the first dirty offset"]] = of(
        "dirt.clean_bytes"
    )
    dirty_bytes: ClassVar[Annotated[int | None, "of segments with cleanable offsets"]] = of("dirt.cleanable_bytes")
    dirty_ratio: ClassVar[Annotated[float | None, "dirty bytes divided by the sum of both"]] = of("dirt.ratio")
    compaction_delay_ms: ClassVar[Annotated[int | None, "the time since max.compaction.lag.ms was exceeded"]] = of(
        "dirt.delay_ms"
    )
    first_dirty: Hidden[int] = 0
    groups: Annotated[tuple[tuple[int, ...], ...], "base offsets of segments that become one segment"] = ()
    rolls: Annotated[bool, "whether the active segment has records to erase and is rolled first"] = False
    producers: Hidden[Mapping[int, ProducerEntry]] = field(default_factory=dict)
    delay_ms: Annotated[int, "how long the replaced files stay as .deleted"] = 0
    due: Hidden[PurgePlan | None] = None
    unlinked_files: ClassVar[Annotated[int, NUMBER_OF, "files of earlier runs that were due"]] = of("due.files")
    unlinked_bytes: ClassVar[Annotated[int, NULL_IS_ZERO, "their sizes"]] = of("due.size_bytes")
    estimate: Annotated[Estimate | None, "with --estimate or --erase-keys"] = None
    outcome: Annotated[Compaction | None, "null if nothing was cleaned"] = None
    explained: Annotated[tuple[RecordFate, ...] | None, ABSENT, "the records of the key; only with --explain"] = None
    erasure: Annotated[Erasure | None, ABSENT, "only with --erase-keys"] = None
    retention: Hidden[RetainPlan | None] = None
    retention_run: Hidden[str | None] = None
    retained: ClassVar[
        Annotated[
            CompactionRetention | None,
            Named("retention"),
            "with cleanup.policy=compact,delete: retention of the cleaned log, in a dry run of the log as it is",
        ]
    ] = of(lambda plan: plan.retention and CompactionRetention(plan.retention_run, plan.retention))

    def number_of(self, name: str) -> int:
        """Return the value of a number setting."""
        value = next(setting.value for setting in self.settings if setting.name == name)
        assert isinstance(value, int)
        return value

    def retained_end(self, version: KafkaVersion) -> int:
        """Return the offset before which the cleaner of a version keeps a batch that has no record left."""
        assert self.dirt is not None
        if version.is_before_4_4 or self.high_watermark is None:
            return self.dirt.first_uncleanable
        return self.high_watermark.offset

    def followed_by(self, retention: RetainPlan) -> CompactPlan:
        """Return the plan followed by the retention of the cleaned log."""
        names = {setting.name for setting in self.settings}
        more = (setting for setting in retention.settings if setting.name not in names)
        remarks = (*self.remarks, *retention.remarks)
        return replace(self, retention=retention, settings=(*more, *self.settings), remarks=remarks)

    @property
    def drops_valid(self) -> bool:
        """See ChangePlan."""
        return self.choice.is_cleaned or (self.retention is not None and bool(self.retention.removed))

    @property
    def has_work(self) -> bool:
        """Whether the plan changes anything."""
        is_due = self.due is not None and bool(self.due.files)
        is_retained = self.retention is not None and self.retention.has_work
        return not self.is_refused and (self.choice.is_cleaned or bool(self.line_edits) or is_due or is_retained)


MOST_OFFSETS = 1000
"""Number of offsets reported per key: the first. The number of records is always complete."""


@unique
class RecordPlace(Enum):
    """Where records are. The value is the word in machine output."""

    CLEANED = "cleaned-part"
    UNCLEANABLE = "uncleanable-part"  # at or past the last stable offset or the high watermark, or too young
    ACTIVE = "active-segment"
    WAITING = "waiting-file"  # `.deleted` files of a run or a broker
    RUN = "run"  # files that an earlier run keeps for undo
    DIRECTORY = "directory"  # another directory of the partition: -delete, -future, -stray


@dataclass(slots=True)
class ErasedKey:
    """A key with records in the cleaned part of the log."""

    line: Annotated[int, "the line of the key in the file of keys, from 1 on"]
    records: int = 0
    offsets: Annotated[list[int], "of the first 1000 records"] = field(default_factory=list)
    last_offset: int | None = None


class LogDigest(NamedTuple):
    """A log of the partition, read to its end."""

    name: str
    size_bytes: int
    sha256: Annotated[str, "of all its bytes, in hexadecimal"]
    records: Annotated[int, "records with one of the keys"]


class Holder(NamedTuple):
    """A file that contains records of the keys, or may contain them."""

    path: PathName
    place: RecordPlace
    records: int
    unread: Annotated[str | None, "why it could not be read to its end: it may contain more records"] = None


class Erasure(NamedTuple):
    """The proof of an erasure."""

    replication: Annotated[str, "the known facts about other replicas"]
    wanted: Annotated[int, Named("keys_wanted"), "the number of requested keys"]
    keys: Annotated[tuple[ErasedKey, ...], "keys with records in the cleaned part of the log"] = ()
    before: Annotated[tuple[LogDigest, ...], "every log of the partition"] = ()
    after: Annotated[tuple[LogDigest, ...] | None, "every log after the erasure; null if nothing was erased"] = None
    holders: Annotated[tuple[Holder, ...], "files that contain records of the keys afterwards"] = ()
    lines_without_record: Annotated[tuple[int, ...], "the lines of keys that no file of the partition contains"] = ()


USED_SETTINGS = (
    CLEANUP_POLICY,
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
    "segment.index.bytes",
    "index.interval.bytes",
    DELAY,
)


def plan_compact(  # noqa: PLR0913
    fs: WritableFilesystem,
    partition: Partition,
    clock: Clock,
    places: Places | None = None,
    *,
    is_forced: bool = False,
    erases: bool = False,
    delay_ms: int | None = None,
) -> CompactPlan:
    """Plan the cleaning now. The table of refusals decides whether it may run.

    `is_forced`: clean even a log that is not dirty enough. `erases`: all records of some keys are removed; a topic that
    is not compacted loses no other record. `delay_ms`: how long `.deleted` files stay; None: as file.delete.delay.ms
    says. Reads headers, indexes, producer snapshots and checkpoints. Raises as `SettingsSource.metadata` does, and the
    exceptions of listing and opening the files.
    """
    config = partition.config
    plan = CompactPlan.of(
        partition,
        fingerprints=fingerprints_of(fs, partition.path),
        settings=(*(config[name] for name in USED_SETTINGS), config.segment_size),
        delay_ms=delay_or_setting(config, delay_ms),
    )
    try:
        if not config.is_compacted and not erases:
            return plan
        check_finished(partition)
        if not partition.segments:
            return replace(plan, choice=Choice.EMPTY)
        check_logs(partition)
        plan = replace(plan, due=plan_purge(fs, partition, NEVER_MS, clock, places))
        return _with_dirt(fs, partition, plan, clock.now_ms, is_forced=is_forced, erases=erases)
    except (Unready, LoadFailed) as error:
        return refused(plan, error)


def _with_dirt(  # noqa: PLR0913
    fs: WritableFilesystem, partition: Partition, plan: CompactPlan, now_ms: int, *, is_forced: bool, erases: bool
) -> CompactPlan:
    """Return the plan of a log that has segments, with its changes. Raises Unready, LoadFailed.

    If the topic is not compacted, the proof of the erasure finds the segments to change. The active segment may be one
    of them, once it is rolled.
    """
    config = partition.config
    log_end = whole_end_of(fs, partition)
    log_start = max(partition.log_start, partition.segments[0].base_offset)
    high_watermark = partition.high_watermark(log_end)
    # the producer state of a broker that starts now
    draft = Draft(fs, partition.path)
    producers = (
        open_log(draft, partition, load_settings(partition, now_ms), log_end).producers_at_end(draft.fork()).state
    )
    ends = LogEnds(log_start, log_end, producers.stable_below(high_watermark.offset))
    sizes = CleanableLog(fs, partition.segments).sizes

    def largest_ms(at: int) -> int:
        enough_ms = now_ms - config.min_compaction_lag_ms + 1
        return largest_timestamp(fs, partition.segments[at], enough_ms).timestamp_ms

    def first_batch_ms(at: int) -> int:
        with fs.open_read(partition.segments[at].log.path) as log:
            return first_timestamp(log)

    checkpoint, limits = None, CleaningLimits(0.0)
    if config.is_compacted:
        checkpoint = partition.line(FileKind.CLEANER_CHECKPOINT)
        limits = CleaningLimits(
            config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms
        )
    dirt = find_dirt(sizes, ends, checkpoint, limits, now_ms, SegmentTimes(largest_ms, first_batch_ms))
    plan = replace(
        plan,
        dirt=dirt,
        first_dirty=log_start,
        producers=producers.producers,
        log_start_offset=log_start,
        log_end_offset=log_end,
        high_watermark=high_watermark,
    )
    if not config.is_compacted:
        is_stable = ends.last_stable >= log_end  # else no roll helps
        dirt = dirt._replace(first_uncleanable=log_end) if is_stable else dirt._replace(up_to=UpTo.LAST_STABLE_OFFSET)
        return replace(plan, choice=Choice.ERASING_ONLY, dirt=dirt)
    upper = dirt.first_uncleanable
    has_closed = upper > sizes[0].base_offset
    choice = _choose(dirt, limits, is_forced=is_forced and has_closed, erases=erases and has_closed)
    below = [size for size in sizes if size.base_offset < upper] if choice.is_cleaned else []
    groups = group_segments(below, config.segment_bytes, config.segment_index_bytes, upper)
    return replace(
        plan,
        choice=choice,
        first_dirty=dirt.first_dirty if dirt.cleanable_bytes else log_start,
        groups=tuple(tuple(sizes[at].base_offset for at in group) for group in groups),
        line_edits=_line_edits(partition, dirt, choice),
    )


def _choose(dirt: Dirt, limits: CleaningLimits, *, is_forced: bool, erases: bool) -> Choice:
    if dirt.is_due(limits):
        return Choice.DIRTY if dirt.ratio > limits.min_cleanable_dirty_ratio else Choice.OVERDUE
    if is_forced:
        return Choice.FORCED
    if erases:
        return Choice.ERASING
    return Choice.NOT_DIRTY_ENOUGH if dirt.cleanable_bytes else Choice.NOTHING_DIRTY


def _line_edits(partition: Partition, dirt: Dirt, choice: Choice) -> tuple[LineEdit, ...]:
    """Return the edit of the cleaner checkpoint: the cleaned end, or a correction of a line outside the log."""
    if choice.is_cleaned:
        return partition.edit(FileKind.CLEANER_CHECKPOINT, max(dirt.first_dirty, dirt.first_uncleanable))
    is_wrong = dirt.checkpoint in (CheckpointState.BELOW_LOG_START, CheckpointState.ABOVE_LOG_END)
    return partition.edit(FileKind.CLEANER_CHECKPOINT, dirt.first_dirty) if is_wrong else ()
