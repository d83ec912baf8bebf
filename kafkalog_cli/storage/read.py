"""From batch columns to record columns: decompress, then decode."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kafkalog_cli.format.batch import RECORD_BATCH, Batch
from kafkalog_cli.format.compression import CompressionFault, decompress
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.kernels import plain_records, plain_seven
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock, RecordColumns
from kafkalog_cli.storage.read_compiled import CompiledReader
from kafkalog_cli.storage.scan import Chunk, Generation

Decoded = tuple[memoryview, list[tuple[int, ...]], Fault | None]

_NO_BYTES = memoryview(b"")
_LEGACY_CODECS = (1, 2, 3)
_SEVEN_CODECS = (1, 2)
_SEVEN_NESTING = 8


class RecordReader:
    """Reads the records of chunks; buffers are reused, so a block lives until the next is asked for.

    A batch with a bad CRC is decoded all the same, as Kafka's own iterators do; what cannot be decoded is a
    fault of the block.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._compiled: CompiledReader | None = None

    def blocks(self, chunk: Chunk, first_row: int = 0, end_row: int | None = None) -> Iterator[RecordBlock]:
        """The records of rows `first_row` to `end_row` of the chunk's batches, in one block or more."""
        end = len(chunk.batches) if end_row is None else end_row
        if chunk.kernels is None or chunk.batches.matrix is None:
            yield from _read_plain(chunk, self._limits, first_row, end)
            return
        if self._compiled is None:
            self._compiled = CompiledReader(self._limits)
        plain = partial(_read_plain, chunk, self._limits)
        yield from self._compiled.blocks(chunk, first_row, end, plain)


def _read_plain(chunk: Chunk, limits: Limits, first_row: int, end_row: int) -> Iterator[RecordBlock]:
    for row, batch in enumerate(chunk.batches.rows(first_row, end_row), first_row):
        view, rows, fault = _decode(chunk, batch, limits)
        yield RecordBlock(
            view,
            chunk.batches,
            row,
            row + 1,
            (len(rows),),
            RecordColumns.from_rows(rows),
            {} if fault is None else {row: fault},
        )


def _decode(chunk: Chunk, batch: Batch, limits: Limits) -> Decoded:
    start = batch.position - chunk.position
    end = start + batch.size_bytes
    if chunk.generation is Generation.SEVEN:
        return _decode_seven(chunk.view, start, end, batch, limits)
    if batch.magic >= 2:
        return _decode_v2(chunk.view, start, end, batch, limits)
    return _decode_legacy(chunk.view, start, end, batch, limits)


def _decode_v2(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if batch.size_bytes < RECORD_BATCH.size:
        return _NO_BYTES, [], _fault(batch, FaultKind.INVALID_RECORD, "batch shorter than its own header")
    if not batch.codec or batch.records_count <= 0:
        return view, *plain_records.decode_batch(view, start + RECORD_BATCH.size, end, batch)
    inner = _decompressed(batch.codec, view[start + RECORD_BATCH.size : end], batch, limits)
    if isinstance(inner, Fault):
        return _NO_BYTES, [], inner
    return inner, *plain_records.decode_batch(inner, 0, len(inner), batch)


def _decode_legacy(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if not batch.codec:
        return view, *plain_records.decode_message(view, start, end, batch)
    if batch.codec not in _LEGACY_CODECS:
        return _NO_BYTES, [], _fault(batch, FaultKind.UNKNOWN_CODEC, f"codec {batch.codec} in a message set")
    value = plain_records.compressed_value(view, start, end, batch.magic)
    if value is None:
        reason = f"Found invalid compressed record set with null value (magic = {batch.magic})"
        return _NO_BYTES, [], _fault(batch, FaultKind.INVALID_INNER_MESSAGE, reason)
    inner = _decompressed(batch.codec, value, batch, limits)
    if isinstance(inner, Fault):
        return _NO_BYTES, [], inner
    return inner, *plain_records.decode_inner(inner, batch)


def _decode_seven(view: memoryview, start: int, end: int, batch: Batch, limits: Limits) -> Decoded:
    if not batch.codec:
        return view, *plain_seven.decode_seven(view, start, end, batch)
    budget = [limits.max_output_bytes]
    payloads, fault = _seven_payloads(view[start:end], batch, limits, budget, 0)
    # Nested sets lie in several buffers: gather the payloads into one.
    gathered, rows = bytearray(), []
    for row, payload in payloads:
        rows.append((*row[:5], len(gathered), *row[6:]))
        gathered += payload
    return memoryview(gathered), rows, fault


SevenPayloads = list[tuple[tuple[int, ...], memoryview]]


def _seven_payloads(
    message: memoryview, batch: Batch, limits: Limits, budget: list[int], depth: int
) -> tuple[SevenPayloads, Fault | None]:
    codec, payload = plain_seven.seven_payload(message)
    if codec not in _SEVEN_CODECS or depth == _SEVEN_NESTING:
        return [], _fault(batch, FaultKind.UNKNOWN_CODEC, f"codec {codec} in a 0.7 message, {depth} deep")
    inner = _decompressed(codec, payload, batch, limits._replace(max_output_bytes=budget[0]))
    if isinstance(inner, Fault):
        return [], inner
    budget[0] -= len(inner)
    rows, nested, fault = plain_seven.decode_seven_set(inner, 0, len(inner), batch)
    deeper = dict(nested)
    found: SevenPayloads = []
    for index, row in enumerate(rows):
        if index not in deeper:
            found.append((row, inner[row[5] : row[5] + row[6]]))
            continue
        below, below_fault = _seven_payloads(deeper[index], batch, limits, budget, depth + 1)
        found += below
        if below_fault is not None:
            return found, below_fault
    return found, fault


def _decompressed(codec: int, data: memoryview, batch: Batch, limits: Limits) -> memoryview | Fault:
    result = decompress(codec, data, magic=batch.magic, limits=limits)
    if isinstance(result, CompressionFault):
        return _fault(batch, result.kind, result.message)
    return memoryview(result)


def _fault(batch: Batch, kind: FaultKind, message: str) -> Fault:
    return Fault(
        kind, batch.position, message, batch.size_bytes, base_offset=batch.base_offset, last_offset=batch.last_offset
    )
