"""The single rule that creates a segment's offset and time index; append, recovery and splits use it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, cast

from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, SegmentOverflow
from kafkalog_cli.format import index
from kafkalog_cli.format.batch import NO_TIMESTAMP, BatchArrays, BatchColumns
from kafkalog_cli.format.columns import IntColumn, Integers
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, OffsetIndex, TimeIndex


class EntryColumns:
    """The entries of an index that grows, as two columns: a log may have many more entries than fit as objects."""

    def __init__(self, first: array[int] | None = None, second: array[int] | None = None) -> None:
        self._first = array("q") if first is None else first
        self._second = array("q") if second is None else second

    def __len__(self) -> int:
        return len(self._first)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._first, self._second, strict=True)

    def append(self, entry: tuple[int, int]) -> None:
        """Add an entry."""
        self._first.append(entry[0])
        self._second.append(entry[1])

    def extend(self, first: Integers, second: Integers) -> None:
        """Add many entries."""
        self._first.frombytes(first.tobytes())
        self._second.frombytes(second.tobytes())

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry, None if there is none."""
        return (self._first[-1], self._second[-1]) if self._first else None


_MANY_ROWS = 8
"""The least number of batches that pay for NumPy."""

IndexError_ = InvalidOffset | SegmentOverflow | LoadFailed


