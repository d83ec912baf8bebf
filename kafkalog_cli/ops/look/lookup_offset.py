"""Look up a record of one partition by offset: the record, its batch, and how it was found; read one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import InRemoteStorage, OffsetOutOfRange
from kafkalog_cli.format.batch import NO_OFFSET, NO_TIMESTAMP, Batch
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.index import OffsetIndexEntry, TimeIndexEntry
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import OUTSIDE, Record, RecordBlock
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.log.segment_search import SegmentIndexes, StartingPoint
from kafkalog_cli.ops.ranges import Range, cut
from kafkalog_cli.results import ABSENT, GIVEN, NOT_GIVEN, SOMETIMES, Before, Count, Hidden, PathName, of, result

OF_SEVERAL = "in the answer for one of several partitions"


class Found(NamedTuple):
    """The result of a look-up.

    `block` holds the one record. It is None if a batch was requested, or if the record cannot be read. `start` is
    the index entry that was used, or the position where the search started and why. `time_entry` is the time index
    entry used in a look-up by time. `notes` are remarks for the user.
    """

    segment: Segment
    start: StartingPoint
    batch: Batch
    block: RecordBlock | None
    notes: tuple[str, ...] = ()
    time_entry: TimeIndexEntry | None = None

    @property
    def record(self) -> Record | None:
        """The record, if a record was requested and could be read, else None."""
        return None if self.block is None else next(self.block.rows())

    @property
    def record_offset(self) -> int | None:
        """The offset of the record, None without a record; its key and value, which may be large, are not copied."""
        return None if self.block is None else int(self.block.records.offset[0])

    @property
    def record_timestamp(self) -> int | None:
        """The timestamp of the record in ms, None without a record."""
        return None if self.block is None else int(self.block.records.timestamp[0])

    def noted(self, *notes: str) -> Found:
        """Return the result with more notes."""
        return self._replace(notes=(*self.notes, *notes))


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """The header of a batch."""

    batch: Hidden[Batch]
    base_offset: ClassVar[Annotated[int | None, "null for a compressed message set whose records were not read"]] = of(
        lambda found: None if found.batch.base_offset == NO_OFFSET else found.batch.base_offset
    )
    last_offset: ClassVar[int] = of("batch.last_offset")
    position: ClassVar[Annotated[Count, "the byte of the segment"]] = of("batch.position")
    size: ClassVar[Annotated[Count, "in bytes, with the header"]] = of("batch.size_bytes")
    magic: ClassVar[int] = of("batch.magic")
    crc_valid: ClassVar[Annotated[bool | None, "null if it was not checked"]] = of(
        lambda found: None if found.batch.valid < 0 else bool(found.batch.valid)
    )


@result("kafkalog.lookup/1")
@dataclass(frozen=True, slots=True)
class LookupRecord:
    """An answer of lookup-offset or lookup-time: a record with its batch, or an offset."""

    found: Hidden[Found]
    topic: ClassVar[Annotated[str | None, SOMETIMES, OF_SEVERAL]] = NOT_GIVEN
    partition: ClassVar[Annotated[int | None, SOMETIMES, OF_SEVERAL]] = NOT_GIVEN
    path: ClassVar[Annotated[PathName, "the segment"]] = of("found.segment.log.path")
    record: ClassVar[
        Annotated[dict[str, Any] | None, "a kafkalog.record/1; null if only a batch was requested or readable"]
    ] = GIVEN
    batch: ClassVar[FoundBatch] = of(lambda answer: FoundBatch(answer.found.batch))
    index_entry: ClassVar[Annotated[OffsetIndexEntry | None, "the entry of the offset index that was used"]] = of(
        "found.start.entry"
    )
    time_index_entry: ClassVar[Annotated[TimeIndexEntry | None, "the entry of the time index that was used"]] = of(
        "found.time_entry"
    )
    notes: ClassVar[Annotated[tuple[str, ...], "oddities of the answer"]] = of("found.notes")
    how: ClassVar[Annotated[str, "a sentence"]] = GIVEN
    broker_offset: ClassVar[Annotated[int | None, SOMETIMES, "a broker's answer if it differs; -1: no such record"]] = (
        NOT_GIVEN
    )
    broker_error: ClassVar[Annotated[str, SOMETIMES, "the error of a broker's answer"]] = NOT_GIVEN


@result("kafkalog.lookup/1")
@dataclass(frozen=True, slots=True)
class LookupOffset:
    """An answer that is an offset."""

    offset: Annotated[int | None, "null if one of several partitions has no such record"]
    offsets: Annotated[Sequence[int] | None, ABSENT, "for --before with several partitions"] = None
    high_watermark: Annotated[int | None, ABSENT, "from the checkpoint"] = None
    notes: Annotated[Sequence[str] | None, ABSENT, "oddities of the answer"] = None
    topic: ClassVar[Annotated[str | None, SOMETIMES, Before("offset"), OF_SEVERAL]] = NOT_GIVEN
    partition: ClassVar[Annotated[int | None, SOMETIMES, Before("offset"), OF_SEVERAL]] = NOT_GIVEN


def lookup_offset(
    fs: Filesystem, partition: Partition, offset: int, *, batch_only: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Found:
    """Return the record at `offset`, or the next one if compaction or a marker left a gap (UnifiedLog.read).

    `batch_only`: return the first batch that ends at or above `offset`, as a fetch begins with it. Raises
    OffsetOutOfRange outside of the log, and as `open_read` does.
    """
    bounds = partition.bounds
    if not bounds.start <= offset < bounds.end:
        if bounds.is_remote(offset):
            what = f"offset {offset}"
            raise InRemoteStorage(path=partition.path, what=what, first=bounds.start, last=_last(bounds))
        raise _outside(partition, f"offset {offset}", bounds)
    at = max((i for i, segment in enumerate(partition.segments) if segment.base_offset <= offset), default=0)
    notes: list[str] = []
    for segment in partition.segments[at:]:
        answer = _in_segment(fs, segment, offset, batch_only, limits, notes)
        if answer is not None:
            return with_remarks(answer, partition, bounds, offset)
    raise _outside(partition, f"offset {offset} ({'; '.join(notes) or 'no record'})", bounds)


def with_remarks(answer: Found, partition: Partition, bounds: LogBounds, offset: int | None = None) -> Found:
    """Return the result with remarks on its place in the log; `offset` is the offset that was looked up."""
    block = answer.block
    reached = answer.batch.last_offset if block is None else int(block.records.offset[0])
    notes = []
    if offset is not None and block is not None and reached != offset:
        notes.append(f"no record has offset {offset}: this is the next one")
    if block is not None and answer.batch.is_control:
        notes.append("a control record: consumers never see it")
    if bounds.broker_end is not None and reached >= bounds.broker_end:
        notes.append(f"a broker uses {bounds.broker_end} as the end of the log: it does not find this record")
    elif bounds.high_watermark is not None and reached >= bounds.high_watermark:
        notes.append(f"at or above the high watermark {bounds.high_watermark}: consumers do not see it yet")
    if any(file.name.state is WorkState.SWAP and file.name.kind is FileKind.LOG for file in partition.leftovers):
        notes.append("there are .swap files: a broker that starts puts them in the place of segments first")
    return answer.noted(*notes)


def _outside(partition: Partition, what: str, bounds: LogBounds) -> OffsetOutOfRange:
    return OffsetOutOfRange(path=partition.path, what=what, first=bounds.start, last=_last(bounds))


def _last(bounds: LogBounds) -> int | str:
    return bounds.end - 1 if bounds.end > bounds.start else "nothing: the log is empty"


def _in_segment(  # noqa: PLR0913, PLR0917 the search's state
    fs: Filesystem, segment: Segment, offset: int, batch_only: bool, limits: Limits, notes: list[str]
) -> Found | None:
    with fs.open_read(segment.log.path) as log:
        if segment.is_v07:
            return _in_seven(log, segment, offset, limits)
        start = SegmentIndexes(fs, segment).before_offset(log, offset)
        reader = Headers(log, start=start.position)
        for header in reader:
            if header.last_offset < offset:
                continue
            if batch_only:
                return Found(segment, start, checked_batch(log, header, limits), None, tuple(notes))
            block, fault = first_record(log, header, limits, Range(from_offset=offset))
            if block is not None:
                return Found(segment, start, block.batches.row(block.first_row), block, tuple(notes))
            if fault is not None:
                reason = f"its records cannot be read: {fault.message}"
                return Found(segment, start, checked_batch(log, header, limits), None, (*notes, reason))
        if reader.fault is not None:
            notes.append(f"{segment.log.path} is damaged at byte {reader.end_position}: {reader.fault.message}")
    return None


def _in_seven(log: ReadableFile, segment: Segment, offset: int, limits: Limits) -> Found | None:
    """Find a message in a 0.7 segment, where offsets are byte positions and there are no indexes."""
    decoder = RecordReader(limits)
    for chunk in Scan(log, limits=limits, v07_base_offset=segment.base_offset):
        for row, batch in enumerate(chunk.batches.rows()):
            if batch.base_offset >= offset:
                for block in decoder.blocks(chunk, row, row + 1):
                    first = cut(block, Range(), 1)
                    return Found(segment, StartingPoint(0), batch, first if len(first.records) else None)
    return None


def first_record(
    log: ReadableFile, header: Batch, limits: Limits, wanted: Range
) -> tuple[RecordBlock | None, Fault | None]:
    """Return the first record of a batch in a range, alone in its block, or the fault that prevents reading it."""
    reader = Scan.of_batch(log, header, limits)
    for block in reader.blocks():
        first = cut(block, wanted, 1)
        if len(first.records):
            if OUTSIDE in first.records.value_position:
                reason = "the message is shorter than the length of its value"
                return None, Fault(FaultKind.INVALID_RECORD, header.position, reason, header.size_bytes)
            return replace(first, begun=0, goes_on=False), None
        for fault in block.faults.values():
            return None, fault
    return None, reader.fault


def checked_batch(log: ReadableFile, header: Batch, limits: Limits) -> Batch:
    """Return the batch with its CRC checked; unchanged if the batch cannot be loaded."""
    return next((batches.row(0) for batches in Scan.of_batch(log, header, limits).batches()), header)


def largest_timestamp_in(log: ReadableFile, header: Batch, limits: Limits) -> int:
    """Return the largest timestamp, in ms, among the readable records of a batch; -1 if none."""
    blocks = Scan.of_batch(log, header, limits).blocks()
    return max((int(timestamp) for block in blocks for timestamp in block.records.timestamp), default=NO_TIMESTAMP)
