"""Time indexes (`.timeindex`, since 0.10.1): from a timestamp to an offset to scan from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.index_entries import SegmentIndex
from kafkalog_cli.format.layout import Field, Layout

if TYPE_CHECKING:
    from collections.abc import Iterable


TIME_INDEX_ENTRY = Layout(
    "Time index entry",
    "org.apache.kafka.storage.internals.log.TimeIndex",
    Field("timestamp", "q", "largest timestamp so far in the segment, ms"),
    Field("relative_offset", "i", "last offset of the first batch that carries it, minus the base offset"),
)


class TimeIndexEntry(NamedTuple):
    """An entry (TimestampOffset): `timestamp` in ms, absolute `offset`."""

    timestamp: int
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
        length, size, (last_timestamp, last_offset) = len(self.data), self.layout.size, self.last_entry
        corrupt = f"Corrupt time index found, time index file ({absolute_path}) has non-zero size but the last"
        if len(self) and last_timestamp < self[0].timestamp:
            return f"{corrupt} timestamp is {last_timestamp} which is less than the first timestamp {self[0].timestamp}"
        if len(self) and last_offset < self.base_offset:
            return f"{corrupt} offset is {last_offset} which is less than the first offset {self.base_offset}"
        if length % size:
            return (
                f"Time index file {absolute_path} is corrupt, found {length} bytes which is neither positive "
                f"nor a multiple of {size}"
            )
        return None

    def entry(self, fields: tuple[int, int]) -> TimeIndexEntry:
        """See PackedEntries."""
        return TimeIndexEntry(fields[0], self.absolute_offset(fields[1]))


def encode(entries: Iterable[tuple[int, int]], base_offset: int) -> bytes:
    """Return the bytes of a trimmed `.timeindex` file with (timestamp, offset) entries.

    Raises struct.error for an offset more than 2^31 - 1 above the base offset.
    """
    pack, data = TIME_INDEX_ENTRY.struct.pack, bytearray()
    for timestamp, offset in entries:
        data += pack(timestamp, offset - base_offset)
    return bytes(data)
