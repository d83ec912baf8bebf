"""Changing the disk: the operations that a writer needs from a file system, and those of the real disk."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import NamedTuple, Protocol

from kafkalog_cli.disk.held_directories import HeldDirectories, HeldEntry, LockHandle, link_in_the_way
from kafkalog_cli.disk.ownership import give
from kafkalog_cli.disk.posix_lock import PosixLock, take_lock

_CREATE = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that somebody named x.log must not hang.
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PERMISSIONS = 0o777
_PRIVILEGES = ("security.capability",)
"""Extended attributes that give rights to a program. Like setuid bits, they are not copied to another file."""
_OF_THE_SYSTEM = "security."
"""Labels such as those of SELinux. A new file has the right label, and few users may set another."""
_INHERITED = "system.posix_acl_"
"""Access control lists that a directory gives to its new files. They may be what lets a broker in."""


class FileAttributes(NamedTuple):
    """The attributes of a file: `mode` contains the permission bits, `mtime_ns` is in epoch nanoseconds.

    `xattrs` are sorted pairs of name and value, and include access control lists. `link_count` and `ctime_ns` (the
    time of the last change of content or attributes) are read but never set.
    """

    mode: int
    owner_id: int
    group_id: int
    mtime_ns: int
    xattrs: tuple[tuple[str, bytes], ...] = ()
    link_count: int = 1
    ctime_ns: int = 0


class Room(NamedTuple):
    """A file system: its device number, and the bytes that an unprivileged user may still write to it."""

    device: int
    free_bytes: int


class WritableFile(Protocol):
    """A file that is open for writing. Every failure is the operating system's OSError."""

    path: str

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Write all of `data` at `position`."""

    def truncate(self, size_bytes: int) -> None:
        """Set the size of the file: cut it, or extend it with a hole."""

    def sync(self) -> None:
        """Write content, size and attributes to the disk (fsync). A failure is final: do not retry."""

    def close(self) -> None:
        """Close the file. A second call does nothing."""

    def __enter__(self) -> WritableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


class LargePieces:
    """Appends to a file, from its start on, in pieces of at least `least_bytes`."""

    def __init__(self, file: WritableFile, least_bytes: int) -> None:
        self.size_bytes = 0
        """The number of bytes that were appended so far, written or not."""
        self._file = file
        self._least_bytes = least_bytes
        self._gathered = bytearray()

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes. Raises OSError."""
        is_large = len(data) >= self._least_bytes
        if is_large:
            self.flush()
            self._file.write(self.size_bytes, memoryview(data))
        else:
            self._gathered += data
        self.size_bytes += len(data)
        if len(self._gathered) >= self._least_bytes:
            self.flush()

    def flush(self) -> None:
        """Write all that was appended. Raises OSError."""
        if self._gathered:
            with memoryview(self._gathered) as gathered:
                self._file.write(self.size_bytes - len(gathered), gathered)
            self._gathered.clear()


class FilesystemChanges(Protocol):
    """Changes of a disk. Every failure is the operating system's OSError.

    No call follows a symbolic link in the last component of a path, below a held directory, or in a `.kafkalog`.
    """

    def hold_directory(self, path: str, *also: str) -> LockHandle:
        """Keep a directory open. Until the handle is released, paths below `path` lead into this same directory.

        `also` are other paths of the directory, such as a link that was resolved to `path`. `path` must not be a link.
        """

    def create(self, path: str, attributes: FileAttributes | None = None) -> WritableFile:
        """Create a file, which must not exist. It has mode 0600 until it gets its `attributes`.

        Without `attributes`, which are those of a file of a log directory, it is output for the user of this process:
        its mode is 0666 less the umask. Nothing is left after an error.
        """

    def open_write(self, path: str, *, most_links: int = 1) -> WritableFile:
        """Open an existing regular file without truncating it. A symbolic link is refused.

        A file with more than `most_links` hard links is refused too (EMLINK): anybody may own the other names.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename `old` to `new`. An existing file `new` is replaced atomically."""

    def link(self, old: str, new: str) -> None:
        """Give `old` the second name `new`, which must be free."""

    def unlink(self, path: str) -> None: ...
    def make_directory(self, path: str, attributes: FileAttributes | None = None) -> None:
        """Make a directory. `attributes` as in `create`; without them its mode is 0777 less the umask."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Write the names in a directory to the disk. A failure is final: do not retry."""

    def attributes(self, path: str) -> FileAttributes:
        """Return the attributes of a file or directory. Symbolic links are not followed."""

    def set_attributes(self, path: str, attributes: FileAttributes) -> None:
        """Set owner, group, mode, extended attributes and mtime of a file or directory. A symbolic link is refused.

        Each is set as far as this process may. Raises NotGiven if the owner in `attributes` could then not open the
        file. The setuid, setgid and sticky bits of `attributes` are ignored. Of a file with several hard links only the
        mtime is set, else EMLINK is raised: it may have been swapped for another user's file.
        """

    def room(self, path: str) -> Room:
        """Return the file system of a file or directory."""

    def lock(self, path: str, *, first_byte: int, exclusive: bool) -> LockHandle:
        """Take a POSIX lock on one byte of the file `path`, which is created if missing and never unlinked.

        Raises BlockingIOError if another process, or another holder in this process, has the lock. Raises another
        OSError if locks do not work.
        """


