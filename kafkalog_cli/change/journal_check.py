"""Checking whether the changes of a plan can be made in a directory as it is now. Nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog_cli.change.changes import Change, Cut, Drop, Move, Put
from kafkalog_cli.change.manifest import Snapshot
from kafkalog_cli.disk.fs import FileAttributes, WritableFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import Refused

_PLANNED = "the partition has changed since the plan was made: "


def check_changes(
    fs: WritableFilesystem, directory: str, changes: Sequence[Change], before: Snapshot
) -> list[str | None]:
    """Return the present name of the file of each change; None for a file that does not exist yet.

    Raises Refused if a file differs from the plan. Raises Refused too if a file to cut is a symbolic link or has a
    second hard link, because a backup by hard links shares the inode. Raises ValueError for a plan that contradicts
    itself.
    """
    walk = _Walk(fs, directory, before)
    return [walk.step(change) for change in changes]


def attributes_of_new(fs: WritableFilesystem, directory: str, before: Snapshot) -> FileAttributes:
    """Return the attributes for a new file: those of a log in the directory, of any other file, or of the directory."""
    by_use = sorted(before.files, key=lambda name: (not name.endswith(FileKind.LOG.value), name))
    for name in by_use:
        status = fs.status(f"{directory}/{name}")
        if status is not None and status.is_file and not status.is_symlink:
            return fs.attributes(status.path)
    found = fs.attributes(directory)
    return found._replace(mode=found.mode & 0o666)


class _Walk:
    """The names and sizes of the files after each change of the plan."""

    def __init__(self, fs: WritableFilesystem, directory: str, before: Snapshot) -> None:
        self._fs = fs
        self._directory = directory
        self._origins: dict[str, str | None] = {name: name for name in before.files}
        self._cut_origins: set[str] = set()
        self._sizes = {name: facts.size_bytes for name, facts in before.files.items()}

    def step(self, change: Change) -> str | None:
        if "/" in change.name or change.name in ("", ".", ".."):
            raise ValueError(f"{change.name!r} is not a file name")
        if isinstance(change, Put):
            return self._put(change)
        if change.name not in self._origins:
            raise self._refused(f"{change.name} is not there")
        origin = self._origins[change.name]
        if origin is None and not isinstance(change, Move):
            raise ValueError(f"{change.name} was just made by the same plan")
        if isinstance(change, Cut) and origin is not None:
            self._cut(change, origin)
        elif isinstance(change, Move):
            self._move(change)
        elif isinstance(change, Drop):
            self._drop(change)
        return origin

    def _cut(self, change: Cut, origin: str) -> None:
        if not 0 <= change.to_bytes <= change.from_bytes:
            raise ValueError(f"{change.name} cannot be cut from {change.from_bytes} to {change.to_bytes} bytes")
        path = f"{self._directory}/{origin}"
        status = self._fs.status(path)
        if status is None or not status.is_file or status.is_symlink:
            raise Refused(path=path, reason="it is a symbolic link, or not a regular file")
        if self._fs.attributes(path).link_count > 1:
            raise Refused(path=path, reason="it has a second link: a copy made of links would be changed with it")
        if self._sizes[change.name] != change.from_bytes:
            raise self._refused(f"{change.name} has {self._sizes[change.name]} bytes, not {change.from_bytes}")
        if origin in self._cut_origins:
            raise ValueError(f"{origin} is cut twice")
        self._cut_origins.add(origin)
        self._sizes[change.name] = change.to_bytes

    def _move(self, change: Move) -> None:
        if change.new_name in self._origins:
            raise self._refused(f"{change.new_name} is there")
        self._check_free(change.new_name)
        self._origins[change.new_name] = self._origins.pop(change.name)
        self._sizes[change.new_name] = self._sizes.pop(change.name)

    def _drop(self, change: Drop) -> None:
        del self._origins[change.name], self._sizes[change.name]

    def _put(self, change: Put) -> str | None:
        origin = self._origins.get(change.name)
        if change.replaces != (change.name in self._origins):
            raise self._refused(f"{change.name} is {'not ' if change.replaces else ''}there")
        if change.replaces and origin is None:
            raise ValueError(f"{change.name} was just made by the same plan")
        if origin is None:
            self._check_free(change.name)
        self._origins[change.name], self._sizes[change.name] = None, change.content.size_bytes
        return origin

    def _check_free(self, name: str) -> None:
        """Raises Refused if a directory has this name. A plan knows only files, and a rename cannot replace it."""
        status = self._fs.status(f"{self._directory}/{name}")
        if status is not None and status.is_directory:
            raise Refused(path=status.path, reason="a directory has the name of a new file")

    def _refused(self, reason: str) -> Refused:
        return Refused(path=self._directory, reason=_PLANNED + reason)
