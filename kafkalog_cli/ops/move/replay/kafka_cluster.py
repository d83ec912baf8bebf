"""A cluster of real brokers, through librdkafka (confluent-kafka)."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, NoReturn

from kafkalog_cli.errors import ClusterError, UsageError
from kafkalog_cli.format.records import Header

try:
    import confluent_kafka as _confluent_kafka
    from confluent_kafka import admin as _admin
except ImportError:  # an extra
    _confluent_kafka = _admin = None  # type: ignore[assignment]
confluent_kafka: Any = _confluent_kafka
admin: Any = _admin
"""The library, whose types are not complete."""

NEEDED = "replay needs confluent-kafka: pip install 'kafkalog-cli[replay]'"
_SECONDS = 30.0
"""How long to wait for an answer of the cluster."""
_MOST_QUEUED_KBYTES = 256 << 10
"""The records that are under way take at most so much memory, in KiB."""
_MOST_RECORD_BYTES = 1_000_000_000
_LARGEST_BATCH_BYTES = 1_000_000
_BATCH_OVERHEAD_BYTES = 512
_PRODUCING = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,  # no record is written after a record that was refused
    "linger.ms": 20,
    "message.max.bytes": _MOST_RECORD_BYTES,
    "queue.buffering.max.kbytes": _MOST_QUEUED_KBYTES,
    "message.timeout.ms": 120_000,
}
_READING = {
    "group.id": "kafkalog-replay",  # librdkafka needs an id; no group is joined
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
}
_QUIET = {"log_level": 0}


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


class KafkaCluster:
    """The cluster that receives records. `settings` are librdkafka's, by name, such as those of security.

    Raises UsageError. All methods raise ClusterError if the cluster does not answer, or answers with an error.
    """

    def __init__(self, bootstrap: str, settings: Mapping[str, str] | None = None) -> None:
        if confluent_kafka is None:
            raise UsageError(reason=NEEDED)
        self._bootstrap = bootstrap
        self._settings: dict[str, Any] = {**_QUIET, **(settings or {}), "bootstrap.servers": bootstrap}
        try:
            self._admin = admin.AdminClient(self._settings)
            self._reader = confluent_kafka.Consumer({**self._settings, **_READING})
        except confluent_kafka.KafkaException as error:
            raise UsageError(reason=f"the settings of the client are not valid: {_text(error)}") from error
        metadata = self._metadata()
        self.cluster_id: str | None = metadata.cluster_id

    def topic(self, name: str) -> ClusterTopic | None:
        """Return a topic, None if there is none."""
        metadata = self._metadata().topics.get(name)  # of all topics: asking for a single topic may create it
        if metadata is None:
            return None
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, name)
        (settings,) = self._results(self._admin.describe_configs([resource], request_timeout=_SECONDS))
        known = {setting.name: setting.value for setting in settings.values() if setting.value is not None}
        return ClusterTopic(len(metadata.partitions), known)

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic with the cluster's default replication factor; return when it has leaders."""
        new = admin.NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(settings))
        self._results(self._admin.create_topics([new], operation_timeout=_SECONDS, request_timeout=_SECONDS))
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            metadata = self._metadata().topics.get(name)
            if metadata is not None and all(partition.leader >= 0 for partition in metadata.partitions.values()):
                return
            time.sleep(0.1)
        raise self._error(f"{name} was created, but not all of its partitions have a leader")

    def end_offset(self, topic: str, partition: int) -> int:
        """Return the offset after the last record that consumers see."""
        place = confluent_kafka.TopicPartition(topic, partition)
        try:
            return int(self._reader.get_watermark_offsets(place, timeout=_SECONDS, cached=False)[1])
        except confluent_kafka.KafkaException as error:
            raise self._error(_text(error)) from error

    def records(
        self, topic: str, partition: int, start: int, end: int
    ) -> Generator[tuple[int, SentRecord], None, None]:
        """Yield the records with offsets from `start` to `end` (exclusive), with their offsets."""
        self._reader.assign([confluent_kafka.TopicPartition(topic, partition, start)])
        until = time.monotonic() + _SECONDS
        try:
            while time.monotonic() < until:
                for message in self._reader.consume(1000, timeout=1.0):
                    until = time.monotonic() + _SECONDS
                    error = message.error()
                    if error is not None:
                        if error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                            return
                        raise self._error(error.str())
                    if message.offset() >= end:
                        return
                    yield message.offset(), _record_of(message)
            raise self._error(f"{topic}-{partition} cannot be read: no answer in {_SECONDS:.0f} s")
        finally:
            self._reader.unassign()

    @contextmanager
    def sender(self, topic: str, codec: str, acknowledged: Callable[[int, int], None]) -> Iterator[KafkaSender]:
        """Open a sender for a topic. `codec` is Kafka's name of the compression of its batches.

        If the context is left by an exception, records that were not sent yet are dropped.
        """
        target = self.topic(topic)
        most_bytes = int((target.settings if target else {}).get("max.message.bytes", _LARGEST_BATCH_BYTES))
        batch_bytes = max(1, min(_LARGEST_BATCH_BYTES, most_bytes - _BATCH_OVERHEAD_BYTES))
        settings = {**_PRODUCING, **self._settings, "compression.type": codec, "batch.size": batch_bytes}
        try:
            producer = confluent_kafka.Producer(settings)
        except confluent_kafka.KafkaException as error:
            raise UsageError(reason=f"the settings of the client are not valid: {_text(error)}") from error
        sender = KafkaSender(self._bootstrap, producer, topic, acknowledged)
        try:
            yield sender
        except BaseException:
            sender.is_over = True
            producer.purge(in_flight=True, blocking=False)
            raise
        finally:
            with suppress(confluent_kafka.KafkaException):
                producer.poll(0)

    def group_offsets(self, group_id: str) -> GroupOffsets:
        """Return the committed offsets of a group."""
        wanted = confluent_kafka.ConsumerGroupTopicPartitions(group_id)
        (answer,) = self._results(self._admin.list_consumer_group_offsets([wanted], request_timeout=_SECONDS))
        return {
            (committed.topic, committed.partition): (committed.offset, committed.metadata or "")
            for committed in answer.topic_partitions
            if committed.offset >= 0
        }

    def commit(self, group_id: str, offsets: GroupOffsets) -> None:
        """Commit offsets of a group that has no members."""
        places = [
            confluent_kafka.TopicPartition(topic, number, offset, metadata)
            for (topic, number), (offset, metadata) in offsets.items()
        ]
        wanted = confluent_kafka.ConsumerGroupTopicPartitions(group_id, places)
        (done,) = self._results(self._admin.alter_consumer_group_offsets([wanted], request_timeout=_SECONDS))
        failed = next((partition for partition in done.topic_partitions if partition.error is not None), None)
        if failed is not None:
            raise self._error(f"group {group_id}, {failed.topic}-{failed.partition}: {failed.error.str()}")

    def _metadata(self) -> Any:
        try:
            return self._admin.list_topics(timeout=_SECONDS)
        except confluent_kafka.KafkaException as error:
            raise self._error(_text(error)) from error

    def _results(self, futures: Mapping[Any, Any]) -> list[Any]:
        try:
            return [future.result(_SECONDS) for future in futures.values()]
        except confluent_kafka.KafkaException as error:
            raise self._error(_text(error)) from error

    def _error(self, reason: str) -> ClusterError:
        return ClusterError(cluster=self._bootstrap, reason=reason)


