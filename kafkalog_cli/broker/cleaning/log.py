"""A log to be cleaned: reads its closed segments batch by batch, and ends with Damaged at the first damage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

from kafkalog_cli.broker.cleaning.choosing import LogSegmentSize
from kafkalog_cli.broker.cleaning.transactions import SegmentAborts
from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile, read_all
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import (
    CRC_GOOD,
    NO_OFFSET,
    Batch,
    BatchArrays,
    BatchColumns,
)
from kafkalog_cli.format.control import control_type
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.format.timeindex import TIME_INDEX_ENTRY
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.read_ahead import ChunkBlocks
from kafkalog_cli.log.reading.scan import Chunk, Rows, Scan
from kafkalog_cli.log.reading.segment_reader import SegmentReader

_CHUNK_BYTES = 1 << 20
"""Smaller than the usual chunk: columns of small records take three times its size, and memory is needed for keys."""


class Damaged(Exception):
    """The log cannot be cleaned because the file `path` is damaged; the log stays as it is."""

    def __init__(self, path: str, fault: Fault) -> None:
        self.path = path
        self.fault = fault
        super().__init__(f"{path} at position {fault.position}: {fault.message}")


@dataclass(frozen=True, slots=True)
class CleanableLog:
    """The segments of a log in ascending order, the active segment last, and how to read them."""

    fs: Filesystem
    segments: Sequence[Segment]
    limits: Limits = DEFAULT_LIMITS
    kernels: KernelChoice | None = None

    @property
    def sizes(self) -> list[LogSegmentSize]:
        """The base offsets and sizes of the segments, for `choosing`."""
        return [
            LogSegmentSize(
                segment.base_offset,
                segment.log.size_bytes,
                _whole_entries(segment.offset_index, OFFSET_INDEX_ENTRY.size),
                _whole_entries(segment.time_index, TIME_INDEX_ENTRY.size),
            )
            for segment in self.segments
        ]

    def aborts(self) -> list[SegmentAborts]:
        """Return the transaction indexes of all segments. Raises Damaged."""
        return [SegmentAborts(segment.base_offset, self._entries(segment)) for segment in self.segments]

    def _entries(self, segment: Segment) -> Sequence[txnindex.AbortedTxn]:
        if segment.txn_index is None:
            return []
        entries, faults = txnindex.decode(read_all(self.fs, segment.txn_index.path), segment.base_offset)
        for fault in faults:
            raise Damaged(segment.txn_index.path, fault)
        return entries


def _whole_entries(file: FileStatus | None, entry_bytes: int) -> int:
    return 0 if file is None else file.size_bytes // entry_bytes * entry_bytes


class SegmentChunks:
    """The batches of a segment, in chunks; their CRCs and the order of their offsets are checked. Raises Damaged."""

    def __init__(self, log: CleanableLog, segment: Segment) -> None:
        self._log = log
        self._segment = segment
        self._last_offset = NO_OFFSET  # the first batch may begin below the base offset of the segment

    def __iter__(self) -> Iterator[Chunk]:
        with self._log.fs.open_read(self._segment.log.path) as file:
            for chain in self._reader(file).chains(deep=True):
                yield from self._checked(chain)

    def begins_below(self, offset: int) -> bool:
        """Whether the segment, with a base offset of at least `offset`, may begin with records below `offset`."""
        with self._log.fs.open_read(self._segment.log.path) as file:
            first = header_at(file, 0)
        return isinstance(first, Batch) and first.base_offset < offset  # true for NO_OFFSET, of a message set

    def with_blocks(self, rows: Callable[[Chunk], list[Rows]]) -> Iterator[ChunkBlocks]:
        """Yield each chunk with the records of the rows that `rows` selects; threads call `rows` in chunk order."""
        with self._log.fs.open_read(self._segment.log.path) as file:
            reader = self._reader(file)
            for chain in reader.chains(deep=True):
                for chunk, blocks in reader.ahead(chain, rows, chosen=self._checked):
                    yield chunk, self._sound(blocks)

    def _reader(self, file: ReadableFile) -> SegmentReader:
        return SegmentReader(file, limits=self._log.limits, kernels=self._log.kernels, chunk_bytes=_CHUNK_BYTES)

    def _sound(self, blocks: Iterator[RecordBlock]) -> Iterator[RecordBlock]:
        for block in blocks:
            for fault in block.faults.values():
                raise Damaged(self._segment.log.path, fault)
            yield block

    def _checked(self, chain: Scan) -> Generator[Chunk, None, None]:
        """Yield the chunks after checking each. Raises Damaged."""
        path = self._segment.log.path
        for chunk in chain:
            self._check(path, chunk.batches)
            yield chunk
        if chain.fault is not None:
            raise Damaged(path, chain.fault)

    def _check(self, path: str, batches: BatchColumns) -> None:
        if isinstance(batches, BatchArrays) and self._are_sound(batches):
            return
        last = self._last_offset
        for batch in batches.rows():
            fault: str | None = None
            if batch.valid != CRC_GOOD:
                fault = "the CRC of the batch is not that of its bytes"
            elif last == NO_OFFSET and batch.last_offset < self._segment.base_offset:
                fault = f"offset {batch.last_offset} is below the segment's name"
            elif batch.last_offset <= last or (batch.magic >= 2 and not last < batch.base_offset <= batch.last_offset):
                fault = f"offsets {batch.base_offset} to {batch.last_offset} do not follow {last}"
            elif batch.records_count < (0 if batch.magic >= 2 else -1):
                fault = f"{batch.records_count} records"
            if fault is not None:
                kind = FaultKind.CRC_MISMATCH if batch.valid != CRC_GOOD else FaultKind.INVALID_ENTRY
                raise Damaged(path, Fault(kind, batch.position, fault, batch.size_bytes))
            last = batch.last_offset
        self._last_offset = last

    def _are_sound(self, batches: BatchArrays) -> bool:
        """Whether all rows pass, checked at once; False also for batches of v0 and v1, which `_check` then checks."""
        import numpy as np

        before = np.concatenate(([self._last_offset], batches.last_offset[:-1]))
        is_sound = (
            (batches.valid == CRC_GOOD)
            & (batches.magic >= 2)
            & (before < batches.base_offset)
            & (batches.base_offset <= batches.last_offset)
            & (batches.records_count >= 0)
        )
        if not is_sound.all() or batches.last_offset[0] < self._segment.base_offset:
            return False
        self._last_offset = int(batches.last_offset[-1])
        return True


def type_of_control(reader: RecordReader, chunk: Chunk, row: int, path: str) -> int | None:
    """Return the type of a control batch's first record: -1 if it is unknown, None if the batch has no record.

    Raises Damaged.
    """
    for block in reader.blocks(chunk, row, row + 1):
        for record in block.rows():
            kind = control_type(record.key)
            if kind is None:
                message = "a control record whose key has no type"
                raise Damaged(path, Fault(FaultKind.INVALID_CONTROL_RECORD, record.batch.position, message))
            return kind
        for fault in block.faults.values():
            raise Damaged(path, fault)
    return None
