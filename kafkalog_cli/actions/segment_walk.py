"""One pass over a segment, across damage: its batches in file order, and what stood in the way."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from itertools import accumulate
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

MAX_FAULTS = 20
MAX_MAGIC = 2


class Damaged(NamedTuple):
    """Bytes `start` to `end` of a segment that are no batches, with batches behind them."""

    start: int
    end: int


class Stretch:
    """Consecutive batches of a segment: the columns that checks look through, as plain integers.

    `before` is the last offset of the batch before them (-1: none), `timestamp_before` the largest timestamp
    before them. `is_after_damage`: bytes that are no batches come right before.
    """

    __slots__ = (
        "base_offset",
        "batches",
        "before",
        "end",
        "is_after_damage",
        "last_offset",
        "max_timestamp",
        "position",
        "timestamp_before",
        "timestamp_so_far",
    )

    def __init__(self, batches: BatchColumns, before: int, timestamp_before: int, *, is_after_damage: bool) -> None:
        self.batches = batches
        self.position = _integers(batches.position)
        self.base_offset = _integers(batches.base_offset)
        self.last_offset = _integers(batches.last_offset)
        self.max_timestamp = _integers(batches.max_timestamp)
        self.end = self.position[-1] + int(batches.size_bytes[len(batches) - 1])
        self.before = before
        self.timestamp_before = timestamp_before
        self.timestamp_so_far = [*accumulate(self.max_timestamp, max, initial=timestamp_before)][1:]
        self.is_after_damage = is_after_damage

    def offset_before(self, row: int) -> int:
        """The last offset of the batch before that of `row`, -1 if there is none."""
        return self.last_offset[row - 1] if row else self.before

    def timestamp_until(self, row: int) -> int:
        """The largest timestamp of the batches before that of `row`."""
        return self.timestamp_so_far[row - 1] if row else self.timestamp_before

    def first_reaching(self, offset: int) -> int:
        """The row of the first batch whose last offset is `offset` or above; the last must reach it."""
        return bisect_left(self.last_offset, offset)

    def holds(self, row: int, offset: int) -> bool:
        """Whether `offset` lies between the first and the last offset of the batch.

        The first offset of a compressed message set is not in its header: there the batch before decides.
        """
        base = self.base_offset[row]
        return (base if base != NO_OFFSET else self.offset_before(row) + 1) <= offset <= self.last_offset[row]


class SegmentWalk:
    """Walks the chain of batches from `start`; where it breaks, goes on with the next good batch.

    Iterate for stretches, in ascending positions. Afterwards `end_position` is where the last batch ends,
    `last_offset` that batch's last offset (None: no batch), `largest_timestamp` of all. `faults`, `damaged`
    and `disordered_at` (position of the first batch whose offsets do not go up) tell what is wrong.
    """

    def __init__(
        self, file: ReadableFile, limits: Limits = DEFAULT_LIMITS, choice: KernelChoice | None = None, start: int = 0
    ) -> None:
        self.file = file
        self.end_position = start
        self.last_offset: int | None = None
        self.largest_timestamp = NO_TIMESTAMP
        self.faults: list[Fault] = []
        self.damaged: list[Damaged] = []
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
            if start > self.end_position:
                self.damaged.append(Damaged(self.end_position, start))
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
        found = None
        if scan.fault is not None:
            self._remember(scan.fault)
            found = next_good_batch(self.file, max(self.end_position, start) + 1, self._limits)
            if found is not None:
                held = [batch for batch in held if batch.position + batch.size_bytes <= found]
        yield from self._stretch(held, None)
        return found

    def _stretch(self, held: list[Batch], batches: BatchColumns | None) -> Iterator[Stretch]:
        for part in (BatchColumns.from_rows(held) if held else None, batches):
            if part is None or not len(part):
                continue
            before = NO_OFFSET if self.last_offset is None else self.last_offset
            after_damage = bool(self.damaged) and self.damaged[-1].end == int(part.position[0])
            stretch = Stretch(part, before, self.largest_timestamp, is_after_damage=after_damage)
            self._look_at(stretch)
            yield stretch

    def _look_at(self, stretch: Stretch) -> None:
        self.end_position = stretch.end
        self.last_offset = stretch.last_offset[-1]
        self.largest_timestamp = stretch.timestamp_so_far[-1]
        valid: Any = stretch.batches.valid
        self.bad_crcs += len(valid) - int(valid.sum() if hasattr(valid, "sum") else sum(valid))
        if self.disordered_at is None:
            previous = stretch.before
            for base, last, position in zip(
                stretch.base_offset, stretch.last_offset, stretch.position, strict=True
            ):
                if last <= previous or (base <= previous and base != NO_OFFSET) or base > last:
                    self.disordered_at = position
                    break
                previous = last
        magic: Any = stretch.batches.magic
        if self.unknown_magic_at is None and int(magic.max() if hasattr(magic, "max") else max(magic)) > MAX_MAGIC:
            row = next(row for row, value in enumerate(magic) if value > MAX_MAGIC)
            self.unknown_magic_at = stretch.position[row]

    def _remember(self, fault: Fault) -> None:
        self._damage.fault(fault)
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(fault)


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
