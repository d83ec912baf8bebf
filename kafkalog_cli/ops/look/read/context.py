"""Chooses the records around matches, as `grep -C` does: across blocks, each record once, with a mark at gaps."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from kafkalog_cli.format.columns import column_of
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
    ends = block.record_ends
    data = bytearray()
    copied: list[tuple[int, ...]] = []
    batch_rows: list[int] = []
    record_ends: list[int] = []
    for row in rows:
        fields = [*block.records.values(row)]
        _move(block.buffer, fields, data)
        copied.append(tuple(fields))
        batch_row = block.first_row + bisect_right(ends, row)
        if batch_rows and batch_rows[-1] == batch_row:
            record_ends[-1] += 1
        else:
            batch_rows.append(batch_row)
            record_ends.append(len(copied))
    batches = block.batches.select(batch_rows)
    records, counts = RecordColumns.from_rows(copied), column_of(record_ends)
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


MOST_WAITING_BYTES = 32 << 20
"""Most bytes of records that are kept before a match: large records may leave fewer than were requested."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundBlock:
    """Records to show, a block without others.

    `is_match` is False if these are records around matches. `after_gap`: records were left out between the block before
    and this block.
    """

    block: RecordBlock
    is_match: bool = True
    after_gap: bool = False


class SurroundingRecords:
    """Receives blocks with the rows of their matches in order, and returns the records to show.

    Records are numbered by the order in which they arrive.
    """

    def __init__(self, before: int, after: int) -> None:
        self._before = before
        self._after = after
        self._seen = 0
        """The number of the first record of the next block."""
        self._shown_end = 0
        self._until = 0
        """The records up to this number (exclusive) are shown, as they follow a match."""
        self._waiting: deque[tuple[int, RecordBlock]] = deque(maxlen=before)
        self._waiting_bytes = 0

    def to_print(self, block: RecordBlock, matches: Sequence[int]) -> Iterator[FoundBlock]:
        """Yield the records to show, as blocks of matches and of records around them.

        Records of a large block are valid as long as the block.
        """
        base = self._seen
        around = partial(self._around, block)
        for row in matches:
            match = base + row
            yield from around(self._shown_end, min(self._until, match))
            yield from around(max(self._shown_end, match - self._before), match)
            for record in chosen_records(block, [row]):
                yield self._found_block(match, 1, record, is_match=True)
            self._until = match + 1 + self._after
        end = base + len(block.records)
        yield from around(self._shown_end, min(self._until, end))
        for number in range(max(base, self._shown_end, end - self._before), end):
            if _content_bytes(block, number - base) <= MOST_WAITING_BYTES:
                self._wait(number, copied_records(block, [number - base]))
        self._seen = end

    @property
    def is_over(self) -> bool:
        """Whether no more records follow the last match."""
        return self._seen >= self._until

    def _wait(self, number: int, block: RecordBlock) -> None:
        if len(self._waiting) == self._before:
            self._waiting_bytes -= len(self._waiting[0][1].buffer)
        self._waiting.append((number, block))
        self._waiting_bytes += len(block.buffer)
        while self._waiting_bytes > MOST_WAITING_BYTES:
            self._waiting_bytes -= len(self._waiting.popleft()[1].buffer)

    def _around(self, block: RecordBlock, first: int, end: int) -> Iterator[FoundBlock]:
        """Yield the records with these numbers (`end` exclusive) that are here, of earlier blocks and of this block."""
        if first >= end:
            return
        for number, waiting in self._waiting:
            if number >= first:  # `end` is above: earlier records are shown before a later match is met
                yield self._found_block(number, 1, waiting, is_match=False)
        begin = max(first, self._seen)
        for record in chosen_records(block, range(begin - self._seen, end - self._seen)):
            yield self._found_block(begin, len(record.records), record, is_match=False)
            begin += len(record.records)

    def _found_block(self, first: int, count: int, block: RecordBlock, *, is_match: bool) -> FoundBlock:
        after_gap = 0 < self._shown_end < first
        self._shown_end = first + count
        return FoundBlock(block, is_match, after_gap)


def _content_bytes(block: RecordBlock, row: int) -> int:
    """Return the size of the key and the value of a record."""
    return max(0, int(block.records.key_size[row])) + max(0, int(block.records.value_size[row]))
