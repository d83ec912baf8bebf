"""The producer state of a partition up to an offset, and how batches change it (Kafka's ProducerStateManager)."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import NamedTuple

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.producer_table import ProducerTable
from kafkalog_cli.errors import Refused
from kafkalog_cli.format import txnindex
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
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.control import ABORT, COMMIT, ControlRecord, control_type, decode_control
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import MOST_DATA_BYTES, MOST_PRODUCERS, MOST_PRODUCERS_AT_ONCE, Limits
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.reading.records import RecordReader, usual_marker_in
from kafkalog_cli.log.reading.scan import Chunk

INVALID_RECORD = "InvalidRecordException"
"""The Java exception for an invalid record; in recovery it means that the valid log ends here."""

_CLASSES = {
    FaultKind.UNKNOWN_CODEC: "IllegalArgumentException",
    FaultKind.DECOMPRESSION_FAILED: "KafkaException",
    FaultKind.OUTPUT_TOO_LARGE: "KafkaException",
}
"""The Java exception that ends loading, by the fault that keeps a control batch from being decompressed."""

_JAVA_CLASS = re.compile(r"\((\w+Exception)\)$")
_NO_EPOCH = -1
_OF_AN_OPEN_TRANSACTION = 5
_FLAGS = TRANSACTIONAL_MASK | CONTROL_MASK


class CompletedTxn(NamedTuple):
    """A transaction that a marker ended (Kafka's CompletedTxn); `last_offset` is the marker's offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class EndedTransactions:
    """The first and last offsets of transactions that have ended, of which a log may have very many."""

    def __init__(self) -> None:
        self._firsts = array("q")
        self._lasts = array("q")

    def __len__(self) -> int:
        return len(self._firsts)

    def __setitem__(self, first_offset: int, last_offset: int) -> None:
        self._firsts.append(first_offset)
        self._lasts.append(last_offset)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def add(self, others: EndedTransactions) -> None:
        """Add all of `others`."""
        self._firsts += others._firsts
        self._lasts += others._lasts

    def clear(self) -> None:
        """Remove all transactions."""
        del self._firsts[:], self._lasts[:]


class AbortedTransactions:
    """The entries of a transaction index, packed. `path` is that of the index, for messages."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._entries = bytearray()
        self._last_offset: int | None = None

    def add(self, transaction: CompletedTxn, last_stable_offset: int) -> None:
        """Add a transaction. Raises LoadFailed if its end does not ascend, and Refused for too many transactions."""
        producer_id, first, last, _ = transaction
        if self._last_offset is not None and last <= self._last_offset:
            reason = f"the abort at {last} is not after that at {self._last_offset}"
            name = self._path.rpartition("/")[2]
            raise LoadFailed("IllegalArgumentException", f"{name}: {reason}")
        entry = txnindex.AbortedTxn(txnindex.CURRENT_VERSION, producer_id, first, last, last_stable_offset)
        self._entries += txnindex.encode([entry])
        self._last_offset = last
        if len(self._entries) > MOST_DATA_BYTES:
            raise Refused(path=self._path, reason=f"more than {MOST_DATA_BYTES} bytes of aborted transactions")

    @property
    def txn_index(self) -> bytes:
        """The bytes of the `.txnindex` file."""
        return bytes(self._entries)


class _Marker(NamedTuple):
    """The transaction marker in a control batch: its first record."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


class ProducerState:
    """Producers by id, in order of arrival, and transactions by first offset (ProducerStateManager).

    `ongoing` maps the first offset of each open transaction to its producer id. `completed` (unreplicatedTxns) has
    the ended transactions that are not known to be replicated. `path` is that of the partition, for messages.
    """

    def __init__(self, path: str = "producers") -> None:
        self._path = path
        self.producers = ProducerTable()
        self.ongoing: dict[int, int] = {}
        self.completed = EndedTransactions()

    def clear(self) -> None:
        """Remove all producers and transactions."""
        self.producers.clear()
        self.ongoing.clear()
        self.completed.clear()

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Add the entries of a snapshot. Raises Refused for too many producers."""
        for entry in entries:
            self.check_room()
            self.producers[entry.producer_id] = entry if entry.has_batch else _without_batch(entry)
            if entry.open_txn_first_offset is not None:
                self.ongoing[entry.open_txn_first_offset] = entry.producer_id

    def check_room(self, updated: int = 0, started: int = 0) -> None:
        """Raise Refused if the state is too large to be held in memory.

        `updated` is the number of producers that a replay is about to merge into it, `started` that of their open
        transactions.
        """
        count, is_open = len(self.producers), len(self.ongoing) + started
        if max(count, updated) > MOST_PRODUCERS:
            reason = f"more than {MOST_PRODUCERS} producers have written to it, the most whose state is held in memory"
            raise Refused(path=self._path, reason=reason)
        if count + (2 * updated if count else updated) + _OF_AN_OPEN_TRANSACTION * is_open > MOST_PRODUCERS_AT_ONCE:
            reason = f"the state of {count + updated} producers with {is_open} open transactions is not held in memory"
            raise Refused(path=self._path, reason=reason)

    def take(self, updated: ProducerTable, started: Mapping[int, Iterable[int]]) -> ProducerTable:
        """Merge the entries of a read or append (ProducerStateManager.update), and return a table to be used next.

        `started` has the first offsets of the transactions of each producer that began in it and are open. Raises
        Refused for too many producers.
        """
        if not len(self.producers):  # most often; then no entry need be copied
            self.producers, updated = updated, self.producers
            for producer_id, first_offsets in started.items():
                self.ongoing.update(dict.fromkeys(first_offsets, producer_id))
            return updated
        for entry in updated.entries():
            self.merge(entry, started.get(entry.producer_id, ()))
        updated.clear()
        return updated

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the first transaction that is open, or ended and not known to be replicated; None if none."""
        return min(chain(self.ongoing, (first for first, _ in self.completed)), default=None)

    def stable_below(self, high_watermark: int) -> int:
        """Return the last stable offset: below it every transaction has ended, and its end is replicated."""
        unreplicated = (first for first, last in self.completed if last >= high_watermark)
        return min(chain((high_watermark,), self.ongoing, unreplicated))

    def last_stable_offset(self, transaction: CompletedTxn) -> int:
        """Return the last stable offset after the end of `transaction`; call this before `complete`."""
        others = (first for first, producer in self.ongoing.items() if producer != transaction.producer_id)
        return min(others, default=transaction.last_offset + 1)

    def complete(self, first_offset: int, last_offset: int) -> None:
        """Record the end of a transaction. Raises LoadFailed if it was not open."""
        if self.ongoing.pop(first_offset, None) is None:
            reason = f"Attempted to complete transaction which was not started: from {first_offset} to {last_offset}"
            raise LoadFailed("IllegalArgumentException", reason)
        self.completed[first_offset] = last_offset

    def merge(self, updated: ProducerEntry, started: Iterable[int]) -> None:
        """Merge a producer's entry after one append, or one read of a replay (ProducerStateManager.update).

        `started` has the first offsets of the transactions that began in it. Raises Refused for too many producers.
        """
        self.check_room()
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
    """Applies batches to a producer state as replication does: epochs and sequences are not validated.

    With `on_completed` each transaction ends at its marker (LogSegment.recover), and the function is called before
    the state changes. Without it all transactions end when `finish` is called (UnifiedLog.loadProducersFromRecords).
    `end_offset` is the offset after the last v2 batch, None if there is none.
    """

    def __init__(
        self, state: ProducerState, limits: Limits, on_completed: Callable[[CompletedTxn], None] | None = None
    ) -> None:
        self.end_offset: int | None = None
        self._state = state
        self._reader = RecordReader(limits)
        self._on_completed = on_completed
        self._updated = ProducerTable()
        self._started: dict[int, list[int]] = {}
        self._ended = EndedTransactions()
        self._ended_here = EndedTransactions()

    def first_unreadable(self, chunk: Chunk, end_row: int) -> int | None:
        """Return the first row whose control batch has an invalid record, at which recovery ends; None if none has.

        Rows before `end_row` are checked. An emptied control batch, without a record, is valid.
        """
        for row in _rows_of_producers(chunk.batches.part(0, end_row)):
            if int(chunk.batches.attributes[row]) & CONTROL_MASK:
                try:
                    self._marker(chunk, chunk.batches.row(row))
                except LoadFailed as failure:
                    if failure.java_class == INVALID_RECORD:
                        return row
        return None

    def apply(self, chunk: Chunk, first_row: int = 0, end_row: int | None = None) -> None:
        """Apply the rows `first_row` to `end_row` (exclusive) of a chunk. Raises LoadFailed where the broker throws."""
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
        self._state.check_room(len(self._updated), len(self._started))
        if self._on_completed is not None:
            self._merge()

    def finish(self) -> None:
        """Merge the pending entries into the state, and end the transactions whose markers were read."""
        self._merge()
        for first_offset, last_offset in self._ended:
            self._state.complete(first_offset, last_offset)
        self._ended.clear()
        self._state.completed.add(self._ended_here)
        self._ended_here.clear()

    def _merge(self) -> None:
        self._updated = self._state.take(self._updated, self._started)
        self._started.clear()

    def _entry(self, producer_id: int) -> ProducerEntry:
        """Return the producer's entry in this read or append, without the batches before it."""
        found = self._updated.get(producer_id)
        if found is not None:
            return found
        current = self._state.producers.get(producer_id)
        return _empty(producer_id) if current is None else _without_batch(current)

    def _data(self, batches: BatchColumns, rows: list[int], *, is_transactional: bool) -> None:
        """Apply data batches: a producer's last batch gives its entry, its first batch the start of a transaction."""
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
        if marker is None:  # the cleaner emptied the batch: its transaction has no records left, its producer stays
            self._updated[batch.producer_id] = self._entry(batch.producer_id)
            return
        if self._on_completed is not None:
            # Each batch is a separate append here: if the epoch changes and changes back, the last batch is forgotten.
            self._merge()
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
        if self._on_completed is None:
            self._end(batch.producer_id, first_offset, batch.base_offset)
            return
        self._merge()
        self._on_completed(CompletedTxn(batch.producer_id, first_offset, batch.base_offset, marker.is_abort))
        self._state.complete(first_offset, batch.base_offset)

    def _end(self, producer_id: int, first_offset: int, last_offset: int) -> None:
        """Note the end of a transaction; if it began in this read, the state never has it as open."""
        started = self._started.get(producer_id)
        if started and started[-1] == first_offset:
            started.pop()
            if not started:
                del self._started[producer_id]
            self._ended_here[first_offset] = last_offset
        else:
            self._ended[first_offset] = last_offset

    def _marker(self, chunk: Chunk, batch: Batch) -> _Marker | None:
        usual = usual_marker_in(chunk, batch)
        if usual is not None:
            timestamp = batch.max_timestamp if batch.is_log_append_time else batch.base_timestamp
            return _Marker(usual[0] == ABORT, usual[1], timestamp)
        alone = Chunk(chunk.view, chunk.position, BatchColumns.from_rows([batch]), chunk.is_v07)
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


def is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    """Whether a broker that loads the entry at `now_ms` skips it as expired."""
    # The difference wraps as in Java's long: a timestamp far below zero, from a damaged batch, never expires.
    return entry.open_txn_first_offset is None and wrap_int64(now_ms - entry.timestamp) >= expiration_ms


def _rows_of_producers(batches: BatchColumns) -> list[int]:
    return rows_where(lambda producer, magic: (producer >= 0) & (magic >= 2), batches.producer_id, batches.magic)


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
