"""Splits a segment whose offsets its indexes cannot express (KAFKA-6264; LocalLog.splitOverflowedSegment)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, SegmentOverflow
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.segment_writer import GrowingIndexes
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.log.reading.segment_reader import SegmentReader

MAX_MAGIC = 2


_GROUP_BATCHES = 4096
"""Batches whose headers are in memory at a time: a segment may have many millions."""


class _Part(NamedTuple):
    """A new segment: `size_bytes` of the old segment's log from byte `position` on, and the bytes of its indexes."""

    base_offset: int
    position: int
    size_bytes: int
    offset_index: bytes
    time_index: bytes


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
    draft.put(index_name, part.offset_index)
    draft.put(time_index_name, part.time_index)
    return LoadedSegment(draft, part.base_offset, settings, is_new=True)


def _parts(segment: LoadedSegment, draft: Draft, settings: LoadSettings) -> Iterator[_Part]:
    with draft.reader(segment.log_name) as log:
        whole = SegmentReader(log)
        deque(whole.headers(), maxlen=0)
        if whole.fault is not None:
            raise LoadFailed("CorruptRecordException", f"{segment.log_name}: {whole.fault.message}")
        growing: _GrowingPart | None = None
        batches = SegmentReader(log).headers()
        while group := list(islice(batches, _GROUP_BATCHES)):
            while group:
                if growing is None:
                    growing = _GrowingPart(segment.first_offset(log, group[0]), group[0].position, settings)
                done, is_full = growing.add(group)
                del group[:done]
                if is_full:
                    yield growing.close(segment.log_name)
                    growing = None
        if growing is not None:
            yield growing.close(segment.log_name)


class _GrowingPart:
    """A new segment from byte `position` of the old log on, to which batches are added. Methods raise LoadFailed."""

    def __init__(self, base_offset: int, position: int, settings: LoadSettings) -> None:
        self._base_offset = base_offset
        self._position = self._end = position
        self._indexes = GrowingIndexes(base_offset, settings.index_interval_bytes, settings.segment_index_bytes)
        self._odd_magic: int | None = None

    def add(self, batches: Sequence[Batch]) -> tuple[int, bool]:
        """Add the batches up to an offset that the indexes cannot express: (batches added, whether one is left out)."""
        # Positions in the indexes count from the start of the new file.
        moved = [batch._replace(position=batch.position - self._position) for batch in batches]
        done, error = self._indexes.add(BatchColumns.from_rows(moved), len(moved))
        if error is not None and not isinstance(error, SegmentOverflow):
            raise _failure(error)
        if self._odd_magic is None:
            self._odd_magic = next((batch.magic for batch in moved[:done] if batch.magic > MAX_MAGIC), None)
        if done:
            self._end = batches[done - 1].position + batches[done - 1].size_bytes
        return done, error is not None

    def close(self, log_name: str) -> _Part:
        """Return the part."""
        if self._odd_magic is not None:
            raise LoadFailed("CorruptRecordException", f"Invalid magic found in record: {self._odd_magic}")
        size_bytes = self._end - self._position
        if not size_bytes:
            reason = f"Failed to append records from position {self._position} in {log_name}"
            raise LoadFailed("IllegalStateException", reason)
        indexes = self._indexes
        if (failed := indexes.close()) is not None:
            raise _failure(failed)
        return _Part(self._base_offset, self._position, size_bytes, indexes.offset_index, indexes.time_index)


def _failure(error: InvalidOffset | LoadFailed) -> LoadFailed:
    return error if isinstance(error, LoadFailed) else LoadFailed("InvalidOffsetException", str(error))
