"""Recognition of a directory by its files: a partition of Kafka, or a directory of a similar program.

Files are recognized by their names, those of similar programs also by their first bytes.
"""

import re
from collections.abc import Callable, Iterable

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


def root_files(entries: Iterable[FileStatus]) -> dict[FileKind, FileStatus]:
    """Return the files with names of files at the root of a log directory, by their kinds. Links are followed."""
    names = ((entry, classify_file(entry.name)) for entry in entries if entry.is_file)
    return {name.kind: entry for entry, name in names if name.kind in ROOT_KINDS and name.state is WorkState.IN_PLACE}


def is_root_file(entry: FileStatus) -> bool:
    """Whether an entry makes its directory a log directory: a regular file with the name of a file at the root.

    A broker makes these files itself. So a directory or a link of such a name is not a sign of a broker.
    """
    return not entry.is_symlink and bool(root_files([entry]))


def is_sign_of_broker(entry: FileStatus) -> bool:
    """Whether an entry is such a file, and not `.lock`, which other programs make too."""
    return is_root_file(entry) and entry.name != FileKind.LOCK.value


def has_root_file(fs: Filesystem, directory: str, is_sign: Callable[[FileStatus], bool] = is_root_file) -> bool:
    """Whether a file makes `directory` a log directory. The files are looked up by name."""
    found = (fs.status(f"{directory.rstrip('/')}/{kind.value}") for kind in ROOT_KINDS)
    return any(entry is not None and is_sign(entry) for entry in found)


def _is_of_partition(name: FileName) -> bool:
    return name.kind in _UNNUMBERED_KINDS or (name.kind in PARTITION_KINDS and name.offset is not None)


def looks_like_partition(entries: Iterable[FileStatus]) -> bool:
    """Whether a directory with these entries contains files of segments.

    A log directory with a segment file of its own is no partition. A broker does not start where a run
    left `.kafkalog`.
    """
    names = [classify_file(entry.name) for entry in entries if entry.is_file]
    return any(map(_data_kind, names)) and all(name.kind is not FileKind.META_PROPERTIES for name in names)


def holds_partition(fs: Filesystem, entries: Iterable[FileStatus]) -> bool:
    """Whether a directory with these entries contains a partition's files or those of a similar program.

    The partition's files include `.kafkalog`; `foreign_layout` knows the similar programs.
    """
    for entry in entries:
        name = classify_file(entry.name)
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
        name = entry.name
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


def _start(fs: Filesystem, path: str) -> bytes:
    try:
        with fs.open_read(path) as file:
            data = bytearray(len(_BOOKKEEPER_MAGIC))
            return bytes(data[: file.read_into(0, memoryview(data))])
    except (KafkalogError, OSError):
        return b""
