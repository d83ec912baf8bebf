"""Writes the records of a log that stay, by their marks (Cleaner.cleanInto, MemoryRecords.filterTo).

Batches that stay whole are copied, and batches without a remaining record are skipped. Only other batches are decoded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.cleaning.choosing import group_segments
from kafkalog_cli.broker.cleaning.log import (
    CleanableLog,
    CleanedTransactions,
    Damaged,
    SegmentChunks,
    sound,
    type_of_control,
)
from kafkalog_cli.broker.cleaning.marks import (
    GONE,
    NO_CAUSES,
    OF_ABORTED,
    OF_CONTROL,
    TOMBSTONE,
    Causes,
    Marks,
    causes_of,
)
from kafkalog_cli.broker.cleaning.output import CleanedSegment, CleanedSegments, FileMaker, IndexLimits
from kafkalog_cli.format.batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    NO_SEQUENCE,
    RECORD_BATCH_MAGIC,
    TIMESTAMP_TYPE_MASK,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.batch_encoder import BatchEncoder, EncodedBatches, WantedBatches
from kafkalog_cli.format.columns import Octets, any_row
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.records import OUTSIDE, RecordBlock, RecordColumns
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Chunk
from kafkalog_cli.results import of

_NO_RECORDS = RecordColumns.from_rows([])


class CleaningRequest(NamedTuple):
    """Settings of a cleaning: the current time, delete.retention.ms, limits of segments, state of producers by id.

    `first_uncleanable` ends the round. The batch that ends just below `retained_end` stays, empty if necessary, to keep
    the offset: the high watermark since Kafka 4.4, before that the end of the round. `only_erases`: batches stay byte
    for byte unless marks remove a record of theirs, each segment becomes one, and nothing is removed for transactions.
    """

    now_ms: int
    delete_retention_ms: int
    first_uncleanable: int
    segment_bytes: int
    indexes: IndexLimits
    producers: Mapping[int, ProducerEntry]
    retained_end: int
    only_erases: bool = False


class CleanedGroup(NamedTuple):
    """A group of segments, given by their base offsets, and the segments that replace them."""

    sources: tuple[int, ...]
    segments: tuple[CleanedSegment, ...]


@dataclass(slots=True)
class CleaningCounts:
    """Result of a cleaning in records, batches and bytes."""

    records_read: int = 0
    records_kept: int = 0
    records_without_key: ClassVar[Annotated[int, "removed records without a key"]] = of("causes.keyless")
    causes: Annotated[Causes, "the removed records by cause"] = NO_CAUSES
    bytes_read: Annotated[int, "sizes of the logs before"] = 0
    bytes_written: Annotated[int, "sizes of the logs after"] = 0
    batches_copied: Annotated[int, "batches that stay byte for byte"] = 0
    batches_rewritten: Annotated[int, "batches that lose records, or get a delete horizon or a newer format"] = 0
    batches_emptied: Annotated[int, "batches that stay without records"] = 0
    batches_gone: Annotated[int, "removed batches"] = 0
    lost_ends: Annotated[
        int, "removed messages of old formats at the end of a round, where a broker's cleaner fails"
    ] = 0


class _Fate(IntEnum):
    """How the cleaner treats a batch."""

    COPY = 0
    REWRITE = 1
    EMPTY = 2
    DROP = 3


class Cleaner:
    """Cleans the segments of a log up to the end offset of `marks`, group by group: iterate over `groups`."""

    def __init__(self, log: CleanableLog, marks: Marks, request: CleaningRequest, files: FileMaker) -> None:
        self.counts = CleaningCounts()
        self._log = log
        self._marks = marks
        self._request = request
        self._files = files
        self._reader = RecordReader(log.limits)
        self._encoder = BatchEncoder()
        self._transactions = CleanedTransactions()
        self._out: CleanedSegments
        self._set_ends: dict[int, int] = {}  # of the marks of a chunk's compressed message sets, by their positions
        self._horizon_ms = request.now_ms + request.delete_retention_ms

    def groups(self) -> Iterator[CleanedGroup]:
        """Write the new segments of each group. Raises Damaged, and errors of opening, reading and writing files."""
        log, request = self._log, self._request
        self._transactions.expect(log.aborted_from(0))
        sizes = [size for size in log.sizes if size.base_offset < self._marks.end_offset]
        index_bytes = request.indexes.segment_index_bytes
        if request.only_erases:
            groups = [range(at, at + 1) for at in range(len(sizes))]
        else:
            groups = group_segments(sizes, request.segment_bytes, index_bytes, request.first_uncleanable)
        for places in groups:
            segments = [log.segments[at] for at in places]
            mtime_ms = segments[-1].log.mtime_ms
            self._out = CleanedSegments(self._files, segments[0].base_offset, request.indexes, mtime_ms)
            for segment in segments:
                if request.only_erases:
                    self._out.note_aborted(log.aborted_in(segment))
                self._clean(segment)
                if self._out.is_all_below:  # a broker's cleaner writes each segment's records at once
                    message = (
                        "the cleaned records have offsets below the segment's base offset: a broker's"
                        " cleaner gives up here, too"
                    )
                    raise Damaged(segments[0].log.path, Fault(FaultKind.INVALID_ENTRY, 0, message))
            yield CleanedGroup(tuple(segment.base_offset for segment in segments), tuple(self._out.close()))

    def _clean(self, segment: Segment) -> None:
        place = self._marks.start_of(segment.base_offset)
        self.counts.bytes_read += segment.log.size_bytes
        for chunk in SegmentChunks(self._log, segment):
            place = self._clean_chunk(segment, chunk, place)

    def _clean_chunk(self, segment: Segment, chunk: Chunk, place: int) -> int:
        """Write the kept records of a chunk, whose first mark is at `place`; return the position after its marks."""
        import numpy as np

        batches, only_erases = chunk.batches.arrays(), self._request.only_erases
        counts = batches.records_count
        sets = np.flatnonzero(counts < 0).tolist()  # compressed message sets, whose headers have no count of records
        if sets:
            counts = counts.copy()
            counts[sets] = [
                sum(block.record_count for block in self._blocks(segment, chunk, row, row + 1)) for row in sets
            ]
        ends = np.cumsum(counts)
        begins, total = ends - counts, int(ends[-1])
        self._set_ends = {int(batches.position[row]): place + int(ends[row]) for row in sets}
        marks = bytearray(self._marks.part(place, place + total))
        aborts = {} if only_erases else self._mark_transactions(segment, chunk, marks, begins.tolist())
        found = np.frombuffer(marks, dtype=np.uint8)
        kept, tombstones = (
            sums[ends] - sums[begins]
            for sums in (np.concatenate(([0], np.cumsum(each))) for each in (found & GONE == 0, found == TOMBSTONE))
        )
        lacks_horizon = (tombstones > 0) & (batches.attributes & DELETE_HORIZON_MASK == 0)
        is_rewritten = lacks_horizon | (batches.magic < RECORD_BATCH_MAGIC) & np.bool_(not only_erases)
        fates = np.where((kept == counts) & ~is_rewritten, _Fate.COPY, _Fate.REWRITE)
        fates[(kept == 0) & ((counts > 0) | np.bool_(not only_erases))] = _Fate.DROP
        may_stay = (batches.producer_id >= 0) | (batches.last_offset + 1 == self._request.retained_end)
        for row in np.flatnonzero((fates == _Fate.DROP) & may_stay).tolist():
            if self._is_retained(chunk.batches.row(row)):
                fates[row] = _Fate.EMPTY
        self._count(total, int(kept.sum()), marks)
        edges = {0, *(np.flatnonzero(np.diff(fates)) + 1).tolist(), *(row + 1 for row in aborts), len(fates)}
        for first, end in pairwise(sorted(edges)):
            self._do(segment, chunk, (first, end), place + int(begins[first]), _Fate(fates[first]))
            self._out.note_aborted(aborts.get(end - 1, ()))
        return place + total

    # -- deciding

    def _mark_transactions(
        self, segment: Segment, chunk: Chunk, marks: bytearray, begins: list[int]
    ) -> dict[int, Sequence[AbortedTxn]]:
        """Change the `marks` of the batches for which transactions decide: control batches and aborted batches.

        A removable control batch is marked as a tombstone: it gets a delete horizon, and goes after it. Returns the
        aborted transactions that stay, by the row of their control batch.
        """
        batches = chunk.batches
        aborts: dict[int, Sequence[AbortedTxn]] = {}
        for row, batch in zip(batches.in_transactions(), batches.of_transactions(), strict=True):
            if batch.is_control:
                control_type = type_of_control(self._reader, chunk, row, batch, segment.log.path)
                may_go = self._transactions.pass_control(batch, control_type)
                horizon_ms = batch.delete_horizon_ms
                is_over = may_go and horizon_ms is not None and horizon_ms <= self._request.now_ms
                mark = GONE | OF_CONTROL if is_over else TOMBSTONE if may_go else 0
                aborted = self._transactions.take_kept()
                if aborted:
                    aborts[row] = aborted
            elif self._transactions.pass_data(batch.last_offset, batch.producer_id, is_transactional=True):
                mark = GONE | OF_ABORTED
            else:
                continue
            end = begins[row] + batch.records_count
            marks[begins[row] : end] = bytes([mark]) * batch.records_count
        return aborts

    def _count(self, records: int, kept: int, marks: bytes | bytearray) -> None:
        """Count records that were read, of which `kept` stay, and the causes of the others."""
        self.counts.records_read += records
        self.counts.records_kept += kept
        if kept < records:
            self.counts.causes = self.counts.causes.plus(causes_of(marks))

    def _is_retained(self, batch: Batch) -> bool:
        """Whether a batch stays, as an empty batch, although none of its records stay."""
        if batch.last_offset + 1 == self._request.retained_end:
            if batch.magic >= 2:
                return True
            self.counts.lost_ends += 1
            return False
        last = self._request.producers.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    # -- writing

    def _do(self, segment: Segment, chunk: Chunk, rows: tuple[int, int], place: int, fate: _Fate) -> None:
        """Apply `fate` to the batches in `rows`, whose first mark is at `place`."""
        first, end = rows
        if first == end:
            return
        counts, count = self.counts, end - first
        if fate is _Fate.COPY:
            counts.batches_copied += count
            self._copy(chunk, first, end)
        elif fate is _Fate.REWRITE:
            counts.batches_rewritten += count
            self._rewrite(segment, chunk, first, end, place)
        elif fate is _Fate.EMPTY:
            counts.batches_emptied += count
            wanted = WantedBatches(chunk.batches.part(first, end), (0,) * count, (0,) * count)
            made = self._encoder.encode(memoryview(b""), _NO_RECORDS, wanted, self._out.position)
            self._write(made.data, made.batches)
        else:
            counts.batches_gone += count

    def _write(self, data: memoryview, batches: BatchColumns) -> None:
        self.counts.bytes_written += len(data)
        self._out.write(data, batches)

    def _copy(self, chunk: Chunk, first: int, end: int) -> None:
        batches = chunk.batches.part(first, end)
        begin, last = batches.position[0] - chunk.position, batches.end_position - chunk.position
        self._write(chunk.view[begin:last], batches.move_to(self._out.position))

    def _blocks(self, segment: Segment, chunk: Chunk, first: int, end: int) -> Iterator[RecordBlock]:
        return sound(self._reader.blocks(chunk, first, end), segment.log.path)

    def _rewrite(self, segment: Segment, chunk: Chunk, first: int, end: int, place: int) -> None:
        """Encode batches again: some records are removed, or a delete horizon is set, or v0 and v1 become v2."""
        large = _LargeBatch(self._encoder)
        for block in self._blocks(segment, chunk, first, end):
            keep = self._keep(block, place)
            _check_values(segment, block, keep)
            if block.begun or block.goes_on:
                if any(keep):
                    large.add(block, keep, large.header or self._headers(block, place, keep)[0])
                if block.goes_on:
                    place += block.record_count
                    continue
                made = large.finish(self._out.position)
                large = _LargeBatch(self._encoder)
            else:
                ends = block.record_ends.tolist()
                headers = self._unchanged(block, place)
                if headers is None:
                    headers = BatchColumns.from_rows(self._headers(block, place, keep))
                wanted = WantedBatches(headers, [0, *ends[:-1]], ends, keep)
                made = self._encoder.encode(block.buffer, block.records, wanted, self._out.position)
            place += block.record_count
            self._write(made.data, made.batches)

    def _keep(self, block: RecordBlock, place: int) -> bytes | bytearray:
        """Return a byte per record of a block, whose first mark is at `place`: 1 if the record stays, else 0."""
        return self._marks.part(place, place + block.record_count).translate(_STAYS)

    def _unchanged(self, block: RecordBlock, place: int) -> BatchColumns | None:
        """Return the headers of a block of whole batches if none of them changes, else None."""
        batches = block.batches.part(block.first_row, block.end_row)
        if any_row(lambda bits, magic: (bits & CONTROL_MASK != 0) | (magic < 2), batches.attributes, batches.magic):
            return None
        _, tombstones = self._marks.kept(place, place + block.record_count)
        return None if tombstones else batches

    def _headers(self, block: RecordBlock, place: int, keep: Sequence[int] | Octets) -> list[Batch]:
        """Return the headers of the block's batches after rewriting; for a large batch, from its first kept part."""
        found, begin = [], 0
        for batch, record_end in zip(
            block.batches.rows(block.first_row, block.end_row), block.record_ends, strict=True
        ):
            end = int(record_end)
            header = batch if batch.magic >= 2 else _of_today(batch, block, keep, begin, end)
            start = place + begin - block.begun
            behind = self._set_ends.get(batch.position, start + batch.records_count)
            # A control batch is rewritten only to set its delete horizon.
            wants_one = batch.is_control or self._marks.kept(start, behind)[1] > 0
            if wants_one and batch.delete_horizon_ms is None:
                bits = header.attributes | DELETE_HORIZON_MASK
                header = header._replace(attributes=bits, base_timestamp=self._horizon_ms)
            found.append(header)
            begin = end
        return found


