"""Reads `__cluster_metadata` as a broker does when it starts: the newest snapshot, then the log after it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.names import METADATA_TOPIC, partition_directory_name
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.control import ControlRecord, decode_control
from kafkalog_cli.format.fault import Fault, FaultKind, fault_of, unreadable
from kafkalog_cli.format.internal_topics.records import CLUSTER_METADATA, UnreadableRecord, decode_api_message
from kafkalog_cli.format.records import field_bytes
from kafkalog_cli.format.varint import BadVarint, decode_unsigned
from kafkalog_cli.log.open_transactions import SegmentPart, parts_to_replay
from kafkalog_cli.log.partition import PartitionFile, Segment, open_partition
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import Chunk
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.settings.metadata_image import (
    BROKER_RESOURCE,
    REGISTRY_TYPES,
    REPLAYED_TYPES,
    TOPIC_RESOURCE,
    BrokerState,
    ClusterRegistry,
    MetadataImage,
    PartitionRegistration,
    TopicState,
)

_LEADER_CHANGE, _SNAPSHOT_HEADER, _SNAPSHOT_FOOTER, _VOTERS = 2, 3, 4, 6
_TORN = (FaultKind.TRAILING_BYTES, FaultKind.HEADER_CUT_OFF)
"""Faults at the end of a log whose last write was interrupted: a broker truncates the log there and continues."""


_Read = tuple[Batch, bytes | ControlRecord | None]


class SnapshotId(NamedTuple):
    """The end of the records that a snapshot replaces: those below `end_offset`; the last of them has `epoch`."""

    end_offset: int
    epoch: int


class MetadataPoint(NamedTuple):
    """A point of the metadata log: after all records below `end_offset`, or up to a time in epoch ms; None: the end."""

    end_offset: int | None = None
    time_ms: int | None = None

    def is_before(self, batch: Batch, offset: int) -> bool:
        """Whether the record at `offset`, in this batch, is after the point."""
        if self.end_offset is not None and offset >= self.end_offset:
            return True
        return self.time_ms is not None and batch.max_timestamp > self.time_ms

    def needed(self, offset: int) -> int:
        """Return the offset below which all records are needed, if the record at `offset` is after the point."""
        return offset if self.end_offset is None else min(offset, self.end_offset)


class QuorumLeader(NamedTuple):
    """The leader of the quorum, from the last leader change in the log, and its epoch."""

    leader_id: int
    epoch: int


class ClusterMetadata(NamedTuple):
    """The state of a cluster in this replica of the metadata log.

    `topics` are by name, `configs` by (resource type, resource name). `end_offset` is the offset of the next record.
    With several `voters`, records at the log's end may be uncommitted: no file shows whether they are committed.
    `voter_directories` are their directory ids (KIP-853); there are none with static voters.
    `registry` has the further parts of the state if they were asked for. `last_timestamp_ms` is that of the last batch.
    `faults` are pairs (path, fault). Later records may be missing only if `is_complete` is False.
    """

    path: str
    topics: dict[str, TopicState]
    configs: dict[tuple[int, str], dict[str, str]]
    features: dict[str, int]
    brokers: dict[int, BrokerState]
    snapshot: SnapshotId | None
    end_offset: int
    voters: tuple[int, ...] = ()
    faults: tuple[tuple[str, Fault], ...] = ()
    is_complete: bool = True
    registry: ClusterRegistry | None = None
    leader: QuorumLeader | None = None
    last_timestamp_ms: int | None = None
    voter_directories: Mapping[int, str] = MappingProxyType({})

    def topic_of_id(self, topic_id: str) -> TopicState | None:
        """Return the topic with an id, None if it does not exist or was deleted."""
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        """Return a partition by topic name and number, None if it does not exist or was deleted."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def topic_settings(self, topic: str) -> dict[str, str]:
        """Return the dynamic settings of a topic."""
        return self.configs.get((TOPIC_RESOURCE, topic), {})

    def broker_settings(self, broker_id: int | None) -> dict[str, str]:
        """Return the dynamic settings of a single broker; none if `broker_id` is None."""
        return {} if broker_id is None else self.configs.get((BROKER_RESOURCE, str(broker_id)), {})

    def directories_of(self, node_id: int | None) -> frozenset[str]:
        """Return the directory ids of a node's log directories (KIP-858); none if it never registered any."""
        broker = None if node_id is None else self.brokers.get(node_id)
        return frozenset() if broker is None else frozenset(broker.log_dirs)

    def node_of_directory(self, directory_id: str | None) -> int | None:
        """Return the node that registered a directory id, None if no node did."""
        owners = (node for node, known in self.voter_directories.items() if known == directory_id)
        registered = (node for node, broker in self.brokers.items() if directory_id in broker.log_dirs)
        return next(chain(owners, registered), None)

    @property
    def has_broker_settings(self) -> bool:
        """Whether any single broker has dynamic settings."""
        return any(kind == BROKER_RESOURCE and name and texts for (kind, name), texts in self.configs.items())

    def default_broker_settings(self) -> dict[str, str]:
        """Return the dynamic settings of all brokers (the cluster-wide default)."""
        return self.configs.get((BROKER_RESOURCE, ""), {})


