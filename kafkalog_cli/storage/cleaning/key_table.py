"""The last record of each key: a table of exact keys, which marks a record as gone when a later one has its key.

Kafka's SkimpyOffsetMap knows keys by their MD5; here the keys themselves are compared.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kafkalog_cli.format.records import RecordBlock, field_bytes
from kafkalog_cli.storage.cleaning.marks import GONE, Marks

ENTRY_BYTES = 230
"""What a key takes in the plain table besides its own bytes: the object, its place in the table, and a number."""


class KeySlice(NamedTuple):
    """The keys of which the hash ends with these bits: a part of all keys, when the table cannot hold all of them."""

    bits: int = 0
    value: int = 0

    def split(self, more_bits: int = 1) -> list[KeySlice]:
        """The slices that make up this one."""
        return [KeySlice(self.bits + more_bits, self.value | at << self.bits) for at in range(1 << more_bits)]


class KeyTable(Protocol):
    """The records of a log come in order with `put`; then `mark_older` is given those that lie before all of them.

    Both take a block's records `first` to `end`, and the place of the mark of the block's first record.
    """

    @property
    def is_full(self) -> bool:
        """Whether a key came for which there was no room: what was marked until then is right."""

    def put(self, block: RecordBlock, first: int, end: int, at: int) -> int:
        """Take in records, and mark those before them with the same key; the row of the first that found no room."""

    def mark_older(self, block: RecordBlock, first: int, end: int, at: int) -> None:
        """Mark those records of which the key is in the table."""


class PlainKeyTable:
    """The table as a dictionary. `most_keys`: it is full with so many, as a broker's is."""

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
                self.is_full = True  # as in Kafka also for a key that is there
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
        """The key of a record, None if it has none or is of another slice."""
        records = block.records
        key = field_bytes(block.buffer, int(records.key_position[row]), int(records.key_size[row]))
        return key if key is None or hash(key) & self._mask == self._value else None
