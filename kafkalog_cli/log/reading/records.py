"""From batches to records: decompress and decode, of large logs in threads, and in the order of the log."""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from kafkalog_cli.format import legacy, native
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    NO_OFFSET,
    RECORD_BATCH,
    RECORD_BATCH_MAGIC,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.columns import any_bit, column_of
from kafkalog_cli.format.compression import Codec, CompressionFault, decompress_into
from kafkalog_cli.format.control import usual_marker
from kafkalog_cli.format.decode import decode_batch
from kafkalog_cli.format.fault import Fault, FaultKind, fault_of
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import NO_RECORDS, RECORDS_AT_ONCE, RecordBlock, RecordColumns, Row, RowsAndFault
from kafkalog_cli.log.reading.budget import LARGE_BUFFERS, LARGE_BYTES, started_pool
from kafkalog_cli.log.reading.scan import CHUNK_BYTES, Chunk, Rows, Scan

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_Decoded = tuple[memoryview, RecordColumns, Fault | None]
"""A part of one batch, with the buffer that contains it."""
Decoded = Iterator[_Decoded]
_Decode = Callable[[Chunk, Batch, Limits], Decoded]

ARENA_BYTES = 2 << 20
"""Number of decompressed bytes after which a block is complete."""
KEPT_ARENA_BYTES = 4 * ARENA_BYTES
"""A larger arena is not kept for further batches, because each reader has its own arena."""
NOT_YET = RecordBlock(memoryview(b""), BatchColumns.from_rows([]), 0, 0, column_of(()), NO_RECORDS)
"""Placeholder for a block that must be requested again when its turn comes."""
_NO_BYTES = memoryview(b"")
_LEGACY_CODECS = (1, 2, 3)
_V07_CODECS = (1, 2)
_V07_NESTING = 8
_V2_CODECS = (1, 2, 3, 4)


def usual_marker_in(chunk: Chunk, batch: Batch) -> tuple[int, int] | None:
    """Return the type and coordinator epoch of a marker as brokers write it, and None for any other batch.

    This is ten times as fast as a RecordReader.
    """
    if batch.codec or batch.records_count != 1:
        return None
    start = batch.position - chunk.position
    return usual_marker(chunk.view[start + RECORD_BATCH.size : start + batch.size_bytes])


