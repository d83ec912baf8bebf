"""Decode the records of a chunk with compiled kernels, many batches per block.

Unusual batches are decoded in Python.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from kafkalog_cli.format.batch import CODEC_MASK, CONTROL_MASK, RECORD_BATCH, BatchArrays, BatchColumns
from kafkalog_cli.format.columns import Integers
from kafkalog_cli.format.compression import CompressionFault, decompress_into
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.kernels import native, plain_records
from kafkalog_cli.format.records import PART_RECORDS, RecordArrays, RecordBlock, RecordColumns
from kafkalog_cli.log.reading.allowance import AHEAD_BYTES, ARENA_BYTES, NOT_YET, Allowance
from kafkalog_cli.log.reading.scan import Chunk

KEPT_ARENA_BYTES = 2 * AHEAD_BYTES
"""A larger arena is not kept for further batches, because each reader has its own arena."""

_UNCOMPRESSED, _COMPRESSED, _LARGE, _UNUSUAL = range(4)
_OVER_ALLOWANCE = -2

PlainRead = Callable[[int, int], Iterator[RecordBlock]]


class CompiledReader:
    """Decodes chunks into blocks. Its buffers are reused, so a block is valid until the next is requested.

    `expansion` is the decompressed size of the newest compressed block divided by its size in the log; None before it.
    """

    def __init__(self) -> None:
        self.expansion: float | None = None
        self._arena = bytearray()
        self._records: Integers | None = None

    def blocks(
        self,
        chunk: Chunk,
        rows: tuple[int, int],
        allowance: Allowance,
        read_plain: PlainRead,
    ) -> Iterator[RecordBlock]:
        """Yield blocks of `rows`, (first row, end row). `read_plain` decodes the rows that the kernels do not."""
        first_row, end_row = rows
        batches = chunk.batches.arrays()
        for kind, begin, end in _runs(batches.part(first_row, end_row), first_row):
            if kind == _UNUSUAL:
                yield from read_plain(begin, end)
            elif kind == _UNCOMPRESSED:
                starts = batches.position[begin:end] - chunk.position + RECORD_BATCH.size
                ends = starts - RECORD_BATCH.size + batches.size_bytes[begin:end]
                yield from self._decode(batches, begin, chunk.view, starts, ends, read_plain)
            elif kind == _COMPRESSED:
                yield from self._decompress(chunk, begin, end, allowance, read_plain)
            else:
                for row in range(begin, end):
                    yield from self._large(chunk, row, allowance, read_plain)

    def _large(self, chunk: Chunk, row: int, allowance: Allowance, read_plain: PlainRead) -> Iterator[RecordBlock]:
        batch, view = chunk.batches.row(row), chunk.view
        start = batch.position - chunk.position + RECORD_BATCH.size
        end = start - RECORD_BATCH.size + batch.size_bytes
        if batch.codec:
            written = self._into_arena(batch.codec, view[start:end], 0, allowance)
            if written == _OVER_ALLOWANCE:
                yield NOT_YET
                written = self._into_arena(batch.codec, view[start:end], 0, allowance)
            if written <= 0:  # an empty output means damage too
                yield from read_plain(row, row + 1)
                return
            view, start, end = memoryview(self._arena), 0, written
        yield from LargeBatch(chunk.batches, row, view, start, end, self._matrix(PART_RECORDS)).blocks()
        del view
        self._give_back()

    def _decompress(
        self, chunk: Chunk, begin: int, end: int, allowance: Allowance, read_plain: PlainRead
    ) -> Iterator[RecordBlock]:
        starts: list[int] = []
        ends: list[int] = []
        filled, first = 0, begin
        for row, codec, packed in _packed(chunk, begin, end):
            written = self._into_arena(codec, packed, filled, allowance)
            if written == _OVER_ALLOWANCE:
                if starts:
                    yield from self._decode_arena(chunk, first, starts, ends, read_plain)
                    starts, ends, filled, first = [], [], 0, row
                    written = self._into_arena(codec, packed, filled, allowance)
                if written == _OVER_ALLOWANCE:
                    yield NOT_YET
                    written = self._into_arena(codec, packed, filled, allowance)
            if written >= 0:
                starts.append(filled)
                filled += written
                ends.append(filled)
            if written < 0 or filled >= ARENA_BYTES:
                yield from self._decode_arena(chunk, first, starts, ends, read_plain)
                self._give_back()
                starts, ends, filled, first = [], [], 0, row + 1
            if written < 0:
                yield from read_plain(row, row + 1)
        yield from self._decode_arena(chunk, first, starts, ends, read_plain)

    def _into_arena(self, codec: int, data: memoryview, filled: int, allowance: Allowance) -> int:
        """Decompress `data` into the arena at `filled`; return the number of bytes written.

        The result is -1 if `data` is damaged: the plain path must then report the fault. It is _OVER_ALLOWANCE if the
        reduced limits are exceeded.
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

    def _give_back(self) -> None:
        if len(self._arena) > KEPT_ARENA_BYTES:
            self._arena = bytearray(2 * ARENA_BYTES)

    def _matrix(self, rows: int) -> Integers:
        """Return a matrix with room for at least `rows` records."""
        import numpy as np

        from kafkalog_cli.format.kernels import compiled

        if self._records is None or self._records.shape[1] < rows:
            self._records = np.empty((compiled.RECORD_COLUMNS, rows * 5 // 4 + 1), dtype=np.int64)
        return self._records

    def _decode_arena(
        self, chunk: Chunk, first: int, starts: list[int], ends: list[int], read_plain: PlainRead
    ) -> Iterator[RecordBlock]:
        import numpy as np

        if starts:
            batches, view = chunk.batches.arrays(), memoryview(self._arena)
            self.expansion = ends[-1] / int(batches.size_bytes[first : first + len(starts)].sum())
            yield from self._decode(batches, first, view, np.array(starts), np.array(ends), read_plain)

    def _decode(  # noqa: PLR0913, PLR0917
        self,
        batches: BatchArrays,
        begin: int,
        view: memoryview,
        starts: Integers,
        ends: Integers,
        read_plain: PlainRead,
    ) -> Iterator[RecordBlock]:
        import numpy as np

        from kafkalog_cli.format.kernels import compiled, native

        buffer = np.frombuffer(view, dtype=np.uint8)
        while len(starts):
            most = len(starts)
            part = batches.matrix[:, begin : begin + most]
            needed = compiled.record_capacity(part[13], starts, ends)
            out = self._matrix(needed)
            record_ends = np.zeros(most, dtype=np.int64)
            decode = native.function(native.DECODE_BATCHES)  # only here: it may have to be compiled
            done = int(decode(buffer, starts, ends, part, out, record_ends))
            if done:
                records = out[:, : int(record_ends[done - 1])]
                columns = RecordColumns.from_matrix(records)
                yield RecordBlock(view, batches, begin, begin + done, record_ends[:done], columns)
            if done < most:
                yield from read_plain(begin + done, begin + done + 1)
                done += 1
            begin += done
            starts, ends = starts[done:], ends[done:]


def _packed(chunk: Chunk, begin: int, end: int) -> Iterator[tuple[int, int, memoryview]]:
    """Yield row, codec and compressed records of each batch; no bytes if the header states no records."""
    part = chunk.batches.part(begin, end).arrays()
    codecs = (part.attributes & CODEC_MASK).tolist()
    columns = (part.position.tolist(), part.size_bytes.tolist(), codecs, part.records_count.tolist())
    for row, position, size, codec, count in zip(range(begin, end), *columns, strict=True):
        start = position - chunk.position
        yield row, codec, chunk.view[start + RECORD_BATCH.size : start + (size if count > 0 else RECORD_BATCH.size)]


def _runs(part: BatchArrays, first_row: int) -> Iterator[tuple[int, int, int]]:
    """Yield (kind, begin, end) for each run of consecutive batches that are read in the same way.

    `part` contains the batches from row `first_row` on.
    """
    import numpy as np

    codec = part.attributes & CODEC_MASK
    kinds = np.where(codec == 0, _UNCOMPRESSED, _COMPRESSED)
    unusual = (part.magic < 2) | (part.size_bytes < RECORD_BATCH.size) | (codec > 4)
    unusual |= (part.attributes & CONTROL_MASK) != 0
    # The plain path computes a last offset below the base, or a sequence below -1, as Java's wrapping ints do.
    unusual |= (part.last_offset < part.base_offset) | (part.base_sequence < -1)
    kinds[part.records_count > PART_RECORDS] = _LARGE
    kinds[unusual] = _UNUSUAL
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    for begin, end in pairwise(edges):
        if end > begin:
            yield int(kinds[begin]), first_row + begin, first_row + end


_NO_RECORDS = RecordColumns.from_rows([])


class LargeBatch:
    """A batch v2, row `row` of `batches`, whose (decompressed) records are `view[start:end]`.

    `out` is a matrix with room for PART_RECORDS records. The plain twin decodes unusual parts.
    """

    def __init__(self, batches: BatchColumns, row: int, view: memoryview, start: int, end: int, out: Integers) -> None:  # noqa: PLR0913, PLR0917
        self._batches = batches
        self._row = row
        self._batch = batches.row(row)
        self._view = view
        self._start = start
        self._end = end
        self._out = out

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the parts as `plain_records.decode_batch` does: a compressed batch with a fault has no records."""
        if self._batch.codec:
            fault = next((fault for _, fault in self._parts() if fault is not None), None)
            if fault is not None:
                yield self._block(_NO_RECORDS, fault, 0)
                return
        begun = 0
        for records, fault in self._parts():
            yield self._block(records, fault, begun)
            begun += len(records)

    def _block(self, records: RecordColumns, fault: Fault | None, begun: int) -> RecordBlock:
        import numpy as np

        row, end = self._row, len(records)
        goes_on = fault is None and begun + end < self._batch.records_count
        faults = {} if fault is None else {row: fault}
        ends = np.array([end]) if isinstance(records, RecordArrays) else (end,)
        return RecordBlock(self._view, self._batches, row, row + 1, ends, records, faults, begun, goes_on)

    def _parts(self) -> Iterator[tuple[RecordColumns, Fault | None]]:
        import numpy as np

        decode = native.function(native.DECODE_PART)
        buffer = np.frombuffer(self._view, dtype=np.uint8)
        header = self._batches.arrays().matrix[:, self._row : self._row + 1]
        first, count, here, fault = 0, self._batch.records_count, self._start, None
        while fault is None and first < count:
            wanted = min(PART_RECORDS, count - first)
            position = decode(buffer, here, self._end, wanted, header, self._out)
            if position < 0 or (first + wanted == count and position != self._end):
                rows, position, fault = plain_records.decode_part(self._view, here, self._end, self._batch, first)
                records = RecordColumns.from_rows(rows)
            else:
                records = RecordColumns.from_matrix(self._out[:, :wanted])
            first, here = first + len(records), position
            yield records, fault
