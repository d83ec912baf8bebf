"""Checks of a path: that output does not go into a log directory, and that two processes see the same directory.

A wrong mount or a copy is found before work.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from kafkalog_cli.disk.directory_contents import has_root_file, is_sign_of_broker, looks_like_partition
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import FileKind, WorkState, classify_file
from kafkalog_cli.errors import Refused
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition, directory_name
from kafkalog_cli.log.settings.source import read_meta


def check_outside(fs: Filesystem, path: str, what: str, partitions: Sequence[Partition] = ()) -> None:
    """Raise Refused if `path` is in a log directory or a partition: a broker would find the output there."""
    directory = os.path.realpath(path)
    read = {os.path.realpath(partition.path) for partition in partitions}
    while directory != "/":
        if directory in read or is_of_a_broker(fs, directory):
            raise Refused(path=path, reason=f"{what} would lie in {directory}, which is a broker's")
        directory = os.path.dirname(directory)  # noqa: PTH120


def is_of_a_broker(fs: Filesystem, directory: str) -> bool:
    """Whether a directory is a log directory or a partition, where a broker would find what is written there."""
    status = fs.status(directory)
    if status is None or not status.is_directory:
        return False
    if has_root_file(fs, directory, is_sign_of_broker):
        return True
    return directory_name(directory).topic is not None and looks_like_partition(fs.list_directory(directory))


class PartitionIdentity(NamedTuple):
    """A partition directory as `host` sees it. `newest` is the name of its newest log file, "" if there is none.

    No other file is compared: the partition's broker may be running.
    """

    host: str
    path: str
    log_dir: str | None
    meta: MetaProperties | None
    inode: int
    newest: str
    size_bytes: int

    def check(self, here: PartitionIdentity) -> None:
        """Compare with what another process sees. Raises Refused if the directory differs.

        The directory may have grown, and old segments may be missing.
        """
        host = here.host
        difference = self._of_the_whole(here) or self._of_newest(here)
        if difference is not None:
            seen = f"{host} sees another directory there than {self.host}, where the run was planned: {difference}"
            raise Refused(path=self.path, reason=f"{seen}; nothing was changed")

    def _of_the_whole(self, here: PartitionIdentity) -> str | None:
        if here.meta != self.meta:
            return f"meta.properties has {_identity(here.meta)}, not {_identity(self.meta)}"
        if here.host == self.host and here.inode != self.inode:
            return f"its inode is {here.inode}, not {self.inode}"
        return None

    def _of_newest(self, here: PartitionIdentity) -> str | None:
        """Compare the newest log file only: a broker may add newer files, and clean and delete older files."""
        if here.host == self.host or not self.newest or here.newest > self.newest:
            return None
        if here.newest < self.newest:
            return f"{self.newest} missing, not of {self.size_bytes} bytes"
        if here.size_bytes < self.size_bytes:
            return f"{self.newest} of {here.size_bytes} bytes, not of {self.size_bytes} bytes"
        return None


class PartitionIdentities:
    """Partition directories that are only read, as this process sees them now. Each log directory is read once."""

    def __init__(self, fs: Filesystem, host: str) -> None:
        self._fs = fs
        self._host = host
        self._log_dirs = LogDirs(fs)
        self._metas: dict[str | None, MetaProperties | None] = {None: None}  # by log directory

    def of(self, path: str) -> PartitionIdentity:
        """Return what this process sees at a path. Raises PathNotFound, NotKafkaLayout, Unreadable."""
        fs, log_dir = self._fs, self._log_dirs.path_above(path)
        status = fs.status(path)
        sizes = {
            entry.name: entry.size_bytes for entry in fs.list_directory(path) if entry.is_file and _is_log(entry.name)
        }
        newest = max(sizes, default="")
        if log_dir is not None and log_dir not in self._metas:
            self._metas[log_dir] = read_meta(fs, log_dir)
        inode = -1 if status is None else status.inode
        return PartitionIdentity(self._host, path, log_dir, self._metas[log_dir], inode, newest, sizes.get(newest, 0))

    def check(self, seen: PartitionIdentity) -> None:
        """Compare with what another process saw. Raises Refused if the directory differs, and as `of`."""
        seen.check(self.of(seen.path))


def _is_log(name: str) -> bool:
    parsed = classify_file(name)
    is_log = parsed.kind in (FileKind.LOG, FileKind.SEVEN_LOG) and parsed.offset is not None
    return is_log and parsed.state is WorkState.IN_PLACE


def _identity(meta: MetaProperties | None) -> str:
    if meta is None:
        return "nothing that can be read"
    return f"cluster.id {meta.cluster_id}, node.id {meta.node_id}, directory.id {meta.directory_id}"
