"""Batches with wrong CRCs are held back until a good batch follows: a damaged length leads a chain astray.

False batches must not hide real batches from `verify` and `recover`, which pass on also what no CRC confirms.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import classify_file
from kafkalog_cli.format.batch import NO_OFFSET, Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.scan import Chunk, Rows, Scan, good_rows

HELD_ROWS = 10_000
"""Batches with bad CRCs that are held back, as they may not be batches if the chain breaks after them."""
MAX_DAMAGED = 20
"""The largest number of breaks that a scan remembers."""

TakeRecords = Callable[[RecordBlock], None]


class DamagedBytes(NamedTuple):
    """Bytes `start` to `end` of a segment that are not batches, followed by more batches."""

    start: int
    end: int


class DamageListener(Protocol):
    """Is called with all batches and faults in file order, before batches are held back."""

    def batches(self, batches: BatchColumns) -> None:
        """Take the CRC results of some batches."""

    def fault(self, fault: Fault) -> None:
        """Take the fault that ended a chain."""


class HeldScan:
    """Finds the batches of a segment from byte `start` on, across damage.

    Afterwards `end_position` is the byte after the last batch, and `fault` the reason why the last chain ended (None:
    the end of the file). `damaged` has the first of `damaged_count` breaks before more batches, and `scanned_bytes` is
    the position up to which the last chain was followed.
    """

    def __init__(self, file: ReadableFile, start: int = 0, limits: Limits = DEFAULT_LIMITS) -> None:
        self.file = file
        self.limits = limits
        self.end_position = self.scanned_bytes = start
        self.fault: Fault | None = None
        self.damaged: list[DamagedBytes] = []
        self.damaged_count = 0
        self._base_offset = classify_file(file.path.rpartition("/")[2]).offset

    def batches(self, listener: DamageListener, records: TakeRecords | None = None) -> Iterator[BatchColumns]:
        """Yield the batches. `records` gets the records of batches with right CRCs, before their batches."""
        start: int | None = self.end_position
        while start is not None:
            if self.fault is not None:
                self.damaged_count += 1
                if len(self.damaged) < MAX_DAMAGED:
                    self.damaged.append(DamagedBytes(self.end_position, start))
                self.fault = None
            start = yield from self._chain(start, listener, records)

    def _chain(
        self, start: int, listener: DamageListener, records: TakeRecords | None
    ) -> Generator[BatchColumns, None, int | None]:
        """Yield one unbroken chain, and return the start of the next.

        If a batch with a bad CRC has an offset that the segment cannot contain, the chain is astray already. It ends
        there, even if more batches seem to follow.
        """
        scan = Scan(self.file, start=start, limits=self.limits)
        held: list[Batch] = []
        astray: Fault | None = None
        for found in self._columns(scan, records):
            row = _first_astray(found, self._base_offset)
            if row is not None:
                astray = _crc_fault(found.row(row))
                if not row:
                    break
            batches = found if row is None else found.part(0, row)
            listener.batches(batches)
            good = batches.last_valid_row()
            if good is not None:
                yield from self._passed(held, batches.part(0, good + 1))
                held = []
            held += batches.rows(0 if good is None else good + 1)
            if len(held) > HELD_ROWS:
                yield from self._passed(held, None)
                held = []
            if astray is not None:
                break
        self.scanned_bytes = scan.end_position
        self.fault = astray or scan.fault
        following = None
        if self.fault is not None:
            from kafkalog_cli.log.reading.resync import next_good_batch

            listener.fault(self.fault)
            broken = max(self.end_position, start)
            following = next_good_batch(self.file, broken + 1, self.limits, broken_at=broken)
            if following is not None:
                held = [batch for batch in held if batch.position + batch.size_bytes <= following]
        yield from self._passed(held, None)
        return following

    def _columns(self, scan: Scan, records: TakeRecords | None) -> Iterator[BatchColumns]:
        """Yield the batches per chunk. Records of batches with right CRCs are passed on first, if they are wanted."""
        if records is None:
            yield from scan.batches()
            return
        from kafkalog_cli.log.reading.records import records as records_of

        for chunk, blocks in records_of(scan, partial(_rows_to_read, self._base_offset), strict=True):
            for block in blocks:
                records(block)
            yield chunk.batches

    def _passed(self, held: list[Batch], batches: BatchColumns | None) -> Iterator[BatchColumns]:
        for part in (BatchColumns.from_rows(held) if held else None, batches):
            if part is not None and len(part):
                self.end_position = part.end_position
                yield part


def _rows_to_read(base_offset: int | None, chunk: Chunk) -> list[Rows]:
    """Return runs of batches with right CRCs, up to where the chain goes astray."""
    astray = _first_astray(chunk.batches, base_offset)
    runs = good_rows(chunk.batches)
    return runs if astray is None else [run for run in runs if run[1] <= astray]


def _first_astray(batches: BatchColumns, base_offset: int | None) -> int | None:
    """Return the first batch with a bad CRC whose offset, which no CRC covers, cannot be in this segment."""
    if base_offset is None or batches.all_valid():
        return None
    for row, (is_valid, first, last) in enumerate(
        zip(batches.valid, batches.base_offset, batches.last_offset, strict=True)
    ):
        offset = int(last if first == NO_OFFSET else first)
        if not is_valid and not base_offset <= offset <= base_offset + MAX_RELATIVE_OFFSET:
            return row
    return None


def _crc_fault(batch: Batch) -> Fault:
    message = "CRC mismatch, and an offset that the segment cannot hold"
    expected, got = "an offset of this segment", str(batch.last_offset)
    return Fault(FaultKind.CRC_MISMATCH, batch.position, message, batch.size_bytes, expected, got)
