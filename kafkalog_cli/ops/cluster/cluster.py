"""Describe a cluster from log directories: its state at a point, and the partitions on disk that do not fit it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind, FileKind
from kafkalog_cli.errors import DamagedLog, ExitCode, NothingSelected
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.partition import PartitionPath, topic_id_on_disk
from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata, MetadataPoint
from kafkalog_cli.log.settings.metadata_image import MIGRATING_DIRECTORY
from kafkalog_cli.log.settings.source import read_meta
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.cluster.cluster_entries import Entries, EntryChange, differences, entries_of, only_topics
from kafkalog_cli.ops.cluster.tables.cluster import furthest_metadata, metadata_logs
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.look.listing.root import read_root
from kafkalog_cli.ops.ownership import find_owner
from kafkalog_cli.ops.selection import log_dirs_of, partition_paths
from kafkalog_cli.results import Hidden, PathName, of, result

LOST_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAg"
UNASSIGNED_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Ids that name no log directory (DirectoryId)."""


@result("kafkalog.misplaced-partition/1")
class MisplacedPartition(NamedTuple):
    """A partition on disk that the cluster does not give to this broker or log directory."""

    path: PathName
    topic: str
    partition: int
    reason: str


@result("kafkalog.local-partition/1")
class LocalPartition(NamedTuple):
    """A partition on disk, with the lines of the checkpoints; listed where there is no metadata log."""

    topic: str
    partition: int
    topic_id: str | None
    log_start: int | None
    recovery_point: int | None
    high_watermark: int | None
    path: PathName


@result("kafkalog.local-broker/1")
class LocalBroker(NamedTuple):
    """The identity of a log directory, from its meta.properties."""

    path: PathName
    version: Annotated[int, "0: a broker that was started with ZooKeeper"]
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


