"""Writes the segments of a cleaning: appends batches to a log, and writes the indexes when the segment is closed."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kafkalog_cli.broker.segment_writer import GrowingIndexes
from kafkalog_cli.disk.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES


class FileMaker(Protocol):
    """Creates the new files of a cleaning, by their names. `sizes` has the sizes of the finished files in bytes."""

    sizes: dict[str, int]

    def create(self, name: str) -> None:
        """Create an empty file."""

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Append to a file."""

    def finish(self, name: str, mtime_ms: int | None) -> None:
        """Set the mtime of a file if one is given, sync the file to the disk, and close it."""


class CleanedSegment(NamedTuple):
    """A written segment: the names of its files, with the work suffix, and the size of its log."""

    base_offset: int
    names: tuple[str, ...]
    size_bytes: int


class IndexLimits(NamedTuple):
    """Settings of a topic: index.interval.bytes and segment.index.bytes."""

    interval_bytes: int
    segment_index_bytes: int


class CleanedSegments:
    """Writes the batches of a group of segments to a single new segment, or to several if they do not fit.

    The files get `mtime_ms`, the mtime of the group's last segment: it decides when tombstones of v0 and v1 expire.
    """

    def __init__(self, files: FileMaker, base_offset: int, limits: IndexLimits, mtime_ms: int) -> None:
        self.done: list[CleanedSegment] = []
        self.position = 0
        self.is_all_below = False
        """Whether the segment has a batch that ends below its base offset, and no other: readers would not find it."""
        self._files = files
        self._limits = limits
        self._mtime_ms = mtime_ms
        self._aborted: list[AbortedTxn] = []
        self._begin(base_offset)

    def write(self, data: memoryview, batches: BatchColumns) -> None:
        """Append consecutive batches with the bytes `data`; the position of the first is the end of the log."""
        count = len(batches)
        fit = min(self._rows_that_fit(batches), count)
        below = self._rows_below(batches)
        done, error = self._indexes.add(batches.part(below, fit), fit - below)
        del error  # batches that do not fit are written to another segment
        done += below
        self.is_all_below = done == below and (below > 0 or self.is_all_below)
        size = len(data) if done == count else int(batches.position[done]) - self.position
        self._files.write(self._name(FileKind.LOG), data[:size])
        self.position += size
        if done < count:
            if not self.position:
                raise ValueError(f"no segment can hold the batch at offset {batches.base_offset[0]}")
            self._close()
            self._begin(int(batches.base_offset[done]))
            self.write(data[size:], batches.part(done, count).move_to(self.position))

    def note_aborted(self, aborted: Sequence[AbortedTxn]) -> None:
        """Add aborted transactions, whose markers were just written, to the transaction index."""
        self._aborted += aborted

    def close(self) -> list[CleanedSegment]:
        """Write the remaining bytes and all indexes; return the segments."""
        self._close()
        return self.done

    def _begin(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._indexes = GrowingIndexes(base_offset, self._limits.interval_bytes, self._limits.segment_index_bytes)
        self._files.create(self._name(FileKind.LOG))
        self.position = 0

    def _name(self, kind: FileKind) -> str:
        return segment_file_name(self._base_offset, kind, WorkState.CLEANED)

    def _rows_below(self, batches: BatchColumns) -> int:
        """Return 1 if this is the segment's first batch and ends below its base offset, else 0.

        Such a batch is the rest of a message set whose records at the base offset and above were removed.
        """
        if self.position or int(batches.last_offset[0]) >= self._base_offset:
            return 0
        self._indexes.begin_below(int(batches.max_timestamp[0]))
        return 1

    def _rows_that_fit(self, batches: BatchColumns) -> int:
        last = len(batches) - 1
        if int(batches.position[last]) + int(batches.size_bytes[last]) <= MAX_SEGMENT_BYTES:
            return len(batches)
        ends = map(sum, zip(batches.position, batches.size_bytes, strict=True))
        return sum(end <= MAX_SEGMENT_BYTES for end in ends)

    def _close(self) -> None:
        names = [self._name(FileKind.LOG)]
        self._files.finish(names[0], self._mtime_ms)
        self._indexes.close()
        for kind, data in (
            (FileKind.OFFSET_INDEX, self._indexes.offset_index),
            (FileKind.TIME_INDEX, self._indexes.time_index),
            (FileKind.TXN_INDEX, txnindex.encode(self._aborted)),
        ):
            if kind is FileKind.TXN_INDEX and not data:
                continue
            names.append(self._name(kind))
            self._files.create(names[-1])
            self._files.write(names[-1], data)
            self._files.finish(names[-1], None if kind is FileKind.TXN_INDEX else self._mtime_ms)
        self._aborted = []
        self.done.append(CleanedSegment(self._base_offset, tuple(names), self.position))
