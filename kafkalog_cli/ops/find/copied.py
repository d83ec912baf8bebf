"""Some records of a block as a block of their own, with a buffer that stays valid."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kafkalog_cli.format.columns import IntColumn, integers
from kafkalog_cli.format.records import OUTSIDE, RecordBlock, RecordColumns, headers_end
from kafkalog_cli.ops.ranges import part_of

_LARGE_BYTES = 16 << 20
"""Blocks with larger buffers have few records: these are shown without a copy, at the turn of their partition."""


def chosen_records(block: RecordBlock, rows: Sequence[int]) -> Iterator[RecordBlock]:
    """Yield some records of a block: copies, or of a large block views that are valid as long as the block."""
    if not rows:
        return
    if len(block.buffer) <= _LARGE_BYTES:
        yield copied_records(block, rows)
        return
    for row in rows:
        yield part_of(block, row, row + 1)


def copied_records(block: RecordBlock, rows: Sequence[int]) -> RecordBlock:
    """Return a copy of some records of a block, in ascending order, with their batches and without its faults."""
    ends = integers(block.record_ends)
    columns = [*map(integers, block.records.columns())]
    data = bytearray()
    copied: list[tuple[int, ...]] = []
    batch_rows: list[int] = []
    record_ends: list[int] = []
    for row in rows:
        fields = [column[row] for column in columns]
        _move(block.buffer, fields, data)
        copied.append(tuple(fields))
        batch_row = block.first_row + bisect_right(ends, row)
        if batch_rows and batch_rows[-1] == batch_row:
            record_ends[-1] += 1
        else:
            batch_rows.append(batch_row)
            record_ends.append(len(copied))
    batches = block.batches.chosen(batch_rows)
    records: RecordColumns = RecordColumns.from_rows(copied)
    counts: IntColumn = record_ends
    if block.is_compiled:  # for compiled kernels, all columns are arrays
        import numpy as np

        records, counts = records.arrays(), np.array(record_ends, dtype=np.int64)
    return RecordBlock(memoryview(data), batches, 0, len(batch_rows), counts, records)


def _move(buffer: memoryview, fields: list[int], data: bytearray) -> None:
    """Append the key, the value and the headers of a record to `data`, and change their positions in `fields`."""
    for at, size in ((3, 4), (5, 6)):
        position, length = fields[at], fields[size]
        if length >= 0 and position != OUTSIDE:
            fields[at] = len(data)
            data += buffer[position : position + length]
    if fields[8]:
        position = fields[7]
        fields[7] = len(data)
        data += buffer[position : headers_end(buffer, position, fields[8])]
