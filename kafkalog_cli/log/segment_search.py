"""Find a batch in one segment through its indexes. An index entry is used only if the log confirms it."""

from functools import cached_property
from typing import NamedTuple

from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile, read_all
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import CRC_GOOD, NO_OFFSET, NO_TIMESTAMP, Batch
from kafkalog_cli.format.index import OffsetIndex, OffsetIndexEntry, TimeIndex, TimeIndexEntry
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import Headers, header_at
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan


class StartingPoint(NamedTuple):
    """The position at which a search in a segment can start.

    `entry` is the index entry that gave the position; None: the start of the segment. `doubt` is the reason why an
    index was not used, "" if it was used or has no entry for the search.
    """

    position: int
    entry: OffsetIndexEntry | None = None
    doubt: str = ""


class SegmentIndexes:
    """The two indexes of one segment, read on first use.

    An entry of the offset index is used if a batch starts at its position whose first offset is not above the wanted
    offset. Then no earlier batch can reach the wanted offset. An entry of the time index is used if the batch with its
    offset has its timestamp as largest timestamp.
    """

    def __init__(self, fs: Filesystem, segment: Segment) -> None:
        self._fs = fs
        self._segment = segment
        self._first_offsets: dict[int, int | None] = {}
        self.offset_doubt = "" if segment.is_v07 or segment.offset_index else "the offset index is missing"
        self.time_doubt = "" if segment.is_v07 or segment.time_index else "the time index is missing"

    @cached_property
    def whole_offset_index(self) -> OffsetIndex:
        """All entries in the file, as a broker reads it; empty if the file is missing or cannot be read."""
        data, doubt = self._read(self._segment.offset_index)
        self.offset_doubt = self.offset_doubt or doubt
        return OffsetIndex(data, self._segment.base_offset)

    @cached_property
    def whole_time_index(self) -> TimeIndex:
        """All entries in the file, as a broker reads it; empty if the file is missing or cannot be read."""
        data, doubt = self._read(self._segment.time_index)
        self.time_doubt = self.time_doubt or doubt
        return TimeIndex(data, self._segment.base_offset)

    @cached_property
    def _offset_index(self) -> OffsetIndex:
        return self.whole_offset_index.in_use()

    @cached_property
    def _time_index(self) -> TimeIndex:
        index = self.whole_time_index.in_use()
        # A preallocated index that was never written has a single entry of zeros.
        is_unused = len(index) == 1 and tuple(index[0]) == (0, self._segment.base_offset)
        return TimeIndex(b"", self._segment.base_offset) if is_unused else index

    def before_offset(self, log: ReadableFile, offset: int) -> StartingPoint:
        """Return a starting point at or before the first batch whose last offset is `offset` or above."""
        index = self._offset_index
        if not len(index):
            return StartingPoint(0, None, self.offset_doubt)
        entry = index.lookup(offset)
        if entry.position == 0:
            return StartingPoint(0)
        first = self._first_offset_at(log, entry.position)
        if first is None or not self._segment.base_offset <= first <= offset:
            return StartingPoint(0, None, f"the offset index lies: entry {entry.offset} at {entry.position}")
        return StartingPoint(entry.position, entry)

    def before_time(self, log: ReadableFile, timestamp_ms: int) -> tuple[int, TimeIndexEntry | None]:
        """Return (an offset, the index entry that gives it): every record up to and including this offset is older.

        The result is the base offset minus one, and None, if the time index does not have such an entry.
        """
        nothing = (self._segment.base_offset - 1, None)
        index = self._time_index
        if not len(index):
            return nothing
        entry = index.lookup(timestamp_ms - 1)
        if entry.timestamp < 0 or self._batch_of(log, entry) is None:
            return nothing
        return entry.offset, entry

    def largest_timestamp(self, log: ReadableFile) -> int:
        """Return the segment's largest timestamp in ms, -1 if none.

        Headers are read from the batch of the time index's last entry on. If the log does not confirm that entry, all
        headers are read.
        """
        index = self._time_index
        batch = self._batch_of(log, index.last_entry) if len(index) else None
        reader = Headers(log, start=0 if batch is None else batch.position)
        return max((header.max_timestamp for header in reader), default=NO_TIMESTAMP)

    def _batch_of(self, log: ReadableFile, entry: TimeIndexEntry) -> Batch | None:
        """Return the batch that confirms a time index entry; None if there is none.

        The batch has the entry's timestamp, and no batch read before it has a larger one. If a time index is missing, a
        broker creates an empty one and continues, so that its first entry is after that of the offset index. In this
        case all earlier batches are read.
        """
        start = 0 if self._begins_late() else self.before_offset(log, entry.offset).position
        for batch in Headers(log, start=start):
            if batch.max_timestamp > entry.timestamp:
                break
            if batch.last_offset >= entry.offset:
                if batch.max_timestamp == entry.timestamp:
                    return batch
                break
        self.time_doubt = f"the time index lies: entry {entry.timestamp} at offset {entry.offset}"
        return None

    def _begins_late(self) -> bool:
        offsets = self.whole_offset_index
        return len(offsets) > 0 and self.whole_time_index[0].offset > offsets[0].offset

    def _first_offset_at(self, log: ReadableFile, position: int) -> int | None:
        """Return the first offset of the batch at `position`; None if no batch starts there."""
        if position not in self._first_offsets:
            self._first_offsets[position] = _first_offset_of_batch(log, position)
        return self._first_offsets[position]

    def _read(self, file: FileStatus | None) -> tuple[bytes, str]:
        if file is None:
            return b"", ""
        try:
            return read_all(self._fs, file.path), ""
        except (KafkalogError, OSError) as error:
            return b"", f"an index cannot be read: {error}"


def first_batch_reaching(log: ReadableFile, position: int, offset: int) -> Batch | None:
    """Return the first batch from `position` on whose last offset is `offset` or above.

    None if the chain of batches ends before, at the end of the log or at damage.
    """
    return next((batch for batch in Headers(log, start=position) if batch.last_offset >= offset), None)


def _first_offset_of_batch(log: ReadableFile, position: int) -> int | None:
    """Return the first offset of the batch that starts at `position`, or None if no batch starts there.

    Bytes that look like a header are not enough. The CRC must be right, or the chain of batches from the segment's
    start must lead to `position`.
    """
    header = header_at(log, position) if 0 < position < log.size_bytes else None
    if not isinstance(header, Batch):
        return None
    for chunk in Scan.of_batch(log, header):
        batch = chunk.batches.row(0)
        if batch.valid == CRC_GOOD:
            if batch.base_offset == NO_OFFSET:  # a compressed message set: its first offset is in its records
                return next((b.records.offset[0] for b in RecordReader().blocks(chunk) if len(b.records)),
                            batch.last_offset)  # fmt: skip
            return batch.base_offset
    reached = next((batch for batch in Headers(log) if batch.position >= position), None)
    if reached is None or reached.position != position:
        return None
    return header.last_offset if header.base_offset == NO_OFFSET else header.base_offset
