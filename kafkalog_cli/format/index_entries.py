"""Code shared by offset and time indexes: fixed-size entries, the zero tail, the floor search (AbstractIndex)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, TypeVar

from kafkalog_cli.format.batch import wrap_int64
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.packed_entries import PackedEntries

EntryT = TypeVar("EntryT", bound=tuple[int, int])
SelfT = TypeVar("SelfT", bound="SegmentIndex[Any]")

_WARM_BYTES = 8192
"""The number of bytes at the end of the file that Kafka searches first (AbstractIndex.warmEntries)."""

_ZERO_OFFSET = bytes(4)
_IS_LITTLE_ENDIAN = array("h", [1]).tobytes()[0] == 1
_HIGH_HALF = int(_IS_LITTLE_ENDIAN)
"""Index of the high 32-bit half of a 64-bit integer in memory: 1 on little-endian machines, else 0."""
_MAX_BASE_OFFSET = (1 << 63) - (1 << 31)


class SegmentIndex(PackedEntries[EntryT]):
    """The complete entries of an index file.

    The file's length decides how many entries there are, as when a broker opens the file. The unused zero tail of a
    preallocated file therefore counts too; `in_use` removes it. `base_offset` is the offset in the file's name.

    Damaged bytes do not raise: they give other numbers. The functions `decode` of `index` and `timeindex` report them
    as faults.
    """

    __slots__ = ("base_offset",)

    data: bytes

    def __init__(self, data: bytes, base_offset: int) -> None:
        super().__init__(data)
        self.base_offset = base_offset

    def columns(self) -> tuple[array[int], array[int]]:
        """Return the two fields of all entries as two columns, in file order. Offsets are absolute."""
        stored = array("i", memoryview(self.data)[: len(self) * self.layout.size].tobytes())
        if _IS_LITTLE_ENDIAN:
            stored.byteswap()
        if self.layout.offset["relative_offset"] == 0:
            return self._absolute_offsets(stored[::2]), array("q", stored[1::2])
        return _int64_of(stored[::3], stored[1::3]), self._absolute_offsets(stored[2::3])

    def in_use_count(self) -> int:
        """Return the number of entries before the zero tail.

        The tail starts at the first entry after entry 0 that has the base offset, as in Kafka's dump tool. So an index
        that was preallocated and never written has one entry.
        """
        size, offset_at = self.layout.size, self.layout.offset["relative_offset"]
        start = size + offset_at
        while (found := self.data.find(_ZERO_OFFSET, start, len(self) * size)) >= 0:
            slot, inside = divmod(found - offset_at, size)
            if inside == 0:
                return slot
            start = (slot + 1) * size + offset_at
        return len(self)

    def in_use(self: SelfT) -> SelfT:
        """Return the index without its zero tail and without an incomplete entry at its end."""
        size_bytes = self.in_use_count() * self.layout.size
        return self if size_bytes == len(self.data) else type(self)(self.data[:size_bytes], self.base_offset)

    def absolute_offset(self, relative_offset: int) -> int:
        """Return the base offset plus `relative_offset`, as a Java long."""
        if 0 <= self.base_offset < _MAX_BASE_OFFSET:
            return self.base_offset + relative_offset
        return wrap_int64(self.base_offset + relative_offset)

    def _absolute_offsets(self, relative_offsets: array[int]) -> array[int]:
        if 0 <= self.base_offset < _MAX_BASE_OFFSET:  # faster: no Python-level call per entry
            return array("q", map(self.base_offset.__add__, relative_offsets))
        return array("q", map(self.absolute_offset, relative_offsets))

    def floor_slot(self, target: int, field: int = 0) -> int:
        """Return the slot of the last entry whose field `field` is at most `target`, or -1 if there is none.

        The search follows Kafka's step by step, so that unsorted entries and zero tails lead to the same slot.
        """
        last = len(self) - 1
        if last < 0:
            return -1
        first_warm = max(0, last - _WARM_BYTES // self.layout.size)
        if self[first_warm][field] < target:
            return self._search(target, field, first_warm, last)
        return -1 if self[0][field] > target else self._search(target, field, 0, first_warm)

    def _search(self, target: int, field: int, low: int, high: int) -> int:
        while low < high:
            middle = (low + high + 1) // 2
            key = self[middle][field]
            if key == target:
                return middle
            low, high = (middle, high) if key < target else (low, middle - 1)
        return low


def _int64_of(high: array[int], low: array[int]) -> array[int]:
    """Combine the high and low halves of 64-bit integers."""
    halves = array("i", bytes(8 * len(high)))
    halves[_HIGH_HALF::2], halves[1 - _HIGH_HALF :: 2] = high, low
    return array("q", halves.tobytes())


def length_faults(index: SegmentIndex[EntryT], in_use_count: int) -> Iterator[Fault]:
    """Yield the faults after the entries in use: non-zero bytes in the zero tail, an incomplete last entry."""
    size = index.layout.size
    tail, end, length = in_use_count * size, len(index) * size, len(index.data)
    if index.data.count(0, tail, end) != end - tail:
        message = f"entries after the first unused one, number {in_use_count}"
        yield Fault(FaultKind.INVALID_ENTRY, tail, message, size_bytes=end - tail)
    if length != end:
        message = f"{length} bytes are not a multiple of {size}"
        yield Fault(FaultKind.INVALID_LENGTH, end, message, length - end, f"a multiple of {size}", str(length))
