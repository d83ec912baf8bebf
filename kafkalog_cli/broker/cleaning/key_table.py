"""A table with the last record of each key; it marks a record as removed when a later record has the same key.

Kafka's SkimpyOffsetMap compares the MD5 of keys; this table compares the keys themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.marks import GONE, Marks
from kafkalog_cli.format import native
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.columns import column_of
from kafkalog_cli.format.records import RecordBlock, RecordColumns, field_bytes


class KeySlice(NamedTuple):
    """The keys whose hash ends with the `bits` bits of `value`: a part of all keys, if the table cannot hold them."""

    bits: int = 0
    value: int = 0

    def split(self, more_bits: int = 1) -> list[KeySlice]:
        """Return the slices into which `more_bits` further bits split this slice."""
        return [KeySlice(self.bits + more_bits, self.value | at << self.bits) for at in range(1 << more_bits)]


def key_of(block: RecordBlock, row: int) -> bytes | None:
    """Return the key of a record, None if it has no key."""
    records = block.records
    return field_bytes(block.buffer, int(records.key_position[row]), int(records.key_size[row]))


_ANY_BYTES = 1 << 62
"""No memory limit: all given keys must be kept."""


class SoughtKeys:
    """Keys with their numbers: the position of each key in the given sequence, the first one of a repeated key."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._numbers = {key: number for number, key in reversed(list(enumerate(keys)))}

    def __len__(self) -> int:
        return len(self._numbers)

    def items(self) -> Iterable[tuple[bytes, int]]:
        """Return the keys with their numbers."""
        return self._numbers.items()

    def finder(self) -> KeyFinder:
        """Return a finder of the keys, for use in one thread."""
        return KeyFinder(self._numbers)


class KeyFinder:
    """Finds records by key; `numbers` has the number of each key. Threads must not share it."""

    def __init__(self, numbers: Mapping[bytes, int]) -> None:
        self._numbers = numbers
        self._table: KeyTable | None = None
        self._marks = Marks()

    def rows(self, block: RecordBlock) -> list[int]:
        """Return the rows of a block whose records have one of the keys."""
        if self._table is None:
            self._table = self._filled()
        count = block.record_count
        self._marks.reach(count)
        self._marks.flags[:count] = bytes(count)
        self._table.mark_older(block, 0, count, 0)
        marks, found = self._marks.part(0, count), []
        row = marks.find(GONE)
        while row >= 0:
            found.append(row)
            row = marks.find(GONE, row + 1)
        return found

    def number_of(self, block: RecordBlock, row: int) -> int:
        """Return the key's number for a row that `rows` returned."""
        key = key_of(block, row)
        assert key is not None
        return self._numbers[key]

    def _filled(self) -> KeyTable:
        rows, at = [], 0
        for key in self._numbers:
            rows.append((0, 0, 0, at, len(key), 0, 0, 0, 0, 0, 0))
            at += len(key)
        keys = memoryview(b"".join(self._numbers))
        block = RecordBlock(keys, BatchColumns.from_rows([]), 0, 0, column_of(()), RecordColumns.from_rows(rows))
        table = KeyTable(self._marks, _ANY_BYTES, KeySlice())
        self._marks.reach(len(rows))
        table.put(block, 0, len(rows), 0)
        return table


_FIRST_SLOTS = 1 << 12
_SLOT_BYTES, _ENTRY_BYTES = 8, 16
_BYTES_A_KEY = 16
"""Assumed size of a key, for the size of the first arena."""


class KeyTable:
    """The last record of each key; `put` takes records in log order, then `mark_older` the records before them.

    Both take a block's records `first` to `end` (exclusive); `at` is the position of the block's first mark.
    `is_full`: there was no room for a key; marks set until then are right. Keys are compared byte by byte.
    """

    def __init__(self, marks: Marks, memory_bytes: int, part: KeySlice) -> None:
        self.is_full = False
        self._marks = marks
        self._memory_bytes = memory_bytes
        self._part = (1 << part.bits) - 1, part.value
        entries = _entries_for(_FIRST_SLOTS)
        self._table = native.KeyTable(_FIRST_SLOTS, entries, entries * _BYTES_A_KEY)

    def put(self, block: RecordBlock, first: int, end: int, at: int) -> int:
        """Add records, and mark the earlier records with the same keys; return the first row without room, or `end`."""
        data, records = _memory_of(block)
        for begin, stop in self._marks.parts(first, end):
            row = begin
            while row < stop:
                row, why = self._table.put(data, records, row, stop, at, self._part, self._marks.flags)
                if why == native.KEYS_OUTSIDE:
                    raise ValueError("a key is outside of its bytes")
                needs_slots = why == native.KEYS_NEED_SLOTS
                if why and not self._grow(slots=needs_slots, size_bytes=block.records.key_size[row]):
                    self.is_full = True
                    return row
        return end

    def mark_older(self, block: RecordBlock, first: int, end: int, at: int) -> None:
        """Mark the records whose keys are in the table."""
        data, records = _memory_of(block)
        self._table.mark(data, records, first, end, at, self._part, self._marks.flags)

    def _grow(self, *, slots: bool, size_bytes: int) -> bool:
        """Make room for more keys (`slots`), or for more bytes of keys; return False if the memory limit forbids it."""
        now, arena = self._table.size_bytes, self._table.arena_bytes
        if not slots:
            larger = max(2 * arena, arena + int(size_bytes))
            if now + larger > self._memory_bytes:  # the old and the new arena exist while one is copied
                larger = self._memory_bytes - now
                if larger < arena + max(size_bytes, arena // 8):
                    return False
            self._table.grow_arena(larger)
            return True
        count = 2 * self._table.slots
        entries = _entries_for(count)
        if now + count * _SLOT_BYTES + entries * _ENTRY_BYTES - self._table.slots * _SLOT_BYTES > self._memory_bytes:
            return False
        self._table.grow_slots(count, entries)
        return True


def _entries_for(slots: int) -> int:
    return slots * 5 // 8


def _memory_of(block: RecordBlock) -> tuple[native.Memory, native.Columns]:
    return native.Memory(block.buffer), native.columns_of(block.records)
