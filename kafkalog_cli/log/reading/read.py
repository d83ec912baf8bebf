"""From batch columns to record columns: decompress and decode."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial

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
from kafkalog_cli.format.columns import column_of
from kafkalog_cli.format.compression import CompressionFault, decompress_into
from kafkalog_cli.format.control import usual_marker
from kafkalog_cli.format.decode import decode_batch
from kafkalog_cli.format.fault import Fault, FaultKind, fault_of
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import NO_RECORDS, PART_RECORDS, Part, RecordBlock, RecordColumns, Row
from kafkalog_cli.log.reading.allowance import AHEAD_BYTES, ARENA_BYTES, LARGE_TURN, NOT_YET, Allowance
from kafkalog_cli.log.reading.scan import Chunk, Generation

Decoded = Iterator[tuple[memoryview, RecordColumns, Fault | None]]
"""Parts of one batch, each with the buffer that contains it."""
_Decode = Callable[[Chunk, Batch, Limits], Decoded]

KEPT_ARENA_BYTES = 2 * AHEAD_BYTES
"""A larger arena is not kept for further batches, because each reader has its own arena."""
_OVER_ALLOWANCE = -2
_NO_BYTES = memoryview(b"")
_LEGACY_CODECS = (1, 2, 3)
_SEVEN_CODECS = (1, 2)
_SEVEN_NESTING = 8
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
        decode = _decode_strictly if strict else _decode
        self._decode: _Decode = partial(decode, timestamps_only=timestamps_only)
        self._arena = bytearray()
        self._rows: tuple[bytearray, native.Columns] | None = None
        self._job = LARGE_TURN.current()

    def blocks(
        self, chunk: Chunk, first_row: int = 0, end_row: int | None = None, *, ahead: bool = False
    ) -> Iterator[RecordBlock]:
        """Yield the records of rows `first_row` to `end_row` (exclusive) of the chunk's batches, in one or more blocks.

        `ahead`: the first block is requested before its turn, so it may be NOT_YET.
        """
        end = len(chunk.batches) if end_row is None else end_row
        is_seven = chunk.generation is Generation.SEVEN  # its sets are nested: their sizes add up part by part
        allowance = Allowance(self._limits, ahead=(ahead or self._job is not None) and not is_seven)
        blocks = self._blocks(chunk, first_row, end, allowance)
        if self._job is not None:
            yield from _in_turn(self._job, blocks, allowance, ahead=ahead, is_large=is_seven)
            return
        for block in blocks:
            yield block
            allowance.grant()

    def _blocks(self, chunk: Chunk, row: int, end: int, allowance: Allowance) -> Iterator[RecordBlock]:
        if chunk.generation is Generation.SEVEN:
            for at in range(row, end):
                yield from self._one(chunk, at, allowance)
            return
        batches = native.columns_of(chunk.batches)
        source = native.Memory(chunk.view)
        while row < end:
            out = self._matrix()
            found = native.decode_stored(source, chunk.position, PART_RECORDS, batches, row, end, out)
            if found.batches:
                yield self._block(chunk, chunk.view, row, found)
                row += found.batches
            elif _is_packed(batch := chunk.batches.row(row)) and batch.records_count <= PART_RECORDS:
                after = self._end_of_packed(chunk, row, end)
                yield from self._packed(chunk, batches, row, after, allowance)
                row = after
            else:
                yield from self._one(chunk, row, allowance)
                row += 1

    def _matrix(self) -> native.Columns:
        if self._rows is None:
            self._rows = native.new_matrix(native.RECORD_COLUMNS, native.RECORD_ROWS)
        return self._rows[1]

    def _block(self, chunk: Chunk, view: memoryview, first: int, found: native.DecodedRows) -> RecordBlock:
        assert self._rows is not None
        data, out = self._rows
        records = RecordColumns(data, out.stride, found.records)
        end = first + found.batches
        return RecordBlock(view, chunk.batches, first, end, found.ends, records, is_usual=True)

    @staticmethod
    def _end_of_packed(chunk: Chunk, row: int, end: int) -> int:
        """Return the end of the run of compressed batches that begins at `row`."""
        for at, batch in enumerate(chunk.batches.rows(row, end), row):
            if not _is_packed(batch) or batch.records_count > PART_RECORDS:
                return at
        return end

    def _packed(
        self, chunk: Chunk, batches: native.Columns, begin: int, end: int, allowance: Allowance
    ) -> Iterator[RecordBlock]:
        """Decompress batches into the arena, and decode them whenever it is full."""
        starts, ends = array("q"), array("q")
        filled, first = 0, begin
        for row, batch in enumerate(chunk.batches.rows(begin, end), begin):
            start = batch.position - chunk.position
            stored_end = start + (batch.size_bytes if batch.records_count > 0 else RECORD_BATCH.size)
            stored = chunk.view[start + RECORD_BATCH.size : stored_end]
            written = self._into_arena(batch.codec, stored, filled, allowance)
            if written == _OVER_ALLOWANCE:
                if starts:
                    yield from self._of_arena(chunk, batches, first, starts, ends, allowance)
                    starts, ends, filled, first = array("q"), array("q"), 0, row
                    written = self._into_arena(batch.codec, stored, filled, allowance)
                if written == _OVER_ALLOWANCE:
                    yield NOT_YET
                    written = self._into_arena(batch.codec, stored, filled, allowance)
            if written >= 0:
                starts.append(filled)
                filled += written
                ends.append(filled)
            if written < 0 or filled >= ARENA_BYTES:
                yield from self._of_arena(chunk, batches, first, starts, ends, allowance)
                if len(self._arena) > KEPT_ARENA_BYTES:
                    self._arena = bytearray(2 * ARENA_BYTES)
                starts, ends, filled, first = array("q"), array("q"), 0, row + 1
            if written < 0:
                yield from self._one(chunk, row, allowance)
        yield from self._of_arena(chunk, batches, first, starts, ends, allowance)

    def _into_arena(self, codec: int, data: memoryview, filled: int, allowance: Allowance) -> int:
        """Decompress `data` into the arena at `filled`; return the number of bytes written.

        The result is -1 if `data` is damaged: `_one` must then report the fault. It is _OVER_ALLOWANCE if the reduced
        limits are exceeded.
        """
        if not len(data):
            return 0
        limits = allowance.limits
        if not self._arena:
            self._arena = bytearray(2 * ARENA_BYTES)
        try:
            written = decompress_into(codec, data, self._arena, filled, magic=2, limits=limits)
        except BufferError:  # the arena must grow while a block of it is still in use
            old = self._arena
            self._arena = bytearray(2 * len(old))
            self._arena[:filled] = old[:filled]
            written = decompress_into(codec, data, self._arena, filled, magic=2, limits=limits)
        if isinstance(written, CompressionFault):
            return _OVER_ALLOWANCE if allowance.is_short(written.kind) else -1
        return written

    def _of_arena(  # noqa: PLR0913, PLR0917
        self, chunk: Chunk, batches: native.Columns, first: int, starts: array[int], ends: array[int],
        allowance: Allowance,
    ) -> Iterator[RecordBlock]:  # fmt: skip
        if not starts:
            return
        view = memoryview(self._arena)
        source = native.Memory(view)
        last = first + len(starts) - 1
        self.expansion = ends[-1] / (chunk.batches.part(first, last + 1).end_position - chunk.batches.position[first])
        done = 0
        while done < len(starts):
            found = native.decode_batches(source, starts[done:], ends[done:], batches, first + done, self._matrix())
            if found.batches:
                yield self._block(chunk, view, first + done, found)
                done += found.batches
            else:
                yield from self._one(chunk, first + done, allowance)
                done += 1

    def _one(self, chunk: Chunk, row: int, allowance: Allowance) -> Iterator[RecordBlock]:
        """Yield the records of one batch that is unusual: large, old, damaged, or of control records."""
        batch = chunk.batches.row(row)
        parts = self._decode(chunk, batch, allowance.limits)
        part = next(parts, None)
        if part is not None and part[2] is not None and allowance.is_short(part[2].kind):
            yield NOT_YET
            parts = self._decode(chunk, batch, allowance.limits)
            part = next(parts, None)
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


def _in_turn(
    job: int, blocks: Iterator[RecordBlock], allowance: Allowance, *, ahead: bool, is_large: bool
) -> Iterator[RecordBlock]:
    """Yield the blocks; each batch with a large output is decompressed when no other job has one in memory.

    `is_large`: all of them may have large outputs. `ahead`: as for `RecordReader.blocks`.
    """
    has_turn, is_first, is_going_on = is_large, True, False
    if is_large:
        LARGE_TURN.take(job)
    try:
        for block in blocks:
            if has_turn and not is_large and not is_going_on:  # `blocks` has dropped the large batch by now
                LARGE_TURN.give(job)
                has_turn = False
            if block is NOT_YET:
                if ahead and is_first:
                    yield block
                LARGE_TURN.take(job)
                has_turn = is_going_on = True
                allowance.grant()
            else:
                yield block
                is_going_on = block.goes_on
                if not is_large and not is_going_on:
                    allowance.reduce()
            is_first = False
    finally:
        if has_turn:
            LARGE_TURN.give(job)


def _decode(chunk: Chunk, batch: Batch, limits: Limits, *, timestamps_only: bool) -> Decoded:
    start = batch.position - chunk.position
    end = start + batch.size_bytes
    if chunk.generation is Generation.SEVEN:
        return _decode_seven(chunk.view, start, end, batch, limits)
    if batch.magic >= 2:
        return _decode_v2(chunk.view, start, end, batch, limits)
    return _decode_legacy(chunk, batch, limits, timestamps_only=timestamps_only)


def _decode_strictly(chunk: Chunk, batch: Batch, limits: Limits, *, timestamps_only: bool) -> Decoded:
    """Decode as `_decode` does, and add problems of a message set to its first records."""
    parts = _decode(chunk, batch, limits, timestamps_only=timestamps_only)
    if batch.magic >= 2 and chunk.generation is not Generation.SEVEN:
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
    if chunk.generation is Generation.SEVEN:
        return legacy.problem_of_seven_set(view) if batch.codec else ""
    start = batch.position - chunk.position
    problem = legacy.problem_of_entry(chunk.view, start, start + batch.size_bytes, batch)
    return problem or (legacy.problem_of_set(view, batch) if batch.codec else "")


def _in(view: memoryview, parts: Iterable[Part]) -> Decoded:
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


def _decode_seven(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if not batch.codec:
        return _in(view, [legacy.decode_seven(view, start, end, batch)])
    return (
        (part, RecordColumns.from_rows(rows) if rows else NO_RECORDS, fault)
        for part, rows, fault in _SevenSets(batch, limits).read(view[start:end])
    )


_SevenParts = Iterator[tuple[memoryview, list[Row], Fault | None]]


class _SevenSets:
    """The messages of one compressed message of 0.7, and of compressed messages nested in it."""

    def __init__(self, batch: Batch, limits: Limits) -> None:
        self._batch = batch
        self._limits = limits
        self._left_bytes = limits.max_output_bytes
        self._fault: Fault | None = None

    def read(self, message: memoryview) -> _SevenParts:
        """Yield the parts, each in the buffer of its own set."""
        last: tuple[memoryview, list[Row], Fault | None] = (_NO_BYTES, [], None)
        for part in self._set(*legacy.seven_payload(message), 0):
            if last[1]:
                yield last
            last = part
        yield last[0], last[1], self._fault

    def _set(self, codec: int, payload: memoryview, depth: int) -> _SevenParts:
        inner = self._unpacked(codec, payload, depth)
        if isinstance(inner, Fault):
            self._fault = inner
            return
        rows: list[Row] = []
        for found in legacy.inner_messages(inner, self._batch):
            if isinstance(found, Fault):
                self._fault = found
                break
            codec, row = found
            if rows and (codec or len(rows) == PART_RECORDS):
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
        if codec not in _SEVEN_CODECS or depth == _SEVEN_NESTING:
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


def _no_records(batch: Batch, kind: FaultKind, message: str) -> list[Part]:
    return [([], fault_of(batch, kind, message))]