class KafkaSender:
    """Sends records to partitions of a topic, in order.

    It calls `acknowledged` with the partition and the offset of each record in the cluster, in the order of the
    partition's records and only in `send` and `flush`. Both raise ClusterError if a record is refused; then no later
    record is acknowledged. After an interruption, when it `is_over`, acknowledgements are no longer passed on.
    """

    def __init__(self, bootstrap: str, producer: Any, topic: str, acknowledged: Callable[[int, int], None]) -> None:
        self._bootstrap = bootstrap
        self._producer = producer
        self._topic = topic
        self._acknowledged = acknowledged
        self._refusal = ""
        self.is_over = False

    def send(self, partition: int, record: SentRecord) -> None:
        """Send a record. This waits while very many records are under way."""
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, partition, on_delivery=self._delivered,
                    timestamp=record.timestamp_ms, headers=[(name.decode(), value) for name, value in record.headers],
                )  # fmt: skip
                break
            except BufferError:
                if not len(self._producer):
                    self._refuse("it is larger than the memory for records that are under way")
                self._poll(0.1)
            except UnicodeDecodeError:
                self._refuse("the name of a header is not UTF-8")
            except confluent_kafka.KafkaException as error:
                self._refuse(_text(error))
        self._poll(0)

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        while len(self._producer):
            self._poll(1.0)

    def _poll(self, seconds: float) -> None:
        fatal = ""
        try:
            self._producer.poll(seconds)
        except confluent_kafka.KafkaException as error:  # the error of the record comes with its delivery
            fatal = _text(error)
            self._producer.poll(1.0)
        if self._refusal or fatal:
            raise ClusterError(cluster=self._bootstrap, reason=self._refusal or fatal)

    def _refuse(self, reason: str) -> NoReturn:
        self.flush()
        raise ClusterError(cluster=self._bootstrap, reason=reason)

    def _delivered(self, error: Any, message: Any) -> None:
        if self._refusal or self.is_over:
            return
        if error is not None:
            self._refusal = error.str()
        else:
            self._acknowledged(message.partition(), message.offset())


def _record_of(message: Any) -> SentRecord:
    kind, timestamp_ms = message.timestamp()
    is_appended = kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
    headers = tuple(Header(key.encode(), value) for key, value in message.headers() or ())
    has_time = kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE
    return SentRecord(
        message.key(), message.value(), headers, None if is_appended else timestamp_ms if has_time else -1
    )  # fmt: skip


def _text(error: Any) -> str:
    return str(error.args[0].str())
