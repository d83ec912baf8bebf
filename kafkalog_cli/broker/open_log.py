"""A log between a broker's start and stop, on a draft of its files: how it is rolled and truncated (UnifiedLog)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, unique
from typing import Annotated, Any, NamedTuple

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import LoadFailed, cannot_read
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.producer_snapshots import ProducerSnapshots
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.names import FileKind, WorkState, offset_of_file_name, segment_file_name
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.index import (
    MAX_RELATIVE_OFFSET,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    OffsetIndex,
    SegmentIndex,
    TimeIndex,
)
from kafkalog_cli.log.log_end import entries_in_use
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.results import NEGATIVE_IS_NULL, Count, Hidden, Named, keywords


class OpenLog:
    """The segments, offsets and producers of a log without damage at its end; changes go to the draft.

    `log_start_offset` is the larger of the checkpoint's offset and the first base offset. Without `is_clean` the
    indexes of the last segment may be at full length; their unused zeros are cut off. Raises LoadFailed.
    """

    def __init__(
        self, draft: Draft, settings: LoadSettings, log_start_checkpoint: int, log_end_offset: int, *, is_clean: bool
    ) -> None:
        self.draft = draft
        self.settings = settings
        self.log_end_offset = log_end_offset
        self.is_clean = is_clean
        self.base_offsets = sorted(_base_offsets(draft))
        self.log_start_offset = max(log_start_checkpoint, self.base_offsets[0])
        if not is_clean:
            self._cut_unused(FileKind.OFFSET_INDEX, OffsetIndex)
            self._cut_unused(FileKind.TIME_INDEX, TimeIndex)

    def segments(self, draft: Draft | None = None) -> list[LoadedSegment]:
        """Return the segments as they are in the draft, or in a fork of it, in ascending order."""
        return [LoadedSegment(draft or self.draft, base_offset, self.settings) for base_offset in self.base_offsets]

    def active(self) -> LoadedSegment:
        """Open the last segment. Raises LoadFailed if a broker would recover the segment when it opens it."""
        segment = LoadedSegment(self.draft, self.base_offsets[-1], self.settings)
        if segment.check_opened():
            raise LoadFailed("CorruptIndexException", f"an index of {segment.log_name} is missing or damaged")
        return segment

    def create_segment(self, base_offset: int) -> None:
        """Create an empty segment as it is after the broker stops; stray files of that name are replaced or removed."""
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            self.draft.put(segment_file_name(base_offset, kind), b"")
        self.draft.drop(segment_file_name(base_offset, FileKind.TXN_INDEX))
        self.base_offsets.append(base_offset)

    def drop_segments(self, base_offsets: list[int]) -> None:
        """Remove all files of segments, and their producer snapshots."""
        for base_offset in base_offsets:
            for kind in _SEGMENT_FILES:
                self.draft.drop(segment_file_name(base_offset, kind))
            self.base_offsets.remove(base_offset)

    # -- times

    def knows_times(self, segment: LoadedSegment) -> bool:
        """Whether the segment has timestamps for a broker; after a clean stop, only if its time index has an entry."""
        return not self.is_clean or len(segment.time_index()) > 0

    def close_time_index(self, segment: LoadedSegment) -> None:
        """Add the closing entry of a segment to its time index, unless the last entry has a timestamp as large.

        Mirrors LogSegment.readLargestTimestamp and TimeIndex.maybeAppend: batches from the last entry on are read.
        """
        entries = segment.time_index()
        last = entries.last_entry
        position = max(0, segment.offset_index().lookup(last.offset).position)
        largest, offset = last
        with self.draft.reader(segment.log_name) as log:
            for batch in Headers(log, start=position):
                if batch.max_timestamp > largest:
                    largest, offset = batch.max_timestamp, batch.last_offset
        if largest > last.timestamp:
            before = entries.data[: len(entries) * entries.layout.size]
            data = TIME_INDEX_ENTRY.struct.pack(largest, offset - segment.base_offset)
            self.draft.put(segment.time_index_name, before + data)

    # -- producers and epochs

    def producers_at_end(self, draft: Draft) -> ProducerSnapshots:
        """Return the producer state at the log's end as it is after a broker's start.

        `draft` is a fork of the log's draft; its snapshots change as at that start. Raises LoadFailed.
        """
        snapshots = ProducerSnapshots(draft, self.settings)
        snapshots.rebuild(
            self.segments(draft), self.log_start_offset, self.log_end_offset, from_clean_stop=self.is_clean
        )
        return snapshots

    def take_snapshot_at_end(self) -> None:
        """Write a producer snapshot at the log's end if a broker would write it. Raises LoadFailed."""
        name = segment_file_name(self.log_end_offset, FileKind.PRODUCER_SNAPSHOT)
        if name in self.draft:
            return
        fork = self.draft.fork()
        self.producers_at_end(fork)
        if name in fork:
            self.draft.take_over(name, fork)

    def _cut_unused(self, kind: FileKind, index: type[SegmentIndex[Any]]) -> None:
        name = segment_file_name(self.base_offsets[-1], kind)
        if name in self.draft:
            entries, faults = entries_in_use(self.draft, self.draft.path(name), index, self.base_offsets[-1])
            if faults:
                raise cannot_read(name, faults[0])
            is_unused = len(entries) == 1 and not any(entries.data)
            self.draft.cut(name, 0 if is_unused else len(entries) * entries.layout.size)


