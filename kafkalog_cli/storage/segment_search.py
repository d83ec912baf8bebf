"""Finding a batch in one segment through its indexes, which are believed only where the log bears them out."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.index import OffsetIndex, OffsetIndexEntry
from kafkalog_cli.format.timeindex import TimeIndex, TimeIndexEntry
from kafkalog_cli.storage.fs import FileStatus, Filesystem, ReadableFile, read_all
from kafkalog_cli.storage.header import header_at
from kafkalog_cli.storage.log_end import HeaderChain
from kafkalog_cli.storage.partition import Segment


class StartingPoint(NamedTuple):
    """Where a search in a segment may begin. `entry` is the index entry that says so, None: the segment's start.

    `doubt` tells why an index was not used, empty if it was, or has nothing to say.
    """

    position: int
    entry: OffsetIndexEntry | None = None
    doubt: str = ""


class SegmentIndexes:
    """The two indexes of one segment, read when they are asked for; their zero tails are left out."""

    def __init__(self, fs: Filesystem, segment: Segment) -> None:
        self._fs = fs
        self._segment = segment
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self.offset_doubt = "" if segment.is_seven or segment.offset_index else "the offset index is missing"
        self.time_doubt = "" if segment.is_seven or segment.time_index else "the time index is missing"

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, empty if there is none or it cannot be read."""
        if self._offset_index is None:
            data, doubt = self._read(self._segment.offset_index)
            self.offset_doubt = self.offset_doubt or doubt
            self._offset_index = OffsetIndex(data, self._segment.base_offset).in_use()
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, empty if there is none or it cannot be read."""
        if self._time_index is None:
            data, doubt = self._read(self._segment.time_index)
            self.time_doubt = self.time_doubt or doubt
            self._time_index = TimeIndex(data, self._segment.base_offset).in_use()
        return self._time_index

    def before_offset(self, log: ReadableFile, offset: int) -> StartingPoint:
        """Where to begin so that the first batch that ends at `offset` or above is not missed."""
        index = self.offset_index
        if not len(index):
            return StartingPoint(0, None, self.offset_doubt)
        entry = index.lookup(offset)
        if entry.position <= 0:
            return StartingPoint(0)
        header = header_at(log, entry.position)
        if not isinstance(header, Batch) or not self._is_borne_out(header, entry, offset):
            return StartingPoint(0, None, f"the offset index lies: entry {entry.offset} at {entry.position}")
        return StartingPoint(entry.position, entry)

    def before_time(self, log: ReadableFile, timestamp_ms: int) -> tuple[int, TimeIndexEntry | None]:
        """An offset up to which, it included, every record is older; and the entry that says so.

        The base offset minus one, and None, where the time index cannot tell. The entry is checked against its batch.
        """
        nothing = (self._segment.base_offset - 1, None)
        index = self.time_index
        if not len(index):
            return nothing
        entry = index.lookup(timestamp_ms - 1)
        if entry.timestamp >= timestamp_ms or entry.timestamp < 0:
            return nothing
        batch = first_batch_reaching(log, self.before_offset(log, entry.offset).position, entry.offset)
        if batch is None or batch.max_timestamp != entry.timestamp:
            self.time_doubt = f"the time index lies: entry {entry.timestamp} at offset {entry.offset}"
            return nothing
        return entry.offset, entry

    def largest_timestamp(self, log: ReadableFile) -> int:
        """The largest timestamp of the segment in ms, -1 if none: the time index, and the headers that it misses."""
        index = self.time_index
        entry = index.last_entry
        if not len(index) or entry.timestamp < 0:
            return max((batch.max_timestamp for batch in HeaderChain(log)), default=NO_TIMESTAMP)
        start = self.before_offset(log, entry.offset).position
        largest, seen = NO_TIMESTAMP, False
        for batch in HeaderChain(log, start):
            largest = max(largest, batch.max_timestamp)
            seen = seen or (batch.last_offset >= entry.offset and batch.max_timestamp == entry.timestamp)
        if seen:
            return max(largest, entry.timestamp)
        self.time_doubt = f"the time index lies: entry {entry.timestamp} at offset {entry.offset}"
        return max((batch.max_timestamp for batch in HeaderChain(log)), default=NO_TIMESTAMP)

    def _is_borne_out(self, header: Batch, entry: OffsetIndexEntry, offset: int) -> bool:
        first = header.base_offset if header.base_offset >= 0 else header.last_offset
        return self._segment.base_offset <= first <= max(entry.offset, offset) and header.last_offset >= first

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
