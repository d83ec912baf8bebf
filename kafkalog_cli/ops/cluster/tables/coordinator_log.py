"""Read a partition of a coordinator's topic in log order, as the coordinator does when it takes the partition over.

The rows are transactional ids, the committed offsets that a coordinator would have, and every commit in the log.
"""

from collections.abc import Callable, Iterable, Iterator
from sys import intern
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import DamagedLog, ExitCode
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.control import COMMIT, ControlRecord, decode_control
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.internal_topics.records import CoordinatorRecord, UnreadableRecord, decode_coordinator
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.java_text import ZERO_UUID
from kafkalog_cli.format.records import Record
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.look.read.log_read import LogRead
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.results import Int32, Time

OnDamage = Callable[[DamagedLog], None]
"""Called for records that cannot be read. It raises its argument, or returns, and the records are left out."""


class CoordinatorEntry(NamedTuple):
    """A record of a coordinator, or the end of a transaction of `producer_id` if `record` is None.

    `producer_id` is -1 for a record outside of transactions. `size_bytes` is the size of its key and value.
    """

    offset: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    record: CoordinatorRecord | None
    is_commit: bool = False
    size_bytes: int = 0


def coordinator_entries(
    fs: Filesystem,
    partition: Partition,
    on_damage: OnDamage,
    codes: list[ExitCode] | None = None,
) -> Iterator[CoordinatorEntry]:
    """Yield the records from the log's start on (CoordinatorLoaderImpl), including aborted and open transactions.

    Records of unknown types are skipped, as the coordinator does. `codes` gets the exit code of each segment's bytes:
    WARNINGS for a damaged tail. Raises as `on_damage` and `open_read` do.
    """
    if not partition.segments:
        return
    log = LogRead(fs, partition, ReadRequest(with_control=True))
    log.codes = log.codes if codes is None else codes
    for segment in log.segments():
        path = segment.segment.log.path
        for block in segment.blocks():
            if isinstance(block, Fault):
                on_damage(damaged_log(path, block))
                continue
            for record in block.rows():
                entry = _entry(partition.topic, record)
                if isinstance(entry, Fault):
                    on_damage(damaged_log(path, entry))
                elif entry is not None:
                    yield entry


def _entry(topic: str, record: Record) -> CoordinatorEntry | Fault | None:
    batch = record.batch
    if batch.is_control:
        control = decode_control(record.key, record.value)
        if not isinstance(control, ControlRecord):
            return _fault(record, control.message)
        if not control.is_marker:
            return None
        is_commit = control.type_id == COMMIT
        return CoordinatorEntry(
            record.offset, record.timestamp, batch.producer_id, batch.producer_epoch, None, is_commit
        )
    if record.key is None:
        return _fault(record, "a coordinator's record without a key")
    decoded = decode_coordinator(topic, record.key, record.value)
    if isinstance(decoded, UnreadableRecord):
        return None if decoded.unknown_type is not None else _fault(record, decoded.message)
    size_bytes = len(record.key) + len(record.value or b"")
    return CoordinatorEntry(
        record.offset, record.timestamp, batch.producer_id, batch.producer_epoch, decoded, size_bytes=size_bytes
    )


def _fault(record: Record, message: str) -> Fault:
    """Return the fault for a damaged record, with the position of its batch."""
    batch, offset = record.batch, record.offset
    return Fault(
        FaultKind.INVALID_RECORD, batch.position, f"the record of offset {offset}: {message}", batch.size_bytes,
        base_offset=offset, last_offset=offset,
    )  # fmt: skip


_NO_PRODUCER = -1
OFFSET_RECORDS = ("OffsetCommit", "LegacyOffsetCommit")
"""The names of records that commit or remove an offset."""


class CommittedOffset(NamedTuple):
    """A committed offset of a group.

    Times are in epoch ms. A field is None if there is no value, or if the record's version does not contain it.
    `log_partition` and `log_offset` are the place of the record in `__consumer_offsets`.
    """

    group_id: str
    topic: str
    partition: Int32
    offset: int
    leader_epoch: Int32 | None
    metadata: str
    commit_timestamp: Time | None
    expire_timestamp: Time | None
    topic_id: str | None
    log_partition: Int32
    log_offset: int


class OffsetCommit(NamedTuple):
    """A commit as it was written.

    `is_tombstone`: the commit removes an offset, and its `offset` is None. `producer_id` is None outside of
    transactions. `timestamp` is that of the record, in epoch ms.
    """

    group_id: str
    topic: str
    partition: Int32
    offset: int | None
    leader_epoch: Int32 | None
    metadata: str | None
    commit_timestamp: Time | None
    expire_timestamp: Time | None
    topic_id: str | None
    is_tombstone: bool
    producer_id: int | None
    timestamp: Time | None
    log_partition: Int32
    log_offset: int


OffsetKey = tuple[str, str, int]
"""A group id, a topic and a partition."""