@result("kafkalog.cluster/1")
@dataclass(frozen=True, slots=True)
class ClusterState:
    """The state of a cluster at a point of its metadata log."""

    metadata: Hidden[ClusterMetadata]
    path: ClassVar[Annotated[PathName, "the metadata log"]] = of("metadata.path")
    end_offset: ClassVar[Annotated[int, "the state has all records below this offset"]] = of("metadata.end_offset")
    last_timestamp_ms: ClassVar[Annotated[int | None, "of the last batch in the state"]] = of(
        "metadata.last_timestamp_ms"
    )
    snapshot_end_offset: ClassVar[
        Annotated[int | None, "the snapshot from which the state was read; null: the log only"]
    ] = of("metadata.snapshot.end_offset")
    leader: ClassVar[Annotated[int | None, "of the quorum, from the last leader change in the log"]] = of(
        "metadata.leader.leader_id"
    )
    leader_epoch: ClassVar[int | None] = of("metadata.leader.epoch")
    voters: ClassVar[Annotated[tuple[int, ...], "the controllers that vote"]] = of("metadata.voters")
    next_producer_id: ClassVar[int | None] = of("metadata.registry.next_producer_id")
    complete: ClassVar[Annotated[bool, "false: damage hides later records"]] = of("metadata.is_complete")


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The state of a cluster. `metadata` None: there is no metadata log, and only the disk is described.

    `changes` are the differences from an earlier point, None if none was given. `local_partitions` are only listed
    without a metadata log.
    """

    metadata: ClusterMetadata | None
    entries: Entries | None
    changes: tuple[EntryChange, ...] | None = None
    brokers: tuple[LocalBroker, ...] = ()
    misplaced: tuple[MisplacedPartition, ...] = ()
    local_partitions: tuple[LocalPartition, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def codes(self) -> tuple[ExitCode, ...]:
        """The exit codes that the notes cause."""
        return tuple(note.exit_code for note in self.notes if note.exit_code is not None)


def describe_cluster(  # noqa: PLR0913 points and choice
    fs: Filesystem,
    paths: Sequence[str],
    metadata_path: str | None = None,
    at: MetadataPoint | None = None,
    since: MetadataPoint | None = None,
    *,
    topics: frozenset[str] = frozenset(),
) -> ClusterDescription:
    """Describe the cluster of some log directories at a point, and its changes since an earlier point.

    `topics` choose among topics, partitions and settings; none: all. The furthest replica of the metadata log is read.
    Raises PathNotFound, NotKafkaLayout, Unreadable; NothingSelected if a point is given without a metadata log, or one
    before the first record that the log has.
    """
    log_dirs = log_dirs_of(fs, list(paths))
    notes: list[Note] = []
    logs = metadata_logs(fs, log_dirs, metadata_path)
    metas = {log_dir: read_meta(fs, log_dir) for log_dir in log_dirs}
    brokers = tuple(
        LocalBroker(log_dir, meta.version, meta.cluster_id, meta.node_id, meta.directory_id)
        for log_dir, meta in metas.items()
        if meta is not None
    )
    if not logs:
        if at is not None or since is not None:
            raise NothingSelected(reason="there is no metadata log here: --at and --since need __cluster_metadata-0")
        local = tuple(_local_partitions(fs, log_dirs))
        return ClusterDescription(None, None, brokers=brokers, local_partitions=local)
    metadata = _state(fs, logs, at, notes)
    changes = None
    if since is not None:
        earlier = only_topics(entries_of(_state(fs, logs, since, notes)), topics)
        changes = tuple(differences(earlier, only_topics(entries_of(metadata), topics)))
    # The partitions on disk are those of now: an earlier state does not have the topics that were created since.
    misplaced = tuple(_misplaced(fs, metas, metadata)) if metadata.is_complete and at is None else ()
    entries = only_topics(entries_of(metadata), topics)
    return ClusterDescription(metadata, entries, changes, brokers, misplaced, notes=tuple(notes))


def _state(fs: Filesystem, logs: Sequence[str], point: MetadataPoint | None, notes: list[Note]) -> ClusterMetadata:
    def damaged(damage: DamagedLog) -> None:
        details = damage.details
        is_log = str(details["path"]).endswith(FileKind.LOG.value)
        effect = "later records are left out" if is_log else "the state is read without this snapshot"
        message = f"at byte {details['position']}: {details['message']}: {effect}"
        is_newer = details["kind"] == FaultKind.INVALID_VERSION.value
        code = ExitCode.UNSUPPORTED if is_newer else ExitCode.CORRUPTION
        notes.append(Note(str(details["kind"]), message, str(details["path"]), exit_code=code))

    metadata = furthest_metadata(fs, logs, damaged, until=point)
    assert metadata is not None
    for path, fault in metadata.faults if metadata.is_complete else ():
        if not path.endswith(FileKind.LOG.value):  # the torn end of a log is what a controller may be writing
            damaged(damaged_log(path, fault))
    begins_late = (
        not metadata.is_complete and metadata.snapshot is None and metadata.end_offset == 0 and not metadata.topics
    )
    if point is not None and begins_late:
        raise NothingSelected(reason="the metadata log and its snapshots begin after this point")
    return metadata


def _partitions(fs: Filesystem, log_dir: str) -> Iterator[PartitionPath]:
    for partition in partition_paths(fs, log_dir):
        if partition.directory.kind is DirectoryKind.PARTITION and not partition.directory.is_metadata_log:
            yield partition


def _local_partitions(fs: Filesystem, log_dirs: Sequence[str]) -> Iterator[LocalPartition]:
    for log_dir in log_dirs:
        root = read_root(fs, log_dir, frozenset())
        for partition in _partitions(fs, log_dir):
            topic, number = partition.directory.topic or "", partition.directory.partition or 0
            lines = root.offsets_of(topic, number)
            topic_id = topic_id_on_disk(fs, partition.path)
            yield LocalPartition(
                topic, number, topic_id, lines.log_start, lines.recovery_point, lines.high_watermark, partition.path
            )


def _misplaced(
    fs: Filesystem, metas: Mapping[str, MetaProperties | None], metadata: ClusterMetadata
) -> Iterator[MisplacedPartition]:
    for log_dir, meta in metas.items():
        for partition in _partitions(fs, log_dir):
            reason = _reason(fs, partition, meta, metadata)
            if reason:
                yield MisplacedPartition(
                    partition.path, partition.directory.topic or "", partition.directory.partition or 0, reason
                )


def _reason(fs: Filesystem, partition: PartitionPath, meta: MetaProperties | None, metadata: ClusterMetadata) -> str:
    """Return why the cluster does not give a partition to this broker and log directory; "" if it does."""
    name, topic_id = partition.directory, topic_id_on_disk(fs, partition.path)
    broker = None if meta is None else meta.node_id
    own = find_owner(metadata, name.topic or "", name.partition or 0, topic_id, broker)
    if own.topic is None:
        return "the cluster does not have this topic"
    if own.other_topic_because:
        return f"the topic has the id {own.topic.topic_id} in the cluster, not {topic_id}"
    registration = own.registration
    if registration is None:
        return "the topic does not have this partition"
    if own.not_assigned_because:
        return f"its replicas are {','.join(map(str, registration.replicas))}, not {broker}"
    if broker is None:
        return ""
    directory = (
        registration.directories[registration.replicas.index(broker)]
        if registration.directories
        else MIGRATING_DIRECTORY
    )
    unknown = (MIGRATING_DIRECTORY, LOST_DIRECTORY, UNASSIGNED_DIRECTORY)
    if meta is None or meta.directory_id is None or directory in (*unknown, meta.directory_id):
        return ""
    return f"the cluster has it in the log directory {directory}, not in {meta.directory_id}"
