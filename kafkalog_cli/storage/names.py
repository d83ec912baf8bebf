"""The names of files and directories in a Kafka log directory: what each means to a broker, and how to write them."""

from __future__ import annotations

import re
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.format.java_text import parse_int, parse_long

OWN_DIRECTORY = ".kafkalog"
"""Ours, in partition directories and never data: a broker ignores it there."""

REMOTE_INDEX_CACHE_DIRECTORY = "remote-log-index-cache"
METADATA_TOPIC = "__cluster_metadata"

_OFFSET_WIDTH = 20
_EPOCH_WIDTH = 10
_MAX_DIRECTORY_NAME = 255
_JAVA_WHITE_SPACE = frozenset(" \t\n\x0b\f\r")
_DOCUMENTED_STYLE = re.compile(r"(.+)_([0-9]+)", re.DOTALL)


@unique
class FileKind(Enum):
    """What a file is for, by its name. The value is the name, or the suffix before a work suffix."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    SEVEN_LOG = ".kafka"
    METADATA_SNAPSHOT = ".checkpoint"
    BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
    LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
    PARTITION_METADATA = "partition.metadata"
    RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
    REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
    LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
    CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
    META_PROPERTIES = "meta.properties"
    CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
    HELD_CLEAN_SHUTDOWN = ".kafkalog-clean-shutdown"  # ours: a plain file, which a broker ignores
    IMPORT_RECORD = ".kafkalog-import"  # ours too
    LOCK = ".lock"
    QUORUM_STATE = "quorum-state"
    OTHER = ""


SEGMENT_KINDS = frozenset({FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})
"""The files of one segment, which share its base offset. A producer snapshot is named by an offset of its own."""

PARTITION_KINDS = SEGMENT_KINDS | {
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.SEVEN_LOG,
    FileKind.METADATA_SNAPSHOT,
    FileKind.LEADER_EPOCH_CHECKPOINT,
    FileKind.PARTITION_METADATA,
    FileKind.QUORUM_STATE,
}
"""The files of a partition directory."""


ROOT_KINDS = (
    FileKind.META_PROPERTIES,
    FileKind.LOCK,
    FileKind.CLEAN_SHUTDOWN,
    FileKind.HELD_CLEAN_SHUTDOWN,
    FileKind.IMPORT_RECORD,
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
    FileKind.BOOTSTRAP_SNAPSHOT,
)
"""The files at the root of a log directory. Their names are whole: the values of their kinds."""


@unique
class WorkState(Enum):
    """How far a file has come, by the suffix after its kind's."""

    IN_PLACE = ""
    CLEANED = ".cleaned"  # being written, by a cleaner or a split
    SWAP = ".swap"  # complete, about to take the place of what it was made from
    DELETED = ".deleted"  # about to be unlinked; at the latest when a broker starts
    PARTIAL = ".part"  # metadata snapshot being written
    TEMPORARY = ".tmp"  # checkpoint being written


@unique
class DirectoryKind(Enum):
    """What a directory in a log directory is. The value is the suffix, or the name."""

    PARTITION = ""
    DELETE = "-delete"  # its topic was deleted, or the replica moved
    FUTURE = "-future"  # being copied from another log directory
    STRAY = "-stray"  # not assigned to this broker (since 3.7)
    REMOTE_INDEX_CACHE = REMOTE_INDEX_CACHE_DIRECTORY
    OWN = OWN_DIRECTORY
    OTHER = "other"  # a broker refuses to start with it


class FileName(NamedTuple):
    """A file's name, taken apart.

    `offset` is the base offset of a segment, the end offset of a snapshot, the byte position of a 0.7
    file; None where the name has none, as in `server.log`: a broker that meets such a name among its
    segments fails. `epoch` is that of a metadata snapshot.
    """

    name: str
    kind: FileKind
    state: WorkState = WorkState.IN_PLACE
    offset: int | None = None
    epoch: int | None = None


class DirectoryName(NamedTuple):
    """A directory's name, taken apart; `topic` and `partition` are None where the name has none.

    `unique_id` is what stands before -delete, -future or -stray, 32 hex digits from a broker. `separator`
    is `_` for names as the old documentation prints them (`my_topic_0`); no broker takes or writes those,
    and other programs' directories look like that too, so callers should see log files in them first.
    """

    name: str
    kind: DirectoryKind
    topic: str | None = None
    partition: int | None = None
    unique_id: str | None = None
    separator: str = "-"

    @property
    def is_metadata_log(self) -> bool:
        """Whether a broker leaves it to its controller, as it does for any partition of that topic."""
        return self.topic == METADATA_TOPIC

    @property
    def topic_may_be_cut(self) -> bool:
        """Whether the topic's name may go on: -delete and -stray names are cut to 255 characters."""
        capped = self.kind in (DirectoryKind.DELETE, DirectoryKind.STRAY)
        return capped and len(self.name) >= _MAX_DIRECTORY_NAME


def classify_file(name: str) -> FileName:
    """What `name`, without its directory, is to a broker. Never raises, whatever the name holds."""
    for state in (WorkState.IN_PLACE, WorkState.TEMPORARY):
        fixed = _FIXED_NAMES.get(name.removesuffix(state.value))
        if fixed is not None and name.endswith(state.value):
            return FileName(name, fixed, state)
    for state in (WorkState.IN_PLACE, WorkState.PARTIAL, WorkState.DELETED):
        if name.endswith(FileKind.METADATA_SNAPSHOT.value + state.value):
            return FileName(name, FileKind.METADATA_SNAPSHOT, state, *_snapshot_id(name))
    stem, state = _without_work_suffixes(name)
    kind = _SUFFIXES.get(_suffix(stem), FileKind.OTHER)
    return FileName(name, kind, state, None if kind is FileKind.OTHER else offset_of_file_name(name))


