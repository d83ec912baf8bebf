"""From batch columns to record columns: decompress, then decode."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kafkalog_cli.format.batch import NO_OFFSET, RECORD_BATCH, Batch, BatchColumns
from kafkalog_cli.format.compression import CompressionFault, decompress_into
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.kernels import plain_records, plain_seven
from kafkalog_cli.format.kernels.plain_rows import MOST_RECORDS, SETTLE_ROWS, RecordRows
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.storage.read_compiled import CompiledReader
from kafkalog_cli.storage.scan import Chunk, Generation

Decoded = tuple[memoryview, RecordRows, Fault | None]

_NO_BYTES = memoryview(b"")
_LEGACY_CODECS = (1, 2, 3)
_SEVEN_CODECS = (1, 2)
_SEVEN_NESTING = 8


class RecordReader:
    """Reads the records of chunks; buffers are reused, so a block lives until the next is asked for.

    A batch with a bad CRC is decoded all the same, as Kafka's own iterators do; what cannot be decoded is a
    fault of the block. `timestamps_only`: the lengths of keys and values in messages v0 and v1 are not.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, timestamps_only: bool = False) -> None:
        self._limits = limits
        self._timestamps_only = timestamps_only
        self._compiled: CompiledReader | None = None

    def blocks(self, chunk: Chunk, first_row: int = 0, end_row: int | None = None) -> Iterator[RecordBlock]:
        """The records of rows `first_row` to `end_row` of the chunk's batches, in one block or more."""
        end = len(chunk.batches) if end_row is None else end_row
        plain = partial(_read_plain, chunk, self._limits, self._timestamps_only)
        if chunk.kernels is None or chunk.batches.matrix is None:
            yield from plain(first_row, end)
            return
        if self._compiled is None:
            self._compiled = CompiledReader(self._limits)
        yield from self._compiled.blocks(chunk, first_row, end, plain)


def _read_plain(
    chunk: Chunk, limits: Limits, timestamps_only: bool, first_row: int, end_row: int
) -> Iterator[RecordBlock]:
    for row, batch in enumerate(chunk.batches.rows(first_row, end_row), first_row):
        view, rows, fault = _decode(chunk, batch, limits, timestamps_only=timestamps_only)
        batches, records, at = chunk.batches, rows.columns(), row
        if batch.base_offset == NO_OFFSET and len(rows):
            # Only now is it known where a compressed message set begins.
            batches, at = BatchColumns.from_rows([batch._replace(base_offset=records.offset[0])]), 0
        yield RecordBlock(view, batches, at, at + 1, (len(rows),), records, {} if fault is None else {at: fault})


def _decode(chunk: Chunk, batch: Batch, limits: Limits, *, timestamps_only: bool) -> Decoded:
    start = batch.position - chunk.position
    end = start + batch.size_bytes
    if chunk.generation is Generation.SEVEN:
        return _decode_seven(chunk.view, start, end, batch, limits)
    if batch.magic >= 2:
        return _decode_v2(chunk.view, start, end, batch, limits)
    return _decode_legacy(chunk, batch, limits, timestamps_only=timestamps_only)


