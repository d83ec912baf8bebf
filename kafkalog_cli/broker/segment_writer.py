"""The single rule that creates a segment's offset and time index; append, recovery and splits use it."""

from __future__ import annotations

from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, SegmentOverflow
from kafkalog_cli.format import native
from kafkalog_cli.format.batch import NO_TIMESTAMP, BatchColumns
from kafkalog_cli.format.columns import IntColumn, column_of
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, OffsetIndex, TimeIndex

IndexError_ = InvalidOffset | SegmentOverflow | LoadFailed


class GrowingIndexes:
    """The indexes of a segment, created as batches are appended (LogSegment.append, recover).

    A batch gets entries if it starts more than `index_interval_bytes` after the last batch with entries. Before the
    first entries, `position` counts, where the file was opened. `segment_index_bytes` is the size at which an index is
    full.
    """

    def __init__(
        self, base_offset: int, index_interval_bytes: int, segment_index_bytes: int, position: int = 0
    ) -> None:
        self._offsets, self._times = bytearray(), bytearray()
        self._state = native.IndexState(
            base_offset=base_offset, interval=index_interval_bytes, indexed_position=position,
            most_offsets=segment_index_bytes // OFFSET_INDEX_ENTRY.size,
            most_times=segment_index_bytes // TIME_INDEX_ENTRY.size,
            max_timestamp=NO_TIMESTAMP, offset_of_max=base_offset,
        )  # fmt: skip

    @property
    def entries(self) -> tuple[int, int]:
        """The number of entries of the offset index, and of the time index."""
        return self._state.offsets, self._state.times

    def add(self, batches: BatchColumns, end_row: int) -> tuple[int, IndexError_ | None]:
        """Add the batches up to `end_row`; return how many were added, and the error that the next one caused."""
        columns = (batches.position, batches.last_offset, batches.max_timestamp)
        return self._add([column[:end_row] for column in columns])

    def add_one(self, position: int, last_offset: int, max_timestamp: int) -> IndexError_ | None:
        """Add one batch; return the error that it caused. `add` does the same for many batches."""
        return self._add([column_of([value]) for value in (position, last_offset, max_timestamp)])[1]

    def resume(self, offsets: OffsetIndex, times: TimeIndex, largest: tuple[int, int]) -> None:
        """Continue after the entries of an existing segment. `largest` is its largest timestamp, with its offset."""
        self._offsets = bytearray(offsets.data[: len(offsets) * OFFSET_INDEX_ENTRY.size])
        self._times = bytearray(times.data[: len(times) * TIME_INDEX_ENTRY.size])
        state = self._state
        state.offsets, state.times = len(offsets), len(times)
        state.last_offset = offsets[-1].offset if len(offsets) else 0
        state.last_time, state.last_time_offset = times.last_entry
        state.max_timestamp, state.offset_of_max = largest

    def begin_below(self, max_timestamp: int) -> None:
        """Add a first batch that ends below the base offset, which LogSegment.append allows if other batches follow.

        No index entry can express its offset, so its timestamp is recorded with the base offset.
        """
        if max_timestamp > self._state.max_timestamp:
            self._state.max_timestamp, self._state.offset_of_max = max_timestamp, self._state.base_offset

    def close(self) -> InvalidOffset | LoadFailed | None:
        """Add the entry that a segment gets when it is closed; return the error that it caused.

        A place is reserved for it.
        """
        failed = self._add([column_of([])] * 3, is_last=True)[1]
        assert not isinstance(failed, SegmentOverflow)
        return failed

    @property
    def offset_index(self) -> bytes:
        """The trimmed `.index` file."""
        return bytes(self._offsets)

    @property
    def time_index(self) -> bytes:
        """The trimmed `.timeindex` file."""
        return bytes(self._times)

    def _add(self, columns: list[IntColumn], *, is_last: bool = False) -> tuple[int, IndexError_ | None]:
        """Add batches by their positions, last offsets and largest timestamps."""
        state = self._state
        done, why, new_offsets, new_times = native.index_batches(state, *columns, is_last=is_last)
        self._offsets += new_offsets
        self._times += new_times
        if why == native.INDEX_ADDED:
            return done, None
        if why == native.INDEX_OUT_OF_RANGE:
            return done, SegmentOverflow(state.base_offset, columns[1][done])
        if why == native.INDEX_FULL:
            return done, _full("index", state.offsets)
        if why == native.INDEX_TIMES_FULL:
            return done, _full("time index", state.times)
        if why == native.INDEX_NOT_ABOVE:
            reason = f"offset {columns[1][done]} is not above {state.last_offset}, the last one in the index"
        else:
            reason = f"offset {state.offset_of_max} is below {state.last_time_offset} in the time index"
        return done, InvalidOffset(reason)


def _full(what: str, size: int) -> LoadFailed:
    return LoadFailed("IllegalArgumentException", f"Attempt to append to a full {what} (size = {size}).")
