"""Check the entries of indexes as DumpLogSegments does, and give up where it aborts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import (
    HEADER_SIZE_UP_TO_MAGIC_BYTES,
    LOG_OVERHEAD_BYTES,
    MINIMUM_ENTRY_SIZE,
    NO_TIMESTAMP,
    RECORD_BATCH,
    Batch,
)
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.readable import read_readable
from kafkalog_cli.log.reading.scan import Scan

NOT_FOUND = -1


class CheckedOffset(NamedTuple):
    """An offset index entry, and the last offset of the batch at its position."""

    offset: int
    position: int
    log_offset: int


class CheckedTime(NamedTuple):
    """A time index entry, with the batch that was found for it.

    `log_offset` is the last offset of the batch, -1 if none was found. `log_timestamp` is its largest timestamp, -1
    unless `is_found`.
    """

    timestamp: int
    offset: int
    log_offset: int
    log_timestamp: int
    previous_timestamp: int

    @property
    def is_found(self) -> bool:
        """Whether a batch ends exactly at the entry's offset; only then the timestamps are compared."""
        return self.log_offset == self.offset


class GivesUp(NamedTuple):
    """The place where Kafka's tool aborts: byte `position` of the segment, None if there is no such byte."""

    position: int | None
    message: str


def check_offset_index(
    index: OffsetIndex, log: ReadableFile, max_message_bytes: int
) -> Iterator[CheckedOffset | GivesUp]:
    """Yield the entries up to the zero tail, each with the batch at its position (DumpLogSegments.dumpIndex)."""
    for slot, entry in enumerate(index):
        if slot and entry.offset == index.base_offset:
            return
        batch = _batch_at(log, entry.position, max_message_bytes)
        if isinstance(batch, GivesUp):
            yield batch
            return
        yield CheckedOffset(entry.offset, entry.position, batch.last_offset)


def check_time_index(
    time_index: TimeIndex, index: OffsetIndex, log: ReadableFile, limits: Limits, *, follows_whole_log: bool
) -> Iterator[CheckedTime | GivesUp]:
    """Yield the entries up to the zero tail, each with the batch of its offset (DumpLogSegments.dumpTimeIndex).

    `follows_whole_log`: the tool of Kafka 4.3 and later. For each entry it follows the batches to the end of the
    segment before it looks for the offset, and aborts at any batch without a valid size.
    """
    previous = NO_TIMESTAMP
    chain = BatchChain(log) if follows_whole_log else None
    for slot, entry in enumerate(time_index):
        if slot and entry.offset == time_index.base_offset:
            return
        batch = _first_batch_ending_at(log, index.lookup(entry.offset).position, entry.offset, chain)
        if isinstance(batch, GivesUp):
            yield batch
            return
        log_offset, largest = NOT_FOUND, NO_TIMESTAMP
        if batch is not None:
            log_offset = batch.last_offset
            timestamp = _largest_timestamp(log, batch, limits) if log_offset == entry.offset else NO_TIMESTAMP
            if isinstance(timestamp, GivesUp):
                yield timestamp
                return
            largest = timestamp
        yield CheckedTime(entry.timestamp, entry.offset, log_offset, largest, previous)
        previous = entry.timestamp


def _batch_at(log: ReadableFile, position: int, size: int) -> Batch | GivesUp:
    if not 0 <= position <= log.size_bytes or size < 0:
        return GivesUp(position, "the index points outside the segment" if size >= 0 else f"Invalid size: {size}")
    batch = header_at(log, position, min(position + size, log.size_bytes))
    if batch is None:
        return GivesUp(position, "an incomplete batch where the index points (NoSuchElementException)")
    return GivesUp(position, batch.message) if isinstance(batch, Fault) else batch


def _first_batch_ending_at(
    log: ReadableFile, position: int, offset: int, chain: BatchChain | None
) -> Batch | GivesUp | None:
    """Return the first batch from `position` on whose last offset is `offset` or above, None at the end.

    If there is a `chain`, all batches up to the end must have a valid size.
    """
    if not 0 <= position <= log.size_bytes:
        return GivesUp(position, "the index points outside the segment")
    broken = None if chain is None else chain.fault_from(position)
    if broken is not None:
        return GivesUp(broken.position, broken.message)
    while True:
        batch = header_at(log, position, log.size_bytes)
        if isinstance(batch, Fault):
            return GivesUp(position, batch.message)
        if batch is None or batch.last_offset >= offset:
            return batch
        position += batch.size_bytes


def _largest_timestamp(log: ReadableFile, batch: Batch, limits: Limits) -> int | GivesUp:
    reader = Scan.of_batch(log, batch, limits)
    largest = NO_TIMESTAMP
    for block in reader.blocks(timestamps_only=True):
        for fault in block.faults.values():
            return GivesUp(fault.position, fault.message)
        largest = max([largest, *block.records.timestamp])
    return largest if reader.fault is None else GivesUp(reader.fault.position, reader.fault.message)


_PIECE_BYTES = 64 << 10
_START = RECORD_BATCH.struct_of("base_offset", "batch_length")


class BatchChain:
    """The chains of batches of a segment, as FileLogInputStream.nextBatch follows them.

    `fault_from` is quick for the positions of a sound offset index, which ascend and lie on one chain. It then follows
    the segment to its end once, and a second time up to the last position.
    """

    def __init__(self, file: ReadableFile) -> None:
        self._file = file
        self._buffer = bytearray(_PIECE_BYTES)
        self._buffer_position = 0
        self._buffer_bytes = 0
        self._known: int | None = None
        self._fault: Fault | None = None

    def fault_from(self, position: int) -> Fault | None:
        """Return the fault where the batches from `position` to the segment's end cannot be followed, or None."""
        if self._known is None or self._follow(self._known, position) != position:
            end = self._follow(position, self._file.size_bytes)
            self._fault = end if isinstance(end, Fault) else None
        self._known = position
        return self._fault

    def _follow(self, position: int, end: int) -> int | Fault | None:
        """Return the first position from `position` on that is not below `end`, or the fault before it.

        None if no complete batch follows before `end`.
        """
        size_bytes = self._file.size_bytes
        unpack = _START.unpack_from
        while position < end:
            if position >= size_bytes - HEADER_SIZE_UP_TO_MAGIC_BYTES:
                return None
            at = position - self._buffer_position
            if not 0 <= at <= self._buffer_bytes - HEADER_SIZE_UP_TO_MAGIC_BYTES:
                got, fault = read_readable(self._file, position, memoryview(self._buffer))
                self._buffer_position, self._buffer_bytes, at = position, got, 0
                if got < HEADER_SIZE_UP_TO_MAGIC_BYTES:
                    return fault
            _, size = unpack(self._buffer, at)
            if size < MINIMUM_ENTRY_SIZE:
                header = header_at(self._file, position)
                return header if isinstance(header, Fault) else None
            if position > size_bytes - LOG_OVERHEAD_BYTES - size:
                return None
            position += LOG_OVERHEAD_BYTES + size
        return position
