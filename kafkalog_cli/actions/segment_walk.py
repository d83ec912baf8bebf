"""One pass over a segment, across damage: its batches in file order, and what stood in the way."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from itertools import accumulate
from operator import ge, gt
from typing import Any, NamedTuple

from kafkalog_cli.actions.damage import DamageSeen
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import NO_OFFSET, NO_TIMESTAMP, Batch, BatchColumns, IntColumn
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.storage.fs import Filesystem, ReadableFile
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.read import RecordReader
from kafkalog_cli.storage.resync import next_good_batch
from kafkalog_cli.storage.scan import Scan

HELD_ROWS = 10_000
"""Batches with bad CRCs in a row that may turn out to be no batches when the chain breaks behind them."""

MAX_DAMAGED = 20
MAX_MAGIC = 2


class Damaged(NamedTuple):
    """Bytes `start` to `end` of a segment that are no batches, with batches behind them."""

    start: int
    end: int


class Stretch:
    """Consecutive batches of a segment: the columns that checks look through, as plain integers.

    `reached` is the largest last offset up to each batch (that batch's own, where offsets go up as they should),
    `reached_before` that of the batches before the first (-1: none); the same for the largest timestamp, in ms.
    `is_after_damage`: bytes that are no batches come right before. `is_ordered`: offsets go up.
    """

    __slots__ = (
        "base_offset",
        "batches",
        "end",
        "is_after_damage",
        "is_ordered",
        "last_offset",
        "max_timestamp",
        "position",
        "reached",
        "reached_before",
        "timestamp_before",
        "timestamp_so_far",
    )

    def __init__(
        self, batches: BatchColumns, reached_before: int, timestamp_before: int, *, is_after_damage: bool
    ) -> None:
        self.batches = batches
        self.position = _integers(batches.position)
        self.base_offset = _integers(batches.base_offset)
        self.last_offset = _integers(batches.last_offset)
        self.max_timestamp = _integers(batches.max_timestamp)
        self.end = self.position[-1] + int(batches.size_bytes[len(batches) - 1])
        self.reached_before = reached_before
        self.timestamp_before = timestamp_before
        self.timestamp_so_far = [*accumulate(self.max_timestamp, max, initial=timestamp_before)][1:]
        self.is_after_damage = is_after_damage
        self.is_ordered = self.first_disordered() is None
        self.reached = self.last_offset
        if not self.is_ordered:
            self.reached = [*accumulate(self.last_offset, max, initial=reached_before)][1:]

    def offset_before(self, row: int) -> int:
        """The largest offset of the batches before that of `row`, -1 if there is none."""
        return self.reached[row - 1] if row else self.reached_before

    def timestamp_until(self, row: int) -> int:
        """The largest timestamp of the batches before that of `row`."""
        return self.timestamp_so_far[row - 1] if row else self.timestamp_before

    def first_reaching(self, offset: int) -> int:
        """The row of the first batch whose last offset is `offset` or above; `reached` must go so far."""
        return bisect_left(self.reached, offset)

    def holds(self, row: int, offset: int) -> bool:
        """Whether `offset` lies between the first and the last offset of the batch.

        The first offset of a compressed message set is not in its header: there the batch before decides.
        """
        base = self.base_offset[row]
        return (base if base != NO_OFFSET else self.offset_before(row) + 1) <= offset <= self.last_offset[row]

    def first_disordered(self) -> int | None:
        """The row of the first batch that does not begin behind the one before it, None if all do."""
        before = (self.reached_before, *self.last_offset[:-1])
        base, last = self.base_offset, self.last_offset
        if not any(map(ge, before, base)) and not any(map(gt, base, last)):
            return None  # at the speed of C, but for compressed message sets, whose first offset is not known
        for row, previous in enumerate(before):
            first = last[row] if base[row] == NO_OFFSET else base[row]
            if first <= previous or first > last[row]:
                return row
        return None


class SegmentWalk:
    """Walks the chain of batches from `start`; where it breaks, goes on with the next good batch.

    Iterate for stretches, in ascending positions. Afterwards `end_position` is where the last batch ends,
    `last_offset` the largest of all (None: no batch), `largest_timestamp` likewise. `fault` ended the last chain,
    `damaged` are the first `MAX_DAMAGED` of `damaged_count` breaks before it, `disordered_at` and
    `unknown_magic_at` are the positions of the first such batches.
    """

    def __init__(
        self, file: ReadableFile, limits: Limits = DEFAULT_LIMITS, choice: KernelChoice | None = None, start: int = 0
    ) -> None:
        self.file = file
        self.end_position = start
        self.last_offset: int | None = None
        self.largest_timestamp = NO_TIMESTAMP
        self.fault: Fault | None = None
        self.damaged: list[Damaged] = []
        self.damaged_count = 0
        self.disordered_at: int | None = None
        self.unknown_magic_at: int | None = None
        self.bad_crcs = 0
        self._limits = limits
        self._choice = choice
        self._damage = DamageSeen()
        self._scanned_bytes = start

    def __iter__(self) -> Iterator[Stretch]:
        start: int | None = self.end_position
        while start is not None:
            if self.fault is not None:
                self.damaged_count += 1
                if len(self.damaged) < MAX_DAMAGED:
                    self.damaged.append(Damaged(self.end_position, start))
                self.fault = None
            start = yield from self._chain(start)

    def exit_code(self, fs: Filesystem) -> ExitCode:
        """What the damage that was met amounts to: WARNINGS for a damaged tail, CORRUPTION for more."""
        if self.disordered_at is not None or self.unknown_magic_at is not None:
            return ExitCode.CORRUPTION
        return self._damage.exit_code(fs, self.file, self._scanned_bytes, self._limits)

    def _chain(self, start: int) -> Generator[Stretch, None, int | None]:
        """One unbroken chain; returns where the next starts.

        Batches with bad CRCs are held back until a good one follows: a damaged length leads the chain astray, and
        what is read there must not hide the batches that are.
        """
        scan = Scan(self.file, start=start, limits=self._limits, choice=self._choice)
        held: list[Batch] = []
        for chunk in scan:
            batches = chunk.batches
            self._damage.batches(batches)
            good = _last_good_row(batches)
            if good is None or good < len(batches) - 1:
                if good is not None:
                    yield from self._stretch(held, _part(batches, 0, good + 1))
                    held = []
                held += batches.rows(0 if good is None else good + 1)
                if len(held) > HELD_ROWS:
                    yield from self._stretch(held, None)
                    held = []
            else:
                yield from self._stretch(held, batches)
                held = []
        self._scanned_bytes = scan.valid_bytes
        self.fault = scan.fault
        found = None
        if scan.fault is not None:
            self._damage.fault(scan.fault)
            found = next_good_batch(self.file, max(self.end_position, start) + 1, self._limits)
            if found is not None:
                held = [batch for batch in held if batch.position + batch.size_bytes <= found]
        yield from self._stretch(held, None)
        return found

    def _stretch(self, held: list[Batch], batches: BatchColumns | None) -> Iterator[Stretch]:
        for part in (BatchColumns.from_rows(held) if held else None, batches):
            if part is None or not len(part):
                continue
            reached = NO_OFFSET if self.last_offset is None else self.last_offset
            after_damage = bool(self.damaged_count) and int(part.position[0]) > self.end_position
            stretch = Stretch(part, reached, self.largest_timestamp, is_after_damage=after_damage)
            self._look_at(stretch)
            yield stretch

    def _look_at(self, stretch: Stretch) -> None:
        self.end_position = stretch.end
        self.last_offset = stretch.reached[-1]
        self.largest_timestamp = stretch.timestamp_so_far[-1]
        valid: Any = stretch.batches.valid
        self.bad_crcs += len(valid) - int(valid.sum() if hasattr(valid, "sum") else sum(valid))
        if self.disordered_at is None and not stretch.is_ordered:
            self.disordered_at = stretch.position[stretch.first_disordered() or 0]
        magic: Any = stretch.batches.magic
        if self.unknown_magic_at is None and int(magic.max() if hasattr(magic, "max") else max(magic)) > MAX_MAGIC:
            row = next(row for row, value in enumerate(magic) if value > MAX_MAGIC)
            self.unknown_magic_at = stretch.position[row]


def record_offsets(file: ReadableFile, batch: Batch, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int] | None:
    """The offsets of the first and the last record of a batch; None if it has none that can be read."""
    first: int | None = None
    last = NO_OFFSET
    reader = RecordReader(limits)
    for chunk in Scan(file, start=batch.position, end=batch.position + batch.size_bytes, limits=limits):
        for block in reader.blocks(chunk):
            offsets = block.records.offset
            if len(offsets):
                first = int(offsets[0]) if first is None else first
                last = int(offsets[len(offsets) - 1])
    return None if first is None else (first, last)


def _last_good_row(batches: BatchColumns) -> int | None:
    for row in range(len(batches) - 1, -1, -1):
        if batches.valid[row]:
            return row
    return None


def _part(batches: BatchColumns, first: int, end: int) -> BatchColumns:
    return BatchColumns.from_rows(batches.rows(first, end))


def _integers(column: IntColumn) -> list[int]:
    values: Any = column
    return values.tolist() if hasattr(values, "tolist") else values  # type: ignore[no-any-return]
