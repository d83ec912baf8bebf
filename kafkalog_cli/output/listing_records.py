"""The JSON objects of ls: log directories, topics, partitions, segments and other files."""

from typing import Annotated, Literal, TypedDict

from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.output.ndjson import (
    NEGATIVE_IS_NULL,
    DirectoryWord,
    From,
    NotRequired,
    ObjectKind,
    PathObject,
    PathText,
    keywords,
    lower_names,
)


class ListedFaultObject(TypedDict):
    """Damage of a file."""

    path: PathText
    kind: Annotated[FaultKind, From("fault.kind")]
    position: Annotated[int, From("fault.position"), "the byte of the file"]
    message: Annotated[str, From("fault.message")]
    severity: Annotated[
        Literal["warning", "corruption"],
        From("is_corruption"),
        keywords(lambda is_corruption: "corruption" if is_corruption else "warning"),
    ]


class SizesObject(TypedDict):
    """Sizes of files by kind, in bytes."""

    log: Annotated[int, ".log and .kafka"]
    index: Annotated[int, "offset indexes"]
    timeindex: Annotated[int, "time indexes"]
    txnindex: Annotated[int, "transaction indexes"]
    snapshot: Annotated[int, "producer and metadata snapshots"]
    other: Annotated[int, "all other files"]
    leftover: Annotated[int, "files with a work suffix"]
    total: int


class CheckpointsObject(TypedDict):
    """The partition's lines in the root checkpoints."""

    recovery_point: int | None
    high_watermark: int | None
    log_start: int | None
    cleaner: int | None


class EpochObject(TypedDict):
    """A line of leader-epoch-checkpoint."""

    epoch: int
    start_offset: int


class OpenTransactionObject(TypedDict):
    """A transaction without an end."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp_ms: Annotated[int | None, From("last_timestamp"), NEGATIVE_IS_NULL]


class NameFactsObject(TypedDict):
    """The meaning of a file name."""

    kind: Annotated[str, lower_names(*FileKind), From("name.kind"), "the purpose of the file, by its name"]
    state: Annotated[
        str, lower_names(*WorkState), From("name.state"), "the state of the file, by the suffix after that of its kind"
    ]
    offset: Annotated[int | None, From("name.offset"), "the number in the name"]


class NameObject(TypedDict):
    """A file name."""

    name: Annotated[PathText, From("")]


class ParsedNameObject(TypedDict):
    """The name of a file of a partition directory."""

    name: Annotated[PathText, From("name.name")]


class PartitionFileObject(ParsedNameObject, NameFactsObject):
    """A file of a partition directory."""

    bytes: Annotated[int, From("status.size_bytes")]


class MetadataSnapshotObject(PartitionFileObject):
    """A snapshot of the metadata log."""

    epoch: Annotated[int | None, From("name.epoch")]


class QuorumStateObject(TypedDict):
    """The contents of quorum-state."""

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int


class FreeableObject(TypedDict):
    """The space that retain and compact would free now, in allocated bytes."""

    bytes: Annotated[int | None, "the sum of the known numbers; null if none is known"]
    due_bytes: Annotated[int, ".deleted files that are due"]
    retention_bytes: Annotated[int | None, "null if it is known for no partition"]
    compaction_bytes: Annotated[int | None, "null if it is known for no partition"]
    unknown_partitions: Annotated[int, "partitions with an unknown number"]
    unknown_because: list[str]


RunBytes = Annotated[int, "sizes of the files that runs keep in .kafkalog, which `bytes` leaves out"]
RunAllocatedBytes = Annotated[int, "their space, which `allocated_bytes` leaves out"]
FreeableOrNull = Annotated[FreeableObject | None, "null without --freeable"]


class DiskUseObject(TypedDict):
    """The fields about the use of a disk."""

    run_bytes: RunBytes
    run_allocated_bytes: RunAllocatedBytes
    freeable: FreeableOrNull


class UsageObject(TypedDict):
    """The fields that --topics, --sort and --freeable add."""

    run_bytes: NotRequired[RunBytes]
    run_allocated_bytes: NotRequired[RunAllocatedBytes]
    freeable: NotRequired[FreeableOrNull]


class WhereObject(TypedDict):
    """The place of a partition."""

    path: Annotated[PathText, From("partition.path")]
    topic: Annotated[PathText, From("partition.directory.shown_topic"), "by the directory's name"]
    partition: Annotated[int | None, From("partition.directory.partition"), "by the directory's name"]
    directory_kind: Annotated[DirectoryWord, From("partition.directory.kind")]


class PartitionFieldsObject(WhereObject):
    """The fields of all partitions."""

    unique_id: Annotated[
        str | None, From("partition.directory.unique_id"), "the part of the name before -delete, -future or -stray"
    ]
    topic_id: Annotated[str | None, "of partition.metadata"]
    log_dir: Annotated[PathText | None, From("root.path"), "the log directory that contains it"]
    shutdown: Annotated[
        Shutdown | None, From("root.shutdown"), "how the broker stopped; null outside of a log directory"
    ]
    segments: Annotated[int, From("partition.segments")]
    bytes: Annotated[SizesObject, From("bytes_by_kind")]
    allocated_bytes: Annotated[int, "the space of the files on the disk; preallocated indexes are sparse"]
    log_start_offset: Annotated[int | None, "the line in log-start-offset-checkpoint, else of the first segment"]
    log_end_offset: Annotated[int | None, "the next offset, by batch headers"]
    high_watermark: int | None
    high_watermark_from: Literal["replication-offset-checkpoint", "log-end"]
    tiered: Annotated[bool, From("is_tiered"), "the log starts before the first segment here"]
    first_timestamp_ms: Annotated[int | None, From("first_timestamp"), "of the first record"]
    max_timestamp_ms: Annotated[
        int | None, From("max_timestamp"), "the largest in time indexes and in the last headers"
    ]
    checkpoints: CheckpointsObject
    leader_epochs: list[EpochObject]
    open_transactions: Annotated[list[OpenTransactionObject] | None, "null: they were not searched for"]
    producer_snapshots: Annotated[list[int], From("partition.snapshots"), "their offsets"]
    leftovers: Annotated[list[PartitionFileObject], From("partition.leftovers")]
    orphans: Annotated[list[PartitionFileObject], From("partition.orphans"), "indexes without a log"]
    metadata_snapshots: Annotated[list[MetadataSnapshotObject], From("partition.metadata_snapshots")]
    quorum_state: QuorumStateObject | None
    runs: Annotated[list[NameObject], From("partition.runs"), "runs of kafkalog, kept in .kafkalog"]
    faults: list[ListedFaultObject]


class PartitionObject(PartitionFieldsObject, UsageObject):
    """A partition directory, listed by ls."""


class SegmentSizesObject(TypedDict):
    """Sizes of the files of a segment, in bytes; null: there is no such file."""

    log: Annotated[int, From("log.size_bytes")]
    index: Annotated[int | None, From("offset_index.size_bytes")]
    timeindex: Annotated[int | None, From("time_index.size_bytes")]
    txnindex: Annotated[int | None, From("txn_index.size_bytes")]


class SegmentObject(WhereObject):
    """A segment, listed by ls --segments."""

    base_offset: Annotated[int, From("segment.base_offset"), "by the name"]
    active: Annotated[bool, From("is_active"), "whether it is the last of its partition"]
    format: Annotated[Annotated[str, keywords(enum=("0.7", "v0", "v1", "v2"))] | None, "of the first batch"]
    bytes: Annotated[SegmentSizesObject, From("segment")]
    first_offset: Annotated[int | None, "of the first batch"]
    next_offset: Annotated[int, "after the last batch, by headers"]
    first_timestamp_ms: Annotated[int | None, From("first_timestamp")]
    max_timestamp_ms: Annotated[int | None, From("max_timestamp")]
    modified_ms: Annotated[int, From("segment.log.mtime_ms"), "mtime of the log"]
    faults: list[ListedFaultObject]


class HeldMarkerObject(TypedDict):
    """A run of kafkalog that keeps .kafka_cleanshutdown away."""

    run: str
    partitions: list[NameObject]


class ImportsObject(TypedDict):
    """The state of imports: of a committed run that was interrupted, and of runs without a commit."""

    run: Annotated[
        str | None, From("imports.run"), "the run that was interrupted after its commit; null: there is none"
    ]
    coming: Annotated[list[NameObject], "its partitions that are still to be put in place"]
    lost: Annotated[list[NameObject], From("imports.lost"), "its partitions that a broker removed when it started"]
    staged: Annotated[list[NameObject], From("imports.stale"), "directories of runs without a commit"]
    at_work: Annotated[bool, "an import has the log directory now"]


class LockObject(TypedDict):
    """The owner of the lock of a log directory."""

    pid: Annotated[int | None, "null if the system does not show it"]
    exclusive: Annotated[bool, From("is_exclusive"), "true: a broker; false: a kafkalog command that changes a log"]


class MetaPropertiesObject(TypedDict):
    """The contents of meta.properties."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


