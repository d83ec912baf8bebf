"""Offset indexes (`.index`) find the batch of an offset, time indexes (`.timeindex`) the offset of a timestamp.

Both have entries of a fixed size, a tail of zeros, and the floor search (AbstractIndex).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, TypeVar

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import NO_TIMESTAMP, wrap_int64
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.layout import Field, Layout, PackedEntries
from kafkalog_cli.results import Named

EntryT = TypeVar("EntryT", bound=tuple[int, int])
SelfT = TypeVar("SelfT", bound="SegmentIndex[Any]")

_WARM_BYTES = 8192
"""The number of bytes at the end of the file that Kafka searches first (AbstractIndex.warmEntries)."""

_ZERO_OFFSET = bytes(4)


class SegmentIndex(PackedEntries[EntryT]):
    """The complete entries of an index file.

    The file's length decides how many entries there are, as when a broker opens the file. The unused zero tail of a
    preallocated file therefore counts too; `in_use` removes it. `base_offset` is the offset in the file's name.

    Damaged bytes do not raise: they give other numbers.
    """

    __slots__ = ("base_offset",)

    data: bytes

    def __init__(self, data: bytes, base_offset: int) -> None:
        super().__init__(data)
        self.base_offset = base_offset

    def columns(self, entries: int) -> native.IndexColumns:
        """Return the two fields of the first entries as two columns, in file order. Offsets are absolute."""
        is_time_index = self.layout.offset["relative_offset"] > 0
        return native.index_columns(self.data, entries, self.base_offset, is_time_index=is_time_index)

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

    def _length_message(self, file: str) -> str | None:
        """Return the message that AbstractIndex.sanityCheck throws for the length of `file`, None if it is right."""
        length, size = len(self.data), self.layout.size
        what = f"found {length} bytes which is neither positive nor a multiple of {size}"
        return f"{file} is corrupt, {what}" if length % size else None

    def absolute_offset(self, relative_offset: int) -> int:
        """Return the base offset plus `relative_offset`, as a Java long."""
        return wrap_int64(self.base_offset + relative_offset)

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


MAX_RELATIVE_OFFSET = (1 << 31) - 1
"""The largest distance of an offset from the base offset of its segment."""

OFFSET_INDEX_ENTRY = Layout(
    "Offset index entry",
    "org.apache.kafka.storage.internals.log.OffsetIndex",
    Field(
        "relative_offset",
        "i",
        "offset minus the base offset; before 2.0 of the first record appended, since of the last",
    ),
    Field("position", "i", "where the batch starts in the segment file; before 4.1 the first batch of the append call"),
)


class OffsetIndexEntry(NamedTuple):
    """An entry (OffsetPosition): absolute `offset`, `position` in bytes in the segment file."""

    offset: int
    position: Annotated[int, "the byte of the segment, as stored"]


class OffsetIndex(SegmentIndex[OffsetIndexEntry]):
    """The entries of an `.index` file (OffsetIndex); see `SegmentIndex`."""

    __slots__ = ()

    layout = OFFSET_INDEX_ENTRY

    @property
    def last_entry(self) -> OffsetIndexEntry:
        """The last complete entry; (base offset, 0) if there is none."""
        return self[-1] if len(self) else OffsetIndexEntry(self.base_offset, 0)

    def lookup(self, target_offset: int) -> OffsetIndexEntry:
        """Return the entry with the largest offset up to `target_offset`; (base offset, 0) if there is none."""
        slot = self.floor_slot(target_offset)
        return self[slot] if slot >= 0 else OffsetIndexEntry(self.base_offset, 0)

    def sanity_message(self, absolute_path: str) -> str | None:
        """Return the message that OffsetIndex.sanityCheck throws for this file, or None if the file passes."""
        last = self.last_entry.offset
        if len(self) and last < self.base_offset:
            return (
                f"Corrupt index found, index file {absolute_path} has non-zero size but the last offset is {last} "
                f"which is less than the base offset {self.base_offset}"
            )
        return self._length_message(f"Index file {absolute_path}")

    def entry(self, fields: tuple[int, int]) -> OffsetIndexEntry:
        """See PackedEntries."""
        return OffsetIndexEntry(self.absolute_offset(fields[0]), fields[1])


TIME_INDEX_ENTRY = Layout(
    "Time index entry",
    "org.apache.kafka.storage.internals.log.TimeIndex",
    Field("timestamp", "q", "largest timestamp so far in the segment, ms"),
    Field("relative_offset", "i", "last offset of the first batch that carries it, minus the base offset"),
)


class TimeIndexEntry(NamedTuple):
    """An entry (TimestampOffset): `timestamp` in ms, absolute `offset`."""

    timestamp: Annotated[int, Named("timestamp_ms")]
    offset: int


class TimeIndex(SegmentIndex[TimeIndexEntry]):
    """The entries of a `.timeindex` file (TimeIndex); see `SegmentIndex`."""

    __slots__ = ()

    layout = TIME_INDEX_ENTRY

    @property
    def last_entry(self) -> TimeIndexEntry:
        """The last complete entry; (-1, base offset) if there is none."""
        return self[-1] if len(self) else TimeIndexEntry(NO_TIMESTAMP, self.base_offset)

    def lookup(self, target_timestamp: int) -> TimeIndexEntry:
        """Return the entry with the largest timestamp up to `target_timestamp`; (-1, base offset) if there is none."""
        slot = self.floor_slot(target_timestamp)
        return self[slot] if slot >= 0 else TimeIndexEntry(NO_TIMESTAMP, self.base_offset)

    def sanity_message(self, absolute_path: str) -> str | None:
        """Return the message that TimeIndex.sanityCheck throws for this file, or None if the file passes."""
        last_timestamp, last_offset = self.last_entry
        corrupt = f"Corrupt time index found, time index file ({absolute_path}) has non-zero size but the last"
        if len(self) and last_timestamp < self[0].timestamp:
            return f"{corrupt} timestamp is {last_timestamp} which is less than the first timestamp {self[0].timestamp}"
        if len(self) and last_offset < self.base_offset:
            return f"{corrupt} offset is {last_offset} which is less than the first offset {self.base_offset}"
        return self._length_message(f"Time index file {absolute_path}")

    def entry(self, fields: tuple[int, int]) -> TimeIndexEntry:
        """See PackedEntries."""
        return TimeIndexEntry(fields[0], self.absolute_offset(fields[1]))
