"""Recognition of a directory by its files: a partition of Kafka, or a directory of a similar program.

Files are recognized by their names, those of similar programs also by their first bytes.
"""

import re
from collections.abc import Iterable

from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.names import (
    OWN_DIRECTORY,
    PARTITION_KINDS,
    ROOT_KINDS,
    SEGMENT_KINDS,
    FileKind,
    FileName,
    WorkState,
    classify_file,
)
from kafkalog_cli.errors import KafkalogError, UnsupportedFormat

REDPANDA, BOOKKEEPER = "Redpanda", "BookKeeper (Pulsar)"

_REDPANDA_FILE = re.compile(r"[0-9]+-[0-9]+-v[0-9]+\.(log|base_index|compaction_index)")
"""Base offset, term, and version of the format."""
_BOOKKEEPER_LOG = re.compile(r"[0-9a-f]{1,16}\.log")
_BOOKKEEPER_MAGIC = b"BKLO"
"""The first bytes of an entry log. In a Kafka log they would mean an offset of 4.8e18."""

_UNNUMBERED_KINDS = frozenset({FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE})


def is_name_of_kafka(name: str) -> bool:
    """Whether a broker takes a file with this name for one of its own, in a log directory or a partition."""
    found = classify_file(name)
    return found.kind in ROOT_KINDS or _is_of_partition(found)


def is_root_file(entry: FileStatus) -> bool:
    """Whether an entry makes its directory a log directory: a regular file with the name of a file at the root.

    A broker makes these files itself. So a directory or a link of such a name is not a sign of a broker.
    """
    name = classify_file(_name(entry.path))
    return entry.is_file and not entry.is_symlink and name.kind in ROOT_KINDS and name.state is WorkState.IN_PLACE


def is_sign_of_broker(entry: FileStatus) -> bool:
    """Whether an entry is such a file, and not `.lock`, which other programs make too."""
    return is_root_file(entry) and classify_file(_name(entry.path)).kind is not FileKind.LOCK


def root_file(fs: Filesystem, directory: str, but: FileKind | None = None) -> str | None:
    """Return the path of a file that makes `directory` a log directory, other than the kind `but`; None without one."""
    paths = (f"{directory.rstrip('/')}/{kind.value}" for kind in ROOT_KINDS if kind is not but)
    return next((path for path in paths if (found := fs.status(path)) is not None and is_root_file(found)), None)


def _is_of_partition(name: FileName) -> bool:
    return name.kind in _UNNUMBERED_KINDS or (name.kind in PARTITION_KINDS and name.offset is not None)


def looks_like_partition(entries: Iterable[FileStatus]) -> bool:
    """Whether a directory with these entries contains files of segments."""
    return any(_data_kind(classify_file(_name(entry.path))) for entry in entries if entry.is_file)


def holds_partition(fs: Filesystem, entries: Iterable[FileStatus]) -> bool:
    """Whether a directory with these entries contains a partition's files or those of a similar program.

    The partition's files include `.kafkalog`; `foreign_layout` knows the similar programs.
    """
    for entry in entries:
        name = classify_file(_name(entry.path))
        if entry.is_directory and name.name == OWN_DIRECTORY:
            return True
        if entry.is_file and _is_of_partition(name):
            return True
    return foreign_layout(fs, entries) is not None


def foreign_layout(fs: Filesystem, entries: Iterable[FileStatus]) -> str | None:
    """Return the program whose files are the `entries` of a directory; None if they may be Kafka's.

    Links are followed.
    """
    for entry in entries:
        name = _name(entry.path)
        if entry.is_file and _REDPANDA_FILE.fullmatch(name):
            return REDPANDA
        if entry.is_file and _BOOKKEEPER_LOG.fullmatch(name) and _start(fs, entry.path) == _BOOKKEEPER_MAGIC:
            return BOOKKEEPER
    return None


def check_layout(fs: Filesystem, directory: str, entries: Iterable[FileStatus]) -> None:
    """Raises UnsupportedFormat if the entries of a directory are files of another known program."""
    foreign = foreign_layout(fs, entries)
    if foreign is not None:
        raise UnsupportedFormat(path=directory, reason=f"these are files of {foreign}, not of Kafka")


def _data_kind(name: FileName) -> bool:
    return name.offset is not None and (name.kind in SEGMENT_KINDS or name.kind is FileKind.SEVEN_LOG)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _start(fs: Filesystem, path: str) -> bytes:
    try:
        with fs.open_read(path) as file:
            data = bytearray(len(_BOOKKEEPER_MAGIC))
            return bytes(data[: file.read_into(0, memoryview(data))])
    except (KafkalogError, OSError):
        return b""
