"""The plan of a compaction: whether a log is dirty enough, which segments become one, and the values of an erasure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, unique
from typing import NamedTuple

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
from kafkalog_cli.ops.retain.plan import RetainPlan


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
    """The records that a cleaning would read, and those that it would remove, with control records; by causes too."""

    records: int
    gone: int
    causes: Causes


class SegmentChange(NamedTuple):
    """Source segments, and the segments that were made from them, by base offsets."""

    sources: tuple[int, ...]
    made: tuple[int, ...]


class Compaction(NamedTuple):
    """The result of a cleaning. The log is clean below `end_offset`."""

    end_offset: int
    counts: CleaningCounts
    segments: tuple[SegmentChange, ...]
    passes: int = 1  # always: JSON output had runs with more


@dataclass(frozen=True, slots=True)
class CompactPlan(LogPlan):
    """A plan to clean the offsets below `dirt.first_uncleanable`, with keys collected from `first_dirty` on.

    `first_dirty` is below `dirt.first_dirty` if the clean part is cleaned again. `groups` contains the base offsets of
    the segments of each group, which become one segment. `due` contains files of earlier runs that are removed now.
    `delay_ms` is how long this run's `.deleted` files stay. `outcome` and `estimate` are set after a cleaning or an
    estimate. `retention` is the retention plan that follows if cleanup.policy has delete too, `retention_run` the id of
    its run. `explained` contains the records of the explained key. `erasure` is set if keys are erased. `rolls`: the
    active segment has records to erase, and is rolled first.
    """

    choice: Choice = Choice.NOT_COMPACTED
    dirt: Dirt | None = None
    first_dirty: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    producers: Mapping[int, ProducerEntry] = field(default_factory=dict)
    due: PurgePlan | None = None
    delay_ms: int = 0
    estimate: Estimate | None = None
    outcome: Compaction | None = None
    retention: RetainPlan | None = None
    retention_run: str | None = None
    explained: tuple[RecordFate, ...] | None = None
    erasure: Erasure | None = None
    rolls: bool = False

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
    """Records of a key in the cleaned part of the log. `line` is the key's line in the file of keys, from 1 on."""

    line: int
    records: int
    offsets: tuple[int, ...]
    last_offset: int | None


class LogDigest(NamedTuple):
    """A log of the partition, and the number of its records that have one of the keys."""

    name: str
    size_bytes: int
    sha256: str
    records: int


class Holder(NamedTuple):
    """A file that contains records of the keys, or may contain them because it cannot be read to its end (`unread`)."""

    path: str
    place: RecordPlace
    records: int
    unread: str | None = None


class Erasure(NamedTuple):
    """The proof of an erasure. `after` is None if nothing was erased.

    `wanted` is the number of requested keys. `replication` describes what is known of other replicas. `holders` are the
    files that contain records of the keys afterwards. `lines_without_record` are those of keys that no file contains.
    """

    replication: str
    wanted: int
    keys: tuple[ErasedKey, ...] = ()
    before: tuple[LogDigest, ...] = ()
    after: tuple[LogDigest, ...] | None = None
    holders: tuple[Holder, ...] = ()
    lines_without_record: tuple[int, ...] = ()


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
