"""A log to be cleaned: reads its closed segments batch by batch, and ends with Damaged at the first damage.

`CleanedTransactions` follows transactions as the cleaner does: aborted batches, and removable markers (KIP-98).
"""

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from operator import ge
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.choosing import LogSegmentSize
from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile, read_all
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import CRC_GOOD, NO_OFFSET, Batch, BatchColumns
from kafkalog_cli.format.columns import any_row
from kafkalog_cli.format.control import ABORT, COMMIT, control_type
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.log_end import segment_end
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.records import ChunkBlocks, RecordReader, records, usual_marker_in
from kafkalog_cli.log.reading.scan import Chunk, Rows, Scan


class _Ongoing:
    """An aborted transaction before its marker; `is_observed`: the log still has a batch of its data."""

    __slots__ = ("is_observed", "txn")

    def __init__(self, txn: AbortedTxn) -> None:
        self.txn = txn
        self.is_observed = False


class CleanedTransactions:
    """The transactions of a log that is read in order (CleanedTransactionMetadata).

    `kept` has the entries for the new transaction index.
    """

    def __init__(self) -> None:
        self.kept: list[AbortedTxn] = []
        self._committed: set[int] = set()
        self._aborted: dict[int, _Ongoing] = {}
        self._coming: list[tuple[int, int, AbortedTxn]] = []
        self._count = 0

    def expect(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add entries of transaction indexes."""
        for txn in aborted:
            self._count += 1
            heapq.heappush(self._coming, (txn.first_offset, self._count, txn))

    def take_kept(self) -> list[AbortedTxn]:
        """Return the entries kept since the last call."""
        kept, self.kept = self.kept, []
        return kept

    def pass_data(self, last_offset: int, producer_id: int, *, is_transactional: bool) -> bool:
        """Process a data batch; return whether its transaction was aborted."""
        self._begin_up_to(last_offset)
        if not is_transactional:
            return False
        ongoing = self._aborted.get(producer_id)
        if ongoing is None:
            self._committed.add(producer_id)
            return False
        ongoing.is_observed = True
        return True

    def pass_control(self, batch: Batch, control_type: int | None) -> bool:
        """Process a control batch; return whether it may be removed. `control_type` is None if the batch is empty."""
        self._begin_up_to(batch.last_offset)
        if control_type is None:
            return True
        if control_type == ABORT:
            ongoing = self._aborted.pop(batch.producer_id, None)
            if ongoing is not None and ongoing.is_observed:
                self.kept.append(ongoing.txn)
                return False
            return True
        if control_type == COMMIT:
            was_seen = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not was_seen
        return False

    def unkeyed_rows(self, reader: RecordReader, chunk: Chunk, path: str, first_position: int = 0) -> Iterator[int]:
        """Process a chunk; yield the rows without keys for the key table: control batches and aborted batches.

        Batches before the byte `first_position` are not processed. Raises Damaged.
        """
        batches = chunk.batches
        for row, batch in zip(batches.in_transactions(), batches.of_transactions(), strict=True):
            is_read = batch.position >= first_position
            if batch.is_control:
                if is_read:
                    self.pass_control(batch, type_of_control(reader, chunk, row, batch, path))
                yield row
            elif is_read and self.pass_data(batch.last_offset, batch.producer_id, is_transactional=True):
                yield row

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, _, txn = heapq.heappop(self._coming)
            self._aborted.setdefault(txn.producer_id, _Ongoing(txn))


_CHUNK_BYTES = 1 << 20
"""Smaller than the usual chunk: columns of small records take three times its size, and memory is needed for keys."""


class Damaged(Exception):
    """The log cannot be cleaned because the file `path` is damaged; the log stays as it is."""

    def __init__(self, path: str, fault: Fault) -> None:
        self.path = path
        self.fault = fault
        super().__init__(f"{path} at position {fault.position}: {fault.message}")


class CleanableLog(NamedTuple):
    """The segments of a log in ascending order, the active segment last, and how to read them."""

    fs: Filesystem
    segments: Sequence[Segment]
    limits: Limits = DEFAULT_LIMITS

    @property
    def sizes(self) -> list[LogSegmentSize]:
        """The base offsets and sizes of the segments, for `choosing`."""
        return [
            LogSegmentSize(
                segment.base_offset,
                segment.log.size_bytes,
                _whole_entries(segment.offset_index, OFFSET_INDEX_ENTRY.size),
                _whole_entries(segment.time_index, TIME_INDEX_ENTRY.size),
            )
            for segment in self.segments
        ]

    def aborted_from(self, offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions that end at an offset or above it. Raises Damaged.

        A broker asks for them segment by segment (collectAbortedTransactions). Those that begin in a later segment
        change nothing before.
        """
        return [txn for segment in self.segments for txn in self.aborted_in(segment) if txn.last_offset >= offset]

    def aborted_in(self, segment: Segment) -> Sequence[AbortedTxn]:
        """Return the entries of a segment's transaction index. Raises Damaged."""
        if segment.txn_index is None:
            return []
        entries, faults = txnindex.decode(read_all(self.fs, segment.txn_index.path), segment.base_offset)
        for fault in faults:
            raise Damaged(segment.txn_index.path, fault)
        return entries

    def end_before(self, segment: Segment) -> int:
        """Return the offset after the last record of the segment before `segment`, 0 if it is the first."""
        at = self.segments.index(segment)
        return segment_end(self.fs, self.segments[at - 1], like_clean_start=False).next_offset if at else 0


def _whole_entries(file: FileStatus | None, entry_bytes: int) -> int:
    return 0 if file is None else file.size_bytes // entry_bytes * entry_bytes


class SegmentChunks:
    """The batches of a segment, in chunks; their CRCs and the order of their offsets are checked. Raises Damaged."""

    def __init__(self, log: CleanableLog, segment: Segment) -> None:
        self._log = log
        self._segment = segment
        self._last_offset = NO_OFFSET  # the first batch may begin below the base offset of the segment

    def __iter__(self) -> Iterator[Chunk]:
        with self._log.fs.open_read(self._segment.log.path) as file:
            yield from self._checked(self._scan(file))

    def begins_below(self, offset: int) -> bool:
        """Whether the segment, with a base offset of at least `offset`, may begin with records below `offset`."""
        with self._log.fs.open_read(self._segment.log.path) as file:
            first = header_at(file, 0)
        return isinstance(first, Batch) and first.base_offset < offset  # true for NO_OFFSET, of a message set

    def with_blocks(self, rows: Callable[[Chunk], list[Rows]]) -> Iterator[ChunkBlocks]:
        """Yield each chunk with the records of the rows that `rows` selects; threads call `rows` in chunk order."""
        with self._log.fs.open_read(self._segment.log.path) as file:
            for chunk, blocks in records(self._scan(file), rows, choose=self._checked):
                yield chunk, sound(blocks, self._segment.log.path)

    def _scan(self, file: ReadableFile) -> Scan:
        return Scan(file, limits=self._log.limits, chunk_bytes=_CHUNK_BYTES)

    def _checked(self, scan: Scan) -> Generator[Chunk, None, None]:
        """Yield the chunks after checking each. Raises Damaged."""
        path = self._segment.log.path
        for chunk in scan:
            self._check(path, chunk.batches)
            yield chunk
        if scan.fault is not None:
            raise Damaged(path, scan.fault)

    def _check(self, path: str, batches: BatchColumns) -> None:
        if self._are_sound(batches):
            return
        last = self._last_offset
        for batch in batches.rows():
            fault: str | None = None
            if batch.valid != CRC_GOOD:
                fault = "the CRC of the batch is not that of its bytes"
            elif last == NO_OFFSET and batch.last_offset < self._segment.base_offset and self._is_behind(batch):
                fault = f"offset {batch.last_offset} is not above the segment before"
            elif batch.last_offset <= last or (batch.magic >= 2 and not last < batch.base_offset <= batch.last_offset):
                fault = f"offsets {batch.base_offset} to {batch.last_offset} do not follow {last}"
            elif batch.records_count < (0 if batch.magic >= 2 else -1):
                fault = f"{batch.records_count} records"
            if fault is not None:
                kind = FaultKind.CRC_MISMATCH if batch.valid != CRC_GOOD else FaultKind.INVALID_ENTRY
                raise Damaged(path, Fault(kind, batch.position, fault, batch.size_bytes))
            last = batch.last_offset
        self._last_offset = last

    def _is_behind(self, batch: Batch) -> bool:
        """Whether a batch below the segment's name is also in the segment before.

        The cleaner itself leaves a first batch below the name, if the records of its set that had the name are gone.
        """
        return batch.last_offset < self._log.end_before(self._segment)

    def _are_sound(self, batches: BatchColumns) -> bool:
        """Whether all rows pass, checked at once; False also for batches of v0 and v1, which `_check` then checks."""
        base, last = batches.base_offset, batches.last_offset
        if (
            any_row(
                lambda valid, magic, base, last, count: (
                    (valid != CRC_GOOD) | (magic < 2) | (base > last) | (count < 0)
                ),
                batches.valid, batches.magic, base, last, batches.records_count,
            )
            or any_row(ge, last[:-1], base[1:])
            or self._last_offset >= base[0]
            or last[0] < self._segment.base_offset
        ):  # fmt: skip
            return False
        self._last_offset = last[-1]
        return True


def sound(blocks: Iterator[RecordBlock], path: str) -> Iterator[RecordBlock]:
    """Yield the blocks of a log. Raises Damaged at the first with a fault."""
    for block in blocks:
        for fault in block.faults.values():
            raise Damaged(path, fault)
        yield block


def type_of_control(reader: RecordReader, chunk: Chunk, row: int, batch: Batch, path: str) -> int | None:
    """Return the type of the first record of a control batch, which is at `row`; None if the batch has no record.

    Raises Damaged.
    """
    usual = usual_marker_in(chunk, batch)
    if usual is not None:
        return usual[0]
    for block in reader.blocks(chunk, row, row + 1):
        for record in block.rows():
            kind = control_type(record.key)
            if kind is None:
                message = "a control record whose key has no type"
                raise Damaged(path, Fault(FaultKind.INVALID_CONTROL_RECORD, record.batch.position, message))
            return kind
        for fault in block.faults.values():
            raise Damaged(path, fault)
    return None
