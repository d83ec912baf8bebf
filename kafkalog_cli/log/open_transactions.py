"""Open transactions of a log, found in the newest producer snapshot and the headers of the batches after it.

`transaction_steps` has Kafka's rule: which batch begins or continues the transaction of a producer, and which ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, NamedTuple, TypeVar

from kafkalog_cli.disk.fs import Filesystem, file_pieces
from kafkalog_cli.errors import KafkalogError, Unreadable
from kafkalog_cli.format import producer_snapshot
from kafkalog_cli.format.batch import CONTROL_MASK, NO_TIMESTAMP, TRANSACTIONAL_MASK, Batch
from kafkalog_cli.format.fault import Fault, FaultKind, unreadable
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.log_end import entries_in_use
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.results import NEGATIVE_IS_NULL, Named, keywords

_ResultT = TypeVar("_ResultT")


def transaction_steps(batches: Iterable[Batch]) -> Iterator[tuple[Batch, bool]]:
    """Yield the batches of producers' transactions, and whether each ends its transaction (ProducerAppendInfo.append).

    Only headers are read: any record of a control batch with a producer id counts as the marker. A data batch counts
    also if the cleaner has emptied it.
    """
    for batch in batches:
        bits = batch.attributes
        if batch.producer_id < 0:  # no batch before v2 has a producer id
            continue
        if bits & CONTROL_MASK:
            if batch.records_count:  # the cleaner leaves empty control batches, which end no transaction
                yield batch, True
        elif bits & TRANSACTIONAL_MASK:
            yield batch, False


class TransactionReplay:
    """Follows the transactions of a log. `first_offsets` are those of the open transactions, by producer id."""

    def __init__(self) -> None:
        self.first_offsets: dict[int, int] = {}

    def ended(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, int | None]]:
        """Follow batches; yield each marker with the first offset of its transaction, None if no batch of it was met.

        When a marker is yielded, its transaction has ended, and no later batch was followed. See `transaction_steps`.
        """
        first_offsets = self.first_offsets
        for batch, is_end in transaction_steps(batches):
            if is_end:
                yield batch, first_offsets.pop(batch.producer_id, None)
            else:
                first_offsets.setdefault(batch.producer_id, batch.base_offset)


class SegmentPart(NamedTuple):
    """The part of a segment that a replay reads, from byte `position` to the end."""

    segment: Segment
    position: int

    @property
    def size_bytes(self) -> int:
        """The size of the part in bytes."""
        return max(0, self.segment.log.size_bytes - self.position)


def parts_to_replay(
    fs: Filesystem, segments: Sequence[Segment], from_offset: int, end_offset: int | None = None
) -> list[SegmentPart]:
    """Return the parts of segments that contain every batch at or above `from_offset`, and below `end_offset`.

    Segments of Kafka 0.7 are left out: 0.7 had no transactions. Raises what `open_read` raises.
    """
    segments = [segment for segment in segments if not segment.is_v07]
    first = max((i for i, s in enumerate(segments) if s.base_offset <= from_offset), default=0)
    parts = [SegmentPart(segment, 0) for segment in segments[first:]]
    if parts and from_offset > parts[0].segment.base_offset:
        segment = parts[0].segment
        parts[0] = SegmentPart(segment, _position(fs, segment, from_offset))
    return [part for part in parts if end_offset is None or part.segment.base_offset < end_offset]


def newest_snapshot(
    fs: Filesystem,
    partition: Partition,
    end_offset: int,
    note: Callable[[str, list[Fault]], None] = lambda _path, _faults: None,
) -> tuple[int | None, Sequence[OpenTransaction]]:
    """Return the offset of the newest readable producer snapshot at or below `end_offset`, and what is open in it.

    The result is (None, []) if there is none. `note` is called with the path and the faults of each snapshot tried. By
    default they are ignored: `verify` reports them.
    """
    return read_newest_snapshot(fs, partition, end_offset, open_in, note) or (None, [])


def read_newest_snapshot(
    fs: Filesystem,
    partition: Partition,
    end_offset: int,
    read: Callable[[Iterator[ProducerEntry], str], _ResultT],
    note: Callable[[str, list[Fault]], None] = lambda _path, _faults: None,
) -> tuple[int, _ResultT] | None:
    """Return the offset of the newest readable snapshot, and what `read` makes of its entries and partition's path.

    `read` is also called for snapshots that turn out to be unreadable. See `newest_snapshot`.
    """
    for file in reversed(partition.snapshots):
        if file.name.offset is None or not 0 <= file.name.offset <= end_offset:
            continue
        path = file.status.path
        try:
            with fs.open_read(path) as content:
                count, faults = producer_snapshot.check(content.size_bytes, partial(file_pieces, content))
                entries = read(producer_snapshot.entries_of(count, file_pieces(content)), partition.path)
        except (KafkalogError, OSError) as error:
            note(path, [unreadable(error)])
            continue
        note(path, faults)
        if not any(fault.kind is not FaultKind.TRAILING_BYTES for fault in faults):
            return file.name.offset, entries
    return None


def open_in(entries: Iterable[ProducerEntry], path: str) -> Sequence[OpenTransaction]:
    """Return the open transactions of a snapshot's entries. Raises Unreadable for too many transactions of `path`."""
    transactions: dict[int, OpenTransaction] = {}
    for entry in entries:
        if (first := entry.open_txn_first_offset) is not None:
            _keep(transactions, OpenTransaction(entry.producer_id, entry.producer_epoch, first, entry.timestamp), path)
    return _by_first_offset(transactions)


