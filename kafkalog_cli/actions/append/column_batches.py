"""Gather records that come as columns into batches, as `batching.blocks` does with single records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafkalog_cli.actions.append.batching import (
    BLOCK_BYTES,
    BLOCK_RECORDS,
    MOST_DELTA,
    RECORD_OVERHEAD_BYTES,
    BatchStyle,
    ColumnBlock,
    put_record,
)
from kafkalog_cli.actions.append.columns import RecordRun, moved
from kafkalog_cli.actions.append.reading import NewRecord
from kafkalog_cli.format.batch import RECORD_BATCH

_KEY_BYTES, _VALUE_BYTES, _HEADERS_AT, _HEADER_BYTES, _BEGIN = 4, 6, 7, 11, 12
_POSITIONS = (3, 5, 7, 12)


class ColumnBatches:
    """Gathers runs of records, and single records between them, into whole batches of one style."""

    def __init__(self, style: BatchStyle, now_ms: int, most_records: int) -> None:
        self._style = style
        self._now_ms = now_ms
        self._most_records = most_records
        self._runs: list[RecordRun] = []
        self._buffer = bytearray()
        self._rows: list[tuple[int, ...]] = []
        self._size_bytes = self._count = 0
        self._due_bytes = BLOCK_BYTES
        self._first_offset = 0

    def blocks(
        self, arriving: Iterable[NewRecord | RecordRun | None], is_due: Callable[[], bool]
    ) -> Iterator[ColumnBlock]:
        """See `batching.blocks`."""
        for found in arriving:
            if found is None:
                if is_due():
                    yield from self._taken(all_of_it=True)
                continue
            if self._style.follows_origins and not self._goes_on(found):
                yield from self._taken(all_of_it=True)
                self._style = self._style_of(found)
            if isinstance(found, RecordRun):
                self._end_rows()
                self._add(found)
            else:
                self._add_row(found)
            if self._size_bytes > self._due_bytes or self._count >= min(BLOCK_RECORDS // 2, self._most_records):
                yield from self._taken(all_of_it=False)
        yield from self._taken(all_of_it=True)

    def _goes_on(self, found: NewRecord | RecordRun) -> bool:
        """Whether a record or run may be in one batch with the records held so far.

        If none are held, its first offset is noted as the start of the batch.
        """
        first = last = found.origin.offset or 0
        if isinstance(found, RecordRun):
            first, last = int(found.matrix[0, 0]), int(found.matrix[0, -1])
        if not self._count:
            self._first_offset = first
        return self._style_of(found) is self._style and last - self._first_offset <= MOST_DELTA

    def _style_of(self, found: NewRecord | RecordRun) -> BatchStyle:
        timestamp = int(found.matrix[1, 0]) if isinstance(found, RecordRun) else found.timestamp
        return self._style.of(found.origin, timestamp)

    def _add(self, run: RecordRun) -> None:
        self._runs.append(run)
        self._size_bytes += len(run.buffer)
        self._count += len(run)

    def _add_row(self, record: NewRecord) -> None:
        begin = len(self._buffer)
        row = put_record(self._buffer, record, record.origin.offset or 0, self._now_ms)
        self._rows.append((*row, len(self._buffer) - row[_HEADERS_AT], begin))
        self._size_bytes += len(self._buffer) - begin
        self._count += 1

    def _end_rows(self) -> None:
        """Turn the single records held into a run."""
        if not self._rows:
            return
        import numpy as np

        self._runs.append(RecordRun(np.frombuffer(bytes(self._buffer), np.uint8), np.array(self._rows, np.int64).T))
        self._buffer, self._rows = bytearray(), []

    def _taken(self, *, all_of_it: bool) -> Iterator[ColumnBlock]:
        """Yield the full batches, or all of them; the records left over stay for the next call."""
        self._end_rows()
        if not self._runs:
            return
        run, done = _joined(self._runs), 0
        for first, end, ends in self._parts(run, all_of_it=all_of_it):
            yield ColumnBlock(run.buffer, run.matrix[:, first:end], ends, self._style)
            done = end
        self._runs, self._size_bytes, self._count = [], 0, 0
        if done < len(run):
            rest = run.matrix[:, done:].copy()
            self._first_offset = int(rest[0, 0])
            self._add(RecordRun(run.buffer[int(rest[_BEGIN, 0]) :], moved(rest)))
        self._due_bytes = max(BLOCK_BYTES, 2 * self._size_bytes)

    def _parts(self, run: RecordRun, *, all_of_it: bool) -> Iterator[tuple[int, int, list[int]]]:
        """Yield the blocks of the run: first row, end row, and the ends of its batches relative to the first row."""
        import numpy as np

        matrix, most = run.matrix, self._most_records
        sizes: Any = np.maximum(matrix[_KEY_BYTES], 0) + np.maximum(matrix[_VALUE_BYTES], 0) + matrix[_HEADER_BYTES]
        sizes += RECORD_OVERHEAD_BYTES
        if most >= BLOCK_RECORDS:
            ends = batch_ends(sizes, self._style.batch_bytes)
            ends = ends if all_of_it else ends[:-1]
            if ends:
                yield 0, ends[-1], ends
            return
        for first in range(0, len(run), most):
            end = min(first + most, len(run))
            if all_of_it or end - first == most:
                yield first, end, batch_ends(sizes[first:end], self._style.batch_bytes)


def batch_ends(sizes: Any, batch_bytes: int) -> list[int]:
    """Return where the batches of records of these sizes end; the last batch ends with the last record."""
    import numpy as np

    totals: Any = np.cumsum(sizes)
    room, begin, ends = batch_bytes - RECORD_BATCH.size, 0, []
    while begin < len(totals):
        before = int(totals[begin - 1]) if begin else 0
        full = int(np.searchsorted(totals, before + room, side="right"))
        begin = min(max(full, begin + 1), begin + BLOCK_RECORDS)
        ends.append(begin)
    return ends


def _joined(runs: list[RecordRun]) -> RecordRun:
    if len(runs) == 1:
        return runs[0]
    import numpy as np

    matrix: Any = np.concatenate([run.matrix for run in runs], axis=1)
    first = at = 0
    for run in runs:
        rows = matrix[:, first : first + len(run)]
        for row in _POSITIONS:
            rows[row] += at
        first += len(run)
        at += len(run.buffer)
    return RecordRun(np.concatenate([run.buffer for run in runs]), matrix)
