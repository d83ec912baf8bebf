"""The names of files and directories in a Kafka log directory: their meaning to a broker, and their formats."""

import os
import re
from enum import Enum, unique
from functools import lru_cache
from typing import Annotated, NamedTuple

from kafkalog_cli.errors import shell_word
from kafkalog_cli.format.java_text import parse_int, parse_long
from kafkalog_cli.format.limits import (
    MOST_CHECKPOINT_BYTES,
    MOST_DATA_BYTES,
    MOST_DOCUMENT_BYTES,
    MOST_INDEX_BYTES,
    MOST_PROPERTIES_BYTES,
)
from kafkalog_cli.results import Hidden, PathName, lower_names

OWN_DIRECTORY = ".kafkalog"
"""kafkalog's own directory in a partition directory. It contains no log data, and a broker ignores it there."""

REMOTE_INDEX_CACHE_DIRECTORY = "remote-log-index-cache"
METADATA_TOPIC = "__cluster_metadata"

_OFFSET_WIDTH = 20
_EPOCH_WIDTH = 10
_MAX_DIRECTORY_NAME = 255
_JAVA_WHITE_SPACE = frozenset(" \t\n\x0b\f\r")
_DOCUMENTED_STYLE = re.compile(r"(.+)_([0-9]+)", re.DOTALL)


@unique
class FileKind(Enum):
    """The purpose of a file by its name. The value is the whole name, or the suffix before a work suffix."""

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
    HELD_CLEAN_SHUTDOWN = ".kafkalog-clean-shutdown"  # kafkalog's: a plain file, which a broker ignores
    IMPORT_RECORD = ".kafkalog-import"  # kafkalog's too
    LOCK = ".lock"
    QUORUM_STATE = "quorum-state"
    OTHER = ""

    __hash__ = object.__hash__  # that of Enum is written in Python, and a partition looks some 60 kinds up


SEGMENT_KINDS = frozenset({FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})
"""The files of one segment. Their names share its base offset, while a producer snapshot has an offset of its own."""

INDEX_SUFFIXES = tuple(kind.value for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX))
"""The ends of the names of a segment's indexes, which can be rebuilt from its log."""

PARTITION_KINDS = SEGMENT_KINDS | {
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.SEVEN_LOG,
    FileKind.METADATA_SNAPSHOT,
    FileKind.LEADER_EPOCH_CHECKPOINT,
    FileKind.PARTITION_METADATA,
    FileKind.QUORUM_STATE,
}
"""The kinds of files in a partition directory."""


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
"""The files at the root of a log directory. The value of each kind is the whole file name."""


@unique
class WorkState(Enum):
    """The state of a file, by the work suffix after the suffix of its kind."""

    IN_PLACE = ""
    CLEANED = ".cleaned"  # being written, by a cleaner or a split
    SWAP = ".swap"  # complete, about to replace the segments that it was made from
    DELETED = ".deleted"  # about to be unlinked, at the latest when a broker starts
    PARTIAL = ".part"  # metadata snapshot being written
    TEMPORARY = ".tmp"  # checkpoint being written


@unique
class DirectoryKind(Enum):
    """The kind of a directory in a log directory. The value is the suffix, or the whole name."""

    PARTITION = ""
    DELETE = "-delete"  # its topic was deleted, or the replica moved
    FUTURE = "-future"  # being copied from another log directory
    STRAY = "-stray"  # not assigned to this broker (since 3.7)
    REMOTE_INDEX_CACHE = REMOTE_INDEX_CACHE_DIRECTORY
    OWN = OWN_DIRECTORY
    OTHER = "other"  # a broker refuses to start with it

    __hash__ = object.__hash__  # see FileKind


KindOfFile = Annotated[FileKind, lower_names(*FileKind), "the purpose of the file, by its name"]
StateOfFile = Annotated[
    WorkState, lower_names(*WorkState), "the state of the file, by the suffix after that of its kind"
]
NumberInName = Annotated[int | None, "the number in the name"]