def _check_values(segment: Segment, block: RecordBlock, keep: Sequence[int] | Octets) -> None:
    """Raise Damaged if a kept message v0 or v1 is shorter than the length of its value (LegacyRecord.value throws)."""
    if block.is_usual or OUTSIDE not in block.records.value_position:
        return
    for row, position in enumerate(block.records.value_position):
        if position == OUTSIDE and keep[row]:
            batch = block.batches.row(block.first_row + bisect_right(block.record_ends, row))
            what = f"the message of offset {block.records.offset[row]} is shorter than the length of its value"
            raise Damaged(segment.log.path, Fault(FaultKind.INVALID_RECORD, batch.position, what, batch.size_bytes))


class _LargeBatch:
    """A batch whose records come in several blocks."""

    def __init__(self, encoder: BatchEncoder) -> None:
        self.header: Batch | None = None
        self._encoder = encoder
        self._bodies: list[bytes] = []

    def add(self, block: RecordBlock, keep: Sequence[int] | Octets, header: Batch) -> None:
        """Add the kept records of a part, at least one; `header` is the header after the previous parts."""
        is_first = self.header is None
        base_timestamp = None if is_first else header.base_timestamp
        made, body = self._encoder.body(block.buffer, block.records, header, keep=keep, base_timestamp=base_timestamp)
        self._bodies.append(body)
        last_row = max(row for row in range(block.record_count) if keep[row])
        is_old = block.batches.magic[block.first_row] < 2
        self.header = header._replace(
            base_timestamp=made.base_timestamp,
            max_timestamp=made.max_timestamp if is_first else max(made.max_timestamp, header.max_timestamp),
            last_offset=int(block.records.offset[last_row]) if is_old else header.last_offset,
            records_count=made.records_count + (0 if is_first else header.records_count),
        )

    def finish(self, position: int) -> EncodedBatches:
        """Return the encoded batch, for `position` in its file."""
        assert self.header is not None
        return self._encoder.finish(self.header, self._bodies, position)


_STAYS = bytes((mark & GONE) ^ GONE for mark in range(256))


def _of_today(batch: Batch, block: RecordBlock, keep: Sequence[int] | Octets, begin: int, end: int) -> Batch:
    """Return the v2 header for the kept records of a message or compressed message set of v0 or v1."""
    rows = [row for row in range(begin, end) if keep[row]]
    append_time = TIMESTAMP_TYPE_MASK if batch.is_log_append_time else 0
    return batch._replace(
        base_offset=int(block.records.offset[rows[0]]),
        last_offset=int(block.records.offset[rows[-1]]),
        leader_epoch=_NONE,
        attributes=batch.codec | append_time,
        producer_id=_NONE,
        producer_epoch=_NONE,
        base_sequence=NO_SEQUENCE,
    )


_NONE = -1