class DiskFile(WritableFile):
    """A regular file of the real disk, written with pwrite."""

    def __init__(
        self, path: str, flags: int, entry: HeldEntry | None = None, most_links: int = 1, mode: int = 0o600
    ) -> None:
        self.path = path
        if entry is None:
            self._descriptor = os.open(path, flags, mode)
        else:
            self._descriptor = os.open(entry.name, flags, mode, dir_fd=entry.directory)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise OSError(errno.EINVAL, "not a regular file", path)
        if status.st_nlink > most_links:
            self.close()
            raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), path)

    def set_attributes(self, attributes: FileAttributes) -> None:
        """See `FilesystemChanges.set_attributes`."""
        _set_attributes(self._descriptor, attributes)

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
        if self._descriptor != -1:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class DiskChanges:
    """Changes of the disk of this machine. `directories` are the held directories."""

    def __init__(self) -> None:
        self.directories = HeldDirectories()

    def hold_directory(self, path: str, *also: str) -> LockHandle:
        return self.directories.hold(path, *also)

    def create(self, path: str, attributes: FileAttributes | None = None) -> WritableFile:
        with self.directories.entry(path) as entry:
            file = DiskFile(path, _CREATE, entry, mode=0o666 if attributes is None else 0o600)
            try:
                if attributes is not None:
                    file.set_attributes(attributes)
            except BaseException:
                file.close()
                os.unlink(entry.name, dir_fd=entry.directory)
                raise
            return file

    def open_write(self, path: str, *, most_links: int = 1) -> WritableFile:
        with self.directories.entry(path) as entry:
            return DiskFile(path, _OPEN, entry, most_links)

    def rename(self, old: str, new: str) -> None:
        with self.directories.entry(old) as one, self.directories.entry(new) as two:
            os.rename(one.name, two.name, src_dir_fd=one.directory, dst_dir_fd=two.directory)

    def link(self, old: str, new: str) -> None:
        with self.directories.entry(old) as one, self.directories.entry(new) as two:
            one.status()  # a missing file is the first error to be raised, as in the system call
            os.link(one.name, two.name, src_dir_fd=one.directory, dst_dir_fd=two.directory, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        with self.directories.entry(path) as entry:
            os.unlink(entry.name, dir_fd=entry.directory)

    def make_directory(self, path: str, attributes: FileAttributes | None = None) -> None:
        with self.directories.entry(path) as entry:
            os.mkdir(entry.name, 0o777 if attributes is None else 0o700, dir_fd=entry.directory)
            if attributes is None:
                return
            try:
                descriptor = os.open(entry.name, _LOOK | os.O_DIRECTORY, dir_fd=entry.directory)
                try:
                    _set_attributes(descriptor, attributes)
                finally:
                    os.close(descriptor)
            except BaseException:
                os.rmdir(entry.name, dir_fd=entry.directory)
                raise

    def remove_directory(self, path: str) -> None:
        with self.directories.entry(path) as entry:
            os.rmdir(entry.name, dir_fd=entry.directory)

    def sync_directory(self, path: str) -> None:
        with self.directories.directory(path) as descriptor:
            _sync(descriptor)

    def attributes(self, path: str) -> FileAttributes:
        if self.directories.is_held(path):
            with self.directories.directory(path) as descriptor:
                return _attributes(os.fstat(descriptor), _extended_attributes(descriptor))
        if not self.directories.is_guarded(path):
            return _attributes(os.lstat(path), _extended_attributes(path))
        # As in `status`, links on the way are followed: a partition may be a link in a held log directory.
        with self.directories.entry_to_read(path) as entry:
            status = entry.status()
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                return _attributes(status, ())
            try:
                descriptor = os.open(entry.name, _LOOK, dir_fd=entry.directory)
            except PermissionError:  # the extended attributes are needed only for a copy, which also needs this right
                return _attributes(status, ())
        try:
            return _attributes(os.fstat(descriptor), _extended_attributes(descriptor))
        finally:
            os.close(descriptor)

    def set_attributes(self, path: str, attributes: FileAttributes) -> None:
        if self.directories.is_held(path):
            with self.directories.directory(path) as descriptor:
                _set_attributes(descriptor, attributes)
            return
        with self.directories.entry(path) as entry:
            mode = entry.status().st_mode
            if stat.S_ISLNK(mode):
                raise link_in_the_way(path)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise OSError(errno.EINVAL, "neither a regular file nor a directory", path)
            descriptor = os.open(entry.name, _LOOK, dir_fd=entry.directory)
        try:
            _set_attributes(descriptor, attributes)
        finally:
            os.close(descriptor)

    def room(self, path: str) -> Room:
        if not self.directories.is_held(path):
            found = os.statvfs(path)
            return Room(os.stat(path).st_dev, found.f_bavail * found.f_frsize)
        with self.directories.directory(path) as descriptor:
            found = os.fstatvfs(descriptor)
            return Room(os.fstat(descriptor).st_dev, found.f_bavail * found.f_frsize)

    def lock(self, path: str, *, first_byte: int, exclusive: bool) -> PosixLock:
        with self.directories.entry(path) as entry:
            return take_lock(entry, path, first_byte=first_byte, exclusive=exclusive)


def _attributes(status: os.stat_result, xattrs: tuple[tuple[str, bytes], ...]) -> FileAttributes:
    """Return the attributes from `status`. A symbolic link gets mode 0600.

    Its own mode permits everybody to write, but a file that replaces the link is for its owner only.
    """
    return FileAttributes(
        0o600 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode),
        status.st_uid,
        status.st_gid,
        status.st_mtime_ns,
        xattrs,
        status.st_nlink,
        status.st_ctime_ns,
    )


