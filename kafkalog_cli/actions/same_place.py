"""Whether two processes mean the same partition directory by a path: a wrong mount, or a copy, is told before work."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.actions.engine import Place
from kafkalog_cli.actions.settings import read_meta
from kafkalog_cli.errors import Refused
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.storage.changing.manifest import run_ids
from kafkalog_cli.storage.fs import Filesystem


class SeenFile(NamedTuple):
    """A file of a partition directory."""

    size_bytes: int
    inode: int


class Sight(NamedTuple):
    """What a partition directory is, as `host` sees it. `runs` are ours that left something in it."""

    host: str
    path: str
    log_dir: str | None
    meta: MetaProperties | None
    inode: int
    files: dict[str, SeenFile]
    runs: frozenset[str]
    is_locked: bool

    def check(self, fs: Filesystem, host: str, *, is_again: bool = False) -> None:
        """Look at it from `host`. Raises Refused where it is another directory, PathNotFound where there is none.

        One that is locked must be as it was; `is_again`: unless an earlier try of the same work left its traces in it.
        One that is only read may have grown, as its broker may be at work.
        """
        here = sight(Place(fs, self.path, self.log_dir, self.is_locked), host)
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
        if not self.is_locked and is_same_host:
            return None
        known = 0
        for name in sorted(self.files.keys() | here.files.keys()):
            ours, theirs = here.files.get(name), self.files.get(name)
            if ours is None or theirs is None:
                is_other = self.is_locked
            elif self.is_locked:
                is_other = ours != theirs if is_same_host else ours.size_bytes != theirs.size_bytes
            else:
                is_other = ours.size_bytes < theirs.size_bytes
            if is_other:
                return f"{name} {_words(ours)}, not {_words(theirs)}"
            known += ours is not None and theirs is not None
        return "it has none of the files" if self.files and not known else None


def sight(place: Place, host: str) -> Sight:
    """What is there now. Raises PathNotFound, NotKafkaLayout, Unreadable."""
    fs, path = place.fs, place.path
    status = fs.status(path)
    files = {
        one.path.rpartition("/")[2]: SeenFile(one.size_bytes, one.inode)
        for one in fs.list_directory(path)
        if one.is_file
    }
    meta = None if place.log_dir is None else read_meta(fs, place.log_dir)
    inode = -1 if status is None else status.inode
    return Sight(host, path, place.log_dir, meta, inode, files, frozenset(run_ids(fs, path)), place.is_locked)


def _identity(meta: MetaProperties | None) -> str:
    if meta is None:
        return "nothing that can be read"
    return f"cluster.id {meta.cluster_id}, node.id {meta.node_id}, directory.id {meta.directory_id}"


def _words(file: SeenFile | None) -> str:
    return "missing" if file is None else f"of {file.size_bytes} bytes (inode {file.inode})"