class RootFileObject(NameObject):
    """A file of a log directory."""

    bytes: int


class LogDirFieldsObject(TypedDict):
    """The fields of all log directories."""

    path: PathText
    shutdown: Shutdown
    broker_epoch: Annotated[int | None, "of .kafka_cleanshutdown"]
    marker_held_for: Annotated[
        list[HeldMarkerObject], ".kafka_cleanshutdown is away until these runs are undone (run `purged`: permanently)"
    ]
    imports: ImportsObject
    lock: Annotated[LockObject | None, From("lock_owner")]
    meta_properties: Annotated[MetaPropertiesObject | None, From("meta")]
    topics: int
    partitions: int
    directories: Annotated[dict[str, int], "partition directories by kind"]
    segments: int
    bytes: SizesObject
    allocated_bytes: int
    leftovers: int
    open_transactions: int
    root_files: list[RootFileObject]
    foreign_directories: Annotated[list[NameObject], From("foreign"), "a broker does not start with them"]
    other_entries: Annotated[list[NameObject], From("others")]
    faults: list[ListedFaultObject]


class LogDirObject(LogDirFieldsObject, UsageObject):
    """A log directory: its own files, and sums over the listed partitions."""


class ListedPathObject(TypedDict):
    """The path of a listed file."""

    path: Annotated[PathText, From("status.path")]


class FileObject(ListedPathObject, NameFactsObject):
    """A file that is not a segment, named in the command line of ls."""

    bytes: Annotated[int, From("status.size_bytes")]
    modified_ms: Annotated[int, From("status.mtime_ms")]


class TopicFilesObject(TypedDict):
    """The files of a topic."""

    topic: PathText
    log_dirs: Annotated[list[PathObject], "the directories that contain its partitions"]
    partitions: int
    segments: int
    bytes: Annotated[SizesObject, From("sizes")]
    allocated_bytes: Annotated[int, "the space of these files on the disk"]


class TopicObject(TopicFilesObject, DiskUseObject):
    """The files of a topic in all listed log directories (ls --topics)."""


PARTITION = ObjectKind("kafkalog.partition/1", PartitionObject)
SEGMENT = ObjectKind("kafkalog.segment/1", SegmentObject)
LOGDIR = ObjectKind("kafkalog.logdir/1", LogDirObject)
FILE = ObjectKind("kafkalog.file/1", FileObject)
TOPIC = ObjectKind("kafkalog.topic/1", TopicObject)