def _decode_v2(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if batch.size_bytes < RECORD_BATCH.size:
        return _NO_BYTES, RecordRows(), _fault(batch, FaultKind.INVALID_RECORD, "batch shorter than its own header")
    if not batch.codec or batch.records_count <= 0:
        return view, *plain_records.decode_batch(view, start + RECORD_BATCH.size, end, batch)
    inner = _decompressed(batch.codec, view[start + RECORD_BATCH.size : end], batch, limits)
    if isinstance(inner, Fault):
        return _NO_BYTES, RecordRows(), inner
    return inner, *plain_records.decode_batch(inner, 0, len(inner), batch)


def _decode_legacy(chunk: Chunk, batch: Batch, limits: Limits, *, timestamps_only: bool) -> Decoded:
    view, start = chunk.view, batch.position - chunk.position
    end = start + batch.size_bytes
    if not batch.codec:
        return view, *plain_records.decode_message(view, start, end, batch, timestamps_only=timestamps_only)
    if batch.codec not in _LEGACY_CODECS:
        return _NO_BYTES, RecordRows(), _fault(batch, FaultKind.UNKNOWN_CODEC, f"codec {batch.codec} in a message set")
    value = plain_records.compressed_value(view, start, end, batch.magic)
    if value is None:
        reason = f"Found invalid compressed record set with null value (magic = {batch.magic})"
        return _NO_BYTES, RecordRows(), _fault(batch, FaultKind.INVALID_INNER_MESSAGE, reason)
    inner = _decompressed(batch.codec, value, batch, limits)
    if isinstance(inner, Fault):
        return _NO_BYTES, RecordRows(), inner
    return inner, *plain_records.decode_inner(inner, batch, timestamps_only=timestamps_only)


def _decode_seven(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if not batch.codec:
        return view, *plain_seven.decode_seven(view, start, end, batch)
    return _SevenSets(batch, limits).read(view[start:end])


class _SevenSets:
    """The messages of one compressed message of 0.7, and of those in it that are compressed themselves."""

    def __init__(self, batch: Batch, limits: Limits) -> None:
        self._batch = batch
        self._limits = limits
        self._left_bytes = limits.max_output_bytes
        self._gathered = bytearray()
        self._rows = RecordRows()

    def read(self, message: memoryview) -> Decoded:
        inner = self._unpacked(*plain_seven.seven_payload(message), 0)
        if isinstance(inner, Fault):
            return _NO_BYTES, self._rows, inner
        rows, nested, fault = plain_seven.decode_seven_set(inner, self._batch)
        if not nested:
            return inner, rows, fault
        # Nested sets lie in several buffers: the payloads are gathered into one.
        fault = self._gather(inner, rows, nested, 1) or fault
        return memoryview(self._gathered), self._rows, fault

    def _gather(self, inner: memoryview, rows: RecordRows, nested: dict[int, int], depth: int) -> Fault | None:
        for index, row in enumerate(rows):
            payload = inner[row[5] : row[5] + row[6]]
            codec = nested.get(index)
            if codec is not None:
                fault = self._descend(codec, payload, depth)
                if fault is not None:
                    return fault
                continue
            self._rows.recent.append((*row[:5], len(self._gathered), *row[6:]))
            self._gathered += payload
            if len(self._rows.recent) > SETTLE_ROWS:
                self._rows.settle()
                if len(self._rows) > MOST_RECORDS:
                    return plain_seven.too_many(self._batch)
        return None

    def _descend(self, codec: int, payload: memoryview, depth: int) -> Fault | None:
        inner = self._unpacked(codec, payload, depth)
        if isinstance(inner, Fault):
            return inner
        rows, nested, fault = plain_seven.decode_seven_set(inner, self._batch)
        return self._gather(inner, rows, nested, depth + 1) or fault

    def _unpacked(self, codec: int, payload: memoryview, depth: int) -> memoryview | Fault:
        if codec not in _SEVEN_CODECS or depth == _SEVEN_NESTING:
            reason = f"codec {codec} in a 0.7 message, {depth} deep"
            return _fault(self._batch, FaultKind.UNKNOWN_CODEC, reason)
        inner = _decompressed(codec, payload, self._batch, self._limits._replace(max_output_bytes=self._left_bytes))
        if not isinstance(inner, Fault):
            self._left_bytes -= len(inner) if not depth else 2 * len(inner)  # the deeper ones are copied
        return inner


def _decompressed(codec: int, data: memoryview, batch: Batch, limits: Limits) -> memoryview | Fault:
    inner = bytearray()
    size = decompress_into(codec, data, inner, 0, magic=batch.magic, limits=limits)
    if isinstance(size, CompressionFault):
        return _fault(batch, size.kind, size.message)
    return memoryview(inner)[:size]


def _fault(batch: Batch, kind: FaultKind, message: str) -> Fault:
    return Fault(
        kind, batch.position, message, batch.size_bytes, base_offset=batch.base_offset, last_offset=batch.last_offset
    )
