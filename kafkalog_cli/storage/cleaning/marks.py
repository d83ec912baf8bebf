"""What becomes of each record that a cleaning reads: a byte for each, in the order of the log."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

from kafkalog_cli.format.records import RecordBlock

GONE = 1
"""The record goes: its key has a later one, it has no key, or it is a tombstone whose time is over."""
TOMBSTONE = 2
"""Its value is null."""
HELD_BYTES = 32 << 20
"""Up to this size the marks are kept in memory, more in an unnamed temporary file, of which no more is mapped in."""
_ZEROS = bytes(1 << 20)


class Marks:
    """The marks of the records of some segments, control records and aborted ones with them.

    `flags` has `count` of them one behind the other, and more room at its end; `starts` tells by base offset where
    those of a segment begin. `end_offset` is the offset up to which the keys of the log are known: what lies behind it
    stays. Without room for a temporary file all stays in memory.
    """

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self.flags: bytearray | mmap.mmap = bytearray()
        self.count = 0
        self.starts: dict[int, int] = {}
        self.end_offset = 0
        self.keyless = 0
        self._held_bytes = held_bytes
        self._file: Any = None
        self._can_spill = True
        self._seen = 0  # where the marks were last let go of

    def start_of(self, base_offset: int) -> int:
        """Where the marks of a segment begin; behind all others, if it is new."""
        return self.starts.setdefault(base_offset, self.count)

    def reach(self, end: int) -> bool:
        """Have a mark for every record up to `end`; whether the last of them are new."""
        self._let_go_behind(end)
        if end <= self.count:
            return False
        if end > len(self.flags):
            self._make_room(end)
        self.count = end
        return True

    def parts(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The rows `first` to `end`, in parts after each of which the marks of any records may be mapped in."""
        if isinstance(self.flags, bytearray):
            yield first, end
            return
        step = max(1, self._held_bytes // mmap.PAGESIZE)  # each may be on a page of its own
        for begin in range(first, end, step):
            yield begin, min(begin + step, end)
            self._let_go()

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

    def take(self, places: Iterable[int]) -> None:
        """Have the records with marks at these places go."""
        for at in places:
            self.flags[at] |= GONE

    def kept(self, first: int, end: int) -> tuple[int, int]:
        """How many records stay of those, and how many of these have no value."""
        part = self.part(first, end)
        tombstones = part.count(TOMBSTONE)
        return part.count(0) + tombstones, tombstones

    def part(self, first: int, end: int) -> bytes | bytearray:
        """A copy of the marks of the records `first` to `end`."""
        self._let_go_behind(end)
        return self.flags[first:end]

    # -- more marks than are held in memory

    def _make_room(self, end: int) -> None:
        """Have room for that many."""
        if isinstance(self.flags, bytearray) and (end <= self._held_bytes or not self._can_spill):
            self.flags.extend(bytes(end - len(self.flags)))
            return
        try:
            self.flags = self._mapped(max(end, 2 * self.count))
        except OSError:  # no room for a temporary file
            self._can_spill = False
            self.flags = bytearray(self.flags[: self.count])
            self.flags.extend(bytes(end - self.count))

    def _mapped(self, size_bytes: int) -> mmap.mmap:
        """The marks that there are, in a file of so many bytes. All are written: in a hole there may be no room."""
        if self._file is None:
            import tempfile

            self._file = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as this does)
            self._file.write(self.flags)
        begin = self._file.seek(0, 2)
        for at in range(begin, size_bytes, len(_ZEROS)):
            self._file.write(_ZEROS[: size_bytes - at])
        self._file.flush()
        return mmap.mmap(self._file.fileno(), size_bytes)

    def _let_go_behind(self, place: int) -> None:
        """The same where much was gone through since."""
        if abs(place - self._seen) > self._held_bytes // 4:
            self._seen = place
            self._let_go()

    def _let_go(self) -> None:
        """Have none of the temporary file in memory that is counted as this process's: it is read again if needed."""
        if isinstance(self.flags, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self.flags.madvise(mmap.MADV_DONTNEED)
