"""Splits a segment whose offsets its indexes cannot express (KAFKA-6264; LocalLog.splitOverflowedSegment)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, SegmentOverflow
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.segment_writer import GrowingIndexes
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.log.reading.segment_reader import SegmentReader

MAX_MAGIC = 2


class _Part(NamedTuple):
    """A new segment: `size_bytes` of the old segment's log from byte `position` on."""

    base_offset: int
    position: int
    size_bytes: int
    indexes: GrowingIndexes


def split_segment(
    segment: LoadedSegment, draft: Draft, settings: LoadSettings, *, keep_old: bool
) -> list[LoadedSegment]:
    """Split a segment into several segments whose indexes can express their offsets.

    The old files become `.deleted` if `keep_old`. Raises LoadFailed where the broker fails, for example if the last
    offset is not the offset that overflows.
    """
    if not segment.has_overflow():
        reason = f"Split operation is only permitted for segments with overflow, not for {segment.log_name}"
        raise LoadFailed("IllegalArgumentException", reason)
    parts = list(_parts(segment, draft, settings))
    if len({part.base_offset for part in parts}) < len(parts):
        # The files of one part would replace those of the other, and the broker would not find them.
        raise LoadFailed("NoSuchFileException", f"two parts of {segment.log_name} begin with the same offset")
    source = segment.log_name
    if keep_old:
        source += WorkState.DELETED.value
        segment.change_suffix(WorkState.DELETED)
    # The first part may have the same name as the source, so it is written last.
    return [_write(part, source, draft, settings) for part in reversed(parts)]


def _write(part: _Part, source: str, draft: Draft, settings: LoadSettings) -> LoadedSegment:
    log_name, index_name, time_index_name = (
        segment_file_name(part.base_offset, kind) for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    )
    draft.slice(log_name, source, part.position, part.size_bytes)
    draft.put(index_name, part.indexes.offset_index)
    draft.put(time_index_name, part.indexes.time_index)
    return LoadedSegment(draft, part.base_offset, settings, is_new=True)


def _parts(segment: LoadedSegment, draft: Draft, settings: LoadSettings) -> Iterator[_Part]:
    with draft.reader(segment.log_name) as log:
        reader = SegmentReader(log)
        batches = list(reader.headers())
        if reader.fault is not None:
            raise LoadFailed("CorruptRecordException", f"{segment.log_name}: {reader.fault.message}")
        row = 0
        while row < len(batches):
            first = batches[row]
            base_offset = segment.first_offset(log, first)
            indexes = GrowingIndexes(base_offset, settings.index_interval_bytes, settings.segment_index_bytes)
            # Positions in the indexes count from the start of the new file.
            moved = [batch._replace(position=batch.position - first.position) for batch in batches[row:]]
            done, error = indexes.add(BatchColumns.from_rows(moved), len(moved))
            if error is not None and not isinstance(error, SegmentOverflow):
                raise _failure(error)
            odd = next((batch.magic for batch in moved[:done] if batch.magic > MAX_MAGIC), None)
            if odd is not None:
                raise LoadFailed("CorruptRecordException", f"Invalid magic found in record: {odd}")
            if not done:
                reason = f"Failed to append records from position {first.position} in {segment.log_name}"
                raise LoadFailed("IllegalStateException", reason)
            if (failed := indexes.close()) is not None:
                raise _failure(failed)
            last = batches[row + done - 1]
            yield _Part(base_offset, first.position, last.position + last.size_bytes - first.position, indexes)
            row += done


def _failure(error: InvalidOffset | LoadFailed) -> LoadFailed:
    return error if isinstance(error, LoadFailed) else LoadFailed("InvalidOffsetException", str(error))
