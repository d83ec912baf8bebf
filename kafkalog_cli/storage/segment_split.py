"""Splits a segment whose offsets its indexes cannot express (KAFKA-6264; LocalLog.splitOverflowedSegment)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.storage.draft import Draft
from kafkalog_cli.storage.load_error import InvalidOffset, LoadFailed
from kafkalog_cli.storage.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.storage.log_end import HeaderChain
from kafkalog_cli.storage.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.storage.segment_writer import SegmentIndexes

UNIT_BYTES = 1 << 20
"""Batches are copied in units of less than this, or one larger batch; a unit gets one index entry at most."""


class _Part(NamedTuple):
    """A new segment: `size_bytes` of the old one from `position` on."""

    base_offset: int
    position: int
    size_bytes: int
    indexes: SegmentIndexes


def split_segment(segment: LoadedSegment, draft: Draft, settings: LoadSettings) -> list[LoadedSegment]:
    """Make several segments of one, each with offsets that fit; the old files become `.deleted`.

    Raises LoadFailed where the broker refuses: when it is not the last offset that does not fit.
    """
    if not segment.has_overflow():
        reason = f"Split operation is only permitted for segments with overflow, not for {segment.log_name}"
        raise LoadFailed("IllegalArgumentException", reason)
    parts = list(_parts(segment, draft, settings))
    old_log = segment.log_name + WorkState.DELETED.value
    segment.change_suffix(WorkState.DELETED)
    return [_write(part, old_log, draft, settings) for part in parts]


def _write(part: _Part, old_log: str, draft: Draft, settings: LoadSettings) -> LoadedSegment:
    log_name, index_name, time_index_name = _names(part.base_offset)
    draft.slice(log_name, old_log, part.position, part.size_bytes)
    draft.put(index_name, part.indexes.offset_index)
    draft.put(time_index_name, part.indexes.time_index)
    return LoadedSegment(draft, part.base_offset, settings)


def _names(base_offset: int) -> tuple[str, str, str]:
    log, index, time_index = FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX
    return (
        segment_file_name(base_offset, log),
        segment_file_name(base_offset, index),
        segment_file_name(base_offset, time_index),
    )


def _parts(segment: LoadedSegment, draft: Draft, settings: LoadSettings) -> Iterator[_Part]:
    with draft.reader(segment.log_name) as log:
        chain = HeaderChain(log)
        batches = list(chain)
    if chain.fault is not None:
        raise LoadFailed("CorruptRecordException", f"{segment.log_name}: {chain.fault.message}")
    row = 0
    while row < len(batches):
        first = row
        base_offset = batches[row].base_offset if batches[row].base_offset != NO_OFFSET else batches[row].last_offset
        indexes = SegmentIndexes(base_offset, settings.index_interval_bytes, settings.segment_index_bytes)
        while row < len(batches) and (end := _unit_end(batches, row, indexes)) > row:
            _add(indexes, batches[row:end], batches[first].position)
            row = end
        if row == first:
            raise LoadFailed("IllegalStateException", f"Failed to append records from position {batches[row].position}")
        indexes.close()
        last = batches[row - 1]
        start = batches[first].position
        yield _Part(base_offset, start, last.position + last.size_bytes - start, indexes)


def _unit_end(batches: list[Batch], row: int, indexes: SegmentIndexes) -> int:
    """The row behind the unit that begins at `row`."""
    size_bytes, end = 0, row
    while end < len(batches) and indexes.is_in_range(batches[end].last_offset):
        if end > row and size_bytes + batches[end].size_bytes >= UNIT_BYTES:
            break
        size_bytes += batches[end].size_bytes
        end += 1
    return end


def _add(indexes: SegmentIndexes, unit: list[Batch], start: int) -> None:
    latest = max(unit, key=lambda batch: batch.max_timestamp)  # the first of several
    try:
        indexes.add_unit(unit[0].position - start, unit[-1].last_offset, latest.max_timestamp, latest.last_offset)
    except InvalidOffset as error:
        raise LoadFailed("InvalidOffsetException", str(error)) from error
