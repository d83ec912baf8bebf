"""Gather records into batches: how many are in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkalog_cli.format.batch import RECORD_BATCH
from kafkalog_cli.format.columns import IntColumn, first_row_from
from kafkalog_cli.ops.append.batching import BatchStyle, Block
from kafkalog_cli.ops.append.columns import Arriving, PlainRun, RecordRun, joined
from kafkalog_cli.ops.append.reading import NewRecord

BLOCK_BYTES = 1 << 20
BLOCK_RECORDS = 1 << 14
MOST_DELTA = (1 << 31) - 1
"""The largest difference between the first and the last offset of a batch."""


def blocks(
    records: Arriving,
    style: BatchStyle,
    now_ms: int,
    *,
    most_records: int = BLOCK_RECORDS,
    is_due: Callable[[], bool] = lambda: False,
) -> Iterator[Block]:
    """Gather records into batches, and yield several batches at a time.

    `now_ms` is the timestamp of records without one. A batch has at most BLOCK_RECORDS records. If `most_records` is
    less, a block ends after that many records. It ends earlier if `is_due` returns True, which is asked when no record
    comes for a while.
    """
    gathered = _Gathered(style, now_ms, most_records)
    for found in records:
        if found is None:
            if is_due():
                yield from gathered.taken(all_of_it=True)
            continue
        if style.follows_origins and not gathered.goes_on(found):
            yield from gathered.taken(all_of_it=True)
        if gathered.add(found):
            yield from gathered.taken(all_of_it=False)
    yield from gathered.taken(all_of_it=True)


class _Gathered:
    """Records of one style that are not in a block yet."""

    def __init__(self, style: BatchStyle, now_ms: int, most_records: int) -> None:
        self._style = style
        self._now_ms = now_ms
        self._most_records = most_records
        self._runs: list[RecordRun | PlainRun] = []
        self._size_bytes = self._count = 0
        self._due_bytes, self._due_count = BLOCK_BYTES, min(BLOCK_RECORDS // 2, most_records)
        self._first_offset = 0

    def goes_on(self, found: NewRecord | RecordRun) -> bool:
        """Whether a record or run may be in one batch with the records held, as far as origins decide it."""
        if not self._count:
            return True
        last = found.last_offset if isinstance(found, RecordRun) else found.origin.offset or 0
        return self._style_of(found) is self._style and last - self._first_offset <= MOST_DELTA

    def _style_of(self, found: NewRecord | RecordRun) -> BatchStyle:
        return self._style.of(found.origin, found.timestamp)

    def add(self, found: NewRecord | RecordRun) -> bool:
        """Hold more records, and return whether the records held are worth a block.

        If origins are followed, `goes_on` is true for them, or all others were taken.
        """
        if not self._count and self._style.follows_origins:
            self._style = self._style_of(found)
            self._first_offset = found.first_offset if isinstance(found, RecordRun) else found.origin.offset or 0
        if isinstance(found, RecordRun):
            self._hold(found)
        else:
            run = self._runs[-1] if self._runs else None
            if not isinstance(run, PlainRun):
                run = PlainRun()
                self._runs.append(run)
            self._size_bytes += run.add(found, self._now_ms)
            self._count += 1
        return self._size_bytes > self._due_bytes or self._count >= self._due_count

    def _hold(self, run: RecordRun | PlainRun) -> None:
        self._runs.append(run)
        self._size_bytes += len(run.buffer)
        self._count += len(run)

    def taken(self, *, all_of_it: bool) -> Iterator[Block]:
        """Yield the full batches, or all of them; the records left over stay for the next call."""
        if not self._count:
            return
        run, done = joined(self._runs), 0
        for first, end, ends in self._parts(run, all_of_it=all_of_it):
            yield Block(run.view, run.records(first, end), ends, self._style)
            done = end
        self._runs, self._size_bytes, self._count = [], 0, 0
        if done < len(run):
            rest = run.rest(done)
            self._first_offset = rest.first_offset
            self._hold(rest)
        self._due_bytes = max(BLOCK_BYTES, 2 * self._size_bytes)
        self._due_count = min(max(BLOCK_RECORDS // 2, 2 * self._count), self._most_records)

    def _parts(self, run: RecordRun | PlainRun, *, all_of_it: bool) -> Iterator[tuple[int, int, list[int]]]:
        """Yield the blocks of the run: first row, end row, and the ends of its batches relative to the first row."""
        most = self._most_records
        if most >= BLOCK_RECORDS:
            ends = _batch_ends(run.sizes(0, len(run)), self._style.batch_bytes)
            ends = ends if all_of_it else ends[:-1]
            if ends:
                yield 0, ends[-1], ends
            return
        for first in range(0, len(run), most):
            end = min(first + most, len(run))
            if all_of_it or end - first == most:
                yield first, end, _batch_ends(run.sizes(first, end), self._style.batch_bytes)


def _batch_ends(sizes: IntColumn, batch_bytes: int) -> list[int]:
    """Return where batches end; the last batch ends with the last record. `sizes`: of all records up to each."""
    room, begin, ends = batch_bytes - RECORD_BATCH.size, 0, []
    while begin < len(sizes):
        before = int(sizes[begin - 1]) if begin else 0
        full = first_row_from(before + room + 1, sizes)
        begin = min(max(full, begin + 1), begin + BLOCK_RECORDS)
        ends.append(begin)
    return ends