_SEGMENT_FILES = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
)


def _base_offsets(draft: Draft) -> list[int]:
    found = []
    for name in draft.names():
        offset = offset_of_file_name(name) if name.endswith(FileKind.LOG.value) else None
        if offset is not None and segment_file_name(offset, FileKind.LOG) == name:
            found.append(offset)
    return found


def mark_deleted(draft: Draft, base_offsets: Iterable[int]) -> None:
    """Rename all files of segments, and their producer snapshots, to `.deleted` (LocalLog.deleteSegmentFiles)."""
    for base_offset in base_offsets:
        for kind in _SEGMENT_FILES:
            name = segment_file_name(base_offset, kind)
            draft.move(name, segment_file_name(base_offset, kind, WorkState.DELETED))


@contextmanager
def changed_epochs(draft: Draft) -> Iterator[LeaderEpochs]:
    """Yield the leader epochs of the checkpoint file, and rewrite the file if they changed.

    Without a file there are no epochs, and no file is created. Raises LoadFailed where a broker cannot read the file.
    """
    name = FileKind.LEADER_EPOCH_CHECKPOINT.value
    data = draft.read(name) if name in draft else b""
    epochs = LeaderEpochs.from_file(data) if data else LeaderEpochs()
    yield epochs
    if epochs.is_changed and name in draft:
        draft.put(name, epochs.encode())


SMALLEST_BATCH_BYTES = 68
"""Size of a v2 batch with one record that has neither key nor value."""


@unique
class RollCause(Enum):
    """Why a segment is rolled, in the order in which a broker checks. The value is the word in JSON output."""

    SIZE = "size"
    TIME = "time"
    OFFSET_INDEX_FULL = "offset-index-full"
    TIME_INDEX_FULL = "time-index-full"
    OFFSET_RANGE = "offset-range"


class Arriving(NamedTuple):
    """Records that are about to be appended: their size in bytes, largest timestamp in ms, and last offset."""

    size_bytes: int
    max_timestamp: int
    last_offset: int