def classify_directory(name: str) -> DirectoryName:
    """What a directory `name` in a log directory is to a broker. Never raises, whatever the name holds."""
    if name == OWN_DIRECTORY:
        return DirectoryName(name, DirectoryKind.OWN)
    if name == REMOTE_INDEX_CACHE_DIRECTORY:
        return DirectoryName(name, DirectoryKind.REMOTE_INDEX_CACHE)
    for kind in _MARKED:
        if name.endswith(kind.value):
            return _marked_directory(name, kind)
    parsed = _topic_partition(name)
    if parsed:
        return DirectoryName(name, DirectoryKind.PARTITION, *parsed)
    match = _DOCUMENTED_STYLE.fullmatch(name)
    partition = parse_int(match[2]) if match else None
    if match and partition is not None:
        return DirectoryName(name, DirectoryKind.PARTITION, match[1], partition, separator="_")
    return DirectoryName(name, DirectoryKind.OTHER)


def offset_of_file_name(name: str) -> int | None:
    """The number before the first dot (LogFileUtils.offsetFromFileName), of any width; None where that throws."""
    number, dot, _ = name.partition(".")
    return parse_long(number) if dot else None


def segment_file_name(offset: int, kind: FileKind, state: WorkState = WorkState.IN_PLACE) -> str:
    """The name that a broker gives: at least 20 digits, behind a sign if it must be, the kind's and the work suffix."""
    sign = "-" if offset < 0 else ""
    return f"{sign}{abs(offset):0{_OFFSET_WIDTH}d}{kind.value}{state.value}"


def metadata_snapshot_name(end_offset: int, epoch: int, state: WorkState = WorkState.IN_PLACE) -> str:
    """The name of a KRaft snapshot (Snapshots.filenameFromSnapshotId)."""
    return f"{end_offset:0{_OFFSET_WIDTH}d}-{epoch:0{_EPOCH_WIDTH}d}{FileKind.METADATA_SNAPSHOT.value}{state.value}"


def partition_directory_name(topic: str, partition: int) -> str:
    """`topic-partition`."""
    return f"{topic}-{partition}"


def marked_directory_name(topic: str, partition: int, kind: DirectoryKind, unique_id: str) -> str:
    """The name of a -delete, -future or -stray directory; `unique_id` is 32 hex digits of a random uuid.

    The topic is cut so that -delete and -stray names have at most 255 characters; -future names are not cut.
    """
    rest = f"-{partition}.{unique_id}{kind.value}"
    return (topic if kind is DirectoryKind.FUTURE else topic[: _MAX_DIRECTORY_NAME - len(rest)]) + rest


_SUFFIXES: dict[str, FileKind] = {
    kind.value: kind for kind in (*SEGMENT_KINDS, FileKind.PRODUCER_SNAPSHOT, FileKind.SEVEN_LOG)
}
_FIXED_NAMES: dict[str, FileKind] = {
    kind.value: kind
    for kind in FileKind
    if kind not in (FileKind.OTHER, FileKind.METADATA_SNAPSHOT) and kind.value not in _SUFFIXES
}
_WORK_SUFFIXES = {state.value: state for state in (WorkState.CLEANED, WorkState.SWAP, WorkState.DELETED)}
_MARKED = (DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY)


def _without_work_suffixes(name: str) -> tuple[str, WorkState]:
    """`name` without its work suffixes, and the state that the last of them tells."""
    state = WorkState.IN_PLACE
    while found := _WORK_SUFFIXES.get(_suffix(name)):
        name = name.removesuffix(found.value)
        if state is WorkState.IN_PLACE:
            state = found
    return name, state


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""


def _snapshot_id(name: str) -> tuple[int | None, int | None]:
    """End offset and epoch by their places in the name, as Snapshots.parse takes them; what follows is not read."""
    end = _OFFSET_WIDTH + 1 + _EPOCH_WIDTH
    offset, epoch = parse_long(name[:_OFFSET_WIDTH]), parse_int(name[_OFFSET_WIDTH + 1 : end])
    return (None, None) if offset is None or epoch is None or len(name) < end else (offset, epoch)


def _topic_partition(name: str) -> tuple[str, int] | None:
    """Topic and partition at the last dash (UnifiedLog.parseTopicPartitionName), None where that throws."""
    topic, _, number = name.rpartition("-")
    partition = parse_int(number)
    return (topic, partition) if topic and partition is not None else None


def _marked_directory(name: str, kind: DirectoryKind) -> DirectoryName:
    """A name that ends in -delete, -future or -stray: topic, dash, partition, dot, unique id; no white space."""
    body = name[: -len(kind.value)]
    dash, dot = body.find("-", 1), body.rfind(".", 0, len(body) - 1)
    if 0 < dash < dot - 1 and _JAVA_WHITE_SPACE.isdisjoint(body):
        # Kafka checks against one dot and then cuts at the last, which can be another.
        rest, _, unique_id = body.rpartition(".")
        parsed = _topic_partition(rest)
        if parsed:
            return DirectoryName(name, kind, *parsed, unique_id)
    return DirectoryName(name, DirectoryKind.OTHER)
