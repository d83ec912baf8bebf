"""What becomes of each record that a cleaning reads: a byte for each, in the order of the log."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.format.records import RecordBlock

GONE = 1
"""The record goes: its key has a later one, it has no key, or it is a tombstone whose time is over."""
TOMBSTONE = 2
"""Its value is null."""


class Marks:
    """The marks of the records of some segments, control records and aborted ones with them.

    `flags` has them one behind the other, `starts` tells by base offset where those of a segment begin.
    `end_offset` is the offset up to which the keys of the log are known: what lies behind it stays.
    """

    def __init__(self) -> None:
        self.flags = bytearray()
        self.starts: dict[int, int] = {}
        self.end_offset = 0
        self.keyless = 0

    def start_of(self, base_offset: int) -> int:
        """Where the marks of a segment begin; behind all others, if it is new."""
        return self.starts.setdefault(base_offset, len(self.flags))

    def reach(self, end: int) -> bool:
        """Have a mark for every record up to `end`; whether the last of them are new."""
        missing = end - len(self.flags)
        if missing > 0:
            self.flags.extend(bytes(missing))
        return missing > 0

    def note(self, block: RecordBlock, first: int, end: int, at: int, *, counts: bool) -> None:
        """Mark those of a block's records `first` to `end` that have no value, and, if it `counts`, no key.

        `at` is the place of the mark of the block's first record.
        """
        records = block.records
        if records.matrix is not None:
            self._note_matrix(records, first, end, at, counts=counts)
            return
        key_size, value_size, flags = records.key_size, records.value_size, self.flags
        for row in range(first, end):
            if value_size[row] < 0:
                flags[at + row] |= TOMBSTONE
            if counts and key_size[row] < 0:
                self.keyless += not flags[at + row] & GONE
                flags[at + row] |= GONE

    def _note_matrix(self, records: Any, first: int, end: int, at: int, *, counts: bool) -> None:
        import numpy as np

        flags = np.frombuffer(self.flags, dtype=np.uint8)[at + first : at + end]
        flags |= np.where(records.value_size[first:end] < 0, TOMBSTONE, 0).astype(np.uint8)
        if counts:
            keyless = records.key_size[first:end] < 0
            self.keyless += int(np.count_nonzero(keyless & (flags & GONE == 0)))
            flags |= keyless.astype(np.uint8)

    def expire(self, first: int, end: int) -> None:
        """Have the tombstones among the records `first` to `end` go, by the places of their marks."""
        flags = self.flags
        for at in range(first, end):
            if flags[at] & TOMBSTONE:
                flags[at] |= GONE

    def kept(self, first: int, end: int) -> tuple[int, int]:
        """How many records stay of those, and how many of these have no value."""
        part = self.flags[first:end]
        tombstones = part.count(TOMBSTONE)
        return part.count(0) + tombstones, tombstones
