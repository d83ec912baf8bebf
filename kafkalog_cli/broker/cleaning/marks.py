"""Marks of the records that a cleaning reads: a byte per record, in log order, says whether the record is removed."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple

from kafkalog_cli.disk.temporary import temporary_file
from kafkalog_cli.format.columns import as_array
from kafkalog_cli.format.records import RecordBlock

GONE = 1
"""The record is removed: a later record has its key, it has no key, its key is erased, or its tombstone expired."""
TOMBSTONE = 2
"""The value of the record is null."""
KEYLESS, EXPIRED, ERASED, OF_ABORTED, OF_CONTROL = 4, 8, 16, 32, 64
"""Why a record is removed, beside GONE; without any of them a later record has its key.

The last two are of whole batches, and follow from transactions when the log is read again.
"""


class Causes(NamedTuple):
    """Removed records by cause."""

    erased: Annotated[int, "their keys are erased"] = 0
    keyless: Annotated[int, "they have no key"] = 0
    expired: Annotated[int, "they are tombstones whose delete horizon is over"] = 0
    superseded: Annotated[int, "a later record has the same key"] = 0
    aborted: Annotated[int, "their transactions were aborted"] = 0
    control: Annotated[int, "they are control records whose transactions have no record left"] = 0

    def plus(self, more: Causes) -> Causes:
        """Return the sums by cause."""
        return Causes(*map(sum, zip(self, more, strict=True)))

    @property
    def others(self) -> int:
        """Records without an erased key, and no control record."""
        return sum(self) - self.erased - self.control


NO_CAUSES = Causes()


def causes_of(part: bytes | bytearray) -> Causes:
    """Return the causes of the removed records among these marks."""
    by_cause = part.translate(_CAUSE)
    return Causes(*map(by_cause.count, (ERASED, KEYLESS, EXPIRED, GONE, OF_ABORTED, OF_CONTROL)))


def causes_in_words(causes: Causes, *, with_erased: bool = True) -> str:
    """Return the causes of removals with their numbers, without those that removed nothing."""
    words = [f"{number} {_WORDS[name]}" for name, number in causes._asdict().items() if number]
    return ", ".join(words[not with_erased and causes.erased > 0 :])


_WORDS = {
    "erased": "of the keys to erase",
    "keyless": "without a key",
    "expired": "expired tombstones",
    "superseded": "followed by a record of the same key",
    "aborted": "of aborted transactions",
    "control": "control records",
}


def _cause(mark: int) -> int:
    return next((cause for cause in (ERASED, KEYLESS, EXPIRED, OF_ABORTED, OF_CONTROL, GONE) if mark & cause), 0)


_CAUSE = bytes(map(_cause, range(256)))
HELD_BYTES = 32 << 20
"""Marks are kept in memory up to this size, above it in an unnamed temporary file, with no more than this mapped in."""
_ZEROS = bytes(1 << 20)


class Marks:
    """The marks of the records of some segments, including control records and aborted records.

    `flags` has `count` consecutive marks, and free room after them. `starts` maps the base offset of a segment to the
    position of its first mark. Records from `end_offset` on stay. If a temporary file cannot be written, all marks
    stay in memory.
    """

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self.flags: bytearray | mmap.mmap = bytearray()
        self.count = 0
        self.starts: dict[int, int] = {}
        self.end_offset = 0
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
        import numpy as np

        key_size, value_size = (
            as_array(sizes[first:end]) for sizes in (block.records.key_size, block.records.value_size)
        )
        flags = np.frombuffer(self.flags, dtype=np.uint8)[at + first : at + end]
        flags |= np.where(value_size < 0, TOMBSTONE, 0).astype(np.uint8)
        if counts:
            flags |= np.where(key_size < 0, GONE | KEYLESS, 0).astype(np.uint8)

    def expire(self, first: int, end: int) -> None:
        """Mark the tombstones at positions `first` to `end` as removed."""
        flags = self.flags
        for at in range(first, end):
            if flags[at] & TOMBSTONE:
                flags[at] |= GONE | EXPIRED

    def erase(self, places: Iterable[int]) -> None:
        """Mark the records at `places`, whose keys are erased, as removed."""
        for at in places:
            self.flags[at] |= GONE | ERASED

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
            self._file = temporary_file()
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
