"""Reads `__cluster_metadata` as a broker does when it starts: the newest snapshot, then the log after it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import RECORD_BATCH_MAGIC, Batch
from kafkalog_cli.format.control import ControlRecord, decode_control
from kafkalog_cli.format.fault import Fault, FaultKind, fault_of, unreadable
from kafkalog_cli.format.internal_topics.records import CLUSTER_METADATA, UnreadableRecord, decode_api_message
from kafkalog_cli.format.records import field_bytes
from kafkalog_cli.log.log_dir import metadata_log_in
from kafkalog_cli.log.open_transactions import SegmentPart, parts_to_replay
from kafkalog_cli.log.partition import Partition, PartitionFile, Segment, open_partition
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Chunk, Scan
from kafkalog_cli.log.settings.cluster_registry import CannotApply, ClusterRegistry
from kafkalog_cli.log.settings.metadata_image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    TRANSACTION_TYPES,
    BrokerState,
    MetadataImage,
    PartitionRegistration,
    TopicState,
)

_LEADER_CHANGE, _SNAPSHOT_HEADER, _SNAPSHOT_FOOTER, _VOTERS = 2, 3, 4, 6
_TORN = (FaultKind.TRAILING_BYTES, FaultKind.HEADER_CUT_OFF)
"""Faults at the end of a log whose last write was interrupted: a broker truncates the log there and continues."""


_Read = tuple[Batch, bytes | ControlRecord | Fault | None]
_NO_OP = bytes((1, 20, 0, 0))
"""The record that an idle controller writes twice a second."""


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
    `registry` has the further parts of the state. `last_timestamp_ms` is that of the last batch.
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
    registry: ClusterRegistry = ClusterRegistry()
    leader: QuorumLeader | None = None
    last_timestamp_ms: int | None = None
    voter_directories: Mapping[int, str] = MappingProxyType({})

    def topic_of_id(self, topic_id: str) -> TopicState | None:
        """Return the topic with an id, None if it does not exist or was deleted."""
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        """Return a partition by topic name and number, None if it does not exist or was deleted."""
        topic_state = self.topics.get(topic)
        return None if topic_state is None else topic_state.partitions.get(partition)

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
    *,
    until: MetadataPoint | None = None,
    without: Collection[str] = (),
) -> ClusterMetadata:
    """Read the cluster's state from `path`: the directory `__cluster_metadata-0`, or the directory that contains it.

    `until`: the state at that point. A damaged snapshot is skipped for the next older one, and so are the snapshots
    at the paths `without`. Damage is reported in the result. Raises PathNotFound, NotKafkaLayout, Unreadable for the
    directory itself.
    """
    path = metadata_log_in(fs, path) or path
    partition = open_partition(fs, path)
    faults: list[tuple[str, Fault]] = []
    point = until or MetadataPoint()
    snapshots = [
        one for one in partition.metadata_snapshots
        if one.name.offset is not None
        and (point.end_offset is None or one.name.offset <= point.end_offset)
        and one.status.path not in without
    ]  # fmt: skip
    for snapshot in (*sorted(snapshots, key=_snapshot_order, reverse=True), None):
        replay = _Replay(fs, faults, point)
        start, identity = 0, None
        if snapshot is not None:
            identity = SnapshotId(snapshot.name.offset or 0, snapshot.name.epoch or 0)
            start = identity.end_offset
            if not replay.snapshot(snapshot.status.path):
                continue
        is_complete = replay.log(partition.segments, start)
        return replay.result(path, identity, is_complete=is_complete)
    raise AssertionError("without a snapshot there is always a result")


def read_as_node(fs: Filesystem, partition: Partition, end_offset: int) -> ClusterMetadata:
    """Read the state as a node reads it whose log ends at `end_offset`. It is not complete if the node ends there.

    A node reads only the newest snapshot, and does not notice that the end of the file is missing.
    """
    newest = newest_snapshot(partition)
    replay = _Replay(fs, [], MetadataPoint(end_offset), is_node=True)
    identity = None if newest is None else SnapshotId(newest.name.offset or 0, newest.name.epoch or 0)
    if newest is not None and not replay.snapshot(newest.status.path):
        return replay.result(partition.path, identity, is_complete=False)
    segments = [segment._replace(offset_index=None) for segment in partition.segments]  # a node makes new indexes
    is_complete = replay.log(segments, 0 if identity is None else identity.end_offset)
    return replay.result(partition.path, identity, is_complete=is_complete)


def newest_snapshot(partition: Partition) -> PartitionFile | None:
    """Return the snapshot with the largest epoch, and of those the largest end offset; None if there is none."""
    return max(partition.metadata_snapshots, key=_snapshot_order, default=None)


class SnapshotContents(NamedTuple):
    """The first fault of a snapshot file, the time in its header, the epoch of its batches, and its features."""

    fault: Fault | None
    last_timestamp_ms: int | None
    epoch: int | None
    features: dict[str, int]


def read_snapshot(fs: Filesystem, path: str, *, as_bootstrap: bool = False) -> SnapshotContents:
    """Read all of a snapshot. `as_bootstrap`: as a node reads bootstrap.checkpoint, whatever its CRCs and end are."""
    faults: list[tuple[str, Fault]] = []
    replay = _Replay(fs, faults, MetadataPoint(), is_node=as_bootstrap, checks_crc=not as_bootstrap)
    replay.snapshot(path)
    return replay.contents()


def _snapshot_order(snapshot: PartitionFile) -> tuple[int, int]:
    return snapshot.name.epoch or 0, snapshot.name.offset or 0  # OffsetAndEpoch.compareTo


class _Replay:
    """Replays a snapshot, then the log after it, into an image; each snapshot that is tried gets its own replay."""

    def __init__(
        self,
        fs: Filesystem,
        faults: list[tuple[str, Fault]],
        point: MetadataPoint,
        *,
        is_node: bool = False,
        checks_crc: bool = True,
    ) -> None:
        self._is_node = is_node
        self._checks_crc = checks_crc
        self._epoch: int | None = None
        self._fs = fs
        self._faults = faults
        self._point = point
        self._image = MetadataImage()
        self._leader: QuorumLeader | None = None
        self._last_timestamp_ms: int | None = None
        self._voters: tuple[int, ...] = ()
        self._voter_directories: dict[int, str] = {}
        self._next_offset = 0

    def snapshot(self, path: str) -> bool:
        """Replay a snapshot; return whether it is complete and undamaged."""
        control = []
        known = len(self._faults)
        offset = 0
        for batch, record in self._records(path, 0):
            if isinstance(record, ControlRecord):
                control.append(record.type_id)
            self._epoch = batch.leader_epoch
            if record is None:
                offset = batch.last_offset + 1
            elif not self._apply(path, batch, offset, record, is_in_snapshot=True):
                break
            else:
                offset += 1
        has_header = control[:1] == [_SNAPSHOT_HEADER]
        if self._is_node and has_header and all(fault.kind in _TORN for _, fault in self._faults[known:]):
            del self._faults[known:]
            return True
        if len(self._faults) > known:
            return False
        time_ms, last = self._point.time_ms, self._last_timestamp_ms
        if time_ms is not None and last is not None and last > time_ms:
            return False  # an older snapshot, or the log from its start, has the state at the point
        if has_header and control[-1:] == [_SNAPSHOT_FOOTER]:
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
                if self._next_offset < needed and offset == batch.base_offset and not self._is_node:
                    message = f"records from offset {self._next_offset} to {needed - 1} are missing"
                    return self._fault(path, fault_of(batch, FaultKind.MISSING, message))
                if is_end:
                    self._next_offset = max(needed, start)
                    return True
                offset += record is not None
                if record is None:
                    self._next_offset = batch.last_offset + 1
                    self._last_timestamp_ms = batch.max_timestamp
                elif not self._apply(path, batch, offset - 1, record):
                    return False
            if len(self._faults) > known and self._is_node:
                del self._faults[known:]  # a node has cut the log there
                return True
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
        image.finish()
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
            image.registry,
            self._leader,
            self._last_timestamp_ms,
            self._voter_directories,
        )

    def contents(self) -> SnapshotContents:
        """Return what was found in a snapshot."""
        fault = self._faults[0][1] if self._faults else None
        return SnapshotContents(fault, self._last_timestamp_ms, self._epoch, self._image.features)

    def _records(self, path: str, start: int, position: int = 0) -> Iterator[_Read]:
        """Yield the record values of all batches from the offset `start` on, and None after each batch.

        Stops at a fault. `position` is the position of a batch at or before the first of these batches.
        """
        try:
            with self._fs.open_read(path) as file:
                reader, decoder = Scan(file, start=position), RecordReader()
                known = len(self._faults)
                for chunk in reader:
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
        bad = (row for row, batch in enumerate(batches) if row >= first and not self._is_readable(batch))
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

    def _is_readable(self, batch: Batch) -> bool:
        return batch.magic == RECORD_BATCH_MAGIC and (batch.valid == 1 or not self._checks_crc)

    def _value(self, buffer: memoryview, record: tuple[int, ...], batch: Batch) -> bytes | ControlRecord | Fault:
        """Return the value of a record, or the fault for which a node does not read it (RecordsIterator)."""
        _, timestamp, _, key_position, key_size, position, size, _, headers, *_ = record
        value = field_bytes(buffer, position, size)
        problem = "" if timestamp == batch.base_timestamp else "its timestamp is not that of its batch"
        problem = "it has headers" if headers else problem
        if batch.is_control:
            control = decode_control(field_bytes(buffer, key_position, key_size), value)
            return fault_of(batch, FaultKind.INVALID_RECORD, control.message) if isinstance(control, Fault) else control
        if key_size >= 0:
            problem = "it has a key"
        elif not value:
            problem = "it has no value" if value is None else "its value is empty"
        return fault_of(batch, FaultKind.INVALID_RECORD, problem) if problem else value or b""

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

    def _apply(
        self,
        path: str,
        batch: Batch,
        offset: int,
        record: bytes | ControlRecord | Fault,
        *,
        is_in_snapshot: bool = False,
    ) -> bool:
        """Replay a record; return False, with a fault, if no controller can read or apply it."""
        if isinstance(record, ControlRecord):
            self._control(batch, record)
            return True
        name, is_newer = "", False
        if isinstance(record, Fault):
            problem = record.message
        elif record == _NO_OP:
            return True
        else:
            decoded = decode_api_message(CLUSTER_METADATA, record)
            if isinstance(decoded, UnreadableRecord):
                problem, is_newer = decoded.message, decoded.is_newer
            else:
                name = f" ({decoded.name})"
                try:
                    if is_in_snapshot and decoded.api_key in TRANSACTION_TYPES:
                        raise CannotApply("a snapshot has no metadata transactions")
                    self._image.replay(decoded.api_key, decoded.message)
                    return True
                except CannotApply as error:
                    if not self._checks_crc:
                        return True  # BatchFileReader only decodes the records of bootstrap.checkpoint
                    problem, is_newer = str(error), error.is_newer
        kind = FaultKind.INVALID_VERSION if is_newer else FaultKind.INVALID_RECORD
        message = f"no controller can apply the record at offset {offset}{name}: {problem}"
        return self._fault(path, fault_of(batch, kind, message)._replace(base_offset=offset, last_offset=offset))

    def _fault(self, path: str, fault: Fault) -> bool:
        self._faults.append((path, fault))
        return False
