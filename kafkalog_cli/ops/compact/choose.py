"""Plans the compaction of partitions: finds the dirty part of each log, and decides whether it is cleaned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kafkalog_cli.broker.cleaning.choosing import (
    CheckpointState,
    CleaningLimits,
    Dirt,
    LogEnds,
    SegmentTimes,
    find_dirt,
    group_segments,
)
from kafkalog_cli.broker.cleaning.cleaner import LastRecord
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.producer_state import ProducerState
from kafkalog_cli.broker.producer_table import ProducerTable
from kafkalog_cli.change.checkpoint_lines import LineEdit
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.segments.log_end import largest_timestamp
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY
from kafkalog_cli.ops.compact.plan import Choice, CompactPlan, CompactRequest
from kafkalog_cli.ops.log_plan import PlannedLog, Unready, check_finished, check_logs, refused, whole_end_of
from kafkalog_cli.ops.partition_facts import Places
from kafkalog_cli.ops.partition_state import PartitionState
from kafkalog_cli.ops.purge import DELAY, plan_purge
from kafkalog_cli.ops.retain.retain import NEVER_MS

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
    root: PartitionState,
    request: CompactRequest,
    places: Places | None = None,
) -> CompactPlan:
    """Plan the cleaning at `request.now_ms`. The table of refusals decides whether it may run.

    Reads headers, indexes, producer snapshots and checkpoints. Raises as `SettingsSource.metadata` does, and the
    exceptions of listing and opening the files.
    """
    planned = _CleanedLog(fs, partition, root, request)
    config = planned.config
    used = (*(config[name] for name in USED_SETTINGS), config.segment_size)
    plan = planned.plan(CompactPlan, used, delay_ms=planned.delay_ms(request.delay_ms))
    try:
        if not config.is_compacted:
            return plan
        check_finished(partition)
        if not partition.segments:
            return replace(plan, choice=Choice.EMPTY)
        check_logs(partition)
        due = plan_purge(fs, partition, NEVER_MS, request.clock, places)
        return planned.complete(replace(plan, due=due))
    except (Unready, LoadFailed) as error:
        return refused(plan, error)


class _CleanedLog(PlannedLog[WritableFilesystem, CompactRequest]):
    """The log of one partition whose cleaning is planned."""

    def complete(self, plan: CompactPlan) -> CompactPlan:
        """Return the plan of a log that has segments, with its changes. Raises Unready, LoadFailed."""
        partition, root = self.partition, self.root
        log_end = whole_end_of(self.fs, partition, root)
        log_start = max(root.log_start, partition.segments[0].base_offset)
        high_watermark = root.high_watermark(log_end)
        producers = self._producers(log_end)
        sizes = CleanableLog(self.fs, partition.segments).sizes
        ends = LogEnds(log_start, log_end, producers.stable_below(high_watermark.offset))
        checkpoint = root.line(FileKind.CLEANER_CHECKPOINT)
        times = SegmentTimes(self._largest_ms, self._first_batch_ms)
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
            producers=LastRecords(producers.producers),
            log_start_offset=log_start,
            log_end_offset=log_end,
            high_watermark=high_watermark,
            line_edits=self._edits(dirt, choice),
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
            return self.root.edit(FileKind.CLEANER_CHECKPOINT, max(dirt.first_dirty, dirt.first_uncleanable))
        is_wrong = dirt.checkpoint in (CheckpointState.BELOW_LOG_START, CheckpointState.ABOVE_LOG_END)
        return self.root.edit(FileKind.CLEANER_CHECKPOINT, dirt.first_dirty) if is_wrong else ()

    def _producers(self, log_end: int) -> ProducerState:
        """Return the producer state of a broker that starts now. Raises LoadFailed."""
        draft = Draft(self.fs, self.partition.path)
        return self.on_draft(draft, log_end).producers_at_end(draft.fork()).state

    def _largest_ms(self, at: int) -> int:
        enough_ms = self.request.now_ms - self.config.min_compaction_lag_ms + 1
        return largest_timestamp(self.fs, self.partition.segments[at], enough_ms).timestamp_ms

    def _first_batch_ms(self, at: int) -> int:
        return first_batch_ms(self.fs, self.partition.segments[at])


def first_batch_ms(fs: WritableFilesystem, segment: Segment) -> int:
    """Return the largest timestamp of a segment's first batch, -1 without a batch (loadFirstBatchTimestamp)."""
    with fs.open_read(segment.log.path) as log:
        first = next(SegmentReader(log).headers(), None)
    return -1 if first is None else first.max_timestamp


class LastRecords(Mapping[int, LastRecord]):
    """The last record per producer id (UnifiedLog.lastRecordsOfActiveProducers)."""

    def __init__(self, producers: ProducerTable) -> None:
        self._producers = producers

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._producers)

    def __getitem__(self, producer_id: int) -> LastRecord:
        entry = self._producers[producer_id]
        return LastRecord(entry.last_offset if entry.last_offset >= 0 else None, entry.producer_epoch)
