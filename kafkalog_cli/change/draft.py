"""A draft: the files of a partition directory as they would be after the planned changes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkalog_cli.change.changes import Change, Cut, Drop, Move, Put
from kafkalog_cli.disk.durable import Content
from kafkalog_cli.disk.fs import (
    MOST_REMEMBERED_BYTES,
    READ_ONCE_BYTES,
    FileStatus,
    Filesystem,
    ReadableFile,
    check_size,
    file_pieces,
)
from kafkalog_cli.disk.temporary import SpooledFile
from kafkalog_cli.errors import PathNotFound, Unreadable
from kafkalog_cli.log.partition import entries_of_log, is_passed_over
from kafkalog_cli.log.reading.readable import read_readable

HELD_BYTES = 8 << 20
"""New contents are kept in memory up to this size, above it in an unnamed temporary file."""


class _Part(NamedTuple):
    """The bytes of a drafted file: `length` bytes from byte `start` on, followed by `zeros` zero bytes.

    They are of the file that is on the disk under `source`; None: of the spool. `is_copy`: the drafted file is a copy
    of these bytes. Otherwise it is that file, renamed or cut, and `start` is 0.
    """

    source: str | None
    start: int
    length: int
    zeros: int = 0
    is_copy: bool = False

    @property
    def size_bytes(self) -> int:
        return self.length + self.zeros

    def cut(self, size_bytes: int) -> _Part:
        """Return the first `size_bytes` bytes."""
        length = min(self.length, size_bytes)
        return self._replace(length=length, zeros=size_bytes - length)


class Draft:
    """The regular files of `directory` by name, to be read and changed; nothing on the disk changes.

    Plans are made with a draft: the broker's mechanisms run on it, and `changes` lists the changes to the disk.
    A draft is also a `Filesystem` that contains only the drafted files of its directory.
    """

    def __init__(self, fs: Filesystem, directory: str) -> None:
        self.fs = fs
        self.directory = directory
        entries = [entry for entry in entries_of_log(fs, directory) if entry.is_file and not is_passed_over(entry)]
        self._before = {entry.path.rpartition("/")[2]: entry for entry in entries}
        self._now = {name: _Part(name, 0, entry.size_bytes) for name, entry in self._before.items()}
        self._spool = _Spool()
        self._read_once = _ReadOnce(fs)
        self.unopened: list[Unreadable] = []
        """Errors of files that could not be opened, by this draft or its forks: a plan made without them may be wrong.

        The list is shared with the forks.
        """

    def fork(self) -> Draft:
        """Return a copy of this draft; later changes to one do not affect the other."""
        fork = copy.copy(self)
        fork._now = dict(self._now)
        return fork

    def differences(self, other: Draft) -> set[str]:
        """Return the names of the files that differ between this draft and `other`, its fork or its origin."""
        return {name for name in self._now.keys() | other._now.keys() if self._now.get(name) != other._now.get(name)}

    # -- reading

    def names(self) -> list[str]:
        """Return the names of the files, sorted."""
        return sorted(self._now)

    def __contains__(self, name: str) -> bool:
        return name in self._now

    def size_bytes(self, name: str) -> int:
        """Return the size of a file, which must exist."""
        return self._now[name].size_bytes

    def name_on_disk(self, name: str) -> str | None:
        """Return the name that a drafted file has on the disk; None if it is written by the draft or does not exist."""
        found = self._now.get(name)
        return None if found is None or found.is_copy else found.source

    def read(self, name: str, end: int | None = None) -> bytes:
        """Return the bytes of a small file, up to byte `end`.

        Raises PathNotFound, Unreadable (also for too many bytes), and OSError with the file's path.
        """
        with self.reader(name) as file:
            size = file.size_bytes if end is None else min(end, file.size_bytes)
            check_size(file.path, size)
            data = bytearray(size)
            try:
                size = file.read_into(0, memoryview(data))
                return bytes(memoryview(data)[:size])
            except OSError as error:
                error.filename = file.path
                raise

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file in pieces. Raises as `read` does, but reads a file of any size."""
        with self.reader(name) as file:
            try:
                yield from file_pieces(file)
            except OSError as error:
                error.filename = file.path
                raise

    def content(self, name: str) -> Content:
        """Return the bytes of a file, to be written elsewhere."""
        return _DraftedContent(self.fs, self.directory, self._spool, self._now[name])

    def reader(self, name: str) -> ReadableFile:
        """Open a file as drafted. Raises PathNotFound, NotKafkaLayout, Unreadable."""
        path = self.path(name)
        found = self._now.get(name)
        if found is None:
            raise PathNotFound(path=path)
        return _PartFile(path, self._spool if found.source is None else self.open_stored(found.source), found)

    def open_stored(self, name: str) -> ReadableFile:
        """Open a file of the directory as it is on the disk. Raises PathNotFound, NotKafkaLayout, Unreadable."""
        try:
            return self._read_once.reader(self.path(name), self._before[name].size_bytes)
        except Unreadable as error:
            self.unopened.append(error)
            raise

    def path(self, name: str) -> str:
        """Return the path of `name`."""
        return f"{self.directory}/{name}"

    # -- the protocol Filesystem

    def open_read(self, path: str) -> ReadableFile:
        """See `Filesystem`."""
        return self.reader(self._name(path))

    def status(self, path: str) -> FileStatus | None:
        """See `Filesystem`; new files have no inode and an mtime of 0."""
        name = path.rpartition("/")[2]
        if path != self.path(name) or name not in self._now:
            return None
        return self._status(name)

    def list_directory(self, path: str) -> list[FileStatus]:
        """See `Filesystem`; lists only the draft's directory, and only its regular files."""
        if path.rstrip("/") != self.directory.rstrip("/"):
            raise PathNotFound(path=path)
        return [self._status(name) for name in self.names()]

    def _name(self, path: str) -> str:
        name = path.rpartition("/")[2]
        if path != self.path(name):
            raise PathNotFound(path=path)
        return name

    def _status(self, name: str) -> FileStatus:
        now = self._now[name]
        if now.source is not None:
            return self._before[now.source]._replace(path=self.path(name), size_bytes=now.size_bytes)
        return FileStatus(self.path(name), now.size_bytes, 0, 0, is_directory=False, is_file=True, is_symlink=False)

    # -- changes

    def drop(self, name: str) -> None:
        """Remove a file; do nothing if it does not exist."""
        self._now.pop(name, None)

    def move(self, old: str, new: str) -> None:
        """Rename a file, replacing any file with the new name; do nothing if `old` does not exist."""
        if old in self._now:
            self._now[new] = self._now.pop(old)

    def cut(self, name: str, size_bytes: int) -> None:
        """Shorten a file to `size_bytes`; do nothing if it is not longer."""
        if size_bytes < self._now[name].size_bytes:
            self._now[name] = self._now[name].cut(size_bytes)

    def put(self, name: str, data: bytes, zeros: int = 0) -> None:
        """Create or replace a file with `data`, followed by `zeros` zero bytes."""
        self._now[name] = _Part(None, self._spool.add(data), len(data), zeros)

    def put_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        """Create or replace a file with bytes that come in pieces; nothing else may be put meanwhile."""
        starts = [(self._spool.add(piece), len(piece)) for piece in pieces]
        self._now[name] = _Part(None, starts[0][0] if starts else 0, sum(size for _, size in starts))

    def take_over(self, name: str, fork: Draft) -> None:
        """Create or replace a file with what a fork of this draft has under that name."""
        self._now[name] = fork._now[name]

    def slice(self, name: str, source: str, start: int, size_bytes: int) -> None:
        """Create a file from `size_bytes` of `source`, from byte `start` on; `source` must be a file on the disk."""
        found = self._now[source]
        assert found.source is not None
        self._now[name] = _Part(found.source, found.start + start, size_bytes, is_copy=True)

    def changes(self) -> list[Change]:
        """Return the changes from the files on the disk to the drafted files, in an order that is safe to interrupt.

        Removals come first: if a later segment remained after a log that is cut, the gap between them would go
        unnoticed. Raises ValueError if files exchanged their names.
        """
        kept = {old: name for name in self._now if (old := self.name_on_disk(name)) is not None}
        drops: list[Change] = [Drop(name) for name in sorted(self._before) if name not in kept and self._goes(name)]
        moves = _in_order({old: new for old, new in kept.items() if old != new})
        cuts: list[Change] = []
        puts: list[Change] = []
        for name, now in sorted(self._now.items()):
            old = self.name_on_disk(name)
            if old is not None:
                before = self._before[old].size_bytes
                cuts += [Cut(name, before, now.size_bytes)] if now.size_bytes < before else []
                continue
            replaces = name in self._before and name not in kept
            before_bytes = self._size_if_prefix(name, now) if replaces else None
            if before_bytes is None:
                puts.append(Put(name, self.content(name), replaces))
            elif before_bytes > now.size_bytes:
                cuts.append(Cut(name, before_bytes, now.size_bytes))
        return [*drops, *moves, *cuts, *puts]

    def _goes(self, name: str) -> bool:
        """Whether the file on the disk must be removed: the draft has no `name`, or renames another file to it."""
        return name not in self._now or self.name_on_disk(name) is not None

    def _size_if_prefix(self, name: str, now: _Part) -> int | None:
        """Return the size of the file on the disk if it begins with all bytes drafted for its name, else None."""
        before = self._before[name].size_bytes
        if before < now.size_bytes:
            return None
        with self.open_stored(name) as file:
            position = 0
            for piece in self.content(name).pieces():
                buffer = bytearray(len(piece))
                got, fault = read_readable(file, position, memoryview(buffer))
                if fault is not None or got < len(piece) or buffer != piece:
                    return None
                position += len(piece)
        return before


