"""Read a partition as a consumer, by segments or as fetches of whole batches; damage is reported and skipped."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.format.batch import RECORD_BATCH_MAGIC, Batch, BatchColumns
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.legacy import incomplete_end
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.records import OUTSIDE, RecordBlock
from kafkalog_cli.log.open_transactions import SegmentPart
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.records import Work, records
from kafkalog_cli.log.reading.scan import Chunk, DamagePolicy, Rows, Scan
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.choices import Isolation
from kafkalog_cli.ops.damage import DamageSeen, refused_by_clients
from kafkalog_cli.ops.look.read.request import NO_END, ReadRequest, Start, first_offset
from kafkalog_cli.ops.look.read.visible import Committed, Visibility, VisibleChunk
from kafkalog_cli.ops.ranges import Range, begins_below, cut, rows_in_range, window

RowsToRead = Callable[[Chunk, list[Rows]], list[Rows]]
"""Returns which of some batches of a chunk to decode. It may be called in another thread."""


class LogRead:
    """One reading of a partition.

    Iterate over `segments` in order, and for each segment over its blocks or chunks to the end. `notes` collects
    remarks, and `shown_records` counts the records. With a limited number of records, `shown_end` is the offset after
    the last one shown. `rows_to_read` leaves batches out before they are decoded. Raises as `first_offset` does.
    """

    def __init__(
        self,
        fs: Filesystem,
        partition: Partition,
        request: ReadRequest,
        *,
        rows_to_read: RowsToRead | None = None,
    ) -> None:
        self.partition = partition
        self.request = request
        self.bounds = partition.bounds
        self.first_offset = first_offset(fs, partition, request)
        self.end_offset = NO_END if request.to_offset is None else request.to_offset
        self.notes: deque[Note] = deque()
        self.shown_records = 0
        self.shown_end = self.first_offset
        self.is_stuck = False
        self.codes: list[ExitCode] = []
        self.fs = fs
        self.rows_to_read = rows_to_read
        self._visibility: Visibility | None = None
        self._committed: Committed | None = None
        self._note_bounds()

    @property
    def next_offset(self) -> int:
        """The offset that a consumer would request next."""
        if self.is_enough:
            return self.shown_end
        return self.first_offset if self._visibility is None else self._visibility.next_offset

    @property
    def last_stable_offset(self) -> int | None:
        """The first offset of the open transaction at which read_committed ends; None if there was none."""
        return None if self._committed is None else self._committed.last_stable_offset

    def segments(self) -> Generator[SegmentRead, None, None]:
        """Yield the segments that contain offsets of the range.

        The last of them may have a base offset above the range's end and still contain lower offsets.
        """
        segments = self.partition.segments
        try:
            for number, segment in enumerate(segments):
                following = segments[number + 1].base_offset if number + 1 < len(segments) else None
                if following is not None and following <= self.first_offset:
                    continue
                is_above = segment.base_offset >= self.end_offset
                if self.is_over or (is_above and self.next_offset >= self.end_offset):
                    return
                if not is_above or begins_below(self.fs, segment, self.end_offset):
                    yield SegmentRead(self, segment, following)
                if is_above and segment.log.size_bytes:
                    return
        finally:
            if self._committed is not None:
                self._committed.close()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is read."""
        return self.is_enough or self.is_stuck or (self._visibility is not None and self._visibility.is_over)

    @property
    def is_enough(self) -> bool:
        """Whether the requested number of records has been shown."""
        return self.request.max_records is not None and self.shown_records >= self.request.max_records

    def visibility(self, segment: Segment, position: int) -> Visibility:
        """Return the filter of batches; its first batches are those of `segment` from byte `position` on."""
        if self._visibility is None:
            if self.request.isolation is Isolation.READ_COMMITTED:
                rest = [later for later in self.partition.segments if later.base_offset > segment.base_offset]
                parts = [SegmentPart(segment, position), *(SegmentPart(later, 0) for later in rest)]
                self._committed = Committed(
                    self.fs, self.partition, parts, self.first_offset, self.bounds.end, self.request.limits,
                    self.notes,
                )  # fmt: skip
            self._visibility = Visibility(
                self.first_offset, self.end_offset, self._committed, with_control=self.request.with_control
            )
        return self._visibility

    def _note_bounds(self) -> None:
        bounds, path = self.bounds, self.partition.path
        if bounds.remote_start is not None and self.request.start is Start.EARLIEST:
            self.notes.append(Note("remote-storage", f"left out: {bounds.remote_offsets}", path))
        if bounds.broker_end is not None and bounds.broker_end < self.end_offset:
            message = (
                f"a broker uses {bounds.broker_end} as the end of the log, from its index; batches"
                f" continue to {bounds.end}"
            )
            self.notes.append(Note("broker-end", message, path))
        elif bounds.high_watermark is not None and bounds.high_watermark < min(bounds.end, self.end_offset):
            message = f"the high watermark is {bounds.high_watermark}: a broker may not show records from there on"
            self.notes.append(Note("high-watermark", message, path))