class FileName(NamedTuple):
    """The parts of a file name.

    `offset` is the base offset of a segment, the end offset of a snapshot, or the byte position of a 0.7 file.
    It is None if the name has no number, as in `server.log`; a broker that finds such a name among its segments fails.
    `epoch` is the epoch of a metadata snapshot, otherwise None.
    """

    name: PathName
    kind: KindOfFile
    state: StateOfFile = WorkState.IN_PLACE
    offset: NumberInName = None
    epoch: Hidden[int | None] = None


class DirectoryName(NamedTuple):
    """The parts of a directory name. `topic` and `partition` are None if the name has none.

    `unique_id` is the part before -delete, -future or -stray; a broker writes 32 hex digits there.
    `separator` is `_` for names as the old documentation prints them (`my_topic_0`). No broker accepts or writes such
    names, and other programs use them too: callers should check first that the directory contains log files.
    """

    name: str
    kind: DirectoryKind
    topic: str | None = None
    partition: int | None = None
    unique_id: str | None = None
    separator: str = "-"

    @property
    def shown_topic(self) -> str:
        """The topic; the whole name if it contains none."""
        return self.topic if self.topic is not None else self.name

    @property
    def shown_partition(self) -> int:
        """The partition number; -1 if the name contains none."""
        return self.partition if self.partition is not None else -1

    @property
    def is_metadata_log(self) -> bool:
        """Whether the topic is `__cluster_metadata`: a broker leaves its partitions to the controller."""
        return self.topic == METADATA_TOPIC

    @property
    def topic_may_be_cut(self) -> bool:
        """Whether the topic's name may be incomplete: -delete and -stray names are cut to 255 characters."""
        capped = self.kind in (DirectoryKind.DELETE, DirectoryKind.STRAY)
        return capped and len(self.name) >= _MAX_DIRECTORY_NAME


@lru_cache(maxsize=1024)
def classify_file(name: str) -> FileName:
    """Return the meaning of the file name `name` (without its directory) to a broker. Never raises.

    The result is cached: the files of most partitions have the same few names.
    """
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


@lru_cache(maxsize=4096)
def classify_directory(name: str) -> DirectoryName:
    """Return the meaning of the directory name `name` in a log directory to a broker. Never raises."""
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
    """Return the number before the first dot, of any width; None where LogFileUtils.offsetFromFileName throws."""
    number, dot, _ = name.partition(".")
    return parse_long(number) if dot else None


def segment_file_name(offset: int, kind: FileKind, state: WorkState = WorkState.IN_PLACE) -> str:
    """Return the broker's name for a file: at least 20 digits, the suffix of the kind and the work suffix.

    A negative offset has a minus sign before the digits.
    """
    sign = "-" if offset < 0 else ""
    return f"{sign}{abs(offset):0{_OFFSET_WIDTH}d}{kind.value}{state.value}"


_MOST_TOPIC = 249
"""The longest topic name (Topic.MAX_NAME_LENGTH)."""
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def is_topic_name(topic: str) -> bool:
    """Whether a broker accepts the name (Topic.validate); such a name is also safe as a part of a path."""
    return topic not in ("", ".", "..") and len(topic) <= _MOST_TOPIC and _LEGAL.issuperset(topic)


def partition_directory_name(topic: str, partition: int) -> str:
    """Return `topic-partition`."""
    return f"{topic}-{partition}"


def marked_directory_name(topic: str, partition: int, kind: DirectoryKind, unique_id: str) -> str:
    """Return the name of a -delete, -future or -stray directory. `unique_id` is 32 hex digits of a random UUID.

    The topic is cut so that -delete and -stray names have at most 255 characters; -future names are not cut.
    """
    rest = f"-{partition}.{unique_id}{kind.value}"
    return (topic if kind is DirectoryKind.FUTURE else topic[: _MAX_DIRECTORY_NAME - len(rest)]) + rest


