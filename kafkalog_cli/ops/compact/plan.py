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
from kafkalog_cli.broker.cleaning.key_table import SoughtKeys
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.cleaning.marking import MEMORY_BYTES
from kafkalog_cli.broker.cleaning.marks import Causes
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.producer_state import ProducerState
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.format.internal_topics.schema import NEWEST, KafkaVersion
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.log_dir import HighWatermark, LineEdit
from kafkalog_cli.log.log_end import largest_timestamp
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.header import first_timestamp
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places
from kafkalog_cli.ops.plans import (
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
from kafkalog_cli.ops.purge import DELAY, NEVER_MS, PurgePlan, plan_purge
from kafkalog_cli.ops.retain.plan import RemovedSegment, RetainPlan
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


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """A request to compact at a time. `is_forced`: clean even a log that is not dirty enough.

    `memory_bytes`: the memory for keys and marks. `delay_ms`: how long `.deleted` files stay; None: as
    file.delete.delay.ms says. `most_keys`: stop early, like a broker whose offset map is full with this number of keys.
    `erased`: keys whose records are all removed; a topic that is not compacted loses no other record. `version`: the
    Kafka whose cleaner is mirrored.
    """

    clock: Clock
    is_forced: bool = False
    memory_bytes: int = MEMORY_BYTES
    delay_ms: int | None = None
    most_keys: int | None = None
    erased: SoughtKeys | None = None
    version: KafkaVersion = NEWEST
    limits: Limits = DEFAULT_LIMITS

    @property
    def now_ms(self) -> int:
        """The time, in ms."""
        return self.clock.now_ms


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


class ErasedKey(NamedTuple):
    """A key with records in the cleaned part of the log."""

    line: Annotated[int, "the line of the key in the file of keys, from 1 on"]
    records: int
    offsets: Annotated[tuple[int, ...], "of the first 1000 records"]
    last_offset: int | None


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


def plan_compact(
    fs: WritableFilesystem,
    partition: Partition,
    request: CompactRequest,
    places: Places | None = None,
) -> CompactPlan:
    """Plan the cleaning at `request.now_ms`. The table of refusals decides whether it may run.

    Reads headers, indexes, producer snapshots and checkpoints. Raises as `SettingsSource.metadata` does, and the
    exceptions of listing and opening the files.
    """
    planned = _CleanedLog(fs, partition, request)
    config = planned.config
    plan = CompactPlan.of(
        partition,
        fingerprints=fingerprints_of(fs, partition.path),
        settings=(*(config[name] for name in USED_SETTINGS), config.segment_size),
        delay_ms=delay_or_setting(config, request.delay_ms),
    )
    try:
        if not config.is_compacted and request.erased is None:
            return plan
        check_finished(partition)
        if not partition.segments:
            return replace(plan, choice=Choice.EMPTY)
        check_logs(partition)
        due = plan_purge(fs, partition, NEVER_MS, request.clock, places)
        return planned.complete(replace(plan, due=due))
    except (Unready, LoadFailed) as error:
        return refused(plan, error)


class _CleanedLog:
    """The log of one partition whose cleaning is planned."""

    def __init__(self, fs: WritableFilesystem, partition: Partition, request: CompactRequest) -> None:
        self.fs = fs
        self.partition = partition
        self.request = request
        self.config = partition.config

    def complete(self, plan: CompactPlan) -> CompactPlan:
        """Return the plan of a log that has segments, with its changes. Raises Unready, LoadFailed."""
        partition = self.partition
        log_end = whole_end_of(self.fs, partition)
        log_start = max(partition.log_start, partition.segments[0].base_offset)
        high_watermark = partition.high_watermark(log_end)
        producers = self._producers(log_end)
        sizes = CleanableLog(self.fs, partition.segments).sizes
        ends = LogEnds(log_start, log_end, producers.stable_below(high_watermark.offset))
        checkpoint = partition.line(FileKind.CLEANER_CHECKPOINT)
        times = SegmentTimes(self._largest_ms, self._first_batch_ms)
        if not self.config.is_compacted:
            return self._erasing_only(plan, ends, high_watermark, producers)
        dirt = find_dirt(sizes, ends, checkpoint, self._limits, self.request.now_ms, times)
        choice = self._choice(dirt, sizes[0].base_offset)
        first_dirty = dirt.first_dirty if dirt.cleanable_bytes else log_start
        config, upper = self.config, dirt.first_uncleanable
        below = [size for size in sizes if size.base_offset < upper]
        groups = group_segments(below, config.segment_bytes, config.segment_index_bytes, upper)
        return replace(
            plan,
            choice=choice,
            dirt=dirt,
            first_dirty=first_dirty,
            groups=tuple(tuple(sizes[at].base_offset for at in group) for group in groups if choice.is_cleaned),
            producers=producers.producers,
            log_start_offset=log_start,
            log_end_offset=log_end,
            high_watermark=high_watermark,
            line_edits=self._edits(dirt, choice),
        )

    def _erasing_only(
        self, plan: CompactPlan, ends: LogEnds, high_watermark: HighWatermark, producers: ProducerState
    ) -> CompactPlan:
        """Return the plan of an erasure that removes no other record. The proof finds the segments to change.

        The active segment may be changed too, once it is rolled.
        """
        sizes = CleanableLog(self.fs, self.partition.segments).sizes
        times = SegmentTimes(self._largest_ms, self._first_batch_ms)
        dirt = find_dirt(sizes, ends, None, CleaningLimits(0.0), self.request.now_ms, times)
        if ends.last_stable >= ends.log_end:
            dirt = dirt._replace(first_uncleanable=ends.log_end)
        else:  # no roll helps
            dirt = dirt._replace(up_to=UpTo.LAST_STABLE_OFFSET)
        return replace(
            plan,
            choice=Choice.ERASING_ONLY,
            dirt=dirt,
            first_dirty=ends.log_start,
            producers=producers.producers,
            log_start_offset=ends.log_start,
            log_end_offset=ends.log_end,
            high_watermark=high_watermark,
        )

    @property
    def _limits(self) -> CleaningLimits:
        config = self.config
        return CleaningLimits(
            config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms
        )

    def _choice(self, dirt: Dirt, first_base: int) -> Choice:
        if dirt.is_due(self._limits):
            is_dirty = dirt.ratio > self.config.min_cleanable_dirty_ratio
            return Choice.DIRTY if is_dirty else Choice.OVERDUE
        if self.request.is_forced and dirt.first_uncleanable > first_base:
            return Choice.FORCED
        if self.request.erased is not None and dirt.first_uncleanable > first_base:
            return Choice.ERASING
        return Choice.NOT_DIRTY_ENOUGH if dirt.cleanable_bytes else Choice.NOTHING_DIRTY

    def _edits(self, dirt: Dirt, choice: Choice) -> tuple[LineEdit, ...]:
        """Return the edit of the cleaner checkpoint: the cleaned end, or a correction of a line outside the log."""
        if choice.is_cleaned:
            return self.partition.edit(FileKind.CLEANER_CHECKPOINT, max(dirt.first_dirty, dirt.first_uncleanable))
        is_wrong = dirt.checkpoint in (CheckpointState.BELOW_LOG_START, CheckpointState.ABOVE_LOG_END)
        return self.partition.edit(FileKind.CLEANER_CHECKPOINT, dirt.first_dirty) if is_wrong else ()

    def _producers(self, log_end: int) -> ProducerState:
        """Return the producer state of a broker that starts now. Raises LoadFailed."""
        draft = Draft(self.fs, self.partition.path)
        log = open_log(draft, self.partition, load_settings(self.partition, self.request.now_ms), log_end)
        return log.producers_at_end(draft.fork()).state

    def _largest_ms(self, at: int) -> int:
        enough_ms = self.request.now_ms - self.config.min_compaction_lag_ms + 1
        return largest_timestamp(self.fs, self.partition.segments[at], enough_ms).timestamp_ms

    def _first_batch_ms(self, at: int) -> int:
        with self.fs.open_read(self.partition.segments[at].log.path) as log:
            return first_timestamp(log)
