"""Offset indexes (`.index`): from an offset to where in the segment file its batch starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.format.index_entries import SegmentIndex
from kafkalog_cli.format.layout import Field, Layout

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    position: int


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
        length, size, last = len(self.data), self.layout.size, self.last_entry.offset
        if len(self) and last < self.base_offset:
            return (
                f"Corrupt index found, index file {absolute_path} has non-zero size but the last offset is {last} "
                f"which is less than the base offset {self.base_offset}"
            )
        if length % size:
            return (
                f"Index file {absolute_path} is corrupt, found {length} bytes which is neither positive "
                f"nor a multiple of {size}"
            )
        return None

    def entry(self, fields: tuple[int, int]) -> OffsetIndexEntry:
        """See PackedEntries."""
        return OffsetIndexEntry(self.absolute_offset(fields[0]), fields[1])


def encode(entries: Iterable[tuple[int, int]], base_offset: int) -> bytes:
    """Return the bytes of a trimmed `.index` file with (offset, position) entries.

    Raises struct.error for an offset more than 2^31 - 1 above the base offset.
    """
    pack, data = OFFSET_INDEX_ENTRY.struct.pack, bytearray()
    for offset, position in entries:
        data += pack(offset - base_offset, position)
    return bytes(data)
