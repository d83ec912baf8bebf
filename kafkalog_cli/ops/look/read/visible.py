"""Choose the batches that a consumer gets: its range, no control batches, and no batches that read_committed hides."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from operator import ge

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.format.batch import (
    CONTROL_MASK,
    NO_OFFSET,
    RECORD_BATCH_MAGIC,
    TRANSACTIONAL_MASK,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.columns import any_row
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.open_transactions import (
    OpenTransaction,
    SegmentPart,
    newest_snapshot,
    open_at,
    parts_to_replay,
)
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.scan import Chunk, DamagePolicy, Scan
from kafkalog_cli.log.transaction_ends import Ending, TransactionEnds
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.look.read.request import NO_END

_HIDDEN, _WHOLE, _CUT = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class VisibleChunk(Chunk):
    """Batches of a chunk that a consumer gets: all of them or a part.

    `seen` are all batches that were scanned, visible or not. Each scanned batch is in the `seen` of only one
    VisibleChunk. `is_cut`: the chunk has one batch, and not all of its records are wanted. `out_of_order` are rows of
    `seen` that are left out or cut, because their offsets are not above the previous offsets or do not belong to the
    segment.
    """

    seen: BatchColumns | None = None
    is_cut: bool = False
    out_of_order: tuple[int, ...] = ()


class Visibility:
    """Filters the batches of a log in order, from `first_offset` up to `end_offset` (exclusive).

    `is_over`: the consumer gets nothing more. `with_control`: control batches are shown like others.
    """

    def __init__(
        self, first_offset: int, end_offset: int, committed: Committed | None, *, with_control: bool = False
    ) -> None:
        self._first = first_offset
        self._reached = first_offset
        self.is_over = committed is not None and committed.last_stable_offset is not None
        self._end = end_offset
        self._committed = committed
        self._with_control = with_control
        self._is_first = True
        self._segment = (0, NO_END)
        self._out_of_order: list[int] = []

    @property
    def next_offset(self) -> int:
        """The offset that the consumer would request next, after all batches scanned so far."""
        return max(self._first, min(self._reached, self._end))

    def begin(self, base_offset: int, end_offset: int | None) -> None:
        """Start a segment, which can hold these offsets; `end_offset` is None for the last segment."""
        self._segment = (base_offset, NO_END if end_offset is None else end_offset)

    def chunks(self, chunks: Generator[Chunk, None, None]) -> Generator[Chunk, None, None]:
        """Yield the chunks of a scan as VisibleChunks; a chunk without visible batches gives an empty one."""
        with closing(chunks):
            # A transaction that is open before the start ends the reading before it begins.
            for chunk in () if self.is_over else chunks:
                yield from self._parts(chunk)
                if self.is_over:
                    return

    def _parts(self, chunk: Chunk) -> Iterator[VisibleChunk]:
        batches = chunk.batches.for_clients()
        self._out_of_order = []
        if self._are_whole(batches):  # nearly always so, and there may be very many chunks
            self._reached, self._is_first = batches.last_offset[-1] + 1, False
            yield VisibleChunk(chunk.view, chunk.position, batches, chunk.is_v07, chunk.damage, batches)
            return
        kinds = self._by_row(batches)
        out_of_order = tuple(self._out_of_order)
        seen: BatchColumns | None = batches
        damage = chunk.damage
        for is_cut, rows in _runs(kinds):
            part = batches if len(rows) == len(batches) else batches.select(rows)
            yield VisibleChunk(chunk.view, chunk.position, part, chunk.is_v07, damage, seen, is_cut, out_of_order)
            seen, damage, out_of_order = None, None, ()
        if seen is not None:
            nothing = batches.part(0, 0)
            yield VisibleChunk(chunk.view, chunk.position, nothing, chunk.is_v07, damage, seen, False, out_of_order)

    def _are_whole(self, batches: BatchColumns) -> bool:
        """Whether the consumer gets all batches whole: then `_by_row` has nothing to decide."""
        base, last = batches.base_offset, batches.last_offset
        hidden = 0 if self._with_control else CONTROL_MASK
        if self._committed is not None:
            hidden |= TRANSACTIONAL_MASK
        return (
            base[0] >= max(self._reached, self._segment[0])
            and last[-1] < min(self._end, self._segment[1])
            and not any_row(ge, last[:-1], base[1:])
            and not any_row(
                lambda base, last, magic, bits, count, valid: (
                    (base > last) | (magic < RECORD_BATCH_MAGIC) | (bits & hidden != 0) | (count == 0) | (valid == 0)
                ),
                base, last, batches.magic, batches.attributes, batches.records_count, batches.valid,
            )
        )  # fmt: skip

    def _by_row(self, batches: BatchColumns) -> list[int]:
        """Return for each row whether it is hidden, whole or cut."""
        kinds = [_HIDDEN] * len(batches)
        for row, batch in enumerate(batches.rows()):
            if not batch.valid:
                continue
            # The first entry of a segment may have an offset below the segment's name, if Kafka's cleaner has removed
            # part of a message set.
            may_lie_below = not batch.position and batch.magic < RECORD_BATCH_MAGIC and batch.last_offset >= 0
            is_above = batch.last_offset >= self._segment[0] or may_lie_below
            if not is_above or batch.last_offset >= self._segment[1]:
                self._out_of_order.append(row)
                continue
            low, known = self._reached, batch.base_offset != NO_OFFSET
            self._reached = max(low, batch.last_offset + 1)
            if low > self._first and (batch.base_offset < low if known else batch.last_offset < low):
                self._out_of_order.append(row)
            if batch.last_offset < low or (known and batch.base_offset >= self._end) or self._is_hidden(batch):
                if self.is_over:
                    self._reached = low
                    self._out_of_order = [other for other in self._out_of_order if other < row]
                    break
                continue
            if batch.records_count:
                reaches_over = batch.base_offset < low if known else self._is_first
                kinds[row] = _CUT if reaches_over or batch.last_offset >= self._end else _WHOLE
                self._is_first = False
        return kinds

    def _is_hidden(self, batch: Batch) -> bool:
        """Whether the batch is hidden by its type; sets `is_over` if it belongs to an open transaction."""
        if batch.is_control:
            return not self._with_control
        return batch.is_transactional and self._hides(batch.producer_id, batch.base_offset, batch.last_offset)

    def _hides(self, producer_id: int, base_offset: int, last_offset: int) -> bool:
        if self._committed is None:
            return False
        ending = self._committed.ending(producer_id, base_offset, last_offset)
        self.is_over = ending is Ending.OPEN
        return ending is not Ending.COMMITTED


def _runs(kinds: list[int]) -> Iterator[tuple[bool, list[int]]]:
    """Yield the visible rows: adjoining whole rows together, and each row to be cut alone."""
    whole: list[int] = []
    for row, kind in enumerate(kinds):
        if kind == _WHOLE:
            whole.append(row)
        elif kind == _CUT:
            if whole:
                yield False, whole
                whole = []
            yield True, [row]
    if whole:
        yield False, whole


_MOST_REPORTED = 1000
"""The most transactions without a marker that are reported one by one."""


class Committed:
    """Selects the batches that a read_committed consumer gets; ask about them in order, from `first_offset` on.

    `parts` are the rest of the log from `first_offset` on. `last_stable_offset` is None until an open transaction is
    found. Methods raise as `open_read` does.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        fs: Filesystem,
        partition: Partition,
        parts: Sequence[SegmentPart],
        first_offset: int,
        end_offset: int,
        limits: Limits,
        notes: deque[Note],
    ) -> None:
        self.last_stable_offset: int | None = None
        self._fs = fs
        self._partition = partition
        self._end_offset = end_offset
        self._notes = notes
        self._limits = limits
        self._ends = TransactionEnds(fs, parts, first_offset, limits, self._note)
        self._at_end: tuple[int | None, frozenset[int]] | None = None
        self._reported: set[int] = set()
        for transaction in open_at(fs, partition, first_offset, partial(self._transactional, end_offset=first_offset)):
            ending = self._ends.ending(transaction.producer_id, transaction.first_offset, first_offset - 1, hides=False)
            if (
                ending is Ending.OPEN
                and self._stays_open(transaction.producer_id, transaction.first_offset)
                and not self._was_aborted(transaction, first_offset)
            ):
                self._stop_at(transaction.producer_id, transaction.first_offset)
                return

    def ending(self, producer_id: int, base_offset: int, last_offset: int) -> Ending:
        """Return what ends the transaction of a batch; with an OPEN transaction the log ends for the consumer."""
        ending = self._ends.ending(producer_id, base_offset, last_offset)
        if ending is not Ending.OPEN:
            return ending
        if not self._stays_open(producer_id, base_offset):
            return Ending.COMMITTED
        self._stop_at(producer_id, base_offset)
        return Ending.OPEN

    def close(self) -> None:
        """Close the file being read."""
        self._ends.close()

    def _stop_at(self, producer_id: int, offset: int) -> None:
        self.last_stable_offset = offset
        message = f"a transaction of producer {producer_id} is open since offset {offset}: read_committed ends there"
        self._notes.append(Note("open-transaction", message, self._partition.path))

    def _transactional(self, parts: Sequence[SegmentPart], end_offset: int) -> Iterator[Batch]:
        """Yield the batches of transactions and markers below an offset whose CRCs are right."""
        for part in parts:
            with self._fs.open_read(part.segment.log.path) as log:
                reader = Scan(
                    log, DamagePolicy.RESYNC, start=part.position, limits=self._limits
                )  # fmt: skip
                for batches in reader.batches():
                    yield from batches.of_transactions(only_valid=True)
                    first = int(batches.base_offset[0])
                    if first != NO_OFFSET and first >= end_offset:
                        break

    def _was_aborted(self, transaction: OpenTransaction, first_offset: int) -> bool:
        """Whether a transaction index shows that the transaction ended below `first_offset`.

        Damage may hide the marker itself.
        """
        parts = parts_to_replay(self._fs, self._partition.segments, transaction.first_offset, first_offset)
        if not any(part.segment.txn_index for part in parts):
            return False
        ends = TransactionEnds(self._fs, parts, transaction.first_offset, self._limits, lambda *_: None)
        with closing(ends):
            ending = ends.ending(
                transaction.producer_id, transaction.first_offset, transaction.first_offset, hides=False
            )
            return ending is not Ending.OPEN

    def _stays_open(self, producer_id: int, offset: int) -> bool:
        """Whether a transaction without a marker is also open for a broker.

        If compaction removed the marker, the producer snapshot still shows that the transaction ended.
        """
        if self._at_end is None:
            snapshot_offset, known = newest_snapshot(self._fs, self._partition, self._end_offset)
            self._at_end = snapshot_offset, frozenset(transaction.producer_id for transaction in known)
        snapshot_offset, still_open = self._at_end
        if snapshot_offset is None or offset >= snapshot_offset:
            return True
        is_open = producer_id in still_open
        if not is_open and producer_id not in self._reported and len(self._reported) < _MOST_REPORTED:
            self._reported.add(producer_id)
            message = (
                f"no marker ends the transaction of producer {producer_id} at offset {offset}; "
                f"the producer snapshot {snapshot_offset} has none open: its records are shown, as a broker does"
            )
            if len(self._reported) == _MOST_REPORTED:
                message += ". Further transactions of this kind are not reported"
            self._notes.append(Note("no-marker", message, self._partition.path))
        return is_open

    def _note(self, path: str, message: str) -> None:
        self._notes.append(Note("transaction-index", message, path))