class RecordReader:
    """Reads the records of chunks. Buffers are reused, so a block is valid until the next is requested.

    A batch with a wrong CRC is still decoded, as by Kafka's own iterators. A batch that cannot be decoded is a fault of
    the block. `timestamps_only`: unreadable key and value lengths in messages v0 and v1 are not a fault. `strict`:
    problems in message sets that Kafka's iterators ignore are faults too; the records that Kafka returns are still
    returned.

    `expansion` is the decompressed size of the newest compressed block divided by its size in the log; None before it.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, timestamps_only: bool = False, strict: bool = False) -> None:
        self.expansion: float | None = None
        self._limits = limits
        self._small = limits._replace(max_output_bytes=min(limits.max_output_bytes, LARGE_BYTES))
        """The limits of what is decompressed before its turn, so that large outputs are in memory once."""
        decode = _decode_strictly if strict else _decode
        self._decode: _Decode = partial(decode, timestamps_only=timestamps_only)
        self._arena = bytearray()
        self._rows: tuple[memoryview, native.Columns] | None = None

    def blocks(
        self, chunk: Chunk, first_row: int = 0, end_row: int | None = None, *, ahead: bool = False
    ) -> Iterator[RecordBlock]:
        """Yield the records of rows `first_row` to `end_row` (exclusive) of the chunk's batches, in one or more blocks.

        `ahead`: the first block is requested before its turn, so it may be NOT_YET. Of a batch with a large output the
        next block is then requested in its turn, by the thread that made the scan.
        """
        for block in self._blocks(chunk, first_row, len(chunk.batches) if end_row is None else end_row):
            if block is not NOT_YET or ahead:
                yield block
            ahead = False

    def _blocks(self, chunk: Chunk, row: int, end: int) -> Iterator[RecordBlock]:
        if chunk.is_v07:
            for at in range(row, end):
                yield from self._one(chunk, at)
            return
        batches = native.columns_of(chunk.batches)
        source = native.Memory(chunk.view)
        while row < end:
            out = self._matrix()
            decoded = native.decode_stored(source, chunk.position, RECORDS_AT_ONCE, batches, row, end, out)
            if decoded.batches:
                yield self._block(chunk, chunk.view, row, decoded)
                row += decoded.batches
            elif _is_packed(batch := chunk.batches.row(row)) and batch.records_count <= RECORDS_AT_ONCE:
                after = self._end_of_packed(chunk, row, end)
                yield from self._packed(chunk, batches, row, after)
                row = after
            else:
                yield from self._one(chunk, row)
                row += 1

    def _matrix(self) -> native.Columns:
        if self._rows is None:
            self._rows = native.new_record_rows()
        return self._rows[1]

    def _block(self, chunk: Chunk, view: memoryview, first: int, decoded: native.DecodedRows) -> RecordBlock:
        assert self._rows is not None
        data, out = self._rows
        records = RecordColumns(data, out.stride, decoded.records)
        end = first + decoded.batches
        return RecordBlock(view, chunk.batches, first, end, decoded.ends, records, is_usual=True)

    @staticmethod
    def _end_of_packed(chunk: Chunk, row: int, end: int) -> int:
        """Return the end of the run of compressed batches that begins at `row`."""
        for at, batch in enumerate(chunk.batches.rows(row, end), row):
            if not _is_packed(batch) or batch.records_count > RECORDS_AT_ONCE:
                return at
        return end

    def _packed(self, chunk: Chunk, batches: native.Columns, begin: int, end: int) -> Iterator[RecordBlock]:
        """Decompress batches into the arena, and decode them whenever it is full."""
        starts, ends = array("q"), array("q")
        filled, first = 0, begin
        if not self._arena:  # small for a small chunk: a merge has an arena for each of its partitions
            self._arena = bytearray(min(2 * ARENA_BYTES, 32 * len(chunk.view)))
        for row, batch in enumerate(chunk.batches.rows(begin, end), begin):
            start = batch.position - chunk.position
            stored_end = start + (batch.size_bytes if batch.records_count > 0 else RECORD_BATCH.size)
            written = self._into_arena(batch.codec, chunk.view[start + RECORD_BATCH.size : stored_end], filled)
            if written is not None:
                starts.append(filled)
                filled += written
                ends.append(filled)
            if written is None or filled >= ARENA_BYTES:
                yield from self._of_arena(chunk, batches, first, starts, ends)
                if len(self._arena) > KEPT_ARENA_BYTES:
                    self._arena = bytearray(2 * ARENA_BYTES)
                starts, ends, filled, first = array("q"), array("q"), 0, row + 1
            if written is None:
                yield from self._one(chunk, row)
        yield from self._of_arena(chunk, batches, first, starts, ends)

    def _into_arena(self, codec: int, data: memoryview, filled: int) -> int | None:
        """Decompress `data` into the arena at `filled`; return the number of bytes written.

        None if `data` is damaged or its output is large, for both of which `_one` is.
        """
        if not len(data):
            return 0
        try:
            written = decompress_into(codec, data, self._arena, filled, magic=2, limits=self._small)
        except BufferError:  # the arena must grow while a block of it is still in use
            old = self._arena
            self._arena = bytearray(2 * len(old))
            self._arena[:filled] = old[:filled]
            written = decompress_into(codec, data, self._arena, filled, magic=2, limits=self._small)
        return None if isinstance(written, CompressionFault) else written

    def _of_arena(
        self, chunk: Chunk, batches: native.Columns, first: int, starts: array[int], ends: array[int]
    ) -> Iterator[RecordBlock]:
        if not starts:
            return
        view = memoryview(self._arena)
        source = native.Memory(view)
        last = first + len(starts) - 1
        self.expansion = ends[-1] / (chunk.batches.part(first, last + 1).end_position - chunk.batches.position[first])
        done = 0
        while done < len(starts):
            decoded = native.decode_batches(source, starts[done:], ends[done:], batches, first + done, self._matrix())
            if decoded.batches:
                yield self._block(chunk, view, first + done, decoded)
                done += decoded.batches
            else:
                yield from self._one(chunk, first + done)
                done += 1

    def _one(self, chunk: Chunk, row: int) -> Iterator[RecordBlock]:
        """Yield the records of one batch that is unusual: large, old, damaged, or of control records."""
        batch = chunk.batches.row(row)
        if not chunk.is_v07:  # its sets are nested: their sizes add up part by part
            parts = self._decode(chunk, batch, self._small)
            part = next(parts, None)
            fault = None if part is None else part[2]
            is_large = fault is not None and fault.kind is FaultKind.OUTPUT_TOO_LARGE and self._small != self._limits
            if not is_large:
                yield from self._of_parts(chunk, row, batch, part, parts)
                return
        yield NOT_YET
        with LARGE_BUFFERS.turn():
            parts = self._decode(chunk, batch, self._limits)
            yield from self._of_parts(chunk, row, batch, next(parts, None), parts)

    @staticmethod
    def _of_parts(
        chunk: Chunk, row: int, batch: Batch, part: _Decoded | None, parts: Iterator[_Decoded]
    ) -> Iterator[RecordBlock]:
        begun, alone = 0, None
        is_usual = batch.magic >= RECORD_BATCH_MAGIC and not batch.is_control
        while part is not None:
            (view, records, fault), part = part, next(parts, None)
            count, goes_on = len(records), part is not None
            if batch.base_offset == NO_OFFSET and count and not begun:
                # The base offset of a compressed message set is known only after decompression.
                alone = BatchColumns.from_rows([batch._replace(base_offset=records.offset[0])])
            batches, at = (chunk.batches, row) if alone is None else (alone, 0)
            faults, ends = {} if fault is None else {at: fault}, column_of((count,))
            yield RecordBlock(
                view, batches, at, at + 1, ends, records, faults, begun, goes_on, is_usual and fault is None
            )
            begun += count


def _is_packed(batch: Batch) -> bool:
    """Whether a batch is a compressed one of usual records."""
    is_new = batch.magic >= RECORD_BATCH_MAGIC and batch.size_bytes >= RECORD_BATCH.size
    return is_new and batch.attributes & CODEC_MASK in _V2_CODECS and not batch.attributes & CONTROL_MASK


def _decode(chunk: Chunk, batch: Batch, limits: Limits, *, timestamps_only: bool) -> Decoded:
    start = batch.position - chunk.position
    end = start + batch.size_bytes
    if chunk.is_v07:
        return _decode_v07(chunk.view, start, end, batch, limits)
    if batch.magic >= 2:
        return _decode_v2(chunk.view, start, end, batch, limits)
    return _decode_legacy(chunk, batch, limits, timestamps_only=timestamps_only)


def _decode_strictly(chunk: Chunk, batch: Batch, limits: Limits, *, timestamps_only: bool) -> Decoded:
    """Decode as `_decode` does, and add problems of a message set to its first records."""
    parts = _decode(chunk, batch, limits, timestamps_only=timestamps_only)
    if batch.magic >= 2 and not chunk.is_v07:
        return parts
    return _with_problems(chunk, batch, parts)


def _with_problems(chunk: Chunk, batch: Batch, parts: Decoded) -> Decoded:
    seen: memoryview | None = None
    for view, records, fault in parts:
        problem = ""
        if fault is None and view is not seen:
            problem = _problem(chunk, batch, view)
        seen = view
        kind = FaultKind.INVALID_INNER_MESSAGE if batch.codec else FaultKind.INVALID_RECORD
        yield view, records, fault_of(batch, kind, problem) if problem else fault


def _problem(chunk: Chunk, batch: Batch, view: memoryview) -> str:
    if chunk.is_v07:
        return legacy.problem_of_v07_set(view) if batch.codec else ""
    start = batch.position - chunk.position
    problem = legacy.problem_of_entry(chunk.view, start, start + batch.size_bytes, batch)
    return problem or (legacy.problem_of_set(view, batch) if batch.codec else "")


def _in(view: memoryview, parts: Iterable[RowsAndFault]) -> Decoded:
    return ((view, RecordColumns.from_rows(rows) if rows else NO_RECORDS, fault) for rows, fault in parts)


def _decode_v2(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if batch.size_bytes < RECORD_BATCH.size:
        return _in(_NO_BYTES, _no_records(batch, FaultKind.INVALID_RECORD, "batch shorter than its own header"))
    if not batch.codec or batch.records_count <= 0:
        parts = decode_batch(view, start + RECORD_BATCH.size, end, batch)
        return ((view, records, fault) for records, fault in parts)
    inner = _decompressed(batch.codec, view[start + RECORD_BATCH.size : end], batch, limits)
    if isinstance(inner, Fault):
        return _in(_NO_BYTES, [([], inner)])
    return ((inner, records, fault) for records, fault in decode_batch(inner, 0, len(inner), batch))


def _decode_legacy(chunk: Chunk, batch: Batch, limits: Limits, *, timestamps_only: bool) -> Decoded:
    view, start = chunk.view, batch.position - chunk.position
    end = start + batch.size_bytes
    if not batch.codec:
        return _in(view, [legacy.decode_message(view, start, end, batch, timestamps_only=timestamps_only)])
    if batch.codec not in _LEGACY_CODECS:
        reason = f"codec {batch.codec} in a message set"
        return _in(_NO_BYTES, _no_records(batch, FaultKind.UNKNOWN_CODEC, reason))
    value = legacy.compressed_value(view, start, end, batch.magic)
    if value is None:
        reason = f"Found invalid compressed record set with null value (magic = {batch.magic})"
        return _in(_NO_BYTES, _no_records(batch, FaultKind.INVALID_INNER_MESSAGE, reason))
    inner = _decompressed(batch.codec, value, batch, limits)
    if isinstance(inner, Fault):
        return _in(_NO_BYTES, [([], inner)])
    return _in(inner, legacy.decode_inner(inner, batch, timestamps_only=timestamps_only))


def _decode_v07(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if not batch.codec:
        return _in(view, [legacy.decode_v07(view, start, end, batch)])
    return (
        (part, RecordColumns.from_rows(rows) if rows else NO_RECORDS, fault)
        for part, rows, fault in _V07Sets(batch, limits).read(view[start:end])
    )


_V07Parts = Iterator[tuple[memoryview, list[Row], Fault | None]]


class _V07Sets:
    """The messages of one compressed message of 0.7, and of compressed messages nested in it."""

    def __init__(self, batch: Batch, limits: Limits) -> None:
        self._batch = batch
        self._limits = limits
        self._left_bytes = limits.max_output_bytes
        self._fault: Fault | None = None

    def read(self, message: memoryview) -> _V07Parts:
        """Yield the parts, each in the buffer of its own set."""
        last: tuple[memoryview, list[Row], Fault | None] = (_NO_BYTES, [], None)
        for part in self._set(*legacy.v07_payload(message), 0):
            if last[1]:
                yield last
            last = part
        yield last[0], last[1], self._fault

    def _set(self, codec: int, payload: memoryview, depth: int) -> _V07Parts:
        inner = self._unpacked(codec, payload, depth)
        if isinstance(inner, Fault):
            self._fault = inner
            return
        rows: list[Row] = []
        for message in legacy.inner_messages(inner, self._batch):
            if isinstance(message, Fault):
                self._fault = message
                break
            codec, row = message
            if rows and (codec or len(rows) == RECORDS_AT_ONCE):
                yield inner, rows, None
                rows = []
            if not codec:
                rows.append(row)
                continue
            yield from self._set(codec, inner[row[5] : row[5] + row[6]], depth + 1)
            if self._fault is not None:
                return
        if rows:
            yield inner, rows, None

    def _unpacked(self, codec: int, payload: memoryview, depth: int) -> memoryview | Fault:
        if codec not in _V07_CODECS or depth == _V07_NESTING:
            reason = f"codec {codec} in a 0.7 message, {depth} deep"
            return fault_of(self._batch, FaultKind.UNKNOWN_CODEC, reason)
        inner = _decompressed(codec, payload, self._batch, self._limits._replace(max_output_bytes=self._left_bytes))
        if not isinstance(inner, Fault):
            self._left_bytes -= len(inner)
        return inner


def _decompressed(codec: int, data: memoryview, batch: Batch, limits: Limits) -> memoryview | Fault:
    inner = bytearray()
    size = decompress_into(codec, data, inner, 0, magic=batch.magic, limits=limits)
    if isinstance(size, CompressionFault):
        return fault_of(batch, size.kind, size.message)
    return memoryview(inner)[:size]


def _no_records(batch: Batch, kind: FaultKind, message: str) -> list[RowsAndFault]:
    return [([], fault_of(batch, kind, message))]


# ---- in threads

CHUNKS_AHEAD = 2
"""Number of chunks whose records may be read before their turn."""
MOST_THREADS = 4
SPARE_READERS = 2
LARGE_LOG_BYTES, MANY_RECORDS = 16 << 20, 60_000
"""From one of these on, a log is read in threads."""
TASK_BYTES = ARENA_BYTES * 3 // 4
"""Decompressed bytes per task, by the expansion of the batches before it: a task is a block, with room for variation.