def read_cluster_metadata(
    fs: Filesystem,
    path: str,
    choice: KernelChoice | None = None,
    *,
    until: MetadataPoint | None = None,
    with_registry: bool = False,
) -> ClusterMetadata:
    """Read the cluster's state from `path`: the directory `__cluster_metadata-0`, or the directory that contains it.

    `until`: the state at that point. `with_registry`: also the parts of ClusterRegistry. A damaged snapshot is skipped
    for the next older one. Damage is reported in the result. Raises PathNotFound, NotKafkaLayout, Unreadable for the
    directory itself.
    """
    path = metadata_log_in(fs, path) or path
    partition = open_partition(fs, path)
    faults: list[tuple[str, Fault]] = []
    point = until or MetadataPoint()
    snapshots = [
        one for one in partition.metadata_snapshots
        if point.end_offset is None or (one.name.offset or 0) <= point.end_offset
    ]  # fmt: skip
    for snapshot in (*sorted(snapshots, key=_snapshot_order, reverse=True), None):
        replay = _Replay(fs, choice or KernelChoice(), faults, point, with_registry=with_registry)
        start, identity = 0, None
        if snapshot is not None:
            identity = SnapshotId(snapshot.name.offset or 0, snapshot.name.epoch or 0)
            start = identity.end_offset
            if not replay.snapshot(snapshot.status.path):
                continue
        is_complete = replay.log(partition.segments, start)
        return replay.result(path, identity, is_complete=is_complete)
    raise AssertionError("without a snapshot there is always a result")


def metadata_log_in(fs: Filesystem, directory: str) -> str | None:
    """Return the path of the metadata log in a log directory (or metadata.log.dir), None if it does not exist."""
    path = f"{directory.rstrip('/')}/{partition_directory_name(METADATA_TOPIC, 0)}"
    status = fs.status(path)
    return path if status is not None and status.is_directory else None


def _snapshot_order(snapshot: PartitionFile) -> tuple[int, int]:
    return snapshot.name.offset or 0, snapshot.name.epoch or 0


