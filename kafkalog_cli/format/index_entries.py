"""What offset and time indexes share: entries of one size, the zero tail, the floor search (AbstractIndex)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, overload

from kafkalog_cli.format.batch import wrap_int64
from kafkalog_cli.format.fault import Fault, FaultKind

if TYPE_CHECKING:
    from kafkalog_cli.format.layout import Layout

EntryT = TypeVar("EntryT", bound=tuple[int, int])
SelfT = TypeVar("SelfT", bound="SegmentIndex[Any]")

_WARM_BYTES = 8192
"""The end of the file that Kafka searches first (AbstractIndex.warmEntries)."""

_ZERO_OFFSET = bytes(4)
_IS_LITTLE_ENDIAN = array("h", [1]).tobytes()[0] == 1
_HIGH_HALF = int(_IS_LITTLE_ENDIAN)
"""Where the high half of a 64-bit integer lies in memory: second or first."""
_MAX_BASE_OFFSET = (1 << 63) - (1 << 31)


@dataclass(frozen=True, slots=True)
class SegmentIndex(Sequence[EntryT]):
    """The whole entries of an index file, decoded when asked for; the file's length decides how many.

    That is what a broker takes for entries when it opens a file: of a preallocated one the unused zero
    tail too. `in_use` leaves the tail out. `base_offset` is that of the file's name. Nothing raises on
    bad bytes: a damaged file gives other numbers, and `decode` of the two index modules says so.
    """

    data: bytes
    base_offset: int

    layout: ClassVar[Layout]

    def __len__(self) -> int:
        return len(self.data) // self.layout.size

    @overload
    def __getitem__(self, slot: int) -> EntryT: ...
    @overload
    def __getitem__(self, slot: slice) -> Sequence[EntryT]: ...
    def __getitem__(self, slot: int | slice) -> EntryT | Sequence[EntryT]:
        if isinstance(slot, slice):
            return [self[i] for i in range(*slot.indices(len(self)))]
        count = len(self)
        if not -count <= slot < count:
            raise IndexError(slot)
        fields = self.layout.struct.unpack_from(self.data, slot % count * self.layout.size)
        return self._entry(cast("tuple[int, int]", fields))

    def __iter__(self) -> Iterator[EntryT]:
        return map(self._entry, self.stored())

    def columns(self) -> tuple[array[int], array[int]]:
        """The two fields of all entries, each as a column; offsets are absolute."""
        stored = array("i", memoryview(self.data)[: len(self) * self.layout.size].tobytes())
        if _IS_LITTLE_ENDIAN:
            stored.byteswap()
        if self.layout.offset["relative_offset"] == 0:
            return self._absolute_offsets(stored[::2]), array("q", stored[1::2])
        return _int64_of(stored[::3], stored[1::3]), self._absolute_offsets(stored[2::3])

    def stored(self) -> Iterator[tuple[int, int]]:
        """The entries as they are stored, with relative offsets."""
        whole = memoryview(self.data)[: len(self) * self.layout.size]
        return cast("Iterator[tuple[int, int]]", self.layout.struct.iter_unpack(whole))

    def in_use_count(self) -> int:
        """How many entries come before the zero tail: the first entry after entry 0 with the base offset ends them.

        The real dump tool's rule. By it an index that was preallocated and never written has one entry.
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
        """The same index without zero tail and without a cut-off entry at the end."""
        return type(self)(self.data[: self.in_use_count() * self.layout.size], self.base_offset)

    def absolute_offset(self, relative_offset: int) -> int:
        """`relative_offset` as an offset, in Java's long."""
        if 0 <= self.base_offset < _MAX_BASE_OFFSET:
            return self.base_offset + relative_offset
        return wrap_int64(self.base_offset + relative_offset)

    def _absolute_offsets(self, relative_offsets: array[int]) -> array[int]:
        if 0 <= self.base_offset < _MAX_BASE_OFFSET:  # without a call of Python's for each
            return array("q", map(self.base_offset.__add__, relative_offsets))
        return array("q", map(self.absolute_offset, relative_offsets))

    def floor_slot(self, target: int, field: int = 0) -> int:
        """Slot of the last entry whose first field (or another) is `target` or below, -1 if there is none.

        Step for step Kafka's search, so that unsorted entries and zero tails lead to the same slot.
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

    def _entry(self, fields: tuple[int, int]) -> EntryT:
        raise NotImplementedError


def _int64_of(high: array[int], low: array[int]) -> array[int]:
    """64-bit integers of their two halves."""
    halves = array("i", bytes(8 * len(high)))
    halves[_HIGH_HALF::2], halves[1 - _HIGH_HALF :: 2] = high, low
    return array("q", halves.tobytes())


def length_faults(index: SegmentIndex[EntryT], in_use_count: int) -> Iterator[Fault]:
    """What is wrong with the file behind its entries in use: a cut-off entry, bytes in the zero tail."""
    size = index.layout.size
    tail, end, length = in_use_count * size, len(index) * size, len(index.data)
    if index.data.count(0, tail, end) != end - tail:
        message = f"entries after the first unused one, number {in_use_count}"
        yield Fault(FaultKind.INVALID_ENTRY, tail, message, size_bytes=end - tail)
    if length != end:
        message = f"{length} bytes are not a multiple of {size}"
        yield Fault(FaultKind.INVALID_LENGTH, end, message, length - end, f"a multiple of {size}", str(length))


class EntryProblems:
    """Problems of single entries, counted by kind: a damaged file may have a million of them."""

    def __init__(self, index: SegmentIndex[EntryT]) -> None:
        self._index = index
        self._first: dict[str, int] = {}
        self._count: dict[str, int] = {}

    def add(self, problem: str, slot: int) -> None:
        """Note that the entry at `slot` has `problem`."""
        self._first.setdefault(problem, slot)
        self._count[problem] = self._count.get(problem, 0) + 1

    def faults(self) -> Iterator[Fault]:
        """One fault a kind of problem, at the first entry that has it."""
        size = self._index.layout.size
        for problem, slot in self._first.items():
            fields = self._index.layout.struct.unpack_from(self._index.data, slot * size)
            relative = fields[0 if self._index.layout.offset["relative_offset"] == 0 else 1]
            count = self._count[problem]
            message = f"entry {slot}: {problem}" + (f" ({count} such entries)" if count > 1 else "")
            offset = self._index.absolute_offset(relative)
            yield Fault(FaultKind.INVALID_ENTRY, slot * size, message, size, base_offset=offset, last_offset=offset)