class _Spool(ReadableFile):
    """All written contents, one after the other; a draft and its forks share a spool."""

    def __init__(self) -> None:
        self.path = ""
        self.size_bytes = 0
        self._file = SpooledFile(HELD_BYTES)

    def add(self, data: bytes) -> int:
        """Append `data` and return its position."""
        start = self.size_bytes
        self._file.seek(start)
        self._file.write(data)
        self.size_bytes += len(data)
        return start

    def read_into(self, position: int, buffer: memoryview) -> int:
        self._file.seek(position)
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Do nothing: the drafts that share the spool read it again."""


class _ReadOnce:
    """Opens files of the disk, and remembers the bytes of small files. A draft and its forks share it."""

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._known: dict[str, bytes] = {}
        self._left_bytes = MOST_REMEMBERED_BYTES

    def reader(self, path: str, size_bytes: int) -> ReadableFile:
        """Open a file of `size_bytes`. Raises PathNotFound, NotKafkaLayout, Unreadable."""
        data = self._known.get(path)
        if data is not None:
            return _Remembered(path, data)
        file = self._fs.open_read(path)
        if not file.size_bytes == size_bytes <= min(READ_ONCE_BYTES, self._left_bytes):
            return file
        buffer = bytearray(size_bytes)
        try:
            if file.read_into(0, memoryview(buffer)) < size_bytes:
                return file
        except OSError:  # the reader finds which bytes cannot be read
            return file
        file.close()
        self._known[path] = bytes(buffer)
        self._left_bytes -= size_bytes
        return _Remembered(path, self._known[path])


class _PartFile(ReadableFile):
    """A drafted file: a part of `file`, and zeros after it."""

    def __init__(self, path: str, file: ReadableFile, part: _Part) -> None:
        self.path = path
        self.size_bytes = part.size_bytes
        self._file = file
        self._part = part

    def read_into(self, position: int, buffer: memoryview) -> int:
        wanted = min(len(buffer), max(0, self.size_bytes - position))
        stored = max(0, min(wanted, self._part.length - position))
        got = self._file.read_into(self._part.start + position, buffer[:stored]) if stored else 0
        if got < stored:
            return got
        buffer[stored:wanted] = bytes(wanted - stored)
        return wanted

    def data_from(self, position: int) -> int:
        return self._file.data_from(self._part.start + position) - self._part.start

    def close(self) -> None:
        self._file.close()


class _Remembered(ReadableFile):
    """A file of the disk that was read before."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.size_bytes = len(data)
        self._data = data

    def read_into(self, position: int, buffer: memoryview) -> int:
        part = self._data[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Do nothing: the file was closed when it was read."""


class _DraftedContent(Content):
    """The bytes of a drafted file, in pieces, for writing it to the disk."""

    def __init__(self, fs: Filesystem, directory: str, spool: _Spool, part: _Part) -> None:
        self._fs = fs
        self._directory = directory
        self._spool = spool
        self._part = part

    @property
    def size_bytes(self) -> int:
        return self._part.size_bytes

    def pieces(self) -> Iterator[bytes]:
        source = self._part.source
        file = self._spool if source is None else self._fs.open_read(f"{self._directory}/{source}")
        with _PartFile("", file, self._part) as part:
            yield from file_pieces(part)


def _in_order(moves: dict[str, str]) -> list[Change]:
    """Return the renames in an order in which each new name is free."""
    ordered: list[Change] = []
    rest = dict(sorted(moves.items()))
    while rest:
        free = [old for old, new in rest.items() if new not in rest]
        if not free:
            raise ValueError(f"renames in a circle: {rest}")
        ordered.extend(Move(old, rest.pop(old)) for old in free)
    return ordered
