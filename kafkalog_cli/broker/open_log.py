"""A log between a broker's start and stop, on a draft of its files; rolling and truncation work on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import LoadFailed, cannot_read
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.producer_snapshots import ProducerSnapshots
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.names import FileKind, WorkState, offset_of_file_name, segment_file_name
from kafkalog_cli.format import timeindex
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.format.index_entries import SegmentIndex
from kafkalog_cli.format.timeindex import TimeIndex
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.segments.log_end import entries_in_use


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

    def segments(self) -> list[LoadedSegment]:
        """Return the segments as they are in the draft, in ascending order."""
        return [LoadedSegment(self.draft, base_offset, self.settings) for base_offset in self.base_offsets]

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
            for batch in SegmentReader(log, start=position).headers():
                if batch.max_timestamp > largest:
                    largest, offset = batch.max_timestamp, batch.last_offset
        if largest > last.timestamp:
            before = entries.data[: len(entries) * entries.layout.size]
            data = timeindex.encode([(largest, offset)], segment.base_offset)
            self.draft.put(segment.time_index_name, before + data)

    # -- producers and epochs

    def producers_at_end(self, draft: Draft) -> ProducerSnapshots:
        """Return the producer state at the log's end as it is after a broker's start.

        `draft` is a fork of the log's draft; its snapshots change as at that start. Raises LoadFailed.
        """
        snapshots = ProducerSnapshots(draft, self.settings)
        segments = [LoadedSegment(draft, base_offset, self.settings) for base_offset in self.base_offsets]
        snapshots.rebuild(segments, self.log_start_offset, self.log_end_offset, from_clean_stop=self.is_clean)
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
