"""From batch columns to record columns: decompress and decode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kafkalog_cli.format.batch import NO_OFFSET, RECORD_BATCH, Batch, BatchArrays, BatchColumns
from kafkalog_cli.format.compression import CompressionFault, decompress_into
from kafkalog_cli.format.control import usual_marker
from kafkalog_cli.format.fault import Fault, FaultKind, fault_of
from kafkalog_cli.format.kernels import plain_records, plain_seven
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import PART_RECORDS, Part, RecordBlock, RecordColumns, Row
from kafkalog_cli.log.reading.allowance import LARGE_TURN, NOT_YET, Allowance
from kafkalog_cli.log.reading.scan import Chunk, Generation

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.read_compiled import CompiledReader

Decoded = Iterator[tuple[memoryview, list[Row], Fault | None]]
"""Parts of one batch, each with the buffer that contains it."""
_Decode = Callable[[Chunk, Batch, Limits], Decoded]

_NO_BYTES = memoryview(b"")
_LEGACY_CODECS = (1, 2, 3)
_SEVEN_CODECS = (1, 2)
_SEVEN_NESTING = 8


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
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, timestamps_only: bool = False, strict: bool = False) -> None:
        self._limits = limits
        self._timestamps_only = timestamps_only
        self._strict = strict
        self._compiled: CompiledReader | None = None
        self._job = LARGE_TURN.current()

    @property
    def expansion(self) -> float | None:
        """The decompressed size of the newest compressed block divided by its size in the log; None if not known."""
        return None if self._compiled is None else self._compiled.expansion

    def blocks(
        self,
        chunk: Chunk,
        first_row: int = 0,
        end_row: int | None = None,
        *,
        ahead: bool = False,
    ) -> Iterator[RecordBlock]:
        """Yield the records of rows `first_row` to `end_row` (exclusive) of the chunk's batches, in one or more blocks.

        `ahead`: the first block is requested before its turn, so it may be NOT_YET.
        """
        end = len(chunk.batches) if end_row is None else end_row
        is_seven = chunk.generation is Generation.SEVEN  # its sets are nested: their sizes add up part by part
        allowance = Allowance(self._limits, ahead=(ahead or self._job is not None) and not is_seven)
        decode = partial(_decode_strictly if self._strict else _decode, timestamps_only=self._timestamps_only)
        plain = partial(_read_plain, chunk, allowance, decode)
        if chunk.kernels is None or not isinstance(chunk.batches, BatchArrays):
            blocks = plain(first_row, end)
        else:
            if self._compiled is None:
                from kafkalog_cli.log.reading.read_compiled import CompiledReader

                self._compiled = CompiledReader()
            blocks = self._compiled.blocks(chunk, (first_row, end), allowance, plain)
        if self._job is not None:
            yield from _in_turn(self._job, blocks, allowance, ahead=ahead, is_large=is_seven)
            return
        for block in blocks:
            yield block
            allowance.grant()


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


def _read_plain(
    chunk: Chunk, allowance: Allowance, decode: _Decode, first_row: int, end_row: int
) -> Iterator[RecordBlock]:
    for row, batch in enumerate(chunk.batches.rows(first_row, end_row), first_row):
        yield from _read_batch(chunk, row, batch, allowance, decode)


def _read_batch(chunk: Chunk, row: int, batch: Batch, allowance: Allowance, decode: _Decode) -> Iterator[RecordBlock]:
    parts = decode(chunk, batch, allowance.limits)
    part = next(parts, None)
    if part is not None and part[2] is not None and allowance.is_short(part[2].kind):
        yield NOT_YET
        parts = decode(chunk, batch, allowance.limits)
        part = next(parts, None)
    batches, begun = chunk.batches, 0
    while part is not None:
        (view, rows, fault), part = part, next(parts, None)
        records = RecordColumns.from_rows(rows)
        if batch.base_offset == NO_OFFSET and rows and not begun:
            # The base offset of a compressed message set is known only after decompression.
            batches, row = BatchColumns.from_rows([batch._replace(base_offset=rows[0][0])]), 0
        faults = {} if fault is None else {row: fault}
        yield RecordBlock(view, batches, row, row + 1, (len(rows),), records, faults, begun, part is not None)
        begun += len(rows)


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
    for view, rows, fault in parts:
        problem = ""
        if fault is None and view is not seen:
            problem = _problem(chunk, batch, view)
        seen = view
        kind = FaultKind.INVALID_INNER_MESSAGE if batch.codec else FaultKind.INVALID_RECORD
        yield view, rows, fault_of(batch, kind, problem) if problem else fault


def _problem(chunk: Chunk, batch: Batch, view: memoryview) -> str:
    if chunk.generation is Generation.SEVEN:
        return plain_seven.problem_of_seven_set(view) if batch.codec else ""
    start = batch.position - chunk.position
    problem = plain_seven.problem_of_entry(chunk.view, start, start + batch.size_bytes, batch)
    return problem or (plain_seven.problem_of_set(view, batch) if batch.codec else "")


def _in(view: memoryview, parts: Iterable[Part]) -> Decoded:
    return ((view, rows, fault) for rows, fault in parts)


def _decode_v2(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if batch.size_bytes < RECORD_BATCH.size:
        return _in(_NO_BYTES, _no_records(batch, FaultKind.INVALID_RECORD, "batch shorter than its own header"))
    if not batch.codec or batch.records_count <= 0:
        return _in(view, plain_records.decode_batch(view, start + RECORD_BATCH.size, end, batch))
    inner = _decompressed(batch.codec, view[start + RECORD_BATCH.size : end], batch, limits)
    if isinstance(inner, Fault):
        return _in(_NO_BYTES, [([], inner)])
    return _in(inner, plain_records.decode_batch(inner, 0, len(inner), batch))


def _decode_legacy(chunk: Chunk, batch: Batch, limits: Limits, *, timestamps_only: bool) -> Decoded:
    view, start = chunk.view, batch.position - chunk.position
    end = start + batch.size_bytes
    if not batch.codec:
        return _in(view, [plain_records.decode_message(view, start, end, batch, timestamps_only=timestamps_only)])
    if batch.codec not in _LEGACY_CODECS:
        reason = f"codec {batch.codec} in a message set"
        return _in(_NO_BYTES, _no_records(batch, FaultKind.UNKNOWN_CODEC, reason))
    value = plain_records.compressed_value(view, start, end, batch.magic)
    if value is None:
        reason = f"Found invalid compressed record set with null value (magic = {batch.magic})"
        return _in(_NO_BYTES, _no_records(batch, FaultKind.INVALID_INNER_MESSAGE, reason))
    inner = _decompressed(batch.codec, value, batch, limits)
    if isinstance(inner, Fault):
        return _in(_NO_BYTES, [([], inner)])
    return _in(inner, plain_records.decode_inner(inner, batch, timestamps_only=timestamps_only))


def _decode_seven(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if not batch.codec:
        return _in(view, [plain_seven.decode_seven(view, start, end, batch)])
    return _SevenSets(batch, limits).read(view[start:end])


class _SevenSets:
    """The messages of one compressed message of 0.7, and of compressed messages nested in it."""

    def __init__(self, batch: Batch, limits: Limits) -> None:
        self._batch = batch
        self._limits = limits
        self._left_bytes = limits.max_output_bytes
        self._fault: Fault | None = None

    def read(self, message: memoryview) -> Decoded:
        """Yield the parts, each in the buffer of its own set."""
        last: tuple[memoryview, list[Row], Fault | None] = (_NO_BYTES, [], None)
        for part in self._set(*plain_seven.seven_payload(message), 0):
            if last[1]:
                yield last
            last = part
        yield last[0], last[1], self._fault

    def _set(self, codec: int, payload: memoryview, depth: int) -> Decoded:
        inner = self._unpacked(codec, payload, depth)
        if isinstance(inner, Fault):
            self._fault = inner
            return
        rows: list[Row] = []
        for found in plain_seven.inner_messages(inner, self._batch):
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
