"""The way to read a segment file: how deep, in which range of bytes, and what to do about damage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from enum import Enum, unique
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import classify_file
from kafkalog_cli.format.batch import NO_OFFSET, Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind, incomplete_batch
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.scan import Chunk, Generation, Rows, Scan, gathered, good_rows

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.read_ahead import ChunkBlocks, Work

_HEADERS, _SMALL_BYTES = 256, 4096
LONG_BYTES = 256 << 20
"""The fewest bytes that are scanned in strips: their threads take as long as a few MiB."""


@unique
class DamagePolicy(Enum):
    """The reaction of a reader to a break in the chain of batches.

    STOP ends the reading, as a broker does. RESYNC continues with the next good batch after the last good one. HOLD
    continues too, and holds batches with wrong CRCs back until a good batch follows. A damaged length leads the chain
    astray, and false batches must not hide real batches.
    """

    STOP = "stop"
    RESYNC = "resync"
    HOLD = "hold"


class DamagedBytes(NamedTuple):
    """Bytes `start` to `end` of a segment that are not batches, followed by more batches."""

    start: int
    end: int


TakeRecords = Callable[[RecordBlock], None]


class DamageListener(Protocol):
    """Is called with all batches and faults in file order, before batches are held back."""

    def batches(self, batches: BatchColumns) -> None:
        """Take the CRC results of some batches."""

    def fault(self, fault: Fault) -> None:
        """Take the fault that ended a chain."""


class SegmentReader:
    """Reads the batches of one segment file from byte `start` to byte `end` (default: the end of the file).

    The method decides how deep: `headers` and `header_columns` check no CRCs and stop at damage. `chains`, `chunks` and
    `batches` read all bytes and check CRCs. `blocks` and `ahead` also decode the records. `held_batches` is for HOLD.
    Call a single method, once.

    Damage does not raise. Afterwards `end_position` is the byte after the last batch of the last chain, and `fault` the
    reason why that chain ended (None: the end of the range). `good_bytes` is the end of the last batch with a right
    CRC. With RESYNC `skipped` is the damage before the present chain, with the number of skipped bytes (None: no
    damage). With HOLD `damaged` has the first of `damaged_count` breaks before more batches, and `scanned_bytes` is the
    position up to which the last chain was followed. `knows_brokers`: the unused end of a log that a running broker
    appends to is not a fault.
    """

    def __init__(  # noqa: PLR0913
        self,
        file: ReadableFile,
        on_damage: DamagePolicy = DamagePolicy.STOP,
        *,
        start: int = 0,
        end: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        seven_base_offset: int | None = None,
        chunk_bytes: int | None = None,
        knows_brokers: bool = True,
    ) -> None:
        self.end_position = self.good_bytes = start
        self.fault: Fault | None = None
        self.skipped: Fault | None = None
        self.damaged: list[DamagedBytes] = []
        self.damaged_count = 0
        self.scanned_bytes = start
        self.file = file
        self._on_damage = on_damage
        self._end = file.size_bytes if end is None else end
        self.limits = limits
        self._seven_base_offset = seven_base_offset
        self._chunk_bytes = chunk_bytes
        self._knows_brokers = knows_brokers

    @classmethod
    def of_batch(cls, file: ReadableFile, batch: Batch, limits: Limits = DEFAULT_LIMITS) -> SegmentReader:
        """Return the reader of one batch, given its position and size."""
        return cls(file, start=batch.position, end=batch.position + batch.size_bytes, limits=limits)

    # -- headers

    def headers(self) -> Iterator[Batch]:
        """Yield the headers of the batches up to the first break. The end of the file is the end of the range."""
        from kafkalog_cli.log.reading.header import header_at

        while True:
            header = header_at(self.file, self.end_position)
            if not isinstance(header, Batch):
                break
            self.end_position = header.position + header.size_bytes
            yield header
        rest = self.file.size_bytes - self.end_position
        fault = header or (incomplete_batch(self.end_position, rest) if rest > 0 else None)
        self.fault = None if fault is None or self._is_end(fault) else fault

    def header_columns(self) -> Iterator[BatchColumns]:
        """Yield the batches up to the first break, several at a time.

        Where batches are small, all bytes are read: this is faster than reading header after header.
        """
        headers = self.headers()
        while rows := [*islice(headers, _HEADERS)]:
            yield BatchColumns.from_rows(rows)
            if len(rows) == _HEADERS and self.end_position - rows[0].position < _HEADERS * _SMALL_BYTES:
                yield from self.batches()
                return

    # -- batches

    def chains(self) -> Iterator[Scan]:
        """Yield the unbroken chains of batches. Iterate each to its end for its chunks before requesting the next."""
        start: int | None = self.end_position
        while start is not None:
            scan = self.scan_from(start)
            yield scan
            self.end_position, self.good_bytes, self.fault = scan.valid_bytes, scan.good_bytes, scan.fault
            if self._on_damage is DamagePolicy.STOP or self.damage is None:
                return
            start = self._next_good(scan)
            if start is not None and scan.fault is not None:
                begin = scan.valid_bytes if scan.valid_bytes < start else scan.good_bytes
                self.skipped = _skipped(begin, start, scan.fault)

    @property
    def damage(self) -> Fault | None:
        """The damage that ended the last chain, None without damage."""
        return None if self.fault is None or not self.is_damage(self.fault) else self.fault

    def is_damage(self, fault: Fault) -> bool:
        """Whether a chain ended at damage, and not just at the end of the range in the middle of a batch."""
        return fault.kind is not FaultKind.TRAILING_BYTES or self._end >= self.file.size_bytes

    def _is_end(self, fault: Fault) -> bool:
        """Whether a fault after the last batch is only the unused end of a log that a running broker appends to."""
        if not self._knows_brokers or not self.is_damage(fault):
            return False
        from kafkalog_cli.log.reading.unused_end import is_unused_end

        return is_unused_end(self.file, fault)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the batches and their bytes; a chunk is valid until the next is requested."""
        for chain in self.chains():
            yield from chain

    def batches(self) -> Iterator[BatchColumns]:
        """Yield the batches without their bytes."""
        for chain in self.chains():
            for chunk in columns_of(chain):
                yield chunk.batches

    def run(self) -> SegmentReader:
        """Read to the end, for the attributes alone, and return this reader."""
        for _ in self.batches():
            pass
        return self

    # -- records

    def blocks(self, *, timestamps_only: bool = False) -> Iterator[RecordBlock]:
        """Yield the records; a block is valid until the next is requested. `timestamps_only`: see `RecordReader`."""
        from kafkalog_cli.log.reading.read import RecordReader

        decoder = RecordReader(self.limits, timestamps_only=timestamps_only)
        for chunk in self.chunks():
            yield from decoder.blocks(chunk)

    def ahead(  # noqa: PLR0913
        self,
        chain: Scan,
        rows: Callable[[Chunk], list[Rows]] | None,
        work: Work | None = None,
        chosen: Callable[[Scan], Generator[Chunk, None, None]] | None = None,
        *,
        strict: bool = False,
        threads: bool = True,
    ) -> Iterator[ChunkBlocks]:
        """Yield the chunks of a chain with their records, which threads read ahead. See `ReadAhead`.

        Without `rows`, no records are read: to hand the chunks over from a thread costs more than to scan them here.
        """
        if rows is None:
            return ((chunk, iter(())) for chunk in (iter(chain) if chosen is None else chosen(chain)))
        from kafkalog_cli.log.reading.read_ahead import ReadAhead

        return iter(ReadAhead(chain, self.limits, rows, work, chosen, strict=strict, threads=threads))

    # -- holding back

    def held_batches(self, listener: DamageListener, records: TakeRecords | None = None) -> Iterator[BatchColumns]:
        """Yield the batches with HOLD. `records` gets the records of batches with right CRCs, before their batches."""
        base_offset = classify_file(self.file.path.rpartition("/")[2]).offset
        start: int | None = self.end_position
        while start is not None:
            if self.fault is not None:
                self.damaged_count += 1
                if len(self.damaged) < MAX_DAMAGED:
                    self.damaged.append(DamagedBytes(self.end_position, start))
                self.fault = None
            start = yield from _held_chain(self, start, base_offset, listener, records)

    # -- for the modules of this package

    def scan_from(self, start: int) -> Scan:
        """Return the scan of the chain that begins at byte `start`."""
        return Scan(
            self.file,
            start=start,
            end=self._end,
            limits=self.limits,
            seven_base_offset=self._seven_base_offset,
            chunk_bytes=self._chunk_bytes,
            is_end=self._is_end,
        )

    def _next_good(self, scan: Scan) -> int | None:
        from kafkalog_cli.log.reading.resync import next_good_batch

        broken_at, seven = scan.good_bytes, scan.generation is Generation.SEVEN
        found = next_good_batch(self.file, broken_at + 1, self.limits, seven=seven, broken_at=broken_at)
        return found if found is not None and found < self._end else None