class SegmentRead:
    """The visible records of one segment; Faults between blocks or chunks stand for records that are left out."""

    def __init__(self, log: LogRead, segment: Segment, end_offset: int | None) -> None:
        self.segment = segment
        self._end_offset = end_offset
        self._log = log
        self._limits = log.request.limits
        self._damage = DamageSeen()
        self._incomplete_sets = array("q")
        self._stuck: Fault | None = None

    def blocks(self, work: Work | None = None) -> Generator[RecordBlock | Fault, None, None]:
        """Yield the records; `work` is done on blocks in the reading thread, unless blocks must be cut.

        A block is valid until the next one is requested. Raises as `open_read` does.
        """
        for chunk in self._chunks(work if self._log.request.is_whole else None, self._rows):
            if isinstance(chunk, Fault):
                yield chunk
            else:
                yield from self._records(*chunk)
                if self._log.is_enough:
                    return

    def chunks_or_blocks(self, by_headers: Callable[[Chunk], bool]) -> Iterator[VisibleChunk | RecordBlock | Fault]:
        """Yield the records as blocks, but chunks for which `by_headers` returns True as chunks.

        Chunks that must be cut always come as blocks, and so do all chunks of a request with times or a limit. Each
        item is valid until the next one is requested.
        """
        whole = self._log.request.is_whole

        def is_enough(chunk: Chunk) -> bool:
            assert isinstance(chunk, VisibleChunk)
            return whole and not chunk.is_cut and by_headers(chunk)

        for item in self._chunks(None, lambda chunk: [] if is_enough(chunk) else self._rows(chunk)):
            if isinstance(item, Fault):
                yield item
            elif is_enough(item[0]):
                yield item[0]
            else:
                yield from self._records(*item)
                if self._log.is_enough:
                    return

    def _records(self, chunk: VisibleChunk, blocks: Iterator[RecordBlock]) -> Iterator[RecordBlock | Fault]:
        for block in blocks:
            yield from self._cut_block(block, must_cut=chunk.is_cut or not self._log.request.is_whole)
            if self._log.is_enough:
                return

    def _rows(self, chunk: Chunk) -> list[Rows]:
        """Return the rows of batches to read: batches that may have records in the requested time range."""
        request, rows_to_read = self._log.request, self._log.rows_to_read
        if request.since_ms is None and request.until_ms is None:
            rows = [(0, len(chunk.batches))] if len(chunk.batches) else []
        else:
            rows = rows_in_range(chunk.batches, Range(since_ms=request.since_ms, until_ms=request.until_ms))
        return rows if rows_to_read is None else rows_to_read(chunk, rows)

    def chunks(self) -> Iterator[VisibleChunk | Fault]:
        """Yield the batches and their bytes, which are valid until the next chunk is requested."""
        for chunk in self._chunks(None, None):
            yield chunk if isinstance(chunk, Fault) else chunk[0]

    def fetches(self) -> Generator[bytearray | Fault, None, None]:
        """Yield batches byte for byte as they are in the segment, and the Faults between them.

        Up to the request's `chunk_bytes` come together. If not even one batch fits, this size doubles until one does.
        (A broker also sends the beginning of the next batch, which no client can use.)
        """
        request = self._log.request
        fetch, room = bytearray(), 0
        for chunk in self.chunks():
            if isinstance(chunk, Fault):
                if fetch:
                    yield fetch
                    fetch = bytearray()
                yield chunk
                continue
            for position, size in zip(chunk.batches.position, chunk.batches.size_bytes, strict=True):
                if fetch and len(fetch) + size > room:
                    yield fetch
                    fetch = bytearray()
                if not fetch:
                    room = request.chunk_bytes
                    while room < size:
                        room *= 2
                    room = min(room, max(request.limits.max_batch_bytes, size))
                begin = position - chunk.position
                fetch += chunk.view[begin : begin + size]
        if fetch:
            yield fetch

    def _chunks(
        self, work: Work | None, rows: Callable[[Chunk], list[Rows]] | None
    ) -> Iterator[tuple[VisibleChunk, Iterator[RecordBlock]] | Fault]:
        log, segment = self._log, self.segment
        with log.fs.open_read(segment.log.path) as file:
            start, end = 0, file.size_bytes
            if not segment.is_v07:
                end_offset = None if log.end_offset == NO_END else log.end_offset
                bytes_range = window(log.fs, segment, file, Range(log.first_offset, end_offset))
                if bytes_range is None:
                    return
                start, end = bytes_range
            visibility = log.visibility(segment, start)
            visibility.begin(segment.base_offset, self._end_offset)
            seven = segment.base_offset if segment.is_v07 else None
            reader = Scan(
                file, DamagePolicy.RESYNC, start=start, end=end, limits=self._limits,
                v07_base_offset=seven, chunk_bytes=log.request.chunk_bytes,
            )  # fmt: skip

            def chosen(scan: Scan) -> Generator[Chunk, None, None]:
                return visibility.chunks(self._until_stuck(scan))

            threads = rows is not None and log.request.read_ahead
            for chunk, blocks in records(reader, rows or (lambda _: []), work, chosen, threads=threads):
                assert isinstance(chunk, VisibleChunk)
                if chunk.damage is not None:
                    yield self._left_out(chunk.damage.fault)
                yield from self._bad_batches(chunk)
                yield chunk, blocks
            log.is_stuck = self._stuck is not None
            last = self._stuck or reader.damage
            if last is not None:
                yield self._left_out(last)
            self._end(file, reader.end_position)

    def _until_stuck(self, scan: Scan) -> Generator[Chunk, None, None]:
        """Yield the chunks of a scan; after a valid batch that is merely too large, the reading ends."""
        with closing(iter(scan)) as chunks:
            for chunk in chunks:
                if chunk.damage is not None and self._is_stuck(scan.file, chunk.damage.fault):
                    return
                yield chunk
        if scan.damage is not None:
            self._is_stuck(scan.file, scan.damage)

    def _is_stuck(self, file: ReadableFile, fault: Fault) -> bool:
        batch = header_at(file, fault.position) if fault.kind is FaultKind.BATCH_TOO_LARGE else None
        if isinstance(batch, Batch) and _is_good(file, batch):
            message = f"a batch of {batch.size_bytes} bytes, more than a chunk may have: nothing is read from there on"
            self._stuck = fault._replace(message=message)
        return self._stuck is not None

    def _bad_batches(self, chunk: VisibleChunk) -> Iterator[Fault]:
        if chunk.seen is None:
            return
        self._damage.batches(chunk.seen)
        for batch in _invalid(chunk.seen):
            if batch.last_offset >= self._log.first_offset and batch.base_offset < self._log.end_offset:
                yield refused_by_clients(batch, "left out")

        yield from self._out_of_order(chunk.seen, chunk.out_of_order)

    def _out_of_order(self, seen: BatchColumns, rows: tuple[int, ...]) -> Iterator[Fault]:
        """Yield one fault for all rows: a single offset that is too large makes many later offsets too small."""
        if rows:
            first, last = seen.row(rows[0]), seen.row(rows[-1])
            message = f"offsets {first.base_offset} to {first.last_offset} are out of order"
            more = f", and those of {len(rows) - 1} more batches" if rows[1:] else ""
            size = last.position + last.size_bytes - first.position
            fault = Fault(
                FaultKind.INVALID_ENTRY, first.position, f"{message}{more}: they are left out", size,
                base_offset=first.base_offset, last_offset=first.last_offset,
            )  # fmt: skip
            self._damage.fault(fault)
            yield fault

    def _cut_block(self, block: RecordBlock, *, must_cut: bool) -> Iterator[RecordBlock | Fault]:
        log, request = self._log, self._log.request
        if not block.is_usual:
            if not block.records.all_valid():
                rows = rows_where(lambda valid: valid == 0, block.records.valid)
                yield self._bad_messages(block, "the CRC of a message does not match", FaultKind.CRC_MISMATCH, rows)
                block = block.with_rows(rows_where(lambda valid: valid != 0, block.records.valid))
            rows = rows_where(lambda position: position == OUTSIDE, block.records.value_position)
            if rows:
                what = "a message is shorter than the length of its value"
                yield self._bad_messages(block, what, FaultKind.INVALID_RECORD, rows)
                block = block.with_rows(rows_where(lambda position: position != OUTSIDE, block.records.value_position))
            if not self.segment.is_v07 and _ends_incomplete(block):
                self._incomplete_sets.append(int(block.batches.position[block.first_row]))
        if must_cut:
            wanted = Range(log.first_offset, log.end_offset, request.since_ms, request.until_ms, request.key)
            most = None if request.max_records is None else request.max_records - log.shown_records
            block = cut(block, wanted, most)
            if len(block.records):
                log.shown_end = block.records.offset[-1] + 1
        log.shown_records += block.record_count
        yield block
        for fault in block.faults.values():
            self._damage.fault(fault)
            yield fault._replace(message=f"records that cannot be read are left out: {fault.message}")

    def _bad_messages(self, block: RecordBlock, what: str, kind: FaultKind, rows: list[int]) -> Fault:
        """Return a fault for these v0, v1 or 0.7 messages of the block."""
        first, last = (block.records.offset[row] for row in (rows[0], rows[-1]))
        message, position = f"{what}: offset {first} is left out", block.batches.position[block.first_row]
        fault = Fault(kind, position, message, base_offset=first, last_offset=last)
        self._damage.fault(fault)
        return fault

    def _left_out(self, fault: Fault) -> Fault:
        """Return the fault for damage that ended a chain of batches."""
        self._damage.fault(fault)
        if fault is self._stuck:
            return fault
        return fault._replace(message=f"{fault.message}: what cannot be read is left out")

    def _end(self, file: ReadableFile, valid_bytes: int) -> None:
        if self._incomplete_sets:
            sets = counted(len(self._incomplete_sets), "compressed message set ends", "compressed message sets end")
            message = (
                f"{sets} with an incomplete message, the first at byte {self._incomplete_sets[0]}."
                " A consumer skips such messages without an error"
            )
            self._log.notes.append(Note("incomplete-message", message, file.path))
        if self._log.is_stuck:
            self._log.codes.append(ExitCode.FAILURE)
        else:
            self._log.codes.append(self._damage.exit_code(self._log.fs, file, valid_bytes, self._limits))


def _invalid(batches: BatchColumns) -> list[Batch]:
    return [] if batches.all_valid() else [batch for batch in batches.rows() if not batch.valid]


def _ends_incomplete(block: RecordBlock) -> bool:
    """Whether the block ends a compressed set v0 or v1, and the set ends within a message.

    Kafka's iterator ends quietly there (AbstractLegacyRecordBatch.DeepRecordsIterator).
    """
    batch, records = block.batches.row(block.first_row), block.records
    if batch.magic >= RECORD_BATCH_MAGIC or not batch.codec or block.goes_on or not len(records):
        return False
    last = len(records) - 1
    if records.value_position[last] + max(records.value_size[last], 0) == len(block.buffer):
        return False
    return incomplete_end(block.buffer) > 0


def _is_good(file: ReadableFile, batch: Batch) -> bool:
    limits = DEFAULT_LIMITS._replace(max_batch_bytes=max(batch.size_bytes, DEFAULT_LIMITS.max_batch_bytes))
    return any(batches.valid[0] for batches in Scan.of_batch(file, batch, limits).batches())
