"""A disk in memory that knows what a power cut would leave of it.

Content of a file, its attributes and each name in a directory have a durable and a cached state; only `sync` and
`sync_directory` make the cached one durable. `image(survival)` is a disk as it is found after a cut. Changes of
names may survive in any order, but a rename within a directory is one change. Between two directories it is two
changes: nothing says that both survive. Everything that the
product's WritableFilesystem promises is there, but for symbolic links.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.product import FileAttributes, FileStatus, NotKafkaLayout, PathNotFound, ReadableFile, Room

START_NS = 1_600_000_000_000_000_000
TORN_BYTES = (0, 1, 512, 4096)
_TAKING_LOCKS = threading.Lock()
DEFAULT = FileAttributes(0o600, 1000, 1000, START_NS)


@dataclass(eq=False)
class Inode:
    """A file (`entries` None) or a directory. What ends in `_durable` is what `sync` has seen."""

    number: int
    attributes: FileAttributes = DEFAULT
    content: bytes = b""
    entries: dict[str, Inode] | None = None
    attributes_durable: FileAttributes = DEFAULT
    content_durable: bytes = b""
    entries_durable: dict[str, Inode] = field(default_factory=dict)
    pending: list[dict[str, Inode | None]] = field(default_factory=list)  # changes of names since, one each
    links: int = 0

    @property
    def is_directory(self) -> bool:
        return self.entries is not None


@dataclass(frozen=True)
class LastWrite:
    """The last call, if it was a write: a power cut may leave any part of it."""

    inode: Inode
    before: bytes
    position: int
    data: bytes


@dataclass(frozen=True)
class Survival:
    """What a power cut leaves of what was not synced. `seed`: of each file, and of each change of a name, by chance."""

    name: str
    data: str = "kept"  # kept, lost, zeros (the size survives, the bytes do not)
    names: str = "kept"  # kept, lost, last (of each directory only the last change)
    torn_bytes: int | None = None
    seed: int | None = None


SURVIVALS = (
    Survival("kept"),
    Survival("data lost", data="lost"),
    Survival("data zeros", data="zeros"),
    Survival("names lost", names="lost"),
    Survival("data and names lost", data="lost", names="lost"),
    Survival("last name only", names="last"),
    Survival("chance 1", seed=1),
    Survival("chance 2", seed=2),
)


class MemoryHold:
    """A directory that is held."""

    def release(self) -> None:
        pass

    def __enter__(self) -> MemoryHold:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class MemoryFilesystem:
    """Paths are absolute; only `/` exists at first, durably."""

    def __init__(self) -> None:
        self.root = Inode(1, entries={}, links=2)
        self.last_write: LastWrite | None = None
        self.foreign_locks: set[str] = set()
        self.unsupported_locks = False
        self.capacity_bytes = 1 << 40
        self._locks: dict[int, list[MemoryLock]] = {}
        self._next_inode = 2
        self._clock_ns = START_NS

    # -- making and comparing trees

    def add(self, path: str, content: bytes, attributes: FileAttributes | None = None) -> None:
        """A file that has been there for long: durable, with its directories."""
        parent = self.root
        parts = path.strip("/").split("/")
        for part in parts[:-1]:
            if part not in parent.entries:
                self._enter(parent, part, self._new_inode(is_directory=True))
            parent = parent.entries[part]
        inode = self._new_inode(is_directory=False)
        inode.content = content
        inode.attributes = attributes or DEFAULT._replace(mode=0o644, mtime_ns=self._tick())
        self._enter(parent, parts[-1], inode)
        self.settle()

    def settle(self) -> None:
        """Everything becomes durable."""
        for _, inode in self.walk():
            inode.content_durable, inode.attributes_durable = inode.content, inode.attributes
            inode.entries_durable = dict(inode.entries or {})
            inode.pending.clear()
        self.last_write = None

    def walk(self, path: str = "/") -> Iterator[tuple[str, Inode]]:
        """The file or directory, and all under it, each directory before what is in it, by name."""
        ahead = [(path, self._find(path))]
        while ahead:
            path, inode = ahead.pop()
            yield path, inode
            if inode.entries:
                start = path if path.endswith("/") else f"{path}/"
                ahead += [(start + name, child) for name, child in sorted(inode.entries.items(), reverse=True)]

    def tree(self, path: str = "/", *, without: tuple[str, ...] = ()) -> dict[str, tuple[object, ...]]:
        """What lies under `path`: content (None: a directory), mode, owner, group, mtime, xattrs by path."""
        found = {}
        for name, inode in self.walk(path):
            if not any(name == left or name.startswith(left + "/") for left in without):
                a = inode.attributes
                content = None if inode.is_directory else inode.content
                found[name] = (content, a.mode, a.owner_id, a.group_id, a.mtime_ns, a.xattrs)
        return found

    # -- a power cut

    def image(self, survival: Survival) -> MemoryFilesystem:
        """The disk as it is after a power cut now; changes of one are not seen in the other."""
        chance = None if survival.seed is None else random.Random(survival.seed)
        image = MemoryFilesystem()
        image._next_inode, image._clock_ns = self._next_inode, self._clock_ns
        copies: dict[int, Inode] = {}
        image.root = self._survivor(self.root, survival, chance, copies)
        return image

    def images(self, survivals: tuple[Survival, ...] = SURVIVALS) -> Iterator[tuple[str, MemoryFilesystem]]:
        """Every image, and those in which the last write was torn."""
        for survival in survivals:
            yield survival.name, self.image(survival)
        if self.last_write is not None:
            size = len(self.last_write.data)
            for torn in sorted({n for n in (*TORN_BYTES, size // 2) if n < size}):
                yield f"torn at {torn}", self.image(Survival("torn", torn_bytes=torn))

    def _survivor(
        self, inode: Inode, survival: Survival, chance: random.Random | None, copies: dict[int, Inode]
    ) -> Inode:
        if inode.number in copies:
            copies[inode.number].links += not inode.is_directory
            return copies[inode.number]
        copy = copies[inode.number] = Inode(inode.number, links=2 if inode.is_directory else 1)
        data = survival.data if chance is None else chance.choice(("kept", "lost", "zeros"))
        copy.content, copy.attributes = self._surviving_content(inode, survival, data)
        copy.content_durable, copy.attributes_durable = copy.content, copy.attributes
        if inode.is_directory:
            entries = self._surviving_names(inode, survival, chance)
            copy.entries = {
                name: self._survivor(child, survival, chance, copies) for name, child in sorted(entries.items())
            }
            copy.entries_durable = dict(copy.entries)
        return copy

    def _surviving_names(self, inode: Inode, survival: Survival, chance: random.Random | None) -> dict[str, Inode]:
        """A rename in a directory is one change; changes need not survive in their order."""
        changes = {"kept": inode.pending, "lost": [], "last": inode.pending[-1:]}[survival.names]
        if chance is not None:
            changes = [change for change in inode.pending if chance.random() < 0.5]
        found: dict[str, Inode | None] = dict(inode.entries_durable)
        for change in changes:
            found.update(change)
        return {name: child for name, child in found.items() if child is not None}

    def _surviving_content(self, inode: Inode, survival: Survival, data: str) -> tuple[bytes, FileAttributes]:
        torn, last = survival.torn_bytes, self.last_write
        if torn is not None and last is not None and last.inode is inode:
            return _written(last.before, last.position, last.data[:torn]), inode.attributes
        if data == "lost":
            return inode.content_durable, inode.attributes_durable
        if data == "zeros" and inode.content != inode.content_durable:
            pairs = zip(inode.content, inode.content_durable, strict=False)
            same = next((at for at, (one, two) in enumerate(pairs) if one != two), len(inode.content_durable))
            return inode.content[:same] + bytes(max(0, len(inode.content) - same)), inode.attributes
        return inode.content, inode.attributes

    # -- Filesystem

    def open_read(self, path: str) -> MemoryReader:
        inode = self._readable(path)
        if inode.is_directory:
            raise NotKafkaLayout(path=path, reason="is a directory")
        return MemoryReader(path, inode)

    def status(self, path: str) -> FileStatus | None:
        try:
            inode = self._find(path)
        except OSError:
            return None
        return self._status(path, inode)

    @staticmethod
    def _status(path: str, inode: Inode) -> FileStatus:
        size = 0 if inode.is_directory else len(inode.content)
        mtime_ms = inode.attributes.mtime_ns // 1_000_000
        return FileStatus(path, size, mtime_ms, inode.number, inode.is_directory, not inode.is_directory, False, size)

    def list_directory(self, path: str) -> list[FileStatus]:
        inode = self._readable(path)
        if not inode.is_directory:
            raise NotKafkaLayout(path=path, reason="is not a directory")
        start = f"{path.rstrip('/')}/"
        return [self._status(start + name, child) for name, child in sorted(inode.entries.items())]

    def _readable(self, path: str) -> Inode:
        try:
            return self._find(path)
        except FileNotFoundError as error:
            raise PathNotFound(path=path) from error
        except NotADirectoryError as error:
            raise NotKafkaLayout(path=path, reason="is not a directory") from error

    # -- FilesystemChanges

    def hold_directory(self, path: str, *_also: str) -> MemoryHold:
        """There are no links here, and nobody else: a path leads to one place anyway."""
        self._find(path)
        return MemoryHold()

    def create(self, path: str, attributes: FileAttributes | None = None) -> MemoryWriter:
        parent, name = self._place(path)
        if name in parent.entries:
            raise _error(errno.EEXIST, path)
        self._enter(parent, name, self._new_inode(is_directory=False))
        if attributes is not None:
            self.set_attributes(path, attributes)
        return MemoryWriter(self, path, parent.entries[name])

    def open_write(self, path: str, *, most_links: int = 1) -> MemoryWriter:
        inode = self._find(path)
        if inode.is_directory:
            raise _error(errno.EISDIR, path)
        if inode.links > most_links:
            raise _error(errno.EMLINK, path)
        return MemoryWriter(self, path, inode)

    def rename(self, old: str, new: str) -> None:
        parent, name = self._place(old)
        new_parent, new_name = self._place(new)
        inode = self._entry(parent, name, old)
        present = new_parent.entries.get(new_name)
        if present is inode:
            return  # two names of one file: POSIX leaves both
        if inode.is_directory and f"{new}/".startswith(f"{old}/"):
            raise _error(errno.EINVAL, new)
        if present is not None:
            if f"{old}/".startswith(f"{new}/"):
                raise _error(errno.ENOTEMPTY, new)
            if present.is_directory and not inode.is_directory:
                raise _error(errno.EISDIR, new)
            if inode.is_directory and not present.is_directory:
                raise _error(errno.ENOTDIR, new)
            if present.entries:
                raise _error(errno.ENOTEMPTY, new)
            present.links -= 1
        if parent is new_parent:
            self._change_names(parent, {name: None, new_name: inode})
        else:
            self._change_names(parent, {name: None})
            self._change_names(new_parent, {new_name: inode})

    def link(self, old: str, new: str) -> None:
        old_parent, old_name = self._place(old)  # both directories are opened before either name is looked up
        parent, name = self._place(new)
        inode = self._entry(old_parent, old_name, old)
        if name in parent.entries:
            raise _error(errno.EEXIST, new)
        if inode.is_directory:
            raise _error(errno.EPERM, old)
        self._enter(parent, name, inode)

    def unlink(self, path: str) -> None:
        parent, name = self._place(path)
        inode = self._entry(parent, name, path)
        if inode.is_directory:
            raise _error(errno.EISDIR, path)
        inode.links -= 1
        self._change_names(parent, {name: None})

    def make_directory(self, path: str, attributes: FileAttributes | None = None) -> None:
        parent, name = self._place(path)
        if name in parent.entries:
            raise _error(errno.EEXIST, path)
        inode = self._new_inode(is_directory=True)
        inode.attributes = inode.attributes_durable = inode.attributes._replace(mode=0o700)
        self._enter(parent, name, inode)
        if attributes is not None:
            self.set_attributes(path, attributes)

    def remove_directory(self, path: str) -> None:
        parent, name = self._place(path)
        inode = self._entry(parent, name, path)
        if not inode.is_directory:
            raise _error(errno.ENOTDIR, path)
        if inode.entries:
            raise _error(errno.ENOTEMPTY, path)
        self._change_names(parent, {name: None})

    def sync_directory(self, path: str) -> None:
        inode = self._find(path)
        if not inode.is_directory:
            raise _error(errno.ENOTDIR, path)
        self.last_write = None
        inode.entries_durable = dict(inode.entries)
        inode.pending.clear()
        inode.attributes_durable = inode.attributes

    def attributes(self, path: str) -> FileAttributes:
        inode = self._find(path)
        return inode.attributes._replace(link_count=1 if inode.is_directory else inode.links)

    def set_attributes(self, path: str, attributes: FileAttributes) -> None:
        inode = self._find(path)
        self.last_write = None
        mode = (inode.attributes.mode & ~0o777) | (attributes.mode & 0o777)
        inode.attributes = attributes._replace(mode=mode, link_count=1, ctime_ns=self._tick())

    def room(self, path: str) -> Room:
        self._find(path)
        used = {inode.number: len(inode.content) for _, inode in self.walk()}
        return Room(1, self.capacity_bytes - sum(used.values()))

    def lock(self, path: str, *, first_byte: int, exclusive: bool) -> MemoryLock:
        if self.unsupported_locks:
            raise _error(errno.ENOLCK, path)
        parent, name = self._place(path)
        if path in self.foreign_locks:
            raise _error(errno.EAGAIN, path)
        if name not in parent.entries:
            inode = self._new_inode(is_directory=False)
            inode.attributes = parent.attributes._replace(mode=parent.attributes.mode & 0o666)
            self._enter(parent, name, inode)
        with _TAKING_LOCKS:  # threads of a command take locks of the same file
            holds = self._locks.setdefault(parent.entries[name].number, [])
            if any(hold.first_byte == first_byte and (exclusive or hold.exclusive) for hold in holds):
                raise _error(errno.EAGAIN, path)
            taken = MemoryLock(holds, first_byte, exclusive)
            holds.append(taken)
        return taken

    def locks_held(self) -> int:
        return sum(len(holds) for holds in self._locks.values())

    # -- inodes

    def changed(self, inode: Inode, write: LastWrite | None = None) -> None:
        self.last_write = write
        now = self._tick()
        inode.attributes = inode.attributes._replace(mtime_ns=now, ctime_ns=now)

    def _new_inode(self, *, is_directory: bool) -> Inode:
        self._next_inode += 1
        attributes = DEFAULT._replace(mtime_ns=self._tick(), mode=0o755 if is_directory else 0o600)
        return Inode(self._next_inode, attributes, entries={} if is_directory else None, attributes_durable=attributes)

    def _enter(self, parent: Inode, name: str, inode: Inode) -> None:
        inode.links += 1
        self._change_names(parent, {name: inode})

    def _change_names(self, directory: Inode, change: dict[str, Inode | None]) -> None:
        for name, inode in change.items():
            if inode is None:
                del directory.entries[name]
            else:
                directory.entries[name] = inode
        directory.pending.append(change)
        self.changed(directory)

    def _tick(self) -> int:
        self._clock_ns += 1_000_000_007
        return self._clock_ns

    def _place(self, path: str) -> tuple[Inode, str]:
        """The directory that has, or will have, the last name of `path`."""
        head, _, name = path.rstrip("/").rpartition("/")
        parent = self._find(head or "/")
        if not parent.is_directory:
            raise _error(errno.ENOTDIR, path)
        if not name:
            raise _error(errno.EBUSY, path)
        return parent, name

    def _entry(self, parent: Inode, name: str, path: str) -> Inode:
        if name not in parent.entries:
            raise _error(errno.ENOENT, path)
        return parent.entries[name]

    def _find(self, path: str) -> Inode:
        inode = self.root
        for part in path.strip("/").split("/"):
            if part in ("", "."):
                continue
            if not inode.is_directory:
                raise _error(errno.ENOTDIR, path)
            inode = self._entry(inode, part, path)
        return inode


class MemoryReader(ReadableFile):
    def __init__(self, path: str, inode: Inode) -> None:
        self.path = path
        self.size_bytes = len(inode.content)
        self._inode = inode

    def read_into(self, position: int, buffer: memoryview) -> int:
        part = self._inode.content[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        pass


class MemoryWriter:
    def __init__(self, fs: MemoryFilesystem, path: str, inode: Inode) -> None:
        self.path = path
        self._fs = fs
        self._inode = inode

    def write(self, position: int, data: bytes | memoryview) -> None:
        data, before = bytes(data), self._inode.content
        if data:
            self._inode.content = _written(before, position, data)
            self._fs.changed(self._inode, LastWrite(self._inode, before, position, data))

    def truncate(self, size_bytes: int) -> None:
        content = self._inode.content
        self._inode.content = content[:size_bytes] + bytes(max(0, size_bytes - len(content)))
        self._fs.changed(self._inode)

    def sync(self) -> None:
        self._fs.last_write = None
        self._inode.content_durable = self._inode.content
        self._inode.attributes_durable = self._inode.attributes

    def close(self) -> None:
        pass

    def __enter__(self) -> MemoryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryLock:
    def __init__(self, holds: list[MemoryLock], first_byte: int, exclusive: bool) -> None:
        self.first_byte = first_byte
        self.exclusive = exclusive
        self._holds = holds

    def release(self) -> None:
        if self in self._holds:
            self._holds.remove(self)

    def __enter__(self) -> MemoryLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _written(content: bytes, position: int, data: bytes) -> bytes:
    return content[:position].ljust(position, b"\0") + data + content[position + len(data) :] if data else content


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
