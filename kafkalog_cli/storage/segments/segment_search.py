"""Finding a batch in one segment through its indexes, which are believed only where the log bears them out."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import CRC_GOOD, NO_OFFSET, NO_TIMESTAMP, Batch
from kafkalog_cli.format.index import OffsetIndex, OffsetIndexEntry
from kafkalog_cli.format.timeindex import TimeIndex, TimeIndexEntry
from kafkalog_cli.storage.fs import FileStatus, Filesystem, ReadableFile, read_all
from kafkalog_cli.storage.partition import Segment
from kafkalog_cli.storage.reading.header import header_at
from kafkalog_cli.storage.reading.read import RecordReader
from kafkalog_cli.storage.reading.scan import scan_of
from kafkalog_cli.storage.segments.log_end import HeaderChain


class StartingPoint(NamedTuple):
    """Where a search in a segment may begin. `entry` is the index entry that says so, None: the segment's start.

    `doubt` tells why an index was not used, empty if it was, or has nothing to say.
    """

    position: int
    entry: OffsetIndexEntry | None = None
    doubt: str = ""


class SegmentIndexes:
    """The two indexes of one segment, read when they are asked for.

    An entry of the offset index is believed if a batch starts at its position, and not behind the offset that is
    looked for: then no batch before can reach that offset. An entry of the time index is believed if the batch with
    its offset has its timestamp as the largest.
    """

    def __init__(self, fs: Filesystem, segment: Segment) -> None:
        self._fs = fs
        self._segment = segment
        self._offset_index: OffsetIndex | None = None
        self._offset_index_used: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._time_index_used: TimeIndex | None = None
        self._first_offsets: dict[int, int | None] = {}
        self.offset_doubt = "" if segment.is_seven or segment.offset_index else "the offset index is missing"
        self.time_doubt = "" if segment.is_seven or segment.time_index else "the time index is missing"

    @property
    def whole_offset_index(self) -> OffsetIndex:
        """All that the file's length holds, as a broker takes it; empty if there is none or it cannot be read."""
        if self._offset_index is None:
            data, doubt = self._read(self._segment.offset_index)
            self.offset_doubt = self.offset_doubt or doubt
            self._offset_index = OffsetIndex(data, self._segment.base_offset)
        return self._offset_index

    @property
    def whole_time_index(self) -> TimeIndex:
        """All that the file's length holds, as a broker takes it; empty if there is none or it cannot be read."""
        if self._time_index is None:
            data, doubt = self._read(self._segment.time_index)
            self.time_doubt = self.time_doubt or doubt
            self._time_index = TimeIndex(data, self._segment.base_offset)
        return self._time_index

    def before_offset(self, log: ReadableFile, offset: int) -> StartingPoint:
        """Where to begin so that the first batch that ends at `offset` or above is not missed."""
        if self._offset_index_used is None:
            self._offset_index_used = self.whole_offset_index.in_use()
        index = self._offset_index_used
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
        """An offset up to which, it included, every record is older; and the entry that says so.

        The base offset minus one, and None, where the time index cannot tell.
        """
        nothing = (self._segment.base_offset - 1, None)
        index = self._time_index_in_use()
        if not len(index):
            return nothing
        entry = index.lookup(timestamp_ms - 1)
        if not 0 <= entry.timestamp < timestamp_ms or self._batch_of(log, entry) is None:
            return nothing
        return entry.offset, entry

    def largest_timestamp(self, log: ReadableFile) -> int:
        """The largest timestamp of the segment in ms, -1 if none: the time index, and the headers that it misses."""
        index = self._time_index_in_use()
        batch = self._batch_of(log, index.last_entry) if len(index) else None
        chain = HeaderChain(log, 0 if batch is None else batch.position)
        return max((header.max_timestamp for header in chain), default=NO_TIMESTAMP)

    def _time_index_in_use(self) -> TimeIndex:
        if self._time_index_used is None:
            index = self.whole_time_index.in_use()
            # Preallocated and never written: a single entry of zeroes.
            unused = len(index) == 1 and tuple(index[0]) == (0, self._segment.base_offset)
            self._time_index_used = TimeIndex(b"", self._segment.base_offset) if unused else index
        return self._time_index_used

    def _batch_of(self, log: ReadableFile, entry: TimeIndexEntry) -> Batch | None:
        """The batch that bears out a time index entry: it has the timestamp, none that was looked at before has more.

        An index whose head was lost (a broker makes a missing time index anew, empty, and goes on) has no entry as
        early as the offset index: then every batch before is looked at.
        """
        start = 0 if self._begins_late() else self.before_offset(log, entry.offset).position
        for batch in HeaderChain(log, start):
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
        """The first offset of the batch at `position`; None where none starts there."""
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
    """The first batch from `position` on whose last offset is `offset` or above; None at the end or at damage."""
    return next((batch for batch in HeaderChain(log, position) if batch.last_offset >= offset), None)


def _first_offset_of_batch(log: ReadableFile, position: int) -> int | None:
    """The first offset of the batch that starts at `position`, None if none does.

    Bytes that look like a header are not enough: the CRC must hold, or the chain from the segment's start lead there.
    """
    header = header_at(log, position) if 0 < position < log.size_bytes else None
    if not isinstance(header, Batch):
        return None
    for chunk in scan_of(log, header):
        batch = chunk.batches.row(0)
        if batch.valid == CRC_GOOD:
            if batch.base_offset == NO_OFFSET:  # a compressed message set: only its records tell where it begins
                return next((int(b.records.offset[0]) for b in RecordReader().blocks(chunk) if len(b.records)),
                            batch.last_offset)  # fmt: skip
            return batch.base_offset
    reached = next((batch for batch in HeaderChain(log) if batch.position >= position), None)
    if reached is None or reached.position != position:
        return None
    return header.last_offset if header.base_offset == NO_OFFSET else header.base_offset