def headers_of(fs: Filesystem, parts: Iterable[SegmentPart], damage: list[tuple[Segment, Fault]]) -> Iterator[Batch]:
    """Yield the headers of the batches in `parts`. A damaged segment is read up to its first damage.

    The damage is appended to `damage`. Raises what `open_read` raises.
    """
    for segment, position in parts:
        with fs.open_read(segment.log.path) as log:
            reader = Headers(log, start=position)
            yield from reader
            if reader.fault is not None:
                damage.append((segment, reader.fault))


def open_transactions(
    path: str, snapshot: Sequence[OpenTransaction], batches: Iterable[Batch], from_offset: int, end_offset: int
) -> Sequence[OpenTransaction]:
    """Return the transactions that are open at `end_offset`, by first offset: the snapshot's, updated by the batches.

    Only batches from `from_offset` on count. `path` is that of the partition, for messages. Raises Unreadable for too
    many transactions.
    """
    transactions = {transaction.producer_id: transaction for transaction in snapshot}
    for batch, is_end in transaction_steps(batches):
        if batch.last_offset < from_offset or batch.base_offset >= end_offset:
            continue
        if is_end:
            transactions.pop(batch.producer_id, None)
        else:
            known = transactions.get(batch.producer_id)
            first = batch.base_offset if known is None else known.first_offset
            last_timestamp = max(batch.max_timestamp, NO_TIMESTAMP)
            _keep(transactions, OpenTransaction(batch.producer_id, batch.producer_epoch, first, last_timestamp), path)
    return _by_first_offset(transactions)


def open_at(
    fs: Filesystem,
    partition: Partition,
    end_offset: int,
    batches: Callable[[Sequence[SegmentPart]], Iterable[Batch]],
) -> Sequence[OpenTransaction]:
    """Return the transactions that are open at `end_offset`, by first offset.

    As in a broker, they are those of the newest readable producer snapshot, updated by the batches of the log after it,
    which `batches` reads. Raises as `open_transactions` and `open_read`.
    """
    offset, known = newest_snapshot(fs, partition, end_offset)
    begin = partition.segments[0].base_offset if offset is None else offset
    parts = parts_to_replay(fs, partition.segments, begin, end_offset) if begin < end_offset else []
    return open_transactions(partition.path, known, batches(parts), begin, end_offset)


def _position(fs: Filesystem, segment: Segment, offset: int) -> int:
    if segment.offset_index is None:
        return 0
    index, _ = entries_in_use(fs, segment.offset_index.path, OffsetIndex, segment.base_offset)
    position = index.lookup(offset).position
    return position if 0 <= position < segment.log.size_bytes else 0


MOST_OPEN = 200_000
"""The most transactions that may be open in a partition: each belongs to a producer of its own."""


class OpenTransaction(NamedTuple):
    """A transaction without an end. `last_timestamp` (ms) is that of its last batch."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: Annotated[int, Named("last_timestamp_ms"), NEGATIVE_IS_NULL, keywords(type=("integer", "null"))]


def _keep(transactions: dict[int, OpenTransaction], transaction: OpenTransaction, path: str) -> None:
    """Note the state of a producer's transaction. Raises Unreadable for too many transactions of the partition."""
    transactions[transaction.producer_id] = transaction
    if len(transactions) > MOST_OPEN:
        raise Unreadable(path=path, reason=f"more than {MOST_OPEN} transactions are open in it")


def _by_first_offset(transactions: dict[int, OpenTransaction]) -> list[OpenTransaction]:
    return sorted(transactions.values(), key=lambda transaction: transaction.first_offset)
