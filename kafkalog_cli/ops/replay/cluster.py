"""The cluster that receives records, as replay sees it. Tests hand in a cluster of their own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from kafkalog_cli.format.records import Header

GroupOffsets = Mapping[tuple[str, int], tuple[int, str]]
"""Offsets with their metadata, by topic and partition."""


class SentRecord(NamedTuple):
    """The contents of a record. `timestamp_ms` is None if the cluster has replaced it by the time of the append."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int | None

    def is_same(self, other: SentRecord) -> bool:
        """Whether the contents are equal, without timestamps if either record has none."""
        if self[:3] != other[:3]:
            return False
        return None in (self.timestamp_ms, other.timestamp_ms) or self.timestamp_ms == other.timestamp_ms


class ClusterTopic(NamedTuple):
    """A topic of the cluster. `settings` are all its settings, with defaults; null values are left out."""

    partitions: int
    settings: Mapping[str, str]


class Sender(Protocol):
    """Sends records to partitions of a topic, in order.

    It calls `acknowledged` with the partition and the offset of each record in the cluster, in the order of the
    partition's records and only in `send` and `flush`. Both raise ClusterError if a record is refused; then no later
    record is acknowledged.
    """

    def send(self, partition: int, record: SentRecord) -> None:
        """Send a record. This waits while very many records are under way."""

    def flush(self) -> None:
        """Wait until all records are acknowledged."""


class Cluster(Protocol):
    """A cluster. Its methods raise ClusterError if the cluster does not answer, or answers with an error."""

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster."""

    def topic(self, name: str) -> ClusterTopic | None:
        """Return a topic, None if there is none."""

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic with the cluster's default replication factor; return when it has leaders."""

    def end_offset(self, topic: str, partition: int) -> int:
        """Return the offset after the last record that consumers see."""

    def records(
        self, topic: str, partition: int, start: int, end: int
    ) -> Generator[tuple[int, SentRecord], None, None]:
        """Yield the records with offsets from `start` to `end` (exclusive), with their offsets."""

    def sender(
        self, topic: str, codec: str, acknowledged: Callable[[int, int], None]
    ) -> AbstractContextManager[Sender]:
        """Open a sender for a topic. `codec` is Kafka's name of the compression of its batches.

        If the context is left by an exception, records that were not sent yet are dropped.
        """

    def group_offsets(self, group_id: str) -> GroupOffsets:
        """Return the committed offsets of a group."""

    def commit(self, group_id: str, offsets: GroupOffsets) -> None:
        """Commit offsets of a group that has no members."""
