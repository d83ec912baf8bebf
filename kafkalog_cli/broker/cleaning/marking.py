"""Reads a log to find the records to remove (Cleaner.buildOffsetMap, shouldRetainRecord); writes nothing.

The dirty part is read first, to find the last record of each key. Then the keys of the records before it are looked
up. If the keys do not fit into memory, they are processed in slices, and each slice reads the log again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.choosing import places_between
from kafkalog_cli.broker.cleaning.key_table import KeySlice, KeyTable, SoughtKeys
from kafkalog_cli.broker.cleaning.log import (
    CleanableLog,
    CleanedTransactions,
    Damaged,
    SegmentChunks,
)
from kafkalog_cli.broker.cleaning.marks import Marks
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import CONTROL_MASK, DELETE_HORIZON_MASK, RECORD_BATCH_MAGIC, BatchColumns
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.log_end import entries_in_use
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Chunk

MEMORY_BYTES = 128 << 20
"""Memory for keys and marks; a broker's cleaner threads share as much (log.cleaner.dedupe.buffer.size)."""
MOST_SLICE_BITS = 20
_MARKS_PART = 8
"""The fraction 1/8 of the memory is for marks, and further marks are in a file: a mark takes 1 byte, a key about 40."""
_RECORD_BYTES = 100
"""Assumed size of a record, to estimate the number of records."""


class MarkingRequest(NamedTuple):
    """The range to clean: offsets from `first_dirty` to `first_uncleanable`, the base offset of a segment.

    Tombstones are removed if their delete horizon is `now_ms` or earlier. Batches of v0 and v1 have no horizon: their
    tombstones are removed if the mtime of the segment's log is `legacy_horizon_ms` or earlier. `memory_bytes` is for
    keys and marks. `erased`: keys whose records are all removed.
    """

    first_dirty: int
    first_uncleanable: int
    now_ms: int
    legacy_horizon_ms: int = 0
    memory_bytes: int = MEMORY_BYTES
    erased: SoughtKeys | None = None


def mark(log: CleanableLog, request: MarkingRequest) -> Marks:
    """Return the marks of all records below `request.first_uncleanable`, none if no segment is dirty.

    Raises Damaged, KafkalogError if one key exceeds the memory, and the errors of opening and reading files.
    """
    return _Marking(log, request).run()


def mark_erased(log: CleanableLog, request: MarkingRequest) -> Marks:
    """Return the marks of all records below `request.first_uncleanable`: only those with an erased key are removed.

    Raises Damaged, and the errors of opening and reading files.
    """
    return _Marking(log, request).run_on_erased()


