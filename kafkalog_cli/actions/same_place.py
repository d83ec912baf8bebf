"""Whether two processes mean the same partition directory by a path: a wrong mount, or a copy, is told before work."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.actions.engine import Place
from kafkalog_cli.actions.settings import read_meta
from kafkalog_cli.errors import Refused
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.storage.changing.lock import log_dir_of
from kafkalog_cli.storage.changing.manifest import run_ids
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.names import FileKind, WorkState, classify_file

Metas = dict[str, MetaProperties | None]
"""What `meta.properties` of log directories say, by their paths."""


class SeenFile(NamedTuple):
    """A file of a partition directory."""

    size_bytes: int
    inode: int


class Sight(NamedTuple):
    """What a partition directory is, as `host` sees it. `runs` are ours that left something in it.

    `files` and `runs` of one that is not locked are no more than its newest log file: its broker may be at work.
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
        """Look at it from `host`. Raises Refused where it is another directory, PathNotFound where there is none.

        One that is locked must be as it was; `is_again`: unless an earlier try of the same work left its traces in it.
        One that is only read may have grown, and lost old segments.
        """
        here = sight(Place(fs, self.path, self.log_dir, self.is_locked), host, metas)
        difference = self._of_the_whole(here)
        if difference is None and not (is_again and (host == self.host or here.runs > self.runs)):
            difference = self._of_files(here)
        if difference is not None:
            seen = f"{host} sees another directory there than {self.host}, where the run was planned: {difference}"
            raise Refused(path=self.path, reason=f"{seen}; nothing was touched")

    def _of_the_whole(self, here: Sight) -> str | None:
        if here.meta != self.meta:
            return f"meta.properties has {_identity(here.meta)}, not {_identity(self.meta)}"
        if here.host == self.host and here.inode != self.inode:
            return f"its inode is {here.inode}, not {self.inode}"
        return None

    def _of_files(self, here: Sight) -> str | None:
        is_same_host = here.host == self.host
        if not self.is_locked:
            return None if is_same_host else self._of_newest(here)
        for name in sorted(self.files.keys() | here.files.keys()):
            ours, theirs = here.files.get(name), self.files.get(name)
            is_same = ours is not None and theirs is not None and ours.size_bytes == theirs.size_bytes
            if not is_same or (is_same_host and ours != theirs):
                return f"{name} {_words(ours)}, not {_words(theirs)}"
        return None

    def _of_newest(self, here: Sight) -> str | None:
        """A broker makes newer log files, and cleans and deletes older ones; of the newest it takes nothing away."""
        newest = max(here.files, default="")
        for name, theirs in self.files.items():
            ours = here.files.get(name)
            if newest <= name and (ours is None or ours.size_bytes < theirs.size_bytes):
                return f"{name} {_words(ours)}, not {_words(theirs)}"
        return None


class Sights:
    """Partitions that are only read, as this process sees them for a moment: each log directory is looked at once."""

    def __init__(self, fs: Filesystem, host: str) -> None:
        self._fs = fs
        self._host = host
        self._metas: Metas = {}
        self._log_dirs: dict[str, str | None] = {}

    def of(self, path: str) -> Sight:
        """What is there now, by an absolute path. Raises as `sight`."""
        parent = path.rpartition("/")[0]
        if parent not in self._log_dirs:
            self._log_dirs[parent] = log_dir_of(self._fs, path)
        return sight(Place(self._fs, path, self._log_dirs[parent], is_locked=False), self._host, self._metas)

    def check(self, seen: Sight) -> None:
        """Whether it is what somebody else saw. Raises as `Sight.check`."""
        seen.check(self._fs, self._host, metas=self._metas)


def sight(place: Place, host: str, metas: Metas | None = None) -> Sight:
    """What is there now; `metas`: what is known of log directories. Raises PathNotFound, NotKafkaLayout, Unreadable."""
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
    return Sight(host, path, place.log_dir, meta, inode, files, runs, place.is_locked)


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