_MOST_BYTES = {
    **dict.fromkeys((
        FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT, FileKind.LOG_START_CHECKPOINT,
        FileKind.CLEANER_CHECKPOINT, FileKind.LEADER_EPOCH_CHECKPOINT,
    ), MOST_CHECKPOINT_BYTES),
    **dict.fromkeys((
        FileKind.META_PROPERTIES, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE, FileKind.CLEAN_SHUTDOWN,
    ), MOST_PROPERTIES_BYTES),
    FileKind.HELD_CLEAN_SHUTDOWN: MOST_DOCUMENT_BYTES,
    FileKind.IMPORT_RECORD: MOST_DOCUMENT_BYTES,
    FileKind.OFFSET_INDEX: MOST_INDEX_BYTES,
    FileKind.TIME_INDEX: MOST_INDEX_BYTES,
}  # fmt: skip


def most_bytes_read(path: str) -> int:
    """Return the largest size of a file beside a log that is read as a whole, by its name."""
    return _MOST_BYTES.get(classify_file(path.rpartition("/")[2]).kind, MOST_DATA_BYTES)


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
    """Return `name` without its work suffixes, and the state of the last suffix."""
    state = WorkState.IN_PLACE
    while found := _WORK_SUFFIXES.get(_suffix(name)):
        name = name.removesuffix(found.value)
        if state is WorkState.IN_PLACE:
            state = found
    return name, state


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""


def _snapshot_id(name: str) -> tuple[int | None, int | None]:
    """Return end offset and epoch, read from fixed places in the name as Snapshots.parse does; the rest is ignored."""
    end = _OFFSET_WIDTH + 1 + _EPOCH_WIDTH
    offset, epoch = parse_long(name[:_OFFSET_WIDTH]), parse_int(name[_OFFSET_WIDTH + 1 : end])
    return (None, None) if offset is None or epoch is None or len(name) < end else (offset, epoch)


def _topic_partition(name: str) -> tuple[str, int] | None:
    """Split at the last dash into topic and partition; None where UnifiedLog.parseTopicPartitionName throws."""
    topic, _, number = name.rpartition("-")
    partition = parse_int(number)
    return (topic, partition) if topic and partition is not None else None


def _marked_directory(name: str, kind: DirectoryKind) -> DirectoryName:
    """Parse a name that ends in -delete, -future or -stray: topic, dash, partition, dot, unique id; no white space."""
    body = name[: -len(kind.value)]
    dash, dot = body.find("-", 1), body.rfind(".", 0, len(body) - 1)
    if 0 < dash < dot - 1 and _JAVA_WHITE_SPACE.isdisjoint(body):
        # Kafka checks the position of one dot, but then splits at the last dot, which may be a different dot.
        rest, _, unique_id = body.rpartition(".")
        parsed = _topic_partition(rest)
        if parsed:
            return DirectoryName(name, kind, *parsed, unique_id)
    return DirectoryName(name, DirectoryKind.OTHER)


def moved_aside(path: str) -> str:
    """Return the command that renames a file to a name that brokers ignore."""
    return f"`mv -nT {shell_word(path)} {shell_word(f'{path}.aside')}`"


def moved_out(path: str) -> str:
    """Return the command that moves a directory out of its log directory, in which a broker takes no other names."""
    return f"`mv -nT {shell_word(path)} {shell_word(place_outside(path))}`"


def moved_from_root(path: str, *, is_directory: bool) -> str:
    """Return the command that moves an entry with the name of a file at the root of a log directory away."""
    return moved_out(path) if is_directory else moved_aside(path)


def place_outside(path: str) -> str:
    """Return a path outside the directory of `path`: the same name, beside that directory."""
    if os.path.basename(path.rstrip("/")) in {"", ".", ".."}:  # noqa: PTH119 (a name, links are not followed)
        path = os.path.abspath(path)  # noqa: PTH100
    parent, _, name = path.rstrip("/").rpartition("/")
    # Nothing is outside of /; files in /var/tmp stay there when the machine starts again.
    above = os.path.normpath(f"{parent}/..") if parent else "/var/tmp" if path.startswith("/") else ".."
    return os.path.join("" if above == "." else above, name)  # noqa: PTH118
