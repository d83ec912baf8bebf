"""Reads a segment once, across damage: yields its batches in file order, and records the damage.

Batches with wrong CRCs are pending until a good batch follows: a damaged length leads a chain astray. False batches
must not hide real batches from `verify` and `recover`, which pass on also what no CRC confirms.

`log_range` finds the offsets of a log so, from its last segment and not from its index alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.names import classify_file
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import NO_OFFSET, NO_TIMESTAMP, RECORD_BATCH_MAGIC, Batch, BatchColumns
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET, OffsetIndex
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.log_end import LogBounds, last_entries
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import Headers, header_at
from kafkalog_cli.log.reading.scan import Chunk, Rows, Scan, good_rows
from kafkalog_cli.ops.damage import DamageSeen

if TYPE_CHECKING:
    from kafkalog_cli.format.records import RecordBlock

    TakeRecords = Callable[[RecordBlock], None]

MAX_MAGIC = 2
MAX_PENDING = 10_000
"""Batches with bad CRCs that are pending, as they may not be batches if the chain breaks after them."""
MAX_DAMAGED = 20
"""The largest number of breaks that a walk remembers."""


class DamagedBytes(NamedTuple):
    """Bytes `start` to `end` of a segment that are not batches, followed by more batches."""

    start: int
    end: int


class BatchRun:
    """Consecutive batches of a segment, with the columns that checks need as plain integers.

    `reached` is the largest last offset up to each batch; if offsets increase, that is the batch's own last offset.
    `reached_before` is the largest offset before the first batch (-1: none), `last_reached` the largest of all. The
    same is true of the largest timestamp, in ms. `is_after_damage`: bytes that are not batches come right before.
    The first offset of a compressed message set is -1.
    `first_disordered` is the row of the first batch that does not start after the batch before it, None if all do
    (`is_ordered`).
    """

    def __init__(
        self, batches: BatchColumns, reached_before: int, timestamp_before: int, *, is_after_damage: bool
    ) -> None:
        self.batches = batches
        self.position, self.base_offset, self.last_offset = batches.position, batches.base_offset, batches.last_offset
        self.max_timestamp = batches.max_timestamp
        self.end = batches.end_position
        self.reached_before = reached_before
        self.timestamp_before = timestamp_before
        self.is_after_damage = is_after_damage
        self.first_disordered = self._first_disordered()

    @cached_property
    def reached(self) -> Sequence[int]:
        """The largest last offset up to each batch."""
        if self.is_ordered:
            return self.last_offset
        return [*accumulate(self.last_offset, max, initial=self.reached_before)][1:]

    @cached_property
    def timestamp_so_far(self) -> Sequence[int]:
        """The largest timestamp before each batch, then that of all batches."""
        return [*accumulate(self.max_timestamp, max, initial=self.timestamp_before)]

    @property
    def is_ordered(self) -> bool:
        """Whether offsets increase."""
        return self.first_disordered is None

    @cached_property
    def last_reached(self) -> int:
        """The largest last offset of these batches and all before."""
        last = self.last_offset
        return last[-1] if self.is_ordered else max(self.reached_before, self.batches.survey.largest.last_offset)

    @cached_property
    def largest_timestamp(self) -> int:
        """The largest timestamp of these batches and all before."""
        return max(self.timestamp_before, self.batches.survey.largest.max_timestamp)

    def offset_before(self, row: int) -> int:
        """Return the largest offset of the batches before `row`, -1 if there are none."""
        return self.reached[row - 1] if row else self.reached_before

    def offsets_of(self, row: int) -> tuple[int, int]:
        """Return the first and the last offset of a batch; of a compressed message set, only the last is known."""
        first, last = self.base_offset[row], self.last_offset[row]
        is_set = first == NO_OFFSET and int(self.batches.magic[row]) < RECORD_BATCH_MAGIC
        return (last if is_set else first), last

    def first_reaching(self, offset: int) -> int:
        """Return the row of the first batch whose last offset is `offset` or above; `reached` must reach `offset`."""
        return bisect_left(self.reached, offset)

    def holds(self, row: int, offset: int) -> bool:
        """Whether `offset` is between the first and the last offset of the batch.

        The header of a compressed message set lacks its first offset: the offset after the batch before is used.
        """
        base = self.base_offset[row]
        first = base if base != NO_OFFSET else self.offset_before(row) + 1
        return first <= offset <= self.last_offset[row]

    def first_beyond(self, next_offset: int | None) -> int | None:
        """Return the row of the first batch with a right CRC that reaches the next segment, None if none does.

        `next_offset` is the base offset of the next segment, None for the last segment. The offsets of a batch with a
        bad CRC may be the damage itself.
        """
        if next_offset is None or self.last_reached < next_offset:
            return None
        rows = rows_where(
            lambda last, valid: (last >= next_offset) & (valid != 0), self.last_offset, self.batches.valid
        )
        return rows[0] if rows else None

    def _first_disordered(self) -> int | None:
        base, last = self.base_offset, self.last_offset
        if self.reached_before < base[0] and not self.batches.survey.disordered:
            return None  # it never holds for compressed message sets, whose first offset is not known
        for row, previous in enumerate((self.reached_before, *last[:-1])):
            first = self.offsets_of(row)[0] if base[row] == NO_OFFSET else base[row]
            if first <= previous or first > last[row]:
                return row
        return None


class SegmentWalk:
    """Walks the batches of a segment from byte `start` on, across damage.

    Iterate for runs of batches, in ascending positions. Afterwards `end_position` is the end of the last batch, and
    `last_magic` its magic. `last_offset` (None: no batch) and `largest_timestamp` are the largest of all batches.
    `fault` ended the last chain (None: the end of the file). `damaged` has the first of `damaged_count` breaks before
    more batches. `disordered_at` and `unknown_magic_at` are the positions of the first batches with these faults, None
    without. `first_batch` is the batch at byte 0 of the file, None if the walk did not meet it.

    `next_offset` is the base offset of the next segment: a batch that reaches it is out of order, too. `records` gets
    the records of batches with right CRCs, before their batches. With `headers_only` no CRCs are checked.
    """

    def __init__(  # noqa: PLR0913
        self,
        file: ReadableFile,
        limits: Limits = DEFAULT_LIMITS,
        start: int = 0,
        *,
        records: TakeRecords | None = None,
        next_offset: int | None = None,
        headers_only: bool = False,
    ) -> None:
        self.file = file
        self.end_position = start
        self.first_batch: Batch | None = None
        self.last_offset: int | None = None
        self.last_magic: int | None = None
        self.largest_timestamp = NO_TIMESTAMP
        self.disordered_at: int | None = None
        self.unknown_magic_at: int | None = None
        self.bad_crcs = 0
        self.fault: Fault | None = None
        self.damaged: list[DamagedBytes] = []
        self.damaged_count = 0
        self._limits = limits
        self._damage = DamageSeen()
        self._base_offset = classify_file(file.path.rpartition("/")[2]).offset
        self._scanned_bytes = start
        self._records = records
        self._next_offset = next_offset
        self._chain = self._headers if headers_only else self._batches

    def __iter__(self) -> Iterator[BatchRun]:
        for batches in self._all_chains():
            reached = NO_OFFSET if self.last_offset is None else self.last_offset
            after_damage = bool(self.damaged_count) and batches.position[0] > self.end_position
            batch_run = BatchRun(batches, reached, self.largest_timestamp, is_after_damage=after_damage)
            self._look_at(batch_run)
            yield batch_run

    def _all_chains(self) -> Iterator[BatchColumns]:
        start: int | None = self.end_position
        while start is not None:
            if self.fault is not None:
                self.damaged_count += 1
                if self.damaged_count <= MAX_DAMAGED:
                    self.damaged.append(DamagedBytes(self.end_position, start))
                self.fault = None
            start = yield from self._chain(start)

    def _batches(self, start: int) -> Generator[BatchColumns, None, int | None]:
        """Yield one unbroken chain, and return the start of the next.

        If a batch with a bad CRC has an offset that the segment cannot contain, the chain is astray already. It ends
        there, even if more batches seem to follow.
        """
        scan = Scan(self.file, start=start, limits=self._limits)
        pending: list[Batch] = []
        astray: Fault | None = None
        for found in self._columns(scan):
            row = first_astray(found, self._base_offset)
            if row is not None:
                astray = _crc_fault(found.row(row))
                if not row:
                    break
            batches = found if row is None else found.part(0, row)
            self._damage.batches(batches)
            good = batches.last_valid_row()
            if good is not None:
                yield from _joined(pending, batches.part(0, good + 1))
                pending = []
            pending += batches.rows(0 if good is None else good + 1)
            if len(pending) > MAX_PENDING:
                yield BatchColumns.from_rows(pending)
                pending = []
            if astray is not None:
                break
        self._scanned_bytes = scan.end_position
        self.fault = astray or scan.fault
        broken = max(self.end_position, start)
        following = None if self.fault is None else self._after_break(self.fault, broken)
        if following is not None:
            pending = [batch for batch in pending if batch.position + batch.size_bytes <= following]
        if pending:
            yield BatchColumns.from_rows(pending)
        return following

    def _headers(self, start: int) -> Generator[BatchColumns, None, int | None]:
        """Yield one unbroken chain by its headers alone, and return the start of the next."""
        chain = Headers(self.file, start=start)
        yield from chain.columns()
        self.fault = chain.fault
        following = None if chain.fault is None else self._after_break(chain.fault, chain.fault.position)
        if chain.fault is not None and following is not None:
            self.end_position = chain.fault.position
        return following

    def _after_break(self, fault: Fault, broken: int) -> int | None:
        """Return the start of the next good batch after a chain that ends at byte `broken`, None if there is none."""
        from kafkalog_cli.log.reading.resync import next_good_batch

        self._damage.fault(fault)
        return next_good_batch(self.file, broken + 1, self._limits, broken_at=broken)

    def _columns(self, scan: Scan) -> Iterator[BatchColumns]:
        """Yield the batches per chunk. Records of batches with right CRCs are passed on first, if they are wanted."""
        if self._records is None:
            yield from scan.batches()
            return
        from kafkalog_cli.log.reading.records import records as records_of

        for chunk, blocks in records_of(scan, partial(_rows_to_read, self._base_offset), strict=True):
            for block in blocks:
                self._records(block)
            yield chunk.batches

    def run(self) -> SegmentWalk:
        """Walk to the end, for the attributes alone, and return this walk."""
        for _ in self:
            pass
        return self

    @property
    def is_sound(self) -> bool:
        """Whether the walk met no damage, and offsets increase: its last offset is that of the log then."""
        return self.fault is None and not (self.damaged_count or self.bad_crcs) and self.disordered_at is None

    @property
    def last_good(self) -> int:
        """The position of the last batch with a right CRC, -1 if there is none."""
        return self._damage.last_good

    @property
    def first_bad(self) -> int | None:
        """The position of the first damage in bytes, None without damage."""
        return self._damage.first_bad

    def exit_code(self, fs: Filesystem) -> ExitCode:
        """Return WARNINGS for a damaged tail, CORRUPTION for other damage, OK without damage."""
        if self.disordered_at is not None or self.unknown_magic_at is not None:
            return ExitCode.CORRUPTION
        return self._damage.exit_code(fs, self.file, self._scanned_bytes, self._limits)

    def _look_at(self, batch_run: BatchRun) -> None:
        if self.last_offset is None and not batch_run.batches.position[0]:
            self.first_batch = batch_run.batches.row(0)
        self.end_position = batch_run.end
        self.last_offset = batch_run.last_reached
        self.largest_timestamp = batch_run.largest_timestamp
        if not batch_run.batches.all_valid():
            self.bad_crcs += len(rows_where(lambda valid: valid == 0, batch_run.batches.valid))
        disordered = batch_run.first_disordered
        # The offsets of a batch with a bad CRC may be the damage itself.
        if self.disordered_at is None and disordered is not None and batch_run.batches.valid[disordered]:
            self.disordered_at = batch_run.position[disordered]
        beyond = None if self.disordered_at is not None else batch_run.first_beyond(self._next_offset)
        if beyond is not None:
            self.disordered_at = batch_run.position[beyond]
        magic = batch_run.batches.magic
        self.last_magic = magic[-1]
        if self.unknown_magic_at is None and batch_run.batches.survey.largest.magic > MAX_MAGIC:
            row = next(row for row, value in enumerate(magic) if value > MAX_MAGIC)
            self.unknown_magic_at = batch_run.position[row]


def _joined(pending: list[Batch], batches: BatchColumns) -> Iterator[BatchColumns]:
    """Yield pending batches, if there are any, and the good batches after them."""
    if pending:
        yield BatchColumns.from_rows(pending)
    if batches:
        yield batches


def _rows_to_read(base_offset: int | None, chunk: Chunk) -> list[Rows]:
    """Return runs of batches with right CRCs, up to where the chain goes astray."""
    astray = first_astray(chunk.batches, base_offset)
    runs = good_rows(chunk.batches)
    return runs if astray is None else [run for run in runs if run[1] <= astray]


def first_astray(batches: BatchColumns, base_offset: int | None) -> int | None:
    """Return the first batch with a bad CRC whose offset, which no CRC covers, cannot be in this segment."""
    if base_offset is None or batches.all_valid():
        return None
    for row, (is_valid, first, last) in enumerate(
        zip(batches.valid, batches.base_offset, batches.last_offset, strict=True)
    ):
        offset = int(last if first == NO_OFFSET else first)
        if not is_valid and not base_offset <= offset <= base_offset + MAX_RELATIVE_OFFSET:
            return row
    return None


def _crc_fault(batch: Batch) -> Fault:
    message = "CRC mismatch, and an offset that the segment cannot hold"
    expected, got = "an offset of this segment", str(batch.last_offset)
    return Fault(FaultKind.CRC_MISMATCH, batch.position, message, batch.size_bytes, expected, got)


def record_offsets(file: ReadableFile, batch: Batch, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int] | None:
    """Return the offsets of the first and last record of a batch, None if no record can be read."""
    first: int | None = None
    last = NO_OFFSET
    for block in Scan.of_batch(file, batch, limits).blocks():
        offsets = block.records.offset
        if len(offsets):
            first = int(offsets[0]) if first is None else first
            last = int(offsets[len(offsets) - 1])
    return None if first is None else (first, last)


TRIED_ENTRIES = 16
"""Index entries to try from the end, before the whole segment is read: any of them may not point at a good batch."""
UNKNOWN_RANGE = LogBounds(0, (1 << 63) - 1)


def log_range(fs: Filesystem, partition: Partition, limits: Limits = DEFAULT_LIMITS) -> LogBounds | None:
    """Return the offset range that the batches give; None if there is no segment.

    In a damaged last segment, the range ends after the last batch that can be found. A broker may end the log earlier.
    In 0.7 the offsets are byte positions. Raises the exceptions of `open_read`.
    """
    if not partition.segments:
        return None
    first, last = partition.segments[0], partition.segments[-1]
    with fs.open_read(last.log.path) as file:
        return LogBounds(first.base_offset, _end_offset(fs, file, last, limits))


def _end_offset(fs: Filesystem, file: ReadableFile, segment: Segment, limits: Limits) -> int:
    if segment.is_v07:
        reader = Scan(file, limits=limits, v07_base_offset=segment.base_offset)
        return segment.base_offset + reader.run().end_position
    walk = SegmentWalk(file, limits, start=good_start(fs, file, segment, limits))
    walk.run()
    return segment.base_offset if walk.last_offset is None else walk.last_offset + 1


def good_start(fs: Filesystem, file: ReadableFile, segment: Segment, limits: Limits) -> int:
    """Return the position of an index entry near the end where a batch with a valid CRC starts; 0 if there is none."""
    if segment.offset_index is None:
        return 0
    index, _ = last_entries(fs, segment.offset_index.path, OffsetIndex, segment.base_offset, in_use=True)
    for slot in range(len(index) - 1, max(-1, len(index) - 1 - TRIED_ENTRIES), -1):
        position = index[slot].position
        if 0 < position < file.size_bytes and _is_good_batch(file, position, limits):
            return position
    return 0


def _is_good_batch(file: ReadableFile, position: int, limits: Limits) -> bool:
    header = header_at(file, position)
    if header is None or isinstance(header, Fault) or header.size_bytes > limits.max_batch_bytes:
        return False
    return any(batches.valid[0] for batches in Scan.of_batch(file, header, limits).batches())
