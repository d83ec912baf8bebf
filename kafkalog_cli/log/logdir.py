"""A log directory (`log.dir`): its partition directories, its root files, and the offsets that they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog_cli.disk.directory_contents import holds_partition, looks_like_partition
from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.names import (
    ROOT_KINDS,
    DirectoryKind,
    DirectoryName,
    FileKind,
    WorkState,
    classify_directory,
    classify_file,
)
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, Unreadable

Takes = Callable[[DirectoryName], bool]
"""A filter that returns whether the partition directory of this name is selected."""

_PARTITION_KINDS = (DirectoryKind.PARTITION, DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY)

OFFSET_CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)


class PartitionPath(NamedTuple):
    """A partition directory that was found but not yet listed."""

    path: str
    directory: DirectoryName


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory: partitions in the order of topic, number and name; root files by kind; all other entries."""

    path: str
    partitions: tuple[PartitionPath, ...]
    root_files: dict[FileKind, FileStatus]
    others: tuple[FileStatus, ...]

    @property
    def is_clean(self) -> bool:
        """Whether the last broker on it stopped cleanly (`.kafka_cleanshutdown` exists)."""
        return FileKind.CLEAN_SHUTDOWN in self.root_files


def open_logdir(fs: Filesystem, path: str, takes: Takes | None = None) -> LogDir:
    """Return the entries of a log directory. Raises PathNotFound, NotKafkaLayout, Unreadable.

    `takes` selects partitions by name; None selects all. Other partitions are listed only if nothing else shows that
    this is a log directory.

    A log directory without any root file, such as a copy of partition directories, is recognized by the files in its
    partitions. Their names are not enough, as other programs use such directory names too.
    """
    entries = fs.list_directory(path)
    partitions = [
        PartitionPath(entry.path, directory)
        for entry in entries
        if entry.is_directory and (directory := _partition_directory(fs, entry, takes)) is not None
    ]
    root_files: dict[FileKind, FileStatus] = {
        kind: entry
        for entry in entries
        if entry.is_file
        and (name := classify_file(_name(entry.path))).state is WorkState.IN_PLACE
        and (kind := name.kind) in ROOT_KINDS
    }
    is_known = bool(root_files)
    if not is_known:
        partitions, is_known = _with_files(fs, partitions)
    if not is_known and takes is not None:
        is_known = _has_another(fs, entries, takes)
    if not is_known:
        raise NotKafkaLayout(path=path, reason="is neither a log directory nor a partition directory")
    taken = {p.path for p in partitions} | {status.path for status in root_files.values()}
    others = tuple(entry for entry in entries if entry.path not in taken)
    return LogDir(path, tuple(sorted(partitions, key=_order)), root_files, others)


def _partition_directory(fs: Filesystem, entry: FileStatus, takes: Takes | None = None) -> DirectoryName | None:
    directory = classify_directory(_name(entry.path))
    if directory.kind not in _PARTITION_KINDS or (takes is not None and not takes(directory)):
        return None
    # Only old documentation has names like topic_0, and other programs' directories have such names too.
    if directory.separator == "_":
        try:
            return directory if looks_like_partition(fs.list_directory(entry.path)) else None
        except KafkalogError:
            return None
    return directory


def _has_another(fs: Filesystem, entries: list[FileStatus], takes: Takes) -> bool:
    """Whether a partition that is not selected contains files of a partition, so that this is a log directory."""
    for entry in entries:
        directory = _partition_directory(fs, entry, lambda name: not takes(name)) if entry.is_directory else None
        if directory is not None and _with_files(fs, [PartitionPath(entry.path, directory)])[1]:
            return True
    return False


def _with_files(fs: Filesystem, partitions: list[PartitionPath]) -> tuple[list[PartitionPath], bool]:
    """Return the partitions with files of a partition or without any entry, and whether any has such files.

    The list is empty if none has such files. Directories that cannot be listed are kept.
    """
    kept, is_known = [], False
    for partition in partitions:
        try:
            entries = fs.list_directory(partition.path)
        except Unreadable:
            kept.append(partition)
            continue
        holds = holds_partition(fs, partition.path, entries)
        is_known |= holds
        if holds or not entries:
            kept.append(partition)
    return kept if is_known else [], is_known


def _order(partition: PartitionPath) -> tuple[str, int, str]:
    directory = partition.directory
    return directory.topic or "", directory.partition or 0, directory.name


def _name(path: str) -> str:
    return path.rpartition("/")[2]
