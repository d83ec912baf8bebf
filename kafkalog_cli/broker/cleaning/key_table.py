"""A table with the last record of each key; it marks a record as removed when a later record has the same key.

Kafka's SkimpyOffsetMap compares the MD5 of keys; this table compares the keys themselves.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kafkalog_cli.broker.cleaning.marks import GONE, Marks
from kafkalog_cli.format.records import RecordBlock, field_bytes

ENTRY_BYTES = 230
"""Memory of a key in the plain table besides its own bytes: the object, its slot in the table, and a number."""


class KeySlice(NamedTuple):
    """The keys whose hash ends with the `bits` bits of `value`: a part of all keys, if the table cannot hold them."""

    bits: int = 0
    value: int = 0

    def split(self, more_bits: int = 1) -> list[KeySlice]:
        """Return the slices into which `more_bits` further bits split this slice."""
        return [KeySlice(self.bits + more_bits, self.value | at << self.bits) for at in range(1 << more_bits)]


class KeyTable(Protocol):
    """The last record of each key; `put` takes records in log order, then `mark_older` the records before them.

    Both take a block's records `first` to `end` (exclusive); `at` is the position of the block's first mark.
    """

    @property
    def is_full(self) -> bool:
        """Whether there was no room for a key; marks set until then are right."""

    def put(self, block: RecordBlock, first: int, end: int, at: int) -> int:
        """Add records, and mark the earlier records with the same keys; return the first row without room, or `end`."""

    def mark_older(self, block: RecordBlock, first: int, end: int, at: int) -> None:
        """Mark the records whose keys are in the table."""


class PlainKeyTable:
    """A key table in a dictionary; `most_keys` is the number of keys at which it is full, as a broker's table is."""

    def __init__(self, marks: Marks, memory_bytes: int, part: KeySlice, most_keys: int | None = None) -> None:
        self.is_full = False
        self._marks = marks
        self._room_bytes = memory_bytes
        self._mask = (1 << part.bits) - 1
        self._value = part.value
        self._most_keys = most_keys
        self._last: dict[bytes, int] = {}

    def put(self, block: RecordBlock, first: int, end: int, at: int) -> int:
        """See KeyTable."""
        last, flags = self._last, self._marks.flags
        for row in range(first, end):
            key = self._key(block, row)
            if key is None:
                continue
            if self._most_keys is not None and len(last) >= self._most_keys:
                self.is_full = True  # as in Kafka, even if the table has this key
                return row
            before = last.get(key)
            if before is not None:
                flags[before] |= GONE
            else:
                self._room_bytes -= len(key) + ENTRY_BYTES
                if self._room_bytes < 0:
                    self.is_full = True
                    return row
            last[key] = at + row
        return end

    def mark_older(self, block: RecordBlock, first: int, end: int, at: int) -> None:
        """See KeyTable."""
        flags = self._marks.flags
        for row in range(first, end):
            key = self._key(block, row)
            if key is not None and key in self._last:
                flags[at + row] |= GONE

    def _key(self, block: RecordBlock, row: int) -> bytes | None:
        """Return the key of a record, None if it has no key or its key is in another slice."""
        records = block.records
        key = field_bytes(block.buffer, int(records.key_position[row]), int(records.key_size[row]))
        return key if key is None or hash(key) & self._mask == self._value else None
