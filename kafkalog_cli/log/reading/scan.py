"""From the bytes of a segment to batches: columns of those that follow each other, with the damage between them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.scan import Scanned, scan
from kafkalog_cli.log.reading.budget import LARGE_BUFFERS, LARGE_BYTES
from kafkalog_cli.log.reading.readable import read_readable

if TYPE_CHECKING:
    from kafkalog_cli.format.records import RecordBlock

CHUNK_BYTES = 2 << 20


@unique
class DamagePolicy(Enum):
    """The reaction of a scan to a break in the chain of batches.

    STOP ends it, as a broker does. RESYNC continues with the next good batch after the last good batch.
    """

    STOP = "stop"
    RESYNC = "resync"


class Break(NamedTuple):
    """The end of a chain of batches: its fault, the byte after its last good batch, and where the next chain begins."""

    fault: Fault
    begin: int
    end: int

    @property
    def skipped(self) -> Fault:
        """The bytes between the chains, as a fault."""
        size = self.end - self.begin
        return Fault(self.fault.kind, self.begin, f"skipped {size} bytes: {self.fault.message}", size)


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Consecutive batches and the bytes that contain them.

    `view` contains the file from byte `position` on; it is overwritten when the scan continues, and empty if only
    columns are wanted. `damage` is a break before the first batch.
    """

    view: memoryview
    position: int
    batches: BatchColumns
    is_v07: bool = False
    damage: Break | None = None


Rows = tuple[int, int]
"""A run of rows of a chunk's batches: its first row, and the row after it."""


class Scan:
    """Finds the batches of one segment file from byte `start` to byte `end` (default: the end of the file).

    Iterate for chunks, or over `batches` for their columns alone; once. The file is read in parts of `chunk_bytes`, or
    larger parts for larger batches. CRCs are checked. Mirrors FileRecords.batches.

    Damage does not raise; a device error is a fault with its range. While and after the iteration, `end_position` is
    the byte after the last batch, and `good_bytes` the byte after the last batch with a right CRC of its chain: a
    damaged length leads a chain across good batches. `fault` is the reason why the last chain ended (None: the end of
    the range).

    `knows_brokers`: the unused end of a log that a running broker appends to is not a fault. `buffers` is the number of
    chunks that may be in use at the same time, with the chunk that is being scanned.
    """

    def __init__(  # noqa: PLR0913
        self,
        file: ReadableFile,
        on_damage: DamagePolicy = DamagePolicy.STOP,
        *,
        start: int = 0,
        end: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        v07_base_offset: int | None = None,
        chunk_bytes: int | None = None,
        knows_brokers: bool = True,
    ) -> None:
        self.file = file
        self.start = self.end_position = self.good_bytes = start
        self.end = file.size_bytes if end is None else min(end, file.size_bytes)
        self.limits = limits
        self.fault: Fault | None = None
        self.buffers = 1
        self._is_whole = end is None or end >= file.size_bytes
        self._on_damage = on_damage
        self._v07_base_offset = v07_base_offset
        self._chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
        self._knows_brokers = knows_brokers

    @classmethod
    def of_batch(cls, file: ReadableFile, batch: Batch, limits: Limits = DEFAULT_LIMITS) -> Scan:
        """Return the scan of one batch, given its position and size."""
        return cls(file, start=batch.position, end=batch.position + batch.size_bytes, limits=limits)

    def __iter__(self) -> Generator[Chunk, None, None]:
        return self._chunks(with_bytes=True)

    def batches(self) -> Iterator[BatchColumns]:
        """Yield the batches without their bytes."""
        return (chunk.batches for chunk in self.columns())

    def columns(self) -> Generator[Chunk, None, None]:
        """Yield chunks without their bytes, whose memory is released at once."""
        return self._chunks(with_bytes=False)

    def run(self) -> Scan:
        """Read to the end, for the attributes alone, and return this scan."""
        for _ in self.columns():
            pass
        return self

    def blocks(self, *, timestamps_only: bool = False) -> Iterator[RecordBlock]:
        """Yield the records; a block is valid until the next is requested. `timestamps_only`: see `RecordReader`."""
        from kafkalog_cli.log.reading.records import RecordReader

        reader = RecordReader(self.limits, timestamps_only=timestamps_only)
        for chunk in self:
            yield from reader.blocks(chunk)

    @property
    def damage(self) -> Fault | None:
        """The damage that ended the last chain, None without damage."""
        return None if self.fault is None or not self._is_damage(self.fault) else self.fault

    def _is_damage(self, fault: Fault) -> bool:
        """Whether a chain ended at damage, and not just at the end of the range in the middle of a batch."""
        return fault.kind is not FaultKind.TRAILING_BYTES or self._is_whole

    def _chunks(self, *, with_bytes: bool) -> Generator[Chunk, None, None]:
        broken: Break | None = None
        while True:
            window = _Window(
                self.file, self.end_position, self.end, self._chunk_bytes, self.buffers if with_bytes else 1
            )
            try:
                for chunk in self._chain(window, with_bytes=with_bytes):
                    yield chunk if broken is None else replace(chunk, damage=broken)
                    broken = None
            finally:
                if not with_bytes:
                    keep_buffer(window.buffer)
            fault = self.damage
            if fault is None or self._on_damage is DamagePolicy.STOP:
                return
            following = self._next_good()
            if following is None:
                return
            begin = self.end_position if self.end_position < following else self.good_bytes
            broken = Break(fault, begin, following)
            self.end_position = self.good_bytes = following
            self.fault = None

    def _next_good(self) -> int | None:
        from kafkalog_cli.log.reading.resync import next_good_batch

        at, is_v07 = self.good_bytes, self._v07_base_offset is not None
        following = next_good_batch(self.file, at + 1, self.limits, is_v07=is_v07, broken_at=at)
        return following if following is not None and following < self.end else None

    def _chain(self, window: _Window, *, with_bytes: bool) -> Iterator[Chunk]:
        """Yield one unbroken chain of batches."""
        size_bytes, is_v07 = self._chunk_bytes, self._v07_base_offset is not None
        while True:
            with LARGE_BUFFERS.turn() if size_bytes > LARGE_BYTES else nullcontext():
                view = window.fill(size_bytes)
                scanned = self._scan(view, window.position)
                position, read_bytes = window.position, len(view)
                self.end_position = position + scanned.consumed_bytes
                if not with_bytes:
                    view = memoryview(b"")
                    window.advance(scanned.consumed_bytes)
                if len(scanned.batches):
                    good = scanned.batches.last_valid_row()
                    if good is not None:
                        self.good_bytes = scanned.batches.part(0, good + 1).end_position
                    yield Chunk(view, position, scanned.batches, is_v07)
                if scanned.fault is not None or not scanned.needed_bytes:
                    self.fault = self._unless_end(scanned.fault)
                    return
                if window.is_short and read_bytes - scanned.consumed_bytes < scanned.needed_bytes:
                    self.fault = self._unless_end(
                        window.fault or _fault_of_shorter_file(position + read_bytes, self.end)
                    )
                    return
                size_bytes = max(self._chunk_bytes, scanned.needed_bytes)
                if with_bytes:
                    window.advance(scanned.consumed_bytes)
                del view

    def _unless_end(self, fault: Fault | None) -> Fault | None:
        """Return the fault that ended the chain; None if it is only the unused end of a log that a broker writes to."""
        if fault is None or fault.position != self.end_position or not (self._knows_brokers and self._is_damage(fault)):
            return fault
        from kafkalog_cli.log.reading.unused_end import is_unused_end

        return None if is_unused_end(self.file, fault) else fault

    def _scan(self, view: memoryview, position: int) -> Scanned:
        if self._v07_base_offset is not None:
            from kafkalog_cli.format.legacy import scan_v07

            return scan_v07(view, position, self.end, self.limits, self._v07_base_offset)
        return scan(view, position, self.end, self.limits)