class ActiveSegment(NamedTuple):
    """The last segment before it is rolled.

    `first_timestamp` is -1 if there is none. Its age then counts from `created_ms`, when the broker opened or emptied
    the segment.
    """

    base_offset: int
    size_bytes: Annotated[Count, "of its log"]
    first_timestamp: Annotated[
        int,
        Named("first_timestamp_ms"),
        NEGATIVE_IS_NULL,
        keywords(type=("integer", "null")),
        "the largest of its first batch",
    ]
    created_ms: Hidden[int]
    offset_entries: Annotated[Count, Named("index_entries"), "of its offset index"]
    time_entries: Annotated[Count, Named("time_index_entries"), "of its time index"]

    def waited_ms(self, arriving: Arriving, now_ms: int) -> int:
        """Return the age of the segment in ms (LogSegment.timeWaitedForRoll), by record timestamps if it has one."""
        if self.first_timestamp >= 0:
            return arriving.max_timestamp - self.first_timestamp
        return now_ms - self.created_ms


class RollLimits(NamedTuple):
    """Topic settings; `segment_ms` is LogConfig.maxSegmentMs minus the random jitter, if there is any."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int


def roll_cause(active: ActiveSegment, arriving: Arriving, limits: RollLimits, now_ms: int) -> RollCause | None:
    """Return why a broker rolls the segment before it appends `arriving`, None if it does not."""
    if active.size_bytes > limits.segment_bytes - arriving.size_bytes:
        return RollCause.SIZE
    if active.size_bytes > 0 and active.waited_ms(arriving, now_ms) > limits.segment_ms:
        return RollCause.TIME
    if active.offset_entries >= limits.segment_index_bytes // OFFSET_INDEX_ENTRY.size:
        return RollCause.OFFSET_INDEX_FULL
    # One entry is reserved for closing the segment.
    if active.time_entries >= limits.segment_index_bytes // TIME_INDEX_ENTRY.size - 1:
        return RollCause.TIME_INDEX_FULL
    relative_offset = arriving.last_offset - active.base_offset
    return None if 0 <= relative_offset <= MAX_RELATIVE_OFFSET else RollCause.OFFSET_RANGE


def roll(log: OpenLog) -> None:
    """Close the active segment and create an empty segment at the log's end.

    An empty active segment stays as it is. Raises LoadFailed where a broker throws: a segment with that base offset
    or a later one exists.
    """
    active, end_offset = log.active(), log.log_end_offset
    if active.base_offset == end_offset and not active.size_bytes:
        return
    if active.base_offset >= end_offset:
        reason = f"a new segment would begin at {end_offset}, and {active.log_name} is there"
        raise LoadFailed("KafkaException", reason)
    for name, entries in ((active.index_name, active.offset_index()), (active.time_index_name, active.time_index())):
        log.draft.cut(name, len(entries) * entries.layout.size)
    if not log.is_clean:  # after a clean stop, LogSegment.maxTimestampSoFar is that of the last entry
        log.close_time_index(active)
    log.create_segment(end_offset)
    log.take_snapshot_at_end()


class CutBatch(NamedTuple):
    """A batch that the target of truncate is in; a batch cannot be split."""

    base_offset: int
    last_offset: int
    position: Annotated[Count, "in its file"]


class Truncated(NamedTuple):
    """Result of a truncation: the new start and end of the log, and the base offsets of the removed segments.

    `cut_batch` is the removed batch that also had records below the target, None if there is none. `cut_bytes` is
    the number of bytes cut from the segment that is now the last.
    """

    log_start_offset: int
    log_end_offset: int
    removed: tuple[int, ...] = ()
    cut_batch: CutBatch | None = None
    cut_bytes: int = 0


def truncate_to(log: OpenLog, target_offset: int) -> Truncated:
    """Remove all records from `target_offset` on, in whole batches; the draft is the log at the broker's next start.

    Until it stops, a broker uses the target as the log's end, even if it lies within a batch. A log that would end
    below its log start offset is emptied and starts there, as at the broker's next start. Raises LoadFailed.
    """
    if target_offset >= log.log_end_offset:
        with changed_epochs(log.draft) as epochs:
            epochs.truncate_from_end(log.log_end_offset)
        return Truncated(log.log_start_offset, log.log_end_offset)
    if log.base_offsets[0] > target_offset:
        return truncate_fully_and_start_at(log, target_offset)
    producers = log.producers_at_end(log.draft.fork())
    removed = [base_offset for base_offset in log.base_offsets if base_offset > target_offset]
    log.drop_segments(removed)
    cut_batch, cut_bytes = _truncate_segment(log, log.active(), target_offset)
    end_offset = log.active().next_offset()
    if end_offset < log.log_start_offset:
        started = truncate_fully_and_start_at(log, log.log_start_offset)
        return started._replace(removed=(*started.removed, *removed), cut_batch=cut_batch)
    _forget_after(log, producers, target_offset, end_offset)
    log.log_end_offset = end_offset
    return Truncated(log.log_start_offset, end_offset, tuple(removed), cut_batch, cut_bytes)


def truncate_fully_and_start_at(log: OpenLog, new_offset: int) -> Truncated:
    """Remove all records; the log continues, empty, at `new_offset`."""
    removed = list(log.base_offsets)
    log.drop_segments(removed)
    for name in log.draft.names():
        if name.endswith(FileKind.PRODUCER_SNAPSHOT.value):
            log.draft.drop(name)
    log.create_segment(new_offset)
    with changed_epochs(log.draft) as epochs:
        epochs.clear()
    log.log_start_offset = log.log_end_offset = new_offset
    return Truncated(new_offset, new_offset, tuple(removed))


def _truncate_segment(log: OpenLog, segment: LoadedSegment, target_offset: int) -> tuple[CutBatch | None, int]:
    """Cut the segment (LogSegment.truncateTo) and close it, as a broker does when it stops.

    Returns the removed batch that also had records below the target (None if there is none), and the bytes cut.
    """
    found = segment.find(target_offset)
    before = segment.size_bytes
    draft, knows_times = log.draft, log.knows_times(segment)
    offsets, times = segment.offset_index(), segment.time_index()
    for name, entries, field in ((segment.index_name, offsets, 0), (segment.time_index_name, times, 1)):
        slot = entries.floor_slot(target_offset, field)
        kept = slot if slot >= 0 and entries[slot].offset == target_offset else slot + 1
        draft.cut(name, kept * entries.layout.size)
    if segment.txn_index_name in draft:
        aborted, _ = txnindex.decode(draft.read(segment.txn_index_name), segment.base_offset)
        kept = next((at for at, entry in enumerate(aborted) if entry.last_offset >= target_offset), len(aborted))
        if kept < len(aborted):
            draft.cut(segment.txn_index_name, kept * txnindex.ABORTED_TXN.size)
    if found is None:
        return None, 0
    with draft.reader(segment.log_name) as reader:
        first_offset = segment.first_offset(reader, found)
    draft.cut(segment.log_name, found.position)
    if knows_times:
        log.close_time_index(log.active())
    cut_batch = CutBatch(first_offset, found.last_offset, found.position) if first_offset < target_offset else None
    return cut_batch, before - found.position


def _forget_after(log: OpenLog, producers: ProducerSnapshots, target_offset: int, end_offset: int) -> None:
    """Truncate the leader epochs to `end_offset`, and rebuild the producer state and snapshots.

    If the target lies within a batch, the broker's next start finds a lower end and rebuilds them once more.
    """
    with changed_epochs(log.draft) as epochs:
        epochs.truncate_from_end(end_offset)
    snapshots = ProducerSnapshots(log.draft, log.settings)
    snapshots.state, snapshots.end_offset = producers.state, producers.end_offset
    snapshots.rebuild(log.segments(), log.log_start_offset, target_offset, from_clean_stop=False)
    if target_offset != end_offset:
        started = ProducerSnapshots(log.draft, log.settings)
        started.rebuild(log.segments(), log.log_start_offset, end_offset, from_clean_stop=log.is_clean)