class _Marking:
    """One call of `mark`."""

    def __init__(self, log: CleanableLog, request: MarkingRequest) -> None:
        self._log = log
        self._request = request
        marks_bytes = request.memory_bytes // _MARKS_PART
        self._keys_bytes = request.memory_bytes - marks_bytes
        self._marks = Marks(marks_bytes)
        self._reader = RecordReader(log.limits)
        self._sizes = log.sizes
        self._erased = None if request.erased is None else request.erased.finder()

    def run(self) -> Marks:
        request = self._request
        dirty = places_between(self._sizes, request.first_dirty, request.first_uncleanable)
        dirty_bytes = sum(self._sizes[at].size_bytes for at in dirty)
        slices = [KeySlice()]
        while slices and dirty:
            part = slices.pop()
            table = self._table(part)
            seen = self._read_dirty(dirty, table)
            if table.is_full:
                if part.bits >= MOST_SLICE_BITS:
                    raise KafkalogError(
                        reason=f"a key is larger than the memory for keys, {request.memory_bytes} bytes"
                    )
                slices += part.split(_bits_for(seen, dirty_bytes))
                continue
            self._read_clean(table)
        self._marks.end_offset = request.first_uncleanable if dirty else 0
        return self._marks

    def run_on_erased(self) -> Marks:
        marks, finder = self._marks, self._erased
        assert finder is not None
        for segment in self._log.segments:
            if segment.base_offset < self._request.first_uncleanable:
                for block, place, _ in self._blocks(segment, None, 0):  # records of aborted transactions too
                    marks.reach(place + block.record_count)
                    marks.erase(place + row for row in finder.rows(block))
        marks.end_offset = self._request.first_uncleanable
        return marks

    def _table(self, part: KeySlice) -> KeyTable:
        return KeyTable(self._marks, self._keys_bytes, part)

    # -- the dirty part

    def _read_dirty(self, places: range, table: KeyTable) -> int:
        """Add the keys of the dirty segments to `table`.

        Returns the number of bytes read when the table became full, 0 if it has all keys.
        """
        request, segments = self._request, self._log.segments
        tracker = CleanedTransactions()
        tracker.expect(self._log.aborted_from(request.first_dirty))
        for at in places:
            segment = segments[at]
            start = _index_floor(self._log, segment, request.first_dirty)
            for block, place, read in self._blocks(segment, tracker, start):
                self._take(segment, block, place, table)
                if table.is_full:
                    return sum(self._sizes[before].size_bytes for before in places if before < at) + read
        return 0

    def _take(self, segment: Segment, block: RecordBlock, place: int, table: KeyTable) -> None:
        """Add the records of a block to `table` and mark them; `place` is the position of the first mark."""
        count = block.record_count
        self._marks.reach(place + count)
        table.put(block, _row_of(block, self._request.first_dirty), count, place)
        if not table.is_full:
            self._note(segment, block, count, place)

    # -- the clean part

    def _read_clean(self, table: KeyTable) -> None:
        """Look up the keys of the records below the first dirty offset, and mark these records."""
        first_dirty = self._request.first_dirty
        for segment in self._log.segments:
            is_dirty = segment.base_offset >= first_dirty
            if is_dirty and not SegmentChunks(self._log, segment).begins_below(first_dirty):
                break
            for block, place, _ in self._blocks(segment, None, 0):
                if not block.begun and block.batches.base_offset[block.first_row] >= first_dirty:
                    break
                self._marks.reach(place + block.record_count)
                before = _row_of(block, first_dirty)
                table.mark_older(block, 0, before, place)
                self._note(segment, block, before, place)
            if is_dirty and segment.log.size_bytes:
                break

    # -- both

    def _blocks(
        self, segment: Segment, tracker: CleanedTransactions | None, track_from: int
    ) -> Iterator[tuple[RecordBlock, int, int]]:
        """Yield the blocks to be marked, with the position of the first mark and the end of the chunk in the log.

        Control batches and aborted batches are skipped. Their marks are those of kept records, because the cleaner
        decides about these batches by other rules.
        """
        place = self._marks.start_of(segment.base_offset)
        rows = partial(self._rows, segment, tracker, track_from)
        for chunk, blocks in SegmentChunks(self._log, segment).with_blocks(rows):
            batches, row, end = chunk.batches, 0, chunk.position + len(chunk.view)
            for block in blocks:
                if not block.begun:
                    first = bisect_left(batches.position, block.batches.position[block.first_row], row)
                    place = self._pass_over(batches, row, first, place)
                    row = first + block.end_row - block.first_row
                yield block, place, end
                place += block.record_count
            place = self._pass_over(batches, row, len(batches), place)

    def _rows(
        self, segment: Segment, tracker: CleanedTransactions | None, track_from: int, chunk: Chunk
    ) -> list[tuple[int, int]]:
        """Return the ranges of rows of a chunk whose records are to be read."""
        found, first = [], 0
        unkeyed: Iterable[int]
        if tracker is None:
            batches = chunk.batches
            unkeyed = (row for row in batches.in_transactions() if batches.attributes[row] & CONTROL_MASK)
        else:
            unkeyed = tracker.unkeyed_rows(self._reader, chunk, segment.log.path, track_from)
        for row in unkeyed:
            found.append((first, row))
            first = row + 1
        return [(begin, end) for begin, end in (*found, (first, len(chunk.batches))) if begin < end]

    def _pass_over(self, batches: BatchColumns, first: int, end: int, place: int) -> int:
        """Create the marks of batches that are not read; return the position after these marks."""
        place += sum(int(batches.records_count[row]) for row in range(first, end))
        self._marks.reach(place)
        return place

    def _note(self, segment: Segment, block: RecordBlock, known: int, place: int) -> None:
        """Mark the tombstones and the removed records of a block.

        Records with erased keys are removed. Among the first `known` records, expired tombstones and records without
        a key are removed too.
        """
        marks, request = self._marks, self._request
        marks.note(block, 0, known, place, counts=True)
        marks.note(block, known, block.record_count, place, counts=False)
        is_old = segment.log.mtime_ms <= request.legacy_horizon_ms
        for first, end in _expired(block, request.now_ms, is_old=is_old):
            marks.expire(place + first, place + min(end, known))
        if self._erased is not None:
            marks.erase(place + row for row in self._erased.rows(block))


def _index_floor(log: CleanableLog, segment: Segment, offset: int) -> int:
    """Return the position at which a broker begins to read a segment for `offset`. Raises Damaged."""
    if segment.offset_index is None:
        return 0
    index, faults = entries_in_use(log.fs, segment.offset_index.path, OffsetIndex, segment.base_offset)
    position = index.lookup(offset).position
    for fault in faults:
        raise Damaged(segment.offset_index.path, fault)
    if not 0 <= position <= segment.log.size_bytes:
        message = f"position {position} is not in the log"
        raise Damaged(segment.offset_index.path, Fault(FaultKind.INVALID_ENTRY, 0, message))
    return position


def _row_of(block: RecordBlock, offset: int) -> int:
    """Return the first row of a block with at least `offset`; offsets ascend."""
    return bisect_left(block.records.offset, offset)


def _expired(block: RecordBlock, now_ms: int, *, is_old: bool) -> Iterator[tuple[int, int]]:
    """Yield the rows of batches whose tombstones have expired, as ranges; `is_old`: includes batches of v0 and v1."""
    for at in _rows_with_horizon(block, with_legacy=is_old):
        batch = block.batches.row(block.first_row + at)
        horizon_ms = batch.delete_horizon_ms
        if (batch.magic < 2 and is_old) or (horizon_ms is not None and horizon_ms <= now_ms):
            yield int(block.record_ends[at - 1]) if at else 0, int(block.record_ends[at])


def _rows_with_horizon(block: RecordBlock, *, with_legacy: bool) -> list[int]:
    """Return the batches of a block with a delete horizon, and with `with_legacy` those of v0 and v1.

    A batch is given by its position in the block.
    """
    batches, modern = block.batches.part(block.first_row, block.end_row), RECORD_BATCH_MAGIC if with_legacy else 0
    return rows_where(
        lambda bits, magic: (bits & DELETE_HORIZON_MASK != 0) | (magic < modern), batches.attributes, batches.magic
    )


def _bits_for(read_bytes: int, all_bytes: int) -> int:
    """Return the number of bits that split the keys into slices that may fit, 1 to 6.

    The table was full after `read_bytes` of `all_bytes`.
    """
    return max(1, min(6, (all_bytes // max(1, read_bytes)).bit_length()))
