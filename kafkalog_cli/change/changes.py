"""Planned changes of the files of a partition, in an order that is safe for a broker that starts in between.

Before they are made, `check_changes` finds whether they can be made in the directory as it is now.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from kafkalog_cli.change.manifest import Snapshot
from kafkalog_cli.disk.durable import (
    Content,
    is_link,
)
from kafkalog_cli.disk.fs import FileAttributes, FileStatus, WritableFilesystem
from kafkalog_cli.disk.names import SEGMENT_KINDS, FileKind, WorkState, classify_file, moved_aside, segment_file_name
from kafkalog_cli.errors import Refused
from kafkalog_cli.results import Hidden, of


@dataclass(frozen=True, slots=True)
class Cut:
    """A file is shortened in place."""

    change: ClassVar[Literal["cut"]] = "cut"
    name: str
    from_bytes: int
    to_bytes: int


@dataclass(frozen=True, slots=True)
class Move:
    """A file is renamed.

    An earlier Put may have written it. The new name is free at that time.
    """

    change: ClassVar[Literal["move"]] = "move"
    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class Drop:
    """A file is removed."""

    change: ClassVar[Literal["drop"]] = "drop"
    name: str


@dataclass(frozen=True, slots=True)
class Put:
    """A file is written."""

    change: ClassVar[Literal["put"]] = "put"
    name: str
    content: Hidden[Content]
    size_bytes: ClassVar[int] = of("content.size_bytes")
    replaces: Annotated[bool, "whether it replaces a file"]


@dataclass(frozen=True, slots=True)
class Staged(Content):
    """Content that a run has already written into its own directory, as a file called `name`."""

    name: str
    size_bytes: int

    def pieces(self) -> Iterator[bytes]:
        """Raise NotImplementedError: the journal renames the staged file and never reads its bytes here."""
        raise NotImplementedError


Change = Cut | Move | Drop | Put
"""One change of a plan. The changes are made in the order of the plan."""


def in_log_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Sort the changes of a draft so that the directory always contains a segment.

    The order is:

    1. drops that free a name for a later change;
    2. new files, and the files of segments whose log is written;
    3. renames, from the start of the log;
    4. other drops, from the end of the log;
    5. cuts;
    6. other replaced files, which describe the rest.

    The log of a segment is changed before its indexes: a broker removes an index without a log, but it would
    recover a log without an index.
    """
    found = list(changes)
    puts = [change for change in found if isinstance(change, Put)]
    new_logs = {change.name for change in puts if change.name.endswith(FileKind.LOG.value)}
    early = [put for put in puts if not put.replaces or _log_name(put.name) in new_logs]
    moves = [change for change in found if isinstance(change, Move)]
    drops = [change for change in found if isinstance(change, Drop)]
    taken = {move.new_name for move in moves} | {put.name for put in puts}
    freeing = [drop for drop in drops if drop.name in taken]
    return (
        *freeing,
        *sorted(early, key=lambda put: _rank(put.name)),
        *sorted(moves, key=lambda move: _rank(move.name)),
        *sorted((drop for drop in drops if drop not in freeing), key=lambda drop: _rank(drop.name, is_reversed=True)),
        *(change for change in found if isinstance(change, Cut)),
        *(put for put in puts if put not in early),
    )


def keeping(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes with each rename to `.deleted` turned into a drop.

    The journal keeps a dropped file in the run's directory, which no broker reads.
    Other changes of names that end in `.deleted` are left out.
    """
    suffix = WorkState.DELETED.value
    found: list[Change] = []
    for change in changes:
        if isinstance(change, Move) and change.new_name.endswith(suffix):
            found.append(Drop(change.name))
        elif not change.name.endswith(suffix):  # such a change would only prepare a file for its deletion
            found.append(change)
    return tuple(found)


def _log_name(name: str) -> str | None:
    """Return the name of the log of the segment that the file belongs to; None if it belongs to no segment."""
    found = classify_file(name)
    is_of_segment = found.kind in SEGMENT_KINDS and found.offset is not None
    return segment_file_name(found.offset or 0, FileKind.LOG, found.state) if is_of_segment else None


def _rank(name: str, *, is_reversed: bool = False) -> tuple[int, bool, str]:
    found = classify_file(name)
    offset = 0 if found.offset is None else found.offset
    return -offset if is_reversed else offset, found.kind not in (FileKind.LOG, FileKind.SEVEN_LOG), name


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


def unshared_file(fs: WritableFilesystem, path: str) -> tuple[FileStatus, FileAttributes]:
    """Return status and attributes of a file that is to be written in place. Raises Refused if others share it."""
    status = fs.status(path)
    if status is None or not status.is_file or status.is_symlink:
        raise Refused(path=path, reason="it is a symbolic link, or not a regular file")
    attributes = fs.attributes(path)
    if attributes.link_count > 1:
        raise Refused(path=path, reason="it has a second link: a copy made of links would be changed with it")
    return status, attributes


class _Walk:
    """The files that the partition has after each change of the plan, with their names before the plan."""

    def __init__(self, fs: WritableFilesystem, directory: str, before: Snapshot) -> None:
        self._fs = fs
        self._directory = directory
        self._before = before.files
        self._origins: dict[str, str | None] = {name: name for name in before.files}
        self._cut_origins: set[str] = set()

    def step(self, change: Change) -> str | None:
        """Check a change, follow it, and return the name that its file had before the plan."""
        name = change.name
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is not a file name")
        is_new = isinstance(change, Put) and not change.replaces
        if (name in self._origins) is is_new:
            raise self._refused(f"{name} is {'' if is_new else 'not '}there")
        origin = self._origins.pop(name, None)
        if origin is None and not is_new and not isinstance(change, Move):
            raise ValueError(f"{name} was just made by the same plan")
        if isinstance(change, Cut):
            self._check_cut(change, str(origin))
            self._origins[name] = origin
        elif isinstance(change, Move):
            self._check_free(change.new_name)
            self._origins[change.new_name] = origin
        elif isinstance(change, Put):
            if is_new:
                self._check_free(name)
            self._origins[name] = None
        return origin

    def _check_cut(self, change: Cut, origin: str) -> None:
        if not 0 <= change.to_bytes <= change.from_bytes:
            raise ValueError(f"{change.name} cannot be cut from {change.from_bytes} to {change.to_bytes} bytes")
        unshared_file(self._fs, f"{self._directory}/{origin}")
        if origin in self._cut_origins:
            raise ValueError(f"{origin} is cut twice")
        size_bytes = self._before[origin].size_bytes
        if size_bytes != change.from_bytes:
            raise self._refused(f"{change.name} has {size_bytes} bytes, not {change.from_bytes}")
        self._cut_origins.add(origin)

    def _check_free(self, name: str) -> None:
        """Raises Refused if a file that the plan knows has a name, or a link or a directory, which no plan knows."""
        path = f"{self._directory}/{name}"
        status = self._fs.status(path)
        if is_link(self._fs, path, status):
            reason = "it is a symbolic link in the place of a file that kafkalog renames"
            raise Refused(path=path, reason=f"{reason}; {moved_aside(path)} moves it away")
        if name in self._origins:
            raise self._refused(f"{name} is there")
        if status is not None and status.is_directory:
            reason = f"a directory has the name of a new file; {moved_aside(path)} moves it away"
            raise Refused(path=path, reason=reason)

    def _refused(self, reason: str) -> Refused:
        return Refused(path=self._directory, reason=_PLANNED + reason)