class GrowingIndexes:
    """The index entries of a segment, created as batches are appended (LogSegment.append, recover).

    A batch gets entries if it starts more than `index_interval_bytes` after the last batch with entries. Before the
    first entries, `position` counts, where the file was opened. `segment_index_bytes` is the size at which an index is
    full.
    """

    def __init__(
        self, base_offset: int, index_interval_bytes: int, segment_index_bytes: int, position: int = 0
    ) -> None:
        self.base_offset = base_offset
        self.offset_entries = EntryColumns()
        self.time_entries = EntryColumns()
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self._interval_bytes = index_interval_bytes
        self._most_offset_entries = segment_index_bytes // OFFSET_INDEX_ENTRY.size
        self._most_time_entries = segment_index_bytes // TIME_INDEX_ENTRY.size
        self._indexed_position = position

    def is_in_range(self, offset: int) -> bool:
        """Whether the indexes can express `offset`."""
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def add(self, batches: BatchColumns, end_row: int) -> tuple[int, IndexError_ | None]:
        """Add the batches up to `end_row`; return how many were added, and the error that the next one caused."""
        if end_row >= _MANY_ROWS and isinstance(batches, BatchArrays) and self._add_at_once(batches.part(0, end_row)):
            return end_row, None
        positions, last_offsets = _integers(batches.position, end_row), _integers(batches.last_offset, end_row)
        timestamps = _integers(batches.max_timestamp, end_row)
        end_row, error = self._rows_in_range(last_offsets)
        seen = 0
        while (due := bisect_right(positions, self._indexed_position + self._interval_bytes, seen, end_row)) < end_row:
            self._see_timestamps(timestamps, last_offsets, seen, due + 1)
            failed = self._append(last_offsets[due], positions[due])
            if failed is not None:
                return due, failed
            self._indexed_position = positions[due]
            seen = due + 1
        self._see_timestamps(timestamps, last_offsets, seen, end_row)
        return end_row, error

    def _add_at_once(self, batches: BatchArrays) -> bool:
        """Add batches with rising offsets if none of them causes an error; return whether they were added."""
        import numpy as np

        offsets = batches.last_offset
        entries, times = self.offset_entries, self.time_entries
        last_ms, last_offset = times.last or (NO_TIMESTAMP, self.offset_of_max_timestamp)
        if (
            not (self.is_in_range(int(offsets[0])) and self.is_in_range(int(offsets[-1])))
            or offsets[0] <= (entries.last or (-1,))[0]
            or not last_offset <= self.offset_of_max_timestamp <= offsets[0]
            or (np.diff(offsets) <= 0).any()
        ):
            return False
        due = self._due_rows(batches.position.tolist())
        if len(due) > min(self._most_offset_entries - len(entries), self._most_time_entries - 1 - len(times)):
            return False
        before = np.maximum.accumulate(np.concatenate(([self.max_timestamp], batches.max_timestamp)))
        is_larger = batches.max_timestamp > before[:-1]
        largest = np.maximum.accumulate(np.where(is_larger, offsets, self.offset_of_max_timestamp))
        self.max_timestamp, self.offset_of_max_timestamp = int(before[-1]), int(largest[-1])
        if due:
            entries.extend(offsets[due], batches.position[due])
            at_entries = np.concatenate(([last_ms], before[1:][due]))
            gets_time = at_entries[1:] > np.maximum.accumulate(at_entries)[:-1]
            times.extend(at_entries[1:][gets_time], largest[due][gets_time])
            self._indexed_position = int(batches.position[due[-1]])
        return True

    def _due_rows(self, positions: list[int]) -> list[int]:
        """Return the batches that start more than `index_interval_bytes` after the last batch with entries."""
        due: list[int] = []
        indexed, interval = self._indexed_position, self._interval_bytes
        while (row := bisect_right(positions, indexed + interval, due[-1] + 1 if due else 0)) < len(positions):
            due.append(row)
            indexed = positions[row]
        return due

    def resume(self, offsets: OffsetIndex, times: TimeIndex, largest: tuple[int, int]) -> None:
        """Continue after the entries of an existing segment. `largest` is its largest timestamp, with its offset."""
        self.offset_entries = EntryColumns(*offsets.columns())
        self.time_entries = EntryColumns(*times.columns())
        self.max_timestamp, self.offset_of_max_timestamp = largest

    def begin_below(self, max_timestamp: int) -> None:
        """Add a first batch that ends below the base offset, which LogSegment.append allows if other batches follow.

        No index entry can express its offset, so its timestamp is recorded with the base offset.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = max_timestamp, self.base_offset

    def add_one(self, position: int, last_offset: int, max_timestamp: int) -> IndexError_ | None:
        """Add one batch; return the error that it caused. `add` does the same for many batches."""
        if not self.is_in_range(last_offset):
            return SegmentOverflow(self.base_offset, last_offset)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = max_timestamp, last_offset
        if position <= self._indexed_position + self._interval_bytes:
            return None
        failed = self._append(last_offset, position)
        if failed is None:
            self._indexed_position = position
        return failed

    def close(self) -> InvalidOffset | LoadFailed | None:
        """Add the entry that a segment gets when it is closed; return the error that it caused.

        A place is reserved for it.
        """
        return self._append_time(skip_full_check=True)

    @property
    def offset_index(self) -> bytes:
        """The trimmed `.index` file."""
        return index.encode(self.offset_entries, self.base_offset)

    @property
    def time_index(self) -> bytes:
        """The trimmed `.timeindex` file."""
        return index.encode_times(self.time_entries, self.base_offset)

    def _rows_in_range(self, last_offsets: list[int]) -> tuple[int, SegmentOverflow | None]:
        if not last_offsets or (self.is_in_range(min(last_offsets)) and self.is_in_range(max(last_offsets))):
            return len(last_offsets), None
        row = next(row for row, offset in enumerate(last_offsets) if not self.is_in_range(offset))
        return row, SegmentOverflow(self.base_offset, last_offsets[row])

    def _see_timestamps(self, timestamps: list[int], last_offsets: list[int], first: int, end: int) -> None:
        largest = max(timestamps[first:end], default=NO_TIMESTAMP)
        if largest > self.max_timestamp:
            self.max_timestamp = largest
            self.offset_of_max_timestamp = last_offsets[timestamps.index(largest, first)]

    def _append(self, offset: int, position: int) -> InvalidOffset | LoadFailed | None:
        entries = self.offset_entries
        if len(entries) >= self._most_offset_entries:
            return _full("index", len(entries))
        if (last := entries.last) and offset <= last[0]:
            return InvalidOffset(f"offset {offset} is not above {last[0]}, the last one in the index")
        entries.append((offset, position))
        return self._append_time(skip_full_check=False)

    def _append_time(self, *, skip_full_check: bool) -> InvalidOffset | LoadFailed | None:
        entries = self.time_entries
        if not skip_full_check and len(entries) >= self._most_time_entries - 1:
            return _full("time index", len(entries))
        last = entries.last
        if last and self.offset_of_max_timestamp < last[1]:
            return InvalidOffset(f"offset {self.offset_of_max_timestamp} is below {last[1]} in the time index")
        if self.max_timestamp > (last[0] if last else NO_TIMESTAMP):
            entries.append((self.max_timestamp, self.offset_of_max_timestamp))
        return None


def _full(what: str, size: int) -> LoadFailed:
    return LoadFailed("IllegalArgumentException", f"Attempt to append to a full {what} (size = {size}).")


def _integers(column: IntColumn, end: int) -> list[int]:
    part = cast("Any", column)[:end]
    return cast("list[int]", part.tolist() if hasattr(part, "tolist") else list(part))
