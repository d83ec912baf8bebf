"""The transactions of a partition: which were aborted, and where the first open transaction begins."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.open_transactions import newest_snapshot
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.serve.segment_map import Event, TransactionEvent

Events = Callable[[int], Sequence[Event]]
"""Returns the events of a segment, by its number, in the order of the log."""


class Aborted(NamedTuple):
    """An aborted transaction: its first offset, and that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


def aborted_transactions(fs: Filesystem, partition: Partition, events: Events) -> list[Aborted]:
    """Return all aborted transactions by first offset, from the log and the transaction indexes.

    The log decides. An entry of an index counts if it has no marker in the log, because damage may hide the marker.
    """
    found: dict[tuple[int, int], Aborted] = {}
    open_since: dict[int, int] = {}
    for number in range(len(partition.segments)):
        for event in events(number):
            if event.kind is TransactionEvent.BEGIN:
                open_since.setdefault(event.producer_id, event.offset)
                continue
            first = open_since.pop(event.producer_id, None)
            if event.kind is TransactionEvent.ABORT and first is not None:
                found[event.producer_id, event.offset] = Aborted(event.producer_id, first, event.offset)
    for entry in _indexed(fs, partition):
        key = (entry.producer_id, entry.last_offset)
        known = found.get(key)
        if known is None or entry.first_offset < known.first_offset:
            found[key] = Aborted(entry.producer_id, entry.first_offset, entry.last_offset)
    return sorted(found.values(), key=lambda one: (one.first_offset, one.producer_id))


def first_open_offset(fs: Filesystem, partition: Partition, end: int, events: Events) -> int | None:
    """Return the first offset of the first transaction that is open at the end of the log, None if none is open.

    As a broker does, it starts with the newest readable producer snapshot, and follows the log from there.
    """
    start, known = newest_snapshot(fs, partition, end)
    open_since = {one.producer_id: one.first_offset for one in known}
    is_at_end = start is not None and start >= end  # as a broker leaves it that stopped cleanly: nothing to follow
    for event in () if is_at_end else _events_from(partition, start, events):
        if event.kind is TransactionEvent.BEGIN:
            open_since.setdefault(event.producer_id, event.offset)
        else:
            open_since.pop(event.producer_id, None)
    ended = {(one.producer_id, one.first_offset) for one in _indexed(fs, partition)} if open_since else set()
    return min((first for one, first in open_since.items() if (one, first) not in ended), default=None)


def _events_from(partition: Partition, start: int | None, events: Events) -> Iterator[Event]:
    segments = partition.segments
    for number in range(len(segments)):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if start is None or following is None or following > start:
            yield from (event for event in events(number) if start is None or event.offset >= start)


def _indexed(fs: Filesystem, partition: Partition) -> Iterator[AbortedTxn]:
    """Yield the entries of the transaction indexes; those of an index that a broker refuses are left out."""
    for segment in partition.segments:
        if segment.txn_index is None:
            continue
        try:
            entries, faults = txnindex.decode(read_all(fs, segment.txn_index.path), segment.base_offset)
        except (KafkalogError, OSError):
            continue
        if not faults:
            yield from entries