def columns_of(scan: Scan) -> Iterator[Chunk]:
    """Return the chunks of a scan without their bytes."""
    scan.columns_only = True
    if scan.end - scan.start < LONG_BYTES:
        return iter(scan)
    from kafkalog_cli.log.reading.strips import in_strips

    return in_strips(scan)


def _skipped(begin: int, end: int, fault: Fault) -> Fault:
    return Fault(fault.kind, begin, f"skipped {end - begin} bytes: {fault.message}", end - begin)


HELD_ROWS = 10_000
"""Batches with bad CRCs that are held back, as they may not be batches if the chain breaks after them."""

MAX_DAMAGED = 20
"""The largest number of breaks that a reader remembers."""


def _held_chain(
    reader: SegmentReader, start: int, base_offset: int | None, listener: DamageListener, records: TakeRecords | None
) -> Generator[BatchColumns, None, int | None]:
    """Yield one unbroken chain, and return the start of the next.

    If a batch with a bad CRC has an offset that the segment cannot contain, the chain is astray already. It ends there,
    even if more batches seem to follow.
    """
    from kafkalog_cli.log.reading.resync import next_good_batch

    scan = reader.scan_from(start)
    held: list[Batch] = []
    astray: Fault | None = None
    for found in gathered(_columns(reader, scan, base_offset, records)):
        row = _first_astray(found, base_offset)
        if row is not None:
            astray = _crc_fault(found.row(row))
            if not row:
                break
        batches = found if row is None else found.part(0, row)
        listener.batches(batches)
        good = batches.last_valid_row()
        if good is not None:
            yield from _let_go(reader, held, batches.part(0, good + 1))
            held = []
        held += batches.rows(0 if good is None else good + 1)
        if len(held) > HELD_ROWS:
            yield from _let_go(reader, held, None)
            held = []
        if astray is not None:
            break
    reader.scanned_bytes = scan.valid_bytes
    reader.fault = astray or scan.fault
    following = None
    if reader.fault is not None:
        listener.fault(reader.fault)
        broken = max(reader.end_position, start)
        following = next_good_batch(reader.file, broken + 1, reader.limits, broken_at=broken)
        if following is not None:
            held = [batch for batch in held if batch.position + batch.size_bytes <= following]
    yield from _let_go(reader, held, None)
    return following


