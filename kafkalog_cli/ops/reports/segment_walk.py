"""Reads a segment once, across damage: yields its batches in file order, and records the damage."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from operator import ge, gt
from typing import NamedTuple

from kafkalog_cli.broker.segment_writer import MAX_RELATIVE_OFFSET
from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.names import classify_file
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import NO_OFFSET, NO_TIMESTAMP, Batch, BatchArrays, BatchColumns
from kafkalog_cli.format.columns import first_row_from, integers, least_and_largest, rows_where
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.read import BatchRecords
from kafkalog_cli.log.reading.read_ahead import ReadAhead, Rows
from kafkalog_cli.log.reading.resync import next_good_batch
from kafkalog_cli.log.reading.scan import Chunk, Scan
from kafkalog_cli.ops.damage import DamageSeen

GATHERED_ROWS = 4_000
"""The number of batches at which checks of whole columns reach full speed; a chunk may have only 200."""

HELD_ROWS = 10_000
"""Batches with bad CRCs that are held back, as they may not be batches if the chain breaks after them."""

MAX_DAMAGED = 20
MAX_MAGIC = 2


class DamagedBytes(NamedTuple):
    """Bytes `start` to `end` of a segment that are not batches, followed by more batches."""

    start: int
    end: int


class BatchRun:
    """Consecutive batches of a segment, with the columns that checks need as plain integers.

    `reached` is the largest last offset up to each batch; if offsets increase, that is the batch's own last offset.
    `reached_before` is the largest offset before the first batch (-1: none), `last_reached` the largest of all. The
    same is true of the largest timestamp, in ms. `is_after_damage`: bytes that are not batches come right before.
    `is_ordered`: offsets increase. A column becomes a list at its first use: a check of few batches should use rows or
    the matrix of `batches`.
    """

    def __init__(
        self, batches: BatchColumns, reached_before: int, timestamp_before: int, *, is_after_damage: bool
    ) -> None:
        self.batches = batches
        self.end = int(batches.position[len(batches) - 1]) + int(batches.size_bytes[len(batches) - 1])
        self.reached_before = reached_before
        self.timestamp_before = timestamp_before
        self.is_after_damage = is_after_damage
        self._disordered = self._first_disordered()

    @cached_property
    def position(self) -> Sequence[int]:
        """The start of each batch, in bytes."""
        return integers(self.batches.position)

    @cached_property
    def base_offset(self) -> Sequence[int]:
        """The first offset of each batch, -1 for a compressed message set."""
        return integers(self.batches.base_offset)

    @cached_property
    def last_offset(self) -> Sequence[int]:
        """The last offset of each batch."""
        return integers(self.batches.last_offset)

    @cached_property
    def max_timestamp(self) -> Sequence[int]:
        """The largest timestamp of each batch from its header, in ms."""
        return integers(self.batches.max_timestamp)

    @cached_property
    def reached(self) -> Sequence[int]:
        """The largest last offset up to each batch."""
        if self.is_ordered:
            return self.last_offset
        return [*accumulate(self.last_offset, max, initial=self.reached_before)][1:]

    @cached_property
    def timestamp_so_far(self) -> Sequence[int]:
        """The largest timestamp up to each batch."""
        return [*accumulate(self.max_timestamp, max, initial=self.timestamp_before)][1:]

    @property
    def is_ordered(self) -> bool:
        """Whether offsets increase."""
        return self._disordered is None

    @cached_property
    def last_reached(self) -> int:
        """The largest last offset of these batches and all before."""
        last = self.batches.last_offset
        return int(last[len(last) - 1]) if self.is_ordered else max(self.reached_before, least_and_largest(last)[1])

    @cached_property
    def largest_timestamp(self) -> int:
        """The largest timestamp of these batches and all before."""
        return max(self.timestamp_before, least_and_largest(self.batches.max_timestamp)[1])

    def offset_before(self, row: int) -> int:
        """Return the largest offset of the batches before `row`, -1 if there are none."""
        return self.reached[row - 1] if row else self.reached_before

    def timestamp_until(self, row: int) -> int:
        """Return the largest timestamp of the batches before `row`."""
        return self.timestamp_so_far[row - 1] if row else self.timestamp_before

    def first_reaching(self, offset: int) -> int:
        """Return the row of the first batch whose last offset is `offset` or above; `reached` must reach `offset`."""
        if self.is_ordered:
            return first_row_from(offset, self.batches.last_offset)
        return bisect_left(self.reached, offset)

    def holds(self, row: int, offset: int) -> bool:
        """Whether `offset` is between the first and the last offset of the batch.

        The header of a compressed message set lacks its first offset: the offset after the batch before is used.
        """
        base = int(self.batches.base_offset[row])
        first = base if base != NO_OFFSET else self.offset_before(row) + 1
        return first <= offset <= int(self.batches.last_offset[row])

    def first_disordered(self) -> int | None:
        """Return the row of the first batch that does not start after the batch before it, None if all do."""
        return self._disordered

    def _first_disordered(self) -> int | None:
        if isinstance(self.batches, BatchArrays) and _all_ascend(self.batches, self.reached_before):
            return None
        before = (self.reached_before, *self.last_offset[:-1])
        base, last = self.base_offset, self.last_offset
        if not any(map(ge, before, base)) and not any(map(gt, base, last)):
            return None  # fast path (in C); it never holds for compressed message sets, whose first offset is not known
        for row, previous in enumerate(before):
            first = last[row] if base[row] == NO_OFFSET else base[row]
            if first <= previous or first > last[row]:
                return row
        return None


class SegmentWalk:
    """Walks the chain of batches from `start`; after a break it continues with the next good batch.

    Iterate for runs of batches, in ascending positions. Afterwards `end_position` is the end of the last batch, and
    `last_offset` the largest offset (None: no batch), `largest_timestamp` the largest timestamp. `fault` ended the
    last chain. `damaged` contains the first `MAX_DAMAGED` of `damaged_count` breaks before it. `disordered_at` and
    `unknown_magic_at` are the positions of the first batches with these faults, None without.
    """

    def __init__(
        self,
        file: ReadableFile,
        limits: Limits = DEFAULT_LIMITS,
        choice: KernelChoice | None = None,
        start: int = 0,
        *,
        records: Callable[[RecordBlock], None] | None = None,
    ) -> None:
        self.file = file
        self.end_position = start
        self.last_offset: int | None = None
        self.largest_timestamp = NO_TIMESTAMP
        self.fault: Fault | None = None
        self.damaged: list[DamagedBytes] = []
        self.damaged_count = 0
        self.disordered_at: int | None = None
        self.unknown_magic_at: int | None = None
        self.bad_crcs = 0
        self._limits = limits
        self._choice = choice
        self._damage = DamageSeen()
        self._scanned_bytes = start
        self._records = records
        self._base_offset = classify_file(file.path.rpartition("/")[2]).offset

    def __iter__(self) -> Iterator[BatchRun]:
        start: int | None = self.end_position
        while start is not None:
            if self.fault is not None:
                self.damaged_count += 1
                if len(self.damaged) < MAX_DAMAGED:
                    self.damaged.append(DamagedBytes(self.end_position, start))
                self.fault = None
            start = yield from self._chain(start)

    @property
    def first_bad(self) -> int | None:
        """The position of the first damage in bytes, None without damage."""
        return self._damage.first_bad

    def exit_code(self, fs: Filesystem) -> ExitCode:
        """Return WARNINGS for a damaged tail, CORRUPTION for other damage, OK without damage."""
        if self.disordered_at is not None or self.unknown_magic_at is not None:
            return ExitCode.CORRUPTION
        return self._damage.exit_code(fs, self.file, self._scanned_bytes, self._limits)

    def _chain(self, start: int) -> Generator[BatchRun, None, int | None]:
        """Yield one unbroken chain, and return the start of the next.

        Batches with bad CRCs are held back until a good batch follows. A damaged length leads the chain astray, and
        false batches must not hide real batches. If a batch with a bad CRC has an offset that the segment cannot
        contain, the chain is astray already. It ends there, even if more batches seem to follow.
        """
        deep = self._records is not None
        scan = Scan(self.file, start=start, limits=self._limits, choice=self._choice, deep=deep)
        scan.columns_only = not deep
        held: list[Batch] = []
        astray: Fault | None = None
        for gathered in _gathered(self._chunks(scan)):
            batches = gathered
            row = self._first_astray(batches)
            if row is not None:
                astray = _crc_fault(batches.row(row))
                if not row:
                    break
                batches = batches.part(0, row)
            self._damage.batches(batches)
            good = _last_good_row(batches)
            if good is None or good < len(batches) - 1:
                if good is not None:
                    yield from self._batch_run(held, batches.part(0, good + 1))
                    held = []
                held += batches.rows(0 if good is None else good + 1)
                if len(held) > HELD_ROWS:
                    yield from self._batch_run(held, None)
                    held = []
            else:
                yield from self._batch_run(held, batches)
                held = []
            if astray is not None:
                break
        self._scanned_bytes = scan.valid_bytes
        self.fault = astray or scan.fault
        found = None
        if self.fault is not None:
            self._damage.fault(self.fault)
            broken = max(self.end_position, start)
            found = next_good_batch(self.file, broken + 1, self._limits, broken_at=broken)
            if found is not None:
                held = [batch for batch in held if batch.position + batch.size_bytes <= found]
        yield from self._batch_run(held, None)
        return found

    def _first_astray(self, batches: BatchColumns) -> int | None:
        """Return the first batch with a bad CRC whose offset, which no CRC covers, cannot be in this segment."""
        base = self._base_offset
        if base is None or batches.all_valid():
            return None
        for row, (is_valid, first, last) in enumerate(
            zip(batches.valid, batches.base_offset, batches.last_offset, strict=True)
        ):
            offset = int(last if first == NO_OFFSET else first)
            if not is_valid and not base <= offset <= base + MAX_RELATIVE_OFFSET:
                return row
        return None

    def _good_rows(self, chunk: Chunk) -> list[Rows]:
        """Return runs of batches with valid CRCs, up to where the chain goes astray."""
        astray = self._first_astray(chunk.batches)
        runs = good_rows(chunk)
        return runs if astray is None else [run for run in runs if run[1] <= astray]

    def _chunks(self, scan: Scan) -> Iterator[BatchColumns]:
        """Yield the batches per chunk. Records of batches with valid CRCs are passed on first, if they are wanted."""
        rows = None if self._records is None else self._good_rows
        for chunk, blocks in ReadAhead(scan, self._limits, rows, strict=True):
            for block in blocks:
                assert self._records is not None
                self._records(block)
            yield chunk.batches

    def _batch_run(self, held: list[Batch], batches: BatchColumns | None) -> Iterator[BatchRun]:
        for part in (BatchColumns.from_rows(held) if held else None, batches):
            if part is None or not len(part):
                continue
            reached = NO_OFFSET if self.last_offset is None else self.last_offset
            after_damage = bool(self.damaged_count) and int(part.position[0]) > self.end_position
            batch_run = BatchRun(part, reached, self.largest_timestamp, is_after_damage=after_damage)
            self._look_at(batch_run)
            yield batch_run

    def _look_at(self, batch_run: BatchRun) -> None:
        self.end_position = batch_run.end
        self.last_offset = batch_run.last_reached
        self.largest_timestamp = batch_run.largest_timestamp
        if not batch_run.batches.all_valid():
            self.bad_crcs += len(rows_where(lambda valid: valid == 0, batch_run.batches.valid))
        disordered = batch_run.first_disordered()
        # The offsets of a batch with a bad CRC may be the damage itself.
        if self.disordered_at is None and disordered is not None and batch_run.batches.valid[disordered]:
            self.disordered_at = int(batch_run.batches.position[disordered])
        magic = batch_run.batches.magic
        if self.unknown_magic_at is None and least_and_largest(magic)[1] > MAX_MAGIC:
            row = next(row for row, value in enumerate(magic) if value > MAX_MAGIC)
            self.unknown_magic_at = batch_run.position[row]


def record_offsets(file: ReadableFile, batch: Batch, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int] | None:
    """Return the offsets of the first and last record of a batch, None if no record can be read."""
    first: int | None = None
    last = NO_OFFSET
    for block in BatchRecords(file, batch, limits):
        offsets = block.records.offset
        if len(offsets):
            first = int(offsets[0]) if first is None else first
            last = int(offsets[len(offsets) - 1])
    return None if first is None else (first, last)


def _gathered(chunks: Iterator[BatchColumns]) -> Iterator[BatchColumns]:
    """Yield the same batches, with columns of compiled kernels joined until array operations pay off."""
    gathered: list[BatchArrays] = []
    rows = 0
    for batches in chunks:
        if isinstance(batches, BatchArrays):
            gathered.append(batches)
            rows += len(batches)
            if rows < GATHERED_ROWS:
                continue
        yield from _joined(gathered)
        gathered, rows = [], 0
        if not isinstance(batches, BatchArrays):
            yield batches
    yield from _joined(gathered)


def _joined(parts: list[BatchArrays]) -> Iterator[BatchColumns]:
    if len(parts) > 1:
        import numpy as np

        yield BatchColumns.from_matrix(np.concatenate([part.matrix for part in parts], axis=1))
    else:
        yield from parts


def _crc_fault(batch: Batch) -> Fault:
    message = "CRC mismatch, and an offset that the segment cannot hold"
    expected, got = "an offset of this segment", str(batch.last_offset)
    return Fault(FaultKind.CRC_MISMATCH, batch.position, message, batch.size_bytes, expected, got)


def _last_good_row(batches: BatchColumns) -> int | None:
    for row in range(len(batches) - 1, -1, -1):
        if batches.valid[row]:
            return row
    return None


def good_rows(chunk: Chunk) -> list[Rows]:
    """Return runs of batches with valid CRCs."""
    valid = chunk.batches.valid
    if chunk.batches.all_valid():
        return [(0, len(valid))]
    runs: list[Rows] = []
    for row, good in enumerate(valid):
        if good and runs and runs[-1][1] == row:
            runs[-1] = (runs[-1][0], row + 1)
        elif good:
            runs.append((row, row + 1))
    return runs


def _all_ascend(batches: BatchArrays, reached_before: int) -> bool:
    """Whether each batch starts after the batch before it, from the columns of compiled kernels."""
    base, last = batches.base_offset, batches.last_offset
    begins_behind = int(base[0]) > reached_before and bool((base[1:] > last[:-1]).all())
    return begins_behind and bool((last >= base).all())