def _set_attributes(descriptor: int, attributes: FileAttributes) -> None:
    """Set the attributes of the open file or directory, whatever its present name is.

    A file with other names may be anybody's: only its time is set. Raises OSError (EMLINK) for other attributes.
    """
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and _gives_other_rights(descriptor, status, attributes):
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))
    give(descriptor, attributes.owner_id, attributes.group_id, attributes.mode)
    _set_extended_attributes(descriptor, attributes.xattrs)
    with suppress(PermissionError):  # only the owner of a file may set its mtime
        os.utime(descriptor, ns=(status.st_atime_ns, attributes.mtime_ns))


def _gives_other_rights(descriptor: int, status: os.stat_result, attributes: FileAttributes) -> bool:
    has_other_owner = (status.st_uid, status.st_gid) != (attributes.owner_id, attributes.group_id)
    has_other_mode = (status.st_mode ^ attributes.mode) & _PERMISSIONS
    return bool(has_other_owner or has_other_mode or _extended_attributes(descriptor) != attributes.xattrs)


def _sync(descriptor: int) -> None:
    """Write an open file or directory to the disk. On macOS, fsync alone would leave the data in the drive's cache."""
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


def _extended_attributes(place: int | str) -> tuple[tuple[str, bytes], ...]:
    """Return the extended attributes of a descriptor, or of a path without following a link.

    The result is () if the file system does not support them.
    """
    if not hasattr(os, "listxattr"):
        return ()
    try:
        names = os.listxattr(place, follow_symlinks=isinstance(place, int))
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return ()
        raise
    return tuple((name, os.getxattr(place, name, follow_symlinks=isinstance(place, int))) for name in sorted(names))


def _set_extended_attributes(descriptor: int, wanted: tuple[tuple[str, bytes], ...]) -> None:
    present = dict(_extended_attributes(descriptor))
    for name, value in wanted:
        if present.pop(name, None) != value and name not in _PRIVILEGES:
            with suppress(PermissionError) if name.startswith(_OF_THE_SYSTEM) else nullcontext():
                os.setxattr(descriptor, name, value)
    for name in present:
        if not name.startswith(_INHERITED):
            with suppress(PermissionError) if name.startswith(_OF_THE_SYSTEM) else nullcontext():
                os.removexattr(descriptor, name)