A thread reads only the first block of a task, so larger tasks leave work to the caller.
"""
FIRST_EXPANSION = 6.0
"""The expansion that is assumed until a block was decompressed."""
LEAST_PACKED_BYTES, MOST_PACKED_BYTES = 256 << 10, 1 << 20
"""Bounds of a task in the log: of bombs, few are decompressed at a time, and a chunk has work for two threads."""
SMALL_BATCH_BYTES = 8 << 10
"""Mean compressed size below which one thread is used: two would wait for each other in Python."""
LARGE_CHUNK_BYTES = 4 * CHUNK_BYTES
"""Chunks larger than this, because of a large batch, are processed one at a time."""

ChunkBlocks = tuple[Chunk, Iterator[RecordBlock]]
Read = Callable[[], Iterator[RecordBlock]]
Work = Callable[[Read], Iterator[RecordBlock]]
"""The function that threads apply to blocks. It calls its argument to read them."""


def records(  # noqa: PLR0913
    scan: Scan,
    rows: Callable[[Chunk], list[Rows]],
    work: Work | None = None,
    choose: Callable[[Scan], Generator[Chunk, None, None]] | None = None,
    *,
    strict: bool = False,
    threads: bool = True,
) -> Iterator[ChunkBlocks]:
    """Yield the chunks of a scan, each with its record blocks, which threads read ahead if the log is large.

    A chunk is valid until the next is requested, and so is a block. All blocks of a chunk must be taken.

    `rows` returns the rows of a chunk to read. `work` is applied to the blocks that threads read. `choose` replaces the
    chunks of the scan by others: with fewer batches, or several per chunk. `strict` is passed to the RecordReader.
    Without `threads`, nothing is read before the caller requests it, so that many logs can be read side by side.
    """
    scan.buffers = CHUNKS_AHEAD + 1 if threads else 1
    chunks = iter(scan) if choose is None else choose(scan)
    reader = RecordReader(scan.limits, strict=strict)
    is_large = scan.end - scan.start >= LARGE_LOG_BYTES
    with closing(chunks):  # a caller that stops early closes the file next
        for chunk in chunks:
            yield chunk, _read_here(reader, chunk, rows(chunk))
            if threads and (is_large or _has_many_records(chunk)):
                break
        else:
            return
        count = 1 if _packs_little(chunk) else max(2, min(os.cpu_count() or 1, MOST_THREADS))
        del chunk  # it may be a large one
        with _PIPELINES as running:
            pool = started_pool(count, "kafkalog-read")
            if pool is None:
                yield from ((chunk, _read_here(reader, chunk, rows(chunk))) for chunk in chunks)
                return
            # Each reader has its own buffers, so with several logs at a time, later logs get fewer readers.
            more = (count + SPARE_READERS) // running - 1
            readers = [reader, *(RecordReader(scan.limits, strict=strict) for _ in range(more))]
            try:
                yield from _Pipeline(pool, readers, work).run(chunks, rows)
            finally:
                pool.shutdown(cancel_futures=True)


def _read_here(reader: RecordReader, chunk: Chunk, rows: list[Rows]) -> Iterator[RecordBlock]:
    for first, end in rows:
        yield from reader.blocks(chunk, first, end)


class _Running:
    """Counts the pipelines that are running in this process."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = Lock()

    def __enter__(self) -> int:
        """Return the number of running pipelines, including this pipeline."""
        with self._lock:
            self._count += 1
            return self._count

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1


