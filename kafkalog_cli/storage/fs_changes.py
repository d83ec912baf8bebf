"""The changing half of the door to the disk: what a writer asks of a file system, and the real one's answer."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from types import TracebackType
from typing import NamedTuple, Protocol

from kafkalog_cli.storage.changing.posix_lock import PosixLock, take_lock

_CREATE = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that somebody named x.log must not hang.
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class FileAttributes(NamedTuple):
    """What a file has besides its content: `mode` the permission bits, `mtime_ns` epoch nanoseconds.

    `xattrs` are (name, value), sorted; access control lists are among them. `link_count` and `ctime_ns`
    (the last change of content or attributes) are told and never set.
    """

    mode: int
    owner_id: int
    group_id: int
    mtime_ns: int
    xattrs: tuple[tuple[str, bytes], ...] = ()
    link_count: int = 1
    ctime_ns: int = 0


class Room(NamedTuple):
    """A file system: what tells it from others, and how many bytes anybody may still write to it."""

    device: int
    free_bytes: int


class WritableFile(Protocol):
    """A file that is open for writing. Every failure is the operating system's OSError."""

    path: str

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Write all of `data` at `position`."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file there, or extend it by a hole."""

    def sync(self) -> None:
        """Content, size and attributes are on the disk when this returns (fsync). A failure is final."""

    def close(self) -> None: ...
    def __enter__(self) -> WritableFile: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class LockHandle(Protocol):
    """A lock that this process has until `release` or its end; a forked child does not have it."""

    def release(self) -> None: ...
    def __enter__(self) -> LockHandle: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class FilesystemChanges(Protocol):
    """What the core asks of a disk that it changes. Every failure is the operating system's OSError."""

    def create(self, path: str, attributes: FileAttributes | None = None) -> WritableFile:
        """Make a file where nothing is; nobody else may read it until it has its `attributes` (mode 0600)."""

    def open_write(self, path: str) -> WritableFile:
        """Open a regular file that exists, as it is. A symbolic link is refused."""

    def rename(self, old: str, new: str) -> None:
        """Give `old` another name; a file that has the name is replaced at once."""

    def link(self, old: str, new: str) -> None:
        """Give `old` a second name, where nothing is."""

    def unlink(self, path: str) -> None: ...
    def make_directory(self, path: str) -> None: ...
    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """The names in a directory are on the disk when this returns. A failure is final."""

    def attributes(self, path: str) -> FileAttributes:
        """What the file or directory has besides its content; symbolic links are not followed."""

    def set_attributes(self, path: str, attributes: FileAttributes) -> None:
        """Give a file or directory owner, group, mode, extended attributes and mtime; a symbolic link is refused."""

    def room(self, path: str) -> Room:
        """The file system that a file or directory lies on."""

    def lock(self, path: str, *, first_byte: int, exclusive: bool) -> LockHandle:
        """Take a POSIX lock on one byte of `path`, which is created if missing and never unlinked.

        Raises BlockingIOError if another process, or another holder in this one, has it; any other
        OSError where locks do not work.
        """


class DiskFile:
    """A regular file of the real disk, written with pwrite."""

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self.close()
            raise OSError(errno.EINVAL, "not a regular file", path)

    def write(self, position: int, data: bytes | memoryview) -> None:
        rest = memoryview(data).cast("B")
        while len(rest):
            count = os.pwrite(self._descriptor, rest, position)
            if count == 0:
                raise OSError(errno.EIO, "the device takes no more bytes", self.path)
            position += count
            rest = rest[count:]

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        _sync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __enter__(self) -> DiskFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


class DiskChanges:
    """Changes of the disk of this machine."""

    def create(self, path: str, attributes: FileAttributes | None = None) -> WritableFile:
        file = DiskFile(path, _CREATE)
        try:
            if attributes is not None:
                self.set_attributes(path, attributes)
        except BaseException:
            file.close()
            os.unlink(path)
            raise
        return file

    def open_write(self, path: str) -> WritableFile:
        return DiskFile(path, _OPEN)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def link(self, old: str, new: str) -> None:
        os.link(old, new, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path, 0o700)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)

    def attributes(self, path: str) -> FileAttributes:
        status = os.lstat(path)
        return FileAttributes(
            stat.S_IMODE(status.st_mode),
            status.st_uid,
            status.st_gid,
            status.st_mtime_ns,
            _extended_attributes(path),
            status.st_nlink,
            status.st_ctime_ns,
        )

    def set_attributes(self, path: str, attributes: FileAttributes) -> None:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        # Only what differs: a user who owns the file needs no right to give it away. Owner first: it clears mode bits.
        if (status.st_uid, status.st_gid) != (attributes.owner_id, attributes.group_id):
            os.chown(path, attributes.owner_id, attributes.group_id, follow_symlinks=False)
        os.chmod(path, attributes.mode)
        _set_extended_attributes(path, attributes.xattrs)
        os.utime(path, ns=(status.st_atime_ns, attributes.mtime_ns), follow_symlinks=False)

    def room(self, path: str) -> Room:
        found = os.statvfs(path)
        return Room(os.stat(path).st_dev, found.f_bavail * found.f_frsize)

    def lock(self, path: str, *, first_byte: int, exclusive: bool) -> PosixLock:
        return take_lock(path, first_byte=first_byte, exclusive=exclusive)


def _sync(descriptor: int) -> None:
    """What macOS calls fsync leaves the data in the drive's cache."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
        else:
            return
    os.fsync(descriptor)


def _extended_attributes(path: str) -> tuple[tuple[str, bytes], ...]:
    """None where the system or the file system has no such thing."""
    if not hasattr(os, "listxattr"):
        return ()
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return ()
        raise
    return tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in sorted(names))


def _set_extended_attributes(path: str, wanted: tuple[tuple[str, bytes], ...]) -> None:
    present = dict(_extended_attributes(path))
    for name, value in wanted:
        if present.pop(name, None) != value:
            os.setxattr(path, name, value, follow_symlinks=False)
    for name in present:
        os.removexattr(path, name, follow_symlinks=False)
