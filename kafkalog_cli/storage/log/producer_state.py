"""What producers have written up to an offset: the broker's memory of them, and how batches change it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, NamedTuple

from kafkalog_cli.format.batch import (
    CONTROL_MASK,
    NO_OFFSET,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    Batch,
    BatchColumns,
    wrap_int32,
    wrap_int64,
)
from kafkalog_cli.format.control import ABORT, COMMIT, ControlRecord, control_type, decode_control
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.storage.log.load_error import LoadFailed
from kafkalog_cli.storage.reading.read import RecordReader
from kafkalog_cli.storage.reading.scan import Chunk

INVALID_RECORD = "InvalidRecordException"
"""What recovery takes for the end of the valid log."""

_CLASSES = {
    FaultKind.UNKNOWN_CODEC: "IllegalArgumentException",
    FaultKind.DECOMPRESSION_FAILED: "KafkaException",
    FaultKind.OUTPUT_TOO_LARGE: "KafkaException",
}
"""What is thrown that ends the loading, where a control batch cannot be unpacked."""

_JAVA_CLASS = re.compile(r"\((\w+Exception)\)$")
_NO_EPOCH = -1
_FLAGS = TRANSACTIONAL_MASK | CONTROL_MASK


class CompletedTxn(NamedTuple):
    """A transaction that a marker ended (CompletedTxn): `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class _Marker(NamedTuple):
    """What the first record of a control batch says."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


class ProducerState:
    """Producers by id, in the order in which they came, and transactions by first offset (ProducerStateManager).

    `ongoing` are first offset and producer, `completed` first and last offset of transactions that ended: those below
    which nothing is replicated yet.
    """

    def __init__(self) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        self.completed: dict[int, int] = {}

    def clear(self) -> None:
        """Forget all."""
        self.producers.clear()
        self.ongoing.clear()
        self.completed.clear()

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Take in the entries of a snapshot."""
        for entry in entries:
            self.producers[entry.producer_id] = entry if entry.has_batch else _without_batch(entry)
            if entry.open_txn_first_offset is not None:
                self.ongoing[entry.open_txn_first_offset] = entry.producer_id

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the first transaction that is open, or ended and not known to be replicated."""
        return min((*self.ongoing, *self.completed), default=None)

    def stable_below(self, high_watermark: int) -> int:
        """The offset below which every transaction has ended, and its end is replicated (lastStableOffset)."""
        unreplicated = (first for first, last in self.completed.items() if last >= high_watermark)
        return min((high_watermark, *self.ongoing, *unreplicated))

    def last_stable_offset(self, transaction: CompletedTxn) -> int:
        """The last stable offset once `transaction` is complete; asked before `complete`."""
        others = (first for first, producer in self.ongoing.items() if producer != transaction.producer_id)
        return min(others, default=transaction.last_offset + 1)

    def complete(self, transaction: CompletedTxn) -> None:
        """Take note of a transaction's end. Raises LoadFailed if it was not open."""
        if self.ongoing.pop(transaction.first_offset, None) is None:
            reason = f"Attempted to complete transaction {transaction} which was not started"
            raise LoadFailed("IllegalArgumentException", reason)
        self.completed[transaction.first_offset] = transaction.last_offset

    def merge(self, updated: ProducerEntry, started: Iterable[int]) -> None:
        """Take in what one append, or one read of a replay, made of a producer (ProducerStateManager.update)."""
        current = self.producers.get(updated.producer_id)
        if (
            current is not None
            and current.producer_epoch == updated.producer_epoch
            and updated.last_offset == NO_OFFSET
        ):
            _, _, last_sequence, last_offset, offset_delta, *_ = current
            updated = updated._replace(last_sequence=last_sequence, last_offset=last_offset, offset_delta=offset_delta)
        self.producers[updated.producer_id] = updated
        for first_offset in started:
            self.ongoing[first_offset] = updated.producer_id


class ProducerReplay:
    """Applies batches to a state, as replication does: epochs and sequences are believed.

    With `on_completed` each transaction ends as its marker comes (LogSegment.recover), and the function is told
    before the state is; without it all end together when `finish` is called (UnifiedLog.loadProducersFromRecords).
    `end_offset` is that behind the last v2 batch, None without one.
    """

    def __init__(
        self, state: ProducerState, limits: Limits, on_completed: Callable[[CompletedTxn], None] | None = None
    ) -> None:
        self.end_offset: int | None = None
        self._state = state
        self._reader = RecordReader(limits)
        self._on_completed = on_completed
        self._updated: dict[int, ProducerEntry] = {}
        self._started: dict[int, list[int]] = {}
        self._completed: list[CompletedTxn] = []

    def first_unreadable(self, chunk: Chunk, end_row: int) -> int | None:
        """The first row with a control batch that holds no record, with which a recovery ends; None if all have one."""
        for row in _rows_of_producers(chunk.batches.part(0, end_row)):
            if int(chunk.batches.attributes[row]) & CONTROL_MASK:
                try:
                    self._marker(chunk, chunk.batches.row(row))
                except LoadFailed as failure:
                    if failure.java_class == INVALID_RECORD:
                        return row
        return None

    def apply(self, chunk: Chunk, first_row: int = 0, end_row: int | None = None) -> None:
        """Apply rows of a chunk. Raises LoadFailed where the broker throws."""
        batches = chunk.batches.part(first_row, len(chunk.batches) if end_row is None else end_row)
        for row in range(len(batches) - 1, -1, -1):
            if batches.magic[row] >= 2:
                self.end_offset = wrap_int64(int(batches.last_offset[row]) + 1)
                break
        rows = _rows_of_producers(batches)
        if not rows:
            return
        attributes = batches.attributes
        for flags, group in groupby(rows, lambda row: attributes[row] & _FLAGS):
            if flags & CONTROL_MASK:
                for row in group:
                    self._control(chunk, batches.row(row))
            else:
                self._data(batches, list(group), is_transactional=bool(flags))
        if self._on_completed is not None:
            self._merge()

    def finish(self) -> None:
        """Take in all that was gathered."""
        self._merge()
        for transaction in self._completed:
            self._state.complete(transaction)
        self._completed.clear()

    def _merge(self) -> None:
        for producer_id, entry in self._updated.items():
            self._state.merge(entry, self._started.get(producer_id, ()))
        self._updated.clear()
        self._started.clear()

    def _entry(self, producer_id: int) -> ProducerEntry:
        """What this read or append has made of the producer so far; batches before it are not in it."""
        found = self._updated.get(producer_id)
        if found is not None:
            return found
        current = self._state.producers.get(producer_id)
        return _empty(producer_id) if current is None else _without_batch(current)

    def _data(self, batches: BatchColumns, rows: list[int], *, is_transactional: bool) -> None:
        """Batches of data: the last of a producer tells its state, the first where a transaction begins."""
        producer_id = batches.producer_id
        last = {int(producer_id[row]): row for row in rows}
        first = {int(producer_id[row]): row for row in reversed(rows)} if is_transactional else last
        for producer, row in last.items():
            entry = self._entry(producer)
            txn_first_offset = entry.current_txn_first_offset
            if txn_first_offset >= 0 and not is_transactional:
                reason = f"Expected transactional write from producer {producer} at offset {batches.base_offset[row]}"
                raise LoadFailed("InvalidTxnStateException", reason)
            if is_transactional and txn_first_offset < 0:
                txn_first_offset = int(batches.base_offset[first[producer]])
                self._started.setdefault(producer, []).append(txn_first_offset)
            self._updated[producer] = _with_batch(batches.row(row), entry.coordinator_epoch, txn_first_offset)

    def _control(self, chunk: Chunk, batch: Batch) -> None:
        marker = self._marker(chunk, batch)
        if marker is None:  # the cleaner emptied the batch: the transaction has gone, but the producer is known
            self._updated[batch.producer_id] = self._entry(batch.producer_id)
            return
        if self._on_completed is not None:
            self._merge()  # each batch is an append of its own: an epoch that went and came back forgets batches
        entry = self._entry(batch.producer_id)
        self._updated[batch.producer_id] = ProducerEntry(
            batch.producer_id,
            batch.producer_epoch,
            *(entry[2:5] if entry.producer_epoch == batch.producer_epoch else (NO_SEQUENCE, NO_OFFSET, 0)),
            marker.timestamp,
            marker.coordinator_epoch,
            NO_OFFSET,
        )
        first_offset = entry.open_txn_first_offset
        if first_offset is None:
            return
        completed = CompletedTxn(batch.producer_id, first_offset, batch.base_offset, marker.is_abort)
        if self._on_completed is None:
            self._completed.append(completed)
            return
        self._merge()
        self._on_completed(completed)
        self._state.complete(completed)

    def _marker(self, chunk: Chunk, batch: Batch) -> _Marker | None:
        alone = Chunk(chunk.view, chunk.position, BatchColumns.from_rows([batch]), chunk.generation)
        for block in self._reader.blocks(alone):
            for record in block.rows():
                kind = control_type(record.key)
                if kind is not None and kind not in (ABORT, COMMIT):
                    raise LoadFailed("IllegalArgumentException", f"no transaction marker at offset {batch.base_offset}")
                found = decode_control(record.key, record.value)
                if not isinstance(found, ControlRecord):
                    named = _JAVA_CLASS.search(found.message)
                    raise LoadFailed(INVALID_RECORD if named is None else named[1], found.message)
                epoch = int(found.message["coordinatorEpoch"])
                return _Marker(found.type_id == ABORT, epoch, record.timestamp)
            for fault in block.faults.values():
                raise LoadFailed(_CLASSES.get(fault.kind, INVALID_RECORD), fault.message)
        return None


def entries_in_snapshot_order(producers: dict[int, ProducerEntry]) -> list[ProducerEntry]:
    """The entries as a broker writes them: in the order of Java's HashMap, into which they came in theirs."""
    capacity = 16
    while len(producers) > capacity * 3 // 4:
        capacity *= 2

    def bucket(item: tuple[int, ProducerEntry]) -> int:
        hashed = (item[0] ^ (item[0] >> 32)) & 0xFFFFFFFF
        return (hashed ^ (hashed >> 16)) & (capacity - 1)

    return [entry for _, entry in sorted(producers.items(), key=bucket)]


def is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    """Whether a broker that loads the entry at `now_ms` leaves it out."""
    # In Java's long: a timestamp far below zero, of a damaged batch, never expires.
    return entry.open_txn_first_offset is None and wrap_int64(now_ms - entry.timestamp) >= expiration_ms


def _rows_of_producers(batches: BatchColumns) -> list[int]:
    if batches.matrix is not None:
        columns: Any = batches
        rows: list[int] = ((columns.producer_id >= 0) & (columns.magic >= 2)).nonzero()[0].tolist()
        return rows
    pairs = zip(batches.producer_id, batches.magic, strict=True)
    return [row for row, (producer_id, magic) in enumerate(pairs) if producer_id >= 0 and magic >= 2]


def _with_batch(batch: Batch, coordinator_epoch: int, txn_first_offset: int) -> ProducerEntry:
    return ProducerEntry(
        batch.producer_id,
        batch.producer_epoch,
        batch.last_sequence,
        batch.last_offset,
        wrap_int32(batch.last_offset - batch.base_offset),
        batch.max_timestamp,
        coordinator_epoch,
        txn_first_offset,
    )


def _without_batch(entry: ProducerEntry) -> ProducerEntry:
    return entry._replace(last_sequence=NO_SEQUENCE, last_offset=NO_OFFSET, offset_delta=0)


def _empty(producer_id: int) -> ProducerEntry:
    return ProducerEntry(producer_id, _NO_EPOCH, NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP, -1, NO_OFFSET)
