"""Rows of committed offsets of groups: the offsets that a coordinator would have, and every commit in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.kafka_uuid import ZERO_UUID
from kafkalog_cli.ops.tables.coordinator_log import CoordinatorEntry

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
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int | None
    expire_timestamp: int | None
    topic_id: str | None
    log_partition: int
    log_offset: int


class OffsetCommit(NamedTuple):
    """A commit as it was written.

    `is_tombstone`: the commit removes an offset, and its `offset` is None. `producer_id` is None outside of
    transactions. `timestamp` is that of the record, in epoch ms.
    """

    group_id: str
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    metadata: str | None
    commit_timestamp: int | None
    expire_timestamp: int | None
    topic_id: str | None
    is_tombstone: bool
    producer_id: int | None
    timestamp: int | None
    log_partition: int
    log_offset: int


OffsetKey = tuple[str, str, int]
"""A group id, a topic and a partition."""


def committed_offsets(entries: Iterable[CoordinatorEntry], log_partition: int) -> Iterator[CommittedOffset]:
    """Yield the offsets that a coordinator has after loading a partition (OffsetMetadataManager.replay).

    Offsets in a transaction count once it commits, unless a later record has set the same offset. A tombstone removes
    both. Whether an offset has expired is not checked, since a coordinator writes a tombstone then.
    """
    replay = OffsetReplay(log_partition)
    for entry in entries:
        replay.take(entry)
    yield from replay.held.values()


class OffsetReplay:
    """The committed offsets after each entry of a coordinator's partition.

    `held` are by (group id, topic, partition). `pending` are those of open transactions, by producer id. A group can
    have pending offsets in several transactions.
    """

    def __init__(self, log_partition: int) -> None:
        self.held: dict[OffsetKey, CommittedOffset] = {}
        self.pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self._log_partition = log_partition

    def take(self, entry: CoordinatorEntry) -> None:
        """Replay the next entry; records of groups and members change nothing."""
        if entry.record is None:
            for key, committed in self.pending.pop(entry.producer_id, {}).items():
                if entry.is_commit and (key not in self.held or self.held[key].log_offset < committed.log_offset):
                    self.held[key] = committed
        elif entry.record.name in OFFSET_RECORDS:
            key = offset_key(entry.record.key)
            if entry.record.value is None:
                for offsets in (self.held, *self.pending.values()):
                    offsets.pop(key, None)
                return
            is_outside = entry.producer_id == _NO_PRODUCER
            of_producer = self.held if is_outside else self.pending.setdefault(entry.producer_id, {})
            of_producer[key] = committed_offset(key, entry.record.value, self._log_partition, entry.offset)


def offset_commits(entries: Iterable[CoordinatorEntry], log_partition: int) -> Iterator[OffsetCommit]:
    """Yield every commit in log order, including those of aborted and open transactions."""
    for entry in entries:
        if entry.record is None or entry.record.name not in OFFSET_RECORDS:
            continue
        key, value = offset_key(entry.record.key), entry.record.value
        producer_id = None if entry.producer_id == _NO_PRODUCER else entry.producer_id
        found = OffsetCommit(
            *key, None, None, None, None, None, None, value is None, producer_id, known_time(entry.timestamp),
            log_partition, entry.offset,
        )  # fmt: skip
        if value is not None:
            found = found._replace(**committed_offset(key, value, log_partition, entry.offset)._asdict())
        yield found


def known_time(timestamp: int | None) -> int | None:
    """Return a timestamp in epoch ms, or None for Kafka's -1."""
    return None if timestamp == NO_TIMESTAMP else timestamp


def offset_key(key: Message) -> OffsetKey:
    """Return the group, topic and partition of a commit's key."""
    return key["group"], key["topic"], key["partition"]


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
