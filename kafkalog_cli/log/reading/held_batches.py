"""Reads a segment across damage, and holds batches with wrong CRCs back until a good batch follows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kafkalog_cli.disk.names import classify_file
from kafkalog_cli.format.batch import NO_OFFSET, Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.good_batches import gathered, good_rows
from kafkalog_cli.log.reading.resync import next_good_batch
from kafkalog_cli.log.reading.scan import Chunk, Rows, Scan

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.segment_reader import DamageListener, SegmentReader

HELD_ROWS = 10_000
"""Batches with bad CRCs that are held back, as they may not be batches if the chain breaks after them."""

MAX_DAMAGED = 20
"""The largest number of breaks that a reader remembers."""

TakeRecords = Callable[[RecordBlock], None]


def held_batches(
    reader: SegmentReader, listener: DamageListener, records: TakeRecords | None
) -> Iterator[BatchColumns]:
    """See `SegmentReader.held_batches`."""
    from kafkalog_cli.log.reading.segment_reader import DamagedBytes

    base_offset = classify_file(reader.file.path.rpartition("/")[2]).offset
    start: int | None = reader.end_position
    while start is not None:
        if reader.fault is not None:
            reader.damaged_count += 1
            if len(reader.damaged) < MAX_DAMAGED:
                reader.damaged.append(DamagedBytes(reader.end_position, start))
            reader.fault = None
        start = yield from _held_chain(reader, start, base_offset, listener, records)


def _held_chain(
    reader: SegmentReader, start: int, base_offset: int | None, listener: DamageListener, records: TakeRecords | None
) -> Generator[BatchColumns, None, int | None]:
    """Yield one unbroken chain, and return the start of the next.

    If a batch with a bad CRC has an offset that the segment cannot contain, the chain is astray already. It ends there,
    even if more batches seem to follow.
    """
    scan = reader.scan_from(start, deep=records is not None)
    held: list[Batch] = []
    astray: Fault | None = None
    for found in gathered(_columns(reader, scan, base_offset, records)):
        row = _first_astray(found, base_offset)
        if row is not None:
            astray = _crc_fault(found.row(row))
            if not row:
                break
        batches = found if row is None else found.part(0, row)
        listener.batches(batches)
        good = batches.last_valid_row()
        if good is None or good < len(batches) - 1:
            if good is not None:
                yield from _let_go(reader, held, batches.part(0, good + 1))
                held = []
            held += batches.rows(0 if good is None else good + 1)
            if len(held) > HELD_ROWS:
                yield from _let_go(reader, held, None)
                held = []
        else:
            yield from _let_go(reader, held, batches)
            held = []
        if astray is not None:
            break
    reader.scanned_bytes = scan.valid_bytes
    reader.fault = astray or scan.fault
    following = None
    if reader.fault is not None:
        listener.fault(reader.fault)
        broken = max(reader.end_position, start)
        following = next_good_batch(reader.file, broken + 1, reader.limits, broken_at=broken)
        if following is not None:
            held = [batch for batch in held if batch.position + batch.size_bytes <= following]
    yield from _let_go(reader, held, None)
    return following


def _columns(
    reader: SegmentReader, scan: Scan, base_offset: int | None, records: TakeRecords | None
) -> Iterator[BatchColumns]:
    """Yield the batches per chunk. Records of batches with right CRCs are passed on first, if they are wanted."""
    scan.columns_only = records is None
    rows = None if records is None else partial(_rows_to_read, base_offset)
    for chunk, blocks in reader.ahead(scan, rows, strict=True):
        for block in blocks:
            assert records is not None
            records(block)
        yield chunk.batches


def _rows_to_read(base_offset: int | None, chunk: Chunk) -> list[Rows]:
    """Return runs of batches with right CRCs, up to where the chain goes astray."""
    astray = _first_astray(chunk.batches, base_offset)
    runs = good_rows(chunk)
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


def _let_go(reader: SegmentReader, held: list[Batch], batches: BatchColumns | None) -> Iterator[BatchColumns]:
    for part in (BatchColumns.from_rows(held) if held else None, batches):
        if part is not None and len(part):
            reader.end_position = part.end_position
            yield part


def _crc_fault(batch: Batch) -> Fault:
    message = "CRC mismatch, and an offset that the segment cannot hold"
    expected, got = "an offset of this segment", str(batch.last_offset)
    return Fault(FaultKind.CRC_MISMATCH, batch.position, message, batch.size_bytes, expected, got)
