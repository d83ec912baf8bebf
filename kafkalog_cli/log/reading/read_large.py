"""Decode a batch with more records than fit in a block, part by part, with compiled kernels."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.columns import Integers
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.kernels import plain_records
from kafkalog_cli.format.kernels.plain_rows import PART_RECORDS
from kafkalog_cli.format.records import RecordArrays, RecordBlock, RecordColumns

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

        from kafkalog_cli.format.kernels import native

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
