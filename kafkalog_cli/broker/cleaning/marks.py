"""Marks of the records that a cleaning reads: a byte per record, in log order, says whether the record is removed."""

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

from kafkalog_cli.format.records import RecordArrays, RecordBlock

GONE = 1
"""The record is removed: a later record has its key, it has no key, its key is erased, or its tombstone expired."""
TOMBSTONE = 2
"""The value of the record is null."""
HELD_BYTES = 32 << 20
"""Marks are kept in memory up to this size, above it in an unnamed temporary file, with no more than this mapped in."""
_ZEROS = bytes(1 << 20)


class Marks:
    """The marks of the records of some segments, including control records and aborted records.

    `flags` has `count` consecutive marks, and free room after them. `starts` maps the base offset of a segment to the
    position of its first mark. `end_offset` is the offset up to which the keys of the log are known; records from
    there on stay. `keyless` counts the records removed because they have no key. If a temporary file cannot be
    written, all marks stay in memory.
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
        self._seen = 0  # the position at which mapped pages were last released

    def start_of(self, base_offset: int) -> int:
        """Return the position of a segment's first mark; for a new segment, the end of all marks."""
        return self.starts.setdefault(base_offset, self.count)

    def reach(self, end: int) -> bool:
        """Extend the marks to `end`; return False if they reach that far already."""
        self._let_go_behind(end)
        if end <= self.count:
            return False
        if end > len(self.flags):
            self._make_room(end)
        self.count = end
        return True

    def parts(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Split the rows `first` to `end` into parts that may each access any marks, and release pages after each.

        So the memory for mapped pages stays limited.
        """
        if isinstance(self.flags, bytearray):
            yield first, end
            return
        step = max(1, self._held_bytes // mmap.PAGESIZE)  # each row may touch a different page
        for begin in range(first, end, step):
            yield begin, min(begin + step, end)
            self._let_go()

    def note(self, block: RecordBlock, first: int, end: int, at: int, *, counts: bool) -> None:
        """Mark the tombstones among a block's records `first` to `end`; if `counts`, also remove records without a key.

        `at` is the position of the mark of the block's first record.
        """
        records = block.records
        if isinstance(records, RecordArrays):
            self._note_arrays(records, first, end, at, counts=counts)
            return
        key_size, value_size, flags = records.key_size, records.value_size, self.flags
        for row in range(first, end):
            if value_size[row] < 0:
                flags[at + row] |= TOMBSTONE
            if counts and key_size[row] < 0:
                self.keyless += not flags[at + row] & GONE
                flags[at + row] |= GONE

    def _note_arrays(self, records: RecordArrays, first: int, end: int, at: int, *, counts: bool) -> None:
        import numpy as np

        flags = np.frombuffer(self.flags, dtype=np.uint8)[at + first : at + end]
        flags |= np.where(records.value_size[first:end] < 0, TOMBSTONE, 0).astype(np.uint8)
        if counts:
            keyless = records.key_size[first:end] < 0
            self.keyless += int(np.count_nonzero(keyless & (flags & GONE == 0)))
            flags |= keyless.astype(np.uint8)

    def expire(self, first: int, end: int) -> None:
        """Mark the tombstones at positions `first` to `end` as removed."""
        flags = self.flags
        for at in range(first, end):
            if flags[at] & TOMBSTONE:
                flags[at] |= GONE

    def take(self, places: Iterable[int]) -> None:
        """Mark the records at `places` as removed."""
        for at in places:
            self.flags[at] |= GONE

    def keep(self, first: int, end: int) -> None:
        """Unmark the records without a key at positions `first` to `end`."""
        for at in range(first, end):
            self.keyless -= self.flags[at] & GONE
            self.flags[at] &= TOMBSTONE

    def kept(self, first: int, end: int) -> tuple[int, int]:
        """Return the number of records that stay at positions `first` to `end`, and how many of them are tombstones."""
        part = self.part(first, end)
        tombstones = part.count(TOMBSTONE)
        return part.count(0) + tombstones, tombstones

    def part(self, first: int, end: int) -> bytes | bytearray:
        """Return a copy of the marks at positions `first` to `end`."""
        self._let_go_behind(end)
        return self.flags[first:end]

    # -- more marks than are held in memory

    def _make_room(self, end: int) -> None:
        """Make room for `end` marks, in memory or in the temporary file."""
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
        """Map the marks as a file of `size_bytes`.

        All bytes are written: in a hole of the file a later write could find the disk full.
        """
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
        """Release mapped pages if `place` is far from the position of the last release."""
        if abs(place - self._seen) > self._held_bytes // 4:
            self._seen = place
            self._let_go()

    def _let_go(self) -> None:
        """Release the mapped pages of the temporary file from this process's memory; they are read again if needed."""
        if isinstance(self.flags, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self.flags.madvise(mmap.MADV_DONTNEED)