_PIPELINES = _Running()


class _Task:
    """Rows of a chunk that a thread reads: the first block in a thread, further blocks in their turn."""

    def __init__(self, chunk: Chunk, rows: Rows) -> None:
        self.chunk = chunk
        self.rows = rows
        self.reader: RecordReader | None = None
        self.blocks: Iterator[RecordBlock] = iter(())
        self.first: Future[RecordBlock | None] | None = None

    def read(self, reader: RecordReader, work: Work | None) -> RecordBlock | None:
        """Read the first block."""
        read = partial(reader.blocks, self.chunk, *self.rows, ahead=True)
        self.blocks = read() if work is None else work(read)
        return next(self.blocks, None)


class _Pipeline:
    """An ordered map: tasks of chunks run in a pool, and their blocks are taken in the order of the log."""

    def __init__(self, pool: ThreadPoolExecutor, readers: list[RecordReader], work: Work | None) -> None:
        self._pool = pool
        self._free = readers
        self._work = work
        self._todo: deque[_Task] = deque()
        self._expansion = FIRST_EXPANSION

    def run(self, chunks: Iterator[Chunk], rows: Callable[[Chunk], list[Rows]]) -> Iterator[ChunkBlocks]:
        """Yield the chunks with their blocks. The caller's thread scans, as far as the chunks ahead may."""
        waiting: deque[tuple[Chunk, deque[_Task]]] = deque()
        for chunk in chunks:
            tasks = deque(_Task(chunk, part) for part in self._parts(chunk, rows(chunk)))
            waiting.append((chunk, tasks))
            self._todo += tasks
            self._submit()
            most = 0 if len(chunk.view) > LARGE_CHUNK_BYTES else CHUNKS_AHEAD
            del chunk, tasks  # they may be large
            while len(waiting) > most:
                yield self._take_first(waiting)
        while waiting:
            yield self._take_first(waiting)

    def _take_first(self, waiting: deque[tuple[Chunk, deque[_Task]]]) -> ChunkBlocks:
        chunk, tasks = waiting.popleft()
        return chunk, self._blocks(tasks)

    def _submit(self) -> None:
        while self._todo and self._free:
            task = self._todo.popleft()
            task.reader = self._free.pop()
            task.first = self._pool.submit(task.read, task.reader, self._work)

    def _blocks(self, tasks: deque[_Task]) -> Iterator[RecordBlock]:
        while tasks:
            task = tasks.popleft()
            assert task.first is not None  # there is a reader for the first task of all
            assert task.reader is not None
            block = task.first.result()
            task.first = None
            if block is NOT_YET:
                block = next(task.blocks, None)
            while block is not None:
                yield block
                block = next(task.blocks, None)
            self._expansion = task.reader.expansion or self._expansion
            self._free.append(task.reader)
            self._submit()

    def _parts(self, chunk: Chunk, rows: list[Rows]) -> Iterator[Rows]:
        """Split `rows` into rows per task. Rows are not split if no batch in them is compressed."""
        task_bytes = min(max(int(TASK_BYTES / self._expansion), LEAST_PACKED_BYTES), MOST_PACKED_BYTES)
        for first, end in rows:
            part = chunk.batches.part(first, end)
            if not any_bit(CODEC_MASK, part.attributes):
                yield first, end
                continue
            begin, filled = first, 0
            for row, size in enumerate(part.size_bytes, first):
                if filled + size > task_bytes and row > begin:
                    yield begin, row
                    begin, filled = row, 0
                filled += size
            yield begin, end


def _has_many_records(chunk: Chunk) -> bool:
    counts = zip(chunk.batches.records_count, chunk.batches.valid, strict=True)
    return sum(count for count, valid in counts if valid) >= MANY_RECORDS


def _packs_little(chunk: Chunk) -> bool:
    """Whether batches are small and use a fast codec.

    Decompression is then mostly Python, and threads block each other.
    """
    pairs = zip(chunk.batches.attributes, chunk.batches.size_bytes, strict=True)
    packed = [size for bits, size in pairs if bits & CODEC_MASK in (Codec.SNAPPY, Codec.LZ4)]
    return sum(packed) < SMALL_BATCH_BYTES * len(packed)