def _columns(
    reader: SegmentReader, scan: Scan, base_offset: int | None, records: TakeRecords | None
) -> Iterator[BatchColumns]:
    """Yield the batches per chunk. Records of batches with right CRCs are passed on first, if they are wanted."""
    if records is None:
        yield from (chunk.batches for chunk in columns_of(scan))
        return
    for chunk, blocks in reader.ahead(scan, partial(_rows_to_read, base_offset), strict=True):
        for block in blocks:
            records(block)
        yield chunk.batches


def _rows_to_read(base_offset: int | None, chunk: Chunk) -> list[Rows]:
    """Return runs of batches with right CRCs, up to where the chain goes astray."""
    astray = _first_astray(chunk.batches, base_offset)
    runs = good_rows(chunk.batches)
    return runs if astray is None else [run for run in runs if run[1] <= astray]


def _first_astray(batches: BatchColumns, base_offset: int | None) -> int | None:
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


def _let_go(reader: SegmentReader, held: list[Batch], batches: BatchColumns | None) -> Iterator[BatchColumns]:
    for part in (BatchColumns.from_rows(held) if held else None, batches):
        if part is not None and len(part):
            reader.end_position = part.end_position
            yield part


def _crc_fault(batch: Batch) -> Fault:
    message = "CRC mismatch, and an offset that the segment cannot hold"
    expected, got = "an offset of this segment", str(batch.last_offset)
    return Fault(FaultKind.CRC_MISMATCH, batch.position, message, batch.size_bytes, expected, got)