def _fault_of_shorter_file(position: int, end: int) -> Fault:
    return Fault(FaultKind.TRAILING_BYTES, position, "the file became shorter while it was read", end - position)


_kept = threading.local()


def keep_buffer(buffer: bytearray) -> None:
    """Keep a buffer for the next scan of this thread: new memory costs as much as reading a small segment."""
    if len(buffer) <= CHUNK_BYTES:
        _kept.buffer = buffer


class _Window:
    """Reused buffers over a part of a file: bytes from `position` on. Bytes that are not consumed move to the front.

    The buffers are filled in turn. Bytes that `fill` returned may be overwritten after as many calls of `advance` as
    there are buffers.
    """

    def __init__(self, file: ReadableFile, position: int, end: int, chunk_bytes: int, buffers: int) -> None:
        self.position = position
        self.fault: Fault | None = None
        self.is_short = False
        self._file = file
        self._end = end
        self._chunk_bytes = chunk_bytes
        size = max(0, min(chunk_bytes, end - position))
        reused: bytearray | None = _kept.__dict__.pop("buffer", None)
        self.buffer = bytearray(size) if reused is None or len(reused) < size else reused
        self._filled = 0
        self._others: deque[bytearray] = deque(bytearray() for _ in range(buffers - 1))

    def fill(self, size_bytes: int) -> memoryview:
        """Return the next `size_bytes` bytes, as far as the file has them and the device can read them."""
        size_bytes = min(size_bytes, self._end - self.position)
        if size_bytes > len(self.buffer):
            larger = bytearray(size_bytes)
            larger[: self._filled] = memoryview(self.buffer)[: self._filled]
            self.buffer = larger
        if size_bytes > self._filled:
            space = memoryview(self.buffer)[self._filled : size_bytes]
            got, self.fault = read_readable(self._file, self.position + self._filled, space)
            self._filled += got
        self.is_short = self._filled < size_bytes
        return memoryview(self.buffer)[: self._filled]

    def advance(self, consumed: int) -> None:
        """Continue after the first `consumed` bytes, in the next buffer."""
        rest = memoryview(self.buffer)[consumed : self._filled]
        self.position += consumed
        self._filled = len(rest)
        if not consumed:
            return
        if not self._others and len(self.buffer) <= max(self._chunk_bytes, LARGE_BYTES):
            self.buffer[: len(rest)] = bytes(rest)
        elif not self._others:
            self.buffer = bytearray(rest)  # a buffer that grew for a large batch is not kept
        else:
            self._others.append(self.buffer if len(self.buffer) <= self._chunk_bytes else bytearray())
            self.buffer = self._others.popleft()
            size_bytes = max(len(rest), min(self._chunk_bytes, self._end - self.position))
            if len(self.buffer) < size_bytes:
                self.buffer = bytearray(size_bytes)
            self.buffer[: len(rest)] = rest


def good_rows(batches: BatchColumns) -> list[Rows]:
    """Return runs of valid batches."""
    if batches.all_valid():
        return [(0, len(batches))] if len(batches) else []
    runs: list[Rows] = []
    for row, good in enumerate(batches.valid):
        if good and runs and runs[-1][1] == row:
            runs[-1] = (runs[-1][0], row + 1)
        elif good:
            runs.append((row, row + 1))
    return runs
