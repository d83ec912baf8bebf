"""Checks of a place: that output does not go into a log directory, and that two processes see the same directory.

A wrong mount or a copy is found before work.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from kafkalog_cli.change.runs import run_ids
from kafkalog_cli.disk.directory_contents import has_root_file, is_sign_of_broker, looks_like_partition
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.names import FileKind, WorkState, classify_file
from kafkalog_cli.errors import Refused
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.partition import Partition, directory_name
from kafkalog_cli.ops.engine import Place
from kafkalog_cli.ops.settings import read_meta


def check_outside(fs: Filesystem, path: str, what: str, partitions: Sequence[Partition] = ()) -> None:
    """Raise Refused if `path` is in a log directory or a partition: a broker would find the output there."""
    directory = os.path.realpath(path)
    read = {os.path.realpath(one.path) for one in partitions}
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


Metas = dict[str, MetaProperties | None]
"""The `meta.properties` of log directories, by their paths."""


class SeenFile(NamedTuple):
    """The size and inode of a file in a partition directory."""

    size_bytes: int
    inode: int


class PartitionIdentity(NamedTuple):
    """A partition directory as `host` sees it. `runs` are kafkalog runs that left files in it.

    If the directory is not locked, `files` contains only its newest log file and `runs` is empty: its broker may be
    running.
    """

    host: str
    path: str
    log_dir: str | None
    meta: MetaProperties | None
    inode: int
    files: dict[str, SeenFile]
    runs: frozenset[str]
    is_locked: bool

    def check(self, fs: Filesystem, host: str, *, is_again: bool = False, metas: Metas | None = None) -> None:
        """Compare with the path on `host`. Raises Refused if the directory differs, PathNotFound if it is missing.

        A locked directory must be unchanged, except with `is_again`: an earlier attempt at the same work may have
        changed it. A directory that is only read may have grown, and old segments may be missing.
        """
        here = sight(Place(fs, self.path, self.log_dir, self.is_locked), host, metas)
        difference = self._of_the_whole(here)
        if difference is None and not (is_again and (host == self.host or here.runs > self.runs)):
            difference = self._of_files(here)
        if difference is not None:
            seen = f"{host} sees another directory there than {self.host}, where the run was planned: {difference}"
            raise Refused(path=self.path, reason=f"{seen}; nothing was changed")

    def _of_the_whole(self, here: PartitionIdentity) -> str | None:
        if here.meta != self.meta:
            return f"meta.properties has {_identity(here.meta)}, not {_identity(self.meta)}"
        if here.host == self.host and here.inode != self.inode:
            return f"its inode is {here.inode}, not {self.inode}"
        return None

    def _of_files(self, here: PartitionIdentity) -> str | None:
        is_same_host = here.host == self.host
        if not self.is_locked:
            return None if is_same_host else self._of_newest(here)
        for name in sorted(self.files.keys() | here.files.keys()):
            ours, theirs = here.files.get(name), self.files.get(name)
            is_same = ours is not None and theirs is not None and ours.size_bytes == theirs.size_bytes
            if not is_same or (is_same_host and ours != theirs):
                return f"{name} {_words(ours)}, not {_words(theirs)}"
        return None

    def _of_newest(self, here: PartitionIdentity) -> str | None:
        """Compare the newest log file only: a broker may add newer files, and clean and delete older files."""
        newest = max(here.files, default="")
        for name, theirs in self.files.items():
            ours = here.files.get(name)
            if newest <= name and (ours is None or ours.size_bytes < theirs.size_bytes):
                return f"{name} {_words(ours)}, not {_words(theirs)}"
        return None


class PartitionIdentities:
    """Partition directories that are only read, as this process sees them now. Each log directory is read once."""

    def __init__(self, fs: Filesystem, host: str) -> None:
        self._fs = fs
        self._host = host
        self._metas: Metas = {}
        self._log_dirs: dict[str, str | None] = {}

    def of(self, path: str) -> PartitionIdentity:
        """Return what this process sees at an absolute path. Raises as `sight`."""
        parent = path.rpartition("/")[0]
        if parent not in self._log_dirs:
            self._log_dirs[parent] = log_dir_of(self._fs, path)
        return sight(Place(self._fs, path, self._log_dirs[parent], is_locked=False), self._host, self._metas)

    def check(self, seen: PartitionIdentity) -> None:
        """Compare with what another process saw. Raises as `PartitionIdentity.check`."""
        seen.check(self._fs, self._host, metas=self._metas)


def sight(place: Place, host: str, metas: Metas | None = None) -> PartitionIdentity:
    """Return what is at a place now; `metas` is a cache. Raises PathNotFound, NotKafkaLayout, Unreadable."""
    fs, path = place.fs, place.path
    status = fs.status(path)
    entries = {one.path.rpartition("/")[2]: one for one in fs.list_directory(path) if one.is_file}
    files = {name: SeenFile(one.size_bytes, one.inode) for name, one in entries.items()}
    runs: frozenset[str] = frozenset()
    if place.is_locked:
        runs = frozenset(run_ids(fs, path))
    else:
        newest = max((name for name in files if _is_log(name)), default=None)
        files = {} if newest is None else {newest: files[newest]}
    metas = {} if metas is None else metas
    if place.log_dir is not None and place.log_dir not in metas:
        metas[place.log_dir] = read_meta(fs, place.log_dir)
    meta = None if place.log_dir is None else metas[place.log_dir]
    inode = -1 if status is None else status.inode
    return PartitionIdentity(host, path, place.log_dir, meta, inode, files, runs, place.is_locked)


def _is_log(name: str) -> bool:
    found = classify_file(name)
    is_log = found.kind in (FileKind.LOG, FileKind.SEVEN_LOG) and found.offset is not None
    return is_log and found.state is WorkState.IN_PLACE


def _identity(meta: MetaProperties | None) -> str:
    if meta is None:
        return "nothing that can be read"
    return f"cluster.id {meta.cluster_id}, node.id {meta.node_id}, directory.id {meta.directory_id}"


def _words(file: SeenFile | None) -> str:
    return "missing" if file is None else f"of {file.size_bytes} bytes (inode {file.inode})"