def committed_offsets(entries: Iterable[CoordinatorEntry], log_partition: int) -> list[CommittedOffset]:
    """Return the offsets that a coordinator has after loading a partition (OffsetMetadataManager.replay).

    Offsets in a transaction count once it commits, unless a later record has set the same offset. A tombstone removes
    both. Whether an offset has expired is not checked, since a coordinator writes a tombstone then.
    """
    replay = OffsetReplay(log_partition)
    for entry in entries:
        replay.take(entry)
    return [*replay.committed.values()]


class OffsetReplay:
    """The committed offsets after each entry of a coordinator's partition.

    `committed` are by group id, topic and partition. `pending` are those of open transactions, by producer id. A group
    can have pending offsets in several transactions.
    """

    def __init__(self, log_partition: int) -> None:
        self.committed: dict[OffsetKey, CommittedOffset] = {}
        self.pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self._log_partition = log_partition

    def take(self, entry: CoordinatorEntry) -> None:
        """Replay the next entry; records of groups and members change nothing."""
        if entry.record is None:
            for key, committed in self.pending.pop(entry.producer_id, {}).items():
                if entry.is_commit and (
                    key not in self.committed or self.committed[key].log_offset < committed.log_offset
                ):
                    self.committed[key] = committed
        elif entry.record.name in OFFSET_RECORDS:
            key = offset_key(entry.record.key)
            if entry.record.value is None:
                for offsets in (self.committed, *self.pending.values()):
                    offsets.pop(key, None)
                return
            is_outside = entry.producer_id == _NO_PRODUCER
            of_producer = self.committed if is_outside else self.pending.setdefault(entry.producer_id, {})
            of_producer[key] = committed_offset(key, entry.record.value, self._log_partition, entry.offset)


def offset_commits(entries: Iterable[CoordinatorEntry], log_partition: int) -> Iterator[OffsetCommit]:
    """Yield every commit in log order, including those of aborted and open transactions."""
    for entry in entries:
        if entry.record is None or entry.record.name not in OFFSET_RECORDS:
            continue
        key, value = offset_key(entry.record.key), entry.record.value
        producer_id = None if entry.producer_id == _NO_PRODUCER else entry.producer_id
        commit = OffsetCommit(
            *key, None, None, None, None, None, None, value is None, producer_id, known_time(entry.timestamp),
            log_partition, entry.offset,
        )  # fmt: skip
        if value is not None:
            commit = commit._replace(**committed_offset(key, value, log_partition, entry.offset)._asdict())
        yield commit


def known_time(timestamp: int | None) -> int | None:
    """Return a timestamp in epoch ms, or None for Kafka's -1."""
    return None if timestamp == NO_TIMESTAMP else timestamp


def offset_key(key: Message) -> OffsetKey:
    """Return the group, topic and partition of a commit's key; many keys share the texts in memory."""
    return intern(key["group"]), intern(key["topic"]), key["partition"]


def committed_offset(key: OffsetKey, value: Message, log_partition: int, log_offset: int) -> CommittedOffset:
    """Return the offset that a commit's value has."""
    epoch = value.get("leaderEpoch", -1)
    topic_id = value.get("topicId", ZERO_UUID)
    return CommittedOffset(
        *key,
        value["offset"],
        None if epoch < 0 else epoch,
        value["metadata"],
        known_time(value["commitTimestamp"]),
        known_time(value.get("expireTimestamp", NO_TIMESTAMP)),
        None if topic_id == ZERO_UUID else topic_id,
        log_partition,
        log_offset,
    )


STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
"""Names of the states by number (TransactionState)."""


def state_name(number: int) -> str | None:
    """Return the name of a transactional id's state, None for a number that Kafka does not know."""
    return STATES[number] if 0 <= number < len(STATES) else None


class TransactionPartitions(NamedTuple):
    """Partitions of a topic that are in a transaction."""

    topic: str
    partitions: tuple[Int32, ...]


class Transaction(NamedTuple):
    """A transactional id. Times are in epoch ms; `partitions` are the partitions in the current transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: Int32
    state: str
    timeout_ms: Int32
    partitions: tuple[TransactionPartitions, ...]
    start_timestamp: Time | None
    last_update_timestamp: Time | None
    log_partition: Int32
    log_offset: int


def transactions(entries: Iterable[CoordinatorEntry], log_partition: int) -> list[Transaction]:
    """Return the last state of each transactional id, without expired ids (TransactionStateManager)."""
    transactions_by_id: dict[str, Transaction] = {}
    for entry in entries:
        if entry.record is None or entry.record.name != "TransactionLog":
            continue
        name, value = entry.record.key["transactionalId"], entry.record.value
        transactions_by_id.pop(name, None)
        if value is None:
            continue
        state = value["transactionStatus"]
        transactions_by_id[name] = Transaction(
            name,
            value["producerId"],
            value["producerEpoch"],
            state_name(state) or f"unknown ({state})",
            value["transactionTimeoutMs"],
            tuple(
                TransactionPartitions(topic["topic"], tuple(topic["partitionIds"]))
                for topic in value["transactionPartitions"] or ()
            ),
            known_time(value["transactionStartTimestampMs"]),
            known_time(value["transactionLastUpdateTimestampMs"]),
            log_partition,
            entry.offset,
        )
    return [*transactions_by_id.values()]
