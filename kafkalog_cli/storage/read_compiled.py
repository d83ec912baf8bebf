"""Records of a chunk by the compiled kernels: many batches a block, what is unusual left to the plain path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from kafkalog_cli.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    RECORD_BATCH,
    BatchColumns,
)
from kafkalog_cli.format.compression import CompressionFault, decompress_into
from kafkalog_cli.format.kernels.plain_rows import MOST_RECORDS
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import RecordBlock, RecordColumns
from kafkalog_cli.storage.scan import Chunk

ARENA_BYTES = 2 << 20
"""Decompressed bytes after which a block is handed out."""

_UNCOMPRESSED, _COMPRESSED, _UNUSUAL = 0, 1, 2

PlainRead = Callable[[int, int], Iterator[RecordBlock]]


class CompiledReader:
    """Decodes chunks into blocks; its buffers are reused, so a block lives until the next is asked for."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._arena = bytearray(2 * ARENA_BYTES)
        self._records: Any = None

    def blocks(self, chunk: Chunk, first_row: int, end_row: int, read_plain: PlainRead) -> Iterator[RecordBlock]:
        """Blocks of rows `first_row` to `end_row`; `read_plain` reads rows that the kernels do not."""
        matrix = chunk.batches.matrix
        for kind, begin, end in _runs(matrix, first_row, end_row):
            if kind == _UNUSUAL:
                yield from read_plain(begin, end)
            elif kind == _UNCOMPRESSED:
                starts = matrix[0, begin:end] - chunk.position + RECORD_BATCH.size
                ends = starts - RECORD_BATCH.size + matrix[1, begin:end]
                yield from self._decode(chunk.batches, begin, chunk.view, starts, ends, read_plain)
            else:
                yield from self._decompress(chunk, begin, end, read_plain)

    def _decompress(self, chunk: Chunk, begin: int, end: int, read_plain: PlainRead) -> Iterator[RecordBlock]:
        import numpy as np

        matrix = chunk.batches.matrix
        starts: list[int] = []
        ends: list[int] = []
        filled = 0
        part = matrix[:, begin:end]
        rows = zip(
            range(begin, end),
            part[0].tolist(),
            part[1].tolist(),
            (part[7] & CODEC_MASK).tolist(),
            part[13].tolist(),
            strict=True,
        )
        first = begin
        for row, position, size, codec, count in rows:
            start = position - chunk.position
            written = 0
            if count > MOST_RECORDS:  # refused by the plain path, which needs less memory to see it
                written = -1
            elif count > 0:
                packed = chunk.view[start + RECORD_BATCH.size : start + size]
                written = self._into_arena(codec, packed, filled, int(matrix[5, row]))
            if written < 0:
                yield from self._decode_arena(chunk, first, np.array(starts), np.array(ends), read_plain)
                yield from read_plain(row, row + 1)
                starts, ends, filled, first = [], [], 0, row + 1
                continue
            starts.append(filled)
            filled += written
            ends.append(filled)
            if filled >= ARENA_BYTES:
                yield from self._decode_arena(chunk, first, np.array(starts), np.array(ends), read_plain)
                starts, ends, filled, first = [], [], 0, row + 1
        yield from self._decode_arena(chunk, first, np.array(starts), np.array(ends), read_plain)

    def _into_arena(self, codec: int, data: memoryview, filled: int, magic: int) -> int:
        """Bytes written, -1 where the plain path shall say what is wrong."""
        try:
            written = decompress_into(codec, data, self._arena, filled, magic=magic, limits=self._limits)
        except BufferError:  # somebody still holds a block of this arena, and it must grow
            old = self._arena
            self._arena = bytearray(2 * len(old))
            self._arena[:filled] = old[:filled]
            written = decompress_into(codec, data, self._arena, filled, magic=magic, limits=self._limits)
        return -1 if isinstance(written, CompressionFault) else written

    def _decode_arena(
        self, chunk: Chunk, first: int, starts: Any, ends: Any, read_plain: PlainRead
    ) -> Iterator[RecordBlock]:
        if len(starts):
            yield from self._decode(chunk.batches, first, memoryview(self._arena), starts, ends, read_plain)

    def _decode(  # noqa: PLR0913, PLR0917
        self, batches: BatchColumns, begin: int, view: memoryview, starts: Any, ends: Any, read_plain: PlainRead
    ) -> Iterator[RecordBlock]:
        import numpy as np

        from kafkalog_cli.format.kernels import compiled, native

        decode = native.function(compiled.DECODE_BATCHES)
        buffer = np.frombuffer(view, dtype=np.uint8)
        while len(starts):
            part = batches.matrix[:, begin : begin + len(starts)]
            needed = compiled.record_capacity(part[13], starts, ends)
            if self._records is None or self._records.shape[1] < needed:
                self._records = np.empty((compiled.RECORD_COLUMNS, needed * 5 // 4 + 1), dtype=np.int64)
            record_ends = np.zeros(len(starts), dtype=np.int64)
            done = int(decode(buffer, starts, ends, part, self._records, record_ends))
            if done:
                records = self._records[:, : int(record_ends[done - 1])]
                columns = RecordColumns.from_matrix(records)
                yield RecordBlock(view, batches, begin, begin + done, record_ends[:done], columns)
            if done < len(starts):
                yield from read_plain(begin + done, begin + done + 1)
                done += 1
            begin += done
            starts, ends = starts[done:], ends[done:]


def _runs(matrix: Any, first_row: int, end_row: int) -> Iterator[tuple[int, int, int]]:
    """(kind, begin, end) of consecutive batches that are read alike."""
    import numpy as np

    part = matrix[:, first_row:end_row]
    codec = part[7] & CODEC_MASK
    kinds = np.where(codec == 0, _UNCOMPRESSED, _COMPRESSED)
    unusual = (part[5] < 2) | (part[1] < RECORD_BATCH.size) | (codec > 4) | ((part[7] & CONTROL_MASK) != 0)
    # A last offset before the base, or a sequence below -1, prints by Java's wrapping arithmetic.
    unusual |= (part[3] < part[2]) | (part[12] < -1)
    kinds[unusual] = _UNUSUAL
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    for begin, end in pairwise(edges):
        if end > begin:
            yield int(kinds[begin]), first_row + begin, first_row + end
