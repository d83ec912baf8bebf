"""Aborted and open transactions of a partition, its producers, and the requests about them and transactional ids."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.producer_state import ProducerReplay, ProducerState
from kafkalog_cli.disk.fs import Filesystem, ReadableFile, read_all
from kafkalog_cli.errors import KafkalogError, Unreadable
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.control import ABORT
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.open_transactions import (
    SegmentPart,
    TransactionReplay,
    open_at,
    parts_to_replay,
    read_newest_snapshot,
)
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.header import control_type_at
from kafkalog_cli.log.reading.scan import Chunk, DamagePolicy, Scan
from kafkalog_cli.ops.cluster.tables.coordinator_log import STATES, Transaction
from kafkalog_cli.ops.move.serve.broker import Broker, Request, unknown_topic


class Aborted(NamedTuple):
    """An aborted transaction: its first offset, and that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


def aborted_transactions(
    fs: Filesystem, partition: Partition, batches: Iterable[tuple[ReadableFile, Batch]]
) -> list[Aborted]:
    """Return all aborted transactions by first offset, from the log's batches and the transaction indexes.

    The log decides. An entry of an index counts if it has no marker in the log, because damage may hide the marker.
    """
    aborted: dict[tuple[int, int], Aborted] = {}
    replay = TransactionReplay()
    for file, batch in batches:
        for marker, first in replay.ended((batch,)):
            if first is not None and control_type_at(file, marker.position) == ABORT:
                key = (marker.producer_id, marker.last_offset)
                aborted[key] = Aborted(marker.producer_id, first, marker.last_offset)
    for entry in _indexed(fs, partition):
        key = (entry.producer_id, entry.last_offset)
        known = aborted.get(key)
        if known is None or entry.first_offset < known.first_offset:
            aborted[key] = Aborted(entry.producer_id, entry.first_offset, entry.last_offset)
    return sorted(aborted.values(), key=lambda each: (each.first_offset, each.producer_id))


def first_open_offset(
    fs: Filesystem, partition: Partition, end: int, batches: Callable[[Sequence[SegmentPart]], Iterable[Batch]]
) -> int | None:
    """Return the first offset of the first transaction that is open at the end of the log, None if none is open.

    An entry of a transaction index ends a transaction too, because damage may hide the marker.
    """
    still_open = open_at(fs, partition, end, batches)
    ended = {(entry.producer_id, entry.first_offset) for entry in _indexed(fs, partition)} if still_open else set()
    return next((each.first_offset for each in still_open if (each.producer_id, each.first_offset) not in ended), None)


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


def producers_of(fs: Filesystem, partition: Partition, end_offset: int) -> Sequence[ProducerEntry]:
    """Return the producers at the end of the log, in order of arrival. Damaged batches are left out.

    Raises as `open_read`; Unreadable for a log that a broker would not replay, Refused for too many producers.
    """
    start, state = read_newest_snapshot(fs, partition, end_offset, _loaded) or (0, ProducerState(partition.path))
    replay = ProducerReplay(state, DEFAULT_LIMITS)
    try:
        for segment, position in parts_to_replay(fs, partition.segments, start):
            with fs.open_read(segment.log.path) as log:
                for chunk in Scan(log, DamagePolicy.RESYNC, start=position):
                    _apply(replay, chunk, start)
        replay.finish()
    except LoadFailed as error:
        raise Unreadable(path=partition.path, reason=f"a broker does not replay it: {error}") from error
    return list(state.producers.entries())


def _apply(replay: ProducerReplay, chunk: Chunk, start: int) -> None:
    batches = chunk.batches
    rows = rows_where(
        lambda last, producer, valid: (last >= start) & (producer >= 0) & (valid != 0),
        batches.last_offset, batches.producer_id, batches.valid,
    )  # fmt: skip
    for row in rows:
        replay.apply(chunk, row, row + 1)


def _loaded(entries: Iterable[ProducerEntry], path: str) -> ProducerState:
    state = ProducerState(path)
    state.load(entries)
    return state


_NO_TIME = -1
_DEAD = "Dead"


def describe_producers(broker: Broker, request: Request) -> Message:
    """Answer the producers of partitions. Unlike a broker's answer, producers that have expired are in it."""
    topics = []
    for topic in request.distinct("topics", "name"):
        partitions = [_producers(broker, topic["name"], number) for number in dict.fromkeys(topic["partitionIndexes"])]
        topics.append({"name": topic["name"], "partitions": partitions})
    return {"topics": topics}


def _producers(broker: Broker, topic: str, number: int) -> Message:
    partition = broker.catalog.find(topic, number)
    if partition is None:
        return {"partitionIndex": number, "errorCode": unknown_topic(topic)}
    try:
        producers = partition.producers()
    except (KafkalogError, OSError) as error:
        return {"partitionIndex": number, "errorCode": ApiError.KAFKA_STORAGE_ERROR, "errorMessage": str(error)}
    return {"partitionIndex": number, "activeProducers": [_producer(entry) for entry in producers]}


def _producer(entry: ProducerEntry) -> Message:
    return {
        "producerId": entry.producer_id, "producerEpoch": entry.producer_epoch, "lastSequence": entry.last_sequence,
        "lastTimestamp": entry.timestamp, "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnStartOffset": entry.current_txn_first_offset,
    }  # fmt: skip


def list_transactions(broker: Broker, request: Request) -> Message:
    """Answer the transactional ids that the filters choose. Ids without an open transaction count as very old."""
    body = request.body
    states, producers = set(body["stateFilters"]), set(body["producerIdFilters"])
    shortest_ms, now_ms = body.get("durationFilter", -1), broker.now_ms()
    try:
        known = broker.catalog.transactional_ids()
    except (KafkalogError, OSError):
        return {"errorCode": ApiError.COORDINATOR_NOT_AVAILABLE}
    return {
        "unknownStateFilters": sorted(states - {*STATES}),
        "transactionStates": [
            {
                "transactionalId": state.transactional_id,
                "producerId": state.producer_id,
                "transactionState": state.state,
            }
            for state in known.values()
            if state.state != _DEAD
            and (not states or state.state in states)
            and (not producers or state.producer_id in producers)
            and (shortest_ms < 0 or now_ms - _time(state.start_timestamp) > shortest_ms)
        ],
    }


def describe_transactions(broker: Broker, request: Request) -> Message:
    """Answer transactional ids."""
    requested = request.distinct("transactionalIds")
    try:
        known = broker.catalog.transactional_ids()
    except (KafkalogError, OSError):
        failed = ApiError.COORDINATOR_NOT_AVAILABLE
        return {"transactionStates": [{"transactionalId": name, "errorCode": failed} for name in requested]}
    return {"transactionStates": [_transaction(name, known.get(name)) for name in requested]}


def _transaction(name: str, state: Transaction | None) -> Message:
    if state is None or state.state == _DEAD:
        return {
            "transactionalId": name,
            "errorCode": ApiError.TRANSACTIONAL_ID_NOT_FOUND if name else ApiError.INVALID_REQUEST,
        }
    return {
        "transactionalId": name, "transactionState": state.state, "transactionTimeoutMs": state.timeout_ms,
        "transactionStartTimeMs": _time(state.start_timestamp), "producerId": state.producer_id,
        "producerEpoch": state.producer_epoch,
        "topics": [{"topic": topic.topic, "partitions": list(topic.partitions)} for topic in state.partitions],
    }  # fmt: skip


def _time(time_ms: int | None) -> int:
    return _NO_TIME if time_ms is None else time_ms