class _Replay:
    """Replays a snapshot, then the log after it, into an image; each snapshot that is tried gets its own replay."""

    def __init__(
        self,
        fs: Filesystem,
        choice: KernelChoice,
        faults: list[tuple[str, Fault]],
        point: MetadataPoint,
        *,
        with_registry: bool,
    ) -> None:
        self._fs = fs
        self._choice = choice
        self._faults = faults
        self._point = point
        self._registry = ClusterRegistry() if with_registry else None
        self._types = REPLAYED_TYPES | REGISTRY_TYPES if with_registry else REPLAYED_TYPES
        self._image = MetadataImage(self._registry)
        self._leader: QuorumLeader | None = None
        self._last_timestamp_ms: int | None = None
        self._voters: tuple[int, ...] = ()
        self._voter_directories: dict[int, str] = {}
        self._next_offset = 0

    def snapshot(self, path: str) -> bool:
        """Replay a snapshot; return whether it is complete and undamaged."""
        control = []
        known = len(self._faults)
        for batch, record in self._records(path, 0):
            if isinstance(record, ControlRecord):
                control.append(record.type_id)
                self._control(batch, record)
            elif record is not None and not self._apply(path, batch, record):
                break
        if len(self._faults) > known:
            return False
        time_ms, last = self._point.time_ms, self._last_timestamp_ms
        if time_ms is not None and last is not None and last > time_ms:
            return False  # an older snapshot, or the log from its start, has the state at the point
        if control[:1] == [_SNAPSHOT_HEADER] and control[-1:] == [_SNAPSHOT_FOOTER]:
            return True
        return self._fault(path, Fault(FaultKind.INVALID_LENGTH, 0, "a snapshot without its header or footer"))

    def log(self, segments: Sequence[Segment], start: int) -> bool:
        """Replay the log from the offset `start` on; return whether no record is missing up to its end."""
        self._next_offset = start
        parts = self._parts(segments, start)
        for at, (segment, position) in enumerate(parts, 1):
            path = segment.log.path
            known = len(self._faults)
            offset = 0
            for batch, record in self._records(path, start, position):
                offset = max(offset, batch.base_offset)
                is_end = record is not None and self._point.is_before(batch, offset)
                needed = self._point.needed(offset) if is_end else batch.base_offset
                if self._next_offset < needed and offset == batch.base_offset:
                    message = f"records from offset {self._next_offset} to {needed - 1} are missing"
                    return self._fault(path, fault_of(batch, FaultKind.INVALID_RECORD, message))
                if is_end:
                    self._next_offset = max(needed, start)
                    return True
                offset += record is not None
                if record is None:
                    self._next_offset = batch.last_offset + 1
                    self._last_timestamp_ms = batch.max_timestamp
                elif isinstance(record, ControlRecord):
                    self._control(batch, record)
                elif not self._apply(path, batch, record):
                    return False
            if len(self._faults) > known:
                return at == len(parts) and self._faults[-1][1].kind in _TORN
        return self._next_offset > 0

    def _parts(self, segments: Sequence[Segment], start: int) -> list[SegmentPart]:
        """Return the parts of the log to read, from the offset index's entry for `start` on.

        If an index cannot be used, the segment is read from its beginning.
        """
        try:
            return parts_to_replay(self._fs, segments, start)
        except (KafkalogError, OSError):
            return parts_to_replay(self._fs, [segment._replace(offset_index=None) for segment in segments], start)

    def result(self, path: str, snapshot: SnapshotId | None, *, is_complete: bool) -> ClusterMetadata:
        """Return the state after the replay."""
        image = self._image
        return ClusterMetadata(
            path,
            {topic.name: topic for topic in image.topics.values()},
            image.configs,
            image.features,
            image.brokers,
            snapshot,
            self._next_offset,
            self._voters,
            tuple(self._faults),
            is_complete,
            self._registry,
            self._leader,
            self._last_timestamp_ms,
            self._voter_directories,
        )

    def _records(self, path: str, start: int, position: int = 0) -> Iterator[_Read]:
        """Yield the record values of all batches from the offset `start` on, and None after each batch.

        Stops at a fault. `position` is the position of a batch at or before the first of these batches.
        """
        try:
            with self._fs.open_read(path) as file:
                reader, decoder = SegmentReader(file, start=position, kernels=self._choice), RecordReader()
                known = len(self._faults)
                for chunk in reader.chunks(deep=True):
                    yield from self._of_chunk(path, chunk, decoder, start)
                    if len(self._faults) > known:
                        return
                if reader.fault is not None:
                    self._fault(path, reader.fault)
        except (KafkalogError, OSError) as error:
            self._fault(path, unreadable(error))

    def _of_chunk(self, path: str, chunk: Chunk, decoder: RecordReader, start: int) -> Iterator[_Read]:
        batches = list(chunk.batches.rows())
        first = next((row for row, batch in enumerate(batches) if batch.last_offset >= start), len(batches))
        bad = (row for row, batch in enumerate(batches) if row >= first and not (batch.valid and batch.magic >= 2))
        end = next(bad, len(batches))
        for block in decoder.blocks(chunk, first, end):
            for row, (batch, records) in enumerate(block.batch_rows(), block.first_row):
                for record in records:
                    yield batch, self._value(block.buffer, record, batch)
                if row in block.faults:
                    self._fault(path, block.faults[row])
                    return
                if not block.goes_on:
                    yield batch, None
        if end < len(batches):
            self._fault(path, fault_of(batches[end], FaultKind.CRC_MISMATCH, "a batch that is damaged"))

    def _value(self, buffer: memoryview, record: tuple[int, ...], batch: Batch) -> bytes | ControlRecord:
        _, _, _, key_position, key_size, position, size, *_ = record
        value = field_bytes(buffer, position, size)
        if not batch.is_control:
            return value or b""
        key = field_bytes(buffer, key_position, key_size)
        found = decode_control(key, value)
        if isinstance(found, Fault):
            return ControlRecord(-1, {})
        return found

    def _control(self, batch: Batch, record: ControlRecord) -> None:
        """Take the leader, the voters or the time from a control record."""
        if record.type_id == _LEADER_CHANGE:
            self._leader = QuorumLeader(record.message["leaderId"], batch.leader_epoch)
        elif record.type_id == _SNAPSHOT_HEADER:
            self._last_timestamp_ms = record.message["lastContainedLogTimestamp"]
        if record.type_id in (_LEADER_CHANGE, _VOTERS):
            self._voters = tuple(voter["voterId"] for voter in record.message["voters"])
        if record.type_id == _VOTERS:
            self._voter_directories = {one["voterId"]: one["voterDirectoryId"] for one in record.message["voters"]}

    def _apply(self, path: str, batch: Batch, value: bytes) -> bool:
        """Replay a record if its type is known; return False, with a fault, if it is invalid or does not fit."""
        if _api_key(value) not in self._types:
            return True
        found = decode_api_message(CLUSTER_METADATA, value)
        problem = (
            found.message if isinstance(found, UnreadableRecord) else self._image.replay(found.api_key, found.message)
        )
        return problem is None or self._fault(path, fault_of(batch, FaultKind.INVALID_RECORD, problem))

    def _fault(self, path: str, fault: Fault) -> bool:
        self._faults.append((path, fault))
        return False


def _api_key(value: bytes) -> int | None:
    """Return the type of a record, which follows its frame version; None if it cannot be decoded."""
    frame = decode_unsigned(value, 0)
    kind = frame if isinstance(frame, BadVarint) else decode_unsigned(value, frame[1])
    return None if isinstance(kind, BadVarint) else kind[0]
