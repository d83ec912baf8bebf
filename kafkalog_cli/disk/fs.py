"""The only access to the disk: all reads of log data and all changes of a log directory use these classes."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import NamedTuple, Protocol

from kafkalog_cli.disk.directories import (
    Directory,
    HeldDirectories,
    LinkNotFollowed,
    LockHandle,
    NotRegular,
    check_regular,
    is_own,
    link_in_the_way,
)
from kafkalog_cli.disk.live_logs import ClosedSegments
from kafkalog_cli.disk.names import INDEX_SUFFIXES, OWN_DIRECTORY, most_bytes_read
from kafkalog_cli.disk.ownership import give
from kafkalog_cli.disk.posix_lock import PosixLock, take_lock
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, NotLookedUp, PathNotFound, Unreadable

__all__ = [
    "FileAttributes",
    "FileStatus",
    "Filesystem",
    "LockHandle",
    "ReadableFile",
    "RealFilesystem",
    "Room",
    "WritableFile",
    "WritableFilesystem",
    "check_size",
    "file_pieces",
    "read_all",
]

_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)
"""Error numbers of a path that leads nowhere. ELOOP is also that of a link in or to a `.kafkalog`; EINVAL is that of a
name such as "..", which no entry below a held directory has."""
_PERMISSIONS = 0o777
_PRIVILEGES = ("security.capability",)
"""Extended attributes that give rights to a program. Like setuid bits, they are not copied to another file."""
_OF_THE_SYSTEM = "security."
"""Labels such as those of SELinux. A new file has the right label, and few users may set another."""
_INHERITED = "system.posix_acl_"
"""Access control lists that a directory gives to its new files. They may be what lets a broker in."""

READ_ONCE_BYTES = 64 << 10
"""Files up to this size are read as a whole, once: this takes about as long as reading a header."""
MOST_REMEMBERED_BYTES = 2 << 20
"""The bytes of such files that are kept for one partition."""
PAGE_BYTES = mmap.PAGESIZE
PIECE_BYTES = 1 << 20
"""Bytes of a file that is read piece by piece."""


class FileStatus(NamedTuple):
    """The status of a directory entry. `mtime_ms` is in epoch milliseconds, `mode` has the permission bits.

    `given_path` is where a file is that was given on its own; `path` is then where a broker would have it.
    """

    path: str
    size_bytes: int
    mtime_ms: int
    inode: int
    is_directory: bool
    is_file: bool
    is_symlink: bool
    allocated_bytes: int = 0
    owner_id: int = 0
    group_id: int = 0
    mode: int = 0o777
    given_path: str = ""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


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


class _Closed(Protocol):
    """What is open until `close`, of which a second call does nothing."""

    def close(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


class ReadableFile(_Closed, Protocol):
    """An open file for positioned reads. `size_bytes` is its size when it was opened."""

    path: str
    size_bytes: int

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Read from byte `position` until `buffer` is full or the file ends. Return the number of bytes read.

        Raises OSError when the device fails.
        """

    def data_from(self, position: int) -> int:
        """Return the first position at or after `position` that may have other bytes than zeros; at most the size.

        A hole of 16 TiB is passed over in one call. It is `position` itself for a file that does not know its holes.
        """
        return position

    def send_to(self, descriptor: int, position: int, size_bytes: int) -> int:
        """Send at most `size_bytes` to a socket; return how many were sent, 0 at the end of the file.

        Raises OSError, and BlockingIOError for a socket that takes no more bytes now.
        """
        buffer = memoryview(bytearray(min(size_bytes, PIECE_BYTES)))
        got = self.read_into(position, buffer)
        return os.write(descriptor, buffer[:got]) if got else 0

    def __enter__(self) -> ReadableFile:
        return self


class WritableFile(_Closed, Protocol):
    """A file that is open for writing. Every failure is the operating system's OSError."""

    path: str

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Write all of `data` at `position`."""

    def truncate(self, size_bytes: int) -> None:
        """Set the size of the file: cut it, or extend it with a hole."""

    def sync(self) -> None:
        """Write content, size and attributes to the disk (fsync). A failure is final: do not retry."""

    def __enter__(self) -> WritableFile:
        return self


def read_all(fs: Filesystem, path: str, limit_bytes: int | None = None) -> bytes:
    """Return the bytes of a small file (index, snapshot, checkpoint).

    `limit_bytes` None: the largest size of a file of this name. Raises what `open_read` raises, Unreadable for a larger
    file, since a part of it would have another meaning, and OSError when the device fails.
    """
    with fs.open_read(path) as file:
        check_size(path, file.size_bytes, limit_bytes)
        data = bytearray(file.size_bytes)
        size = file.read_into(0, memoryview(data))
        return bytes(memoryview(data)[:size])


def file_pieces(file: ReadableFile, start: int = 0) -> Iterator[bytes]:
    """Yield the bytes of a file from byte `start` on, in pieces. Raises OSError when the device fails."""
    for position in range(start, file.size_bytes, PIECE_BYTES):
        buffer = bytearray(min(PIECE_BYTES, file.size_bytes - position))
        got = file.read_into(position, memoryview(buffer))
        yield bytes(memoryview(buffer)[:got])


def check_size(path: str, size_bytes: int, limit_bytes: int | None = None) -> None:
    """Raise Unreadable for a file that is too large to be read as a whole; `limit_bytes` as for `read_all`."""
    if limit_bytes is None:
        limit_bytes = most_bytes_read(path)
    if size_bytes > limit_bytes:
        reason = f"it has {size_bytes} bytes; such a file is read up to {limit_bytes} bytes"
        if path.endswith(INDEX_SUFFIXES):
            reason += "; recover --indexes-only rebuilds it from the log"
        raise Unreadable(path=path, reason=reason)


class DiskFile(ReadableFile, WritableFile):
    """A regular file of the disk. It is not mapped: reads of a mapped file that is truncated get SIGBUS.

    `is_closed_segment`, of a running broker: pages that were not in memory are dropped after they were read, so that
    they do not push the broker's pages out.
    """

    def __init__(self, path: str, descriptor: int, *, most_links: int | None = None) -> None:
        self.path = path
        self.is_closed_segment = False
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.size_bytes = status.st_size
        try:
            check_regular(status, path)  # it may have been replaced before it was opened
            if most_links is not None and status.st_nlink > most_links:
                raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), path)
        except OSError:
            self.close()
            raise

    def read_into(self, position: int, buffer: memoryview) -> int:
        cold, done = self._cold_pages(position, len(buffer)), 0
        while done < len(buffer):
            count = os.preadv(self._descriptor, [buffer[done:]], position + done)
            if count == 0:
                break
            done += count
        self._drop(cold)
        return done

    def data_from(self, position: int) -> int:
        try:
            return min(os.lseek(self._descriptor, position, os.SEEK_DATA), self.size_bytes)
        except OSError as error:  # ENXIO: the file ends in a hole. Other errors: the file system does not say
            return self.size_bytes if error.errno == errno.ENXIO else min(position, self.size_bytes)

    def send_to(self, descriptor: int, position: int, size_bytes: int) -> int:
        cold = self._cold_pages(position, size_bytes)
        sent = os.sendfile(descriptor, self._descriptor, position, size_bytes)
        self._drop(cold)
        return sent

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

    def __enter__(self) -> DiskFile:
        return self

    def _cold_pages(self, position: int, size_bytes: int) -> list[int]:
        """Return the pages of a range that are not in memory, in a closed segment of a running broker."""
        found: list[int] = []
        if self.is_closed_segment:
            byte = [bytearray(1)]
            for page in range(
                position - position % PAGE_BYTES, min(position + size_bytes, self.size_bytes), PAGE_BYTES
            ):
                try:
                    os.preadv(self._descriptor, byte, page, os.RWF_NOWAIT)
                except BlockingIOError:
                    found.append(page)
                except (OSError, AttributeError):  # the system cannot tell
                    return []
        return found

    def _drop(self, pages: list[int]) -> None:
        for page in pages:
            with suppress(OSError):  # only an advice, which a file system may refuse
                os.posix_fadvise(self._descriptor, page, PAGE_BYTES, os.POSIX_FADV_DONTNEED)


class Filesystem(Protocol):
    """Reading from a disk: the real one, or one that shows its files otherwise."""

    def open_read(self, path: str) -> ReadableFile:
        """Open a regular file. Raises PathNotFound, NotKafkaLayout (not a regular file), Unreadable."""

    def status(self, path: str) -> FileStatus | None:
        """Return the status of `path`, with symbolic links followed; None if there is nothing.

        Raises NotLookedUp if that cannot be determined: the device fails, a right is missing, or a link on the way is
        not followed. A link that leads nowhere counts as nothing, as it does for a broker.
        """

    def list_directory(self, path: str) -> list[FileStatus]:
        """Return the entries of a directory, sorted by name. Raises PathNotFound, NotKafkaLayout, Unreadable."""


class WritableFilesystem(Filesystem):
    """The disk of this machine. Log directories are read and changed in no other way; tests put others in its place.

    Reads follow the links that the rule in `directories` permits, and do not push pages of a running broker out of the
    page cache. Every failure of a change is the operating system's OSError. A change follows no symbolic link in the
    last component of a path, below a held directory, or in a `.kafkalog`.
    """

    def __init__(self) -> None:
        self.directories = HeldDirectories()
        self._closed_segments = ClosedSegments()

    def open_read(self, path: str) -> ReadableFile:
        with _ErrorsOf(path):
            if self.directories.is_guarded(path):
                with self.directories.parent(path, to_read=True) as (directory, name):
                    descriptor = directory.open_to_read(name, path, follow=not is_own(path))
            else:
                above, slash, name = path.rpartition("/")
                if not name:
                    raise NotRegular(errno.EISDIR, "is a directory", path)
                with Directory.at(above or slash or ".") as directory:
                    descriptor = directory.open_to_read(name, path)
            file = DiskFile(path, descriptor)
        if self._closed_segments.contain(path):
            file.is_closed_segment = True
            with suppress(OSError):  # pages that are read ahead would seem to have been in memory before
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        return file

    def status(self, path: str) -> FileStatus | None:
        try:
            if self.directories.is_held(path):
                with self.directories.directory(path) as directory:
                    return _status(path, os.fstat(directory.descriptor), is_symlink=False)
            if not self.directories.is_guarded(path):
                status = os.lstat(path)
                is_symlink = stat.S_ISLNK(status.st_mode)
                return _status(path, os.stat(path) if is_symlink else status, is_symlink=is_symlink)
            with self.directories.parent(path, to_read=True) as (directory, name):
                status = directory.status(name)
                is_symlink = stat.S_ISLNK(status.st_mode)
                if is_symlink and not is_own(path):
                    status = os.stat(name, dir_fd=directory.descriptor)
                return _status(path, status, is_symlink=is_symlink)
        except ValueError:  # a NUL character in the name
            return None
        except OSError as error:
            if error.errno in _NOTHING_THERE and not isinstance(error, LinkNotFollowed):
                return None
            raise NotLookedUp(path=path, reason=error.strerror) from error

    def list_directory(self, path: str) -> list[FileStatus]:
        start = path if path.endswith("/") else f"{path}/"
        follows = not is_own(path)
        with (
            _ErrorsOf(path),
            self.directories.directory(path, to_read=True) as directory,
            os.scandir(directory.descriptor) as entries,
        ):
            found = []
            for entry in entries:
                name, is_symlink = entry.name, entry.is_symlink()
                try:
                    status = entry.stat(follow_symlinks=follows and name != OWN_DIRECTORY)
                except OSError:
                    is_symlink = True
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # a dangling link is listed, an entry that was removed meanwhile is not
                        continue
                found.append(_status(start + name, status, is_symlink=is_symlink))
        return sorted(found)

    def hold_directory(self, path: str, *also: str) -> LockHandle:
        """Keep a directory open. Until the handle is released, paths below `path` lead into this same directory.

        `also` are other paths of the directory, such as a link that was resolved to `path`. `path` must not be a link.
        """
        return self.directories.hold(path, *also)

    def create(self, path: str, attributes: FileAttributes | None = None) -> WritableFile:
        """Create a file, which must not exist. It has mode 0600 until it gets its `attributes`.

        Without `attributes`, which are those of a file of a log directory, it is output for the user of this process:
        its mode is 0666 less the umask. Nothing is left after an error.
        """
        with self.directories.parent(path) as (directory, name):
            mode = 0o666 if attributes is None else 0o600
            descriptor = directory.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
            file = DiskFile(path, descriptor)
            try:
                if attributes is not None:
                    _set_attributes(descriptor, attributes)
            except BaseException:
                file.close()
                os.unlink(name, dir_fd=directory.descriptor)
                raise
            return file

    def open_write(self, path: str, *, most_links: int = 1) -> WritableFile:
        """Open an existing regular file without truncating it. A symbolic link is refused.

        A file with more than `most_links` hard links is refused too (EMLINK): anybody may own the other names.
        """
        with self.directories.parent(path) as (directory, name):
            return DiskFile(path, directory.open(name, os.O_RDWR), most_links=most_links)

    def rename(self, old: str, new: str) -> None:
        """Rename `old` to `new`. An existing file `new` is replaced atomically."""
        with self.directories.parent(old) as (one, name), self.directories.parent(new) as (two, new_name):
            one.rename(name, two, new_name)

    def link(self, old: str, new: str) -> None:
        """Give `old` the second name `new`, which must be free."""
        with self.directories.parent(old) as (one, name), self.directories.parent(new) as (two, new_name):
            one.status(name)  # a missing file is the first error to be raised, as in the system call
            places = {"src_dir_fd": one.descriptor, "dst_dir_fd": two.descriptor}
            os.link(name, new_name, **places, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        """Remove a name of a file."""
        with self.directories.parent(path) as (directory, name):
            os.unlink(name, dir_fd=directory.descriptor)

    def make_directory(self, path: str, attributes: FileAttributes | None = None) -> None:
        """Make a directory. `attributes` as in `create`; without them its mode is 0777 less the umask."""
        with self.directories.parent(path) as (directory, name):
            os.mkdir(name, 0o777 if attributes is None else 0o700, dir_fd=directory.descriptor)
            try:
                if attributes is not None:
                    with directory.directory(name, path, follow=False, flags=0) as made:
                        _set_attributes(made.descriptor, attributes)
            except BaseException:
                os.rmdir(name, dir_fd=directory.descriptor)
                raise

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        with self.directories.parent(path) as (directory, name):
            os.rmdir(name, dir_fd=directory.descriptor)

    def sync_directory(self, path: str) -> None:
        """Write the names in a directory to the disk. A failure is final: do not retry."""
        with self.directories.directory(path) as directory:
            _sync(directory.descriptor)

    def attributes(self, path: str) -> FileAttributes:
        """Return the attributes of a file or directory. The last name is not followed."""
        if self.directories.is_held(path):
            with self.directories.directory(path) as directory:
                return _attributes(os.fstat(directory.descriptor), _extended_attributes(directory.descriptor))
        if not self.directories.is_guarded(path):
            return _attributes(os.lstat(path), _extended_attributes(path))
        # As in `status`, links on the way are followed: a partition may be a link in a held log directory.
        with self.directories.parent(path, to_read=True) as (directory, name):
            status = directory.status(name)
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                return _attributes(status, ())
            try:
                descriptor = directory.open(name)
            except PermissionError:  # the extended attributes are needed only for a copy, which also needs this right
                return _attributes(status, ())
        try:
            return _attributes(os.fstat(descriptor), _extended_attributes(descriptor))
        finally:
            os.close(descriptor)

    def set_attributes(self, path: str, attributes: FileAttributes) -> None:
        """Set owner, group, mode, extended attributes and mtime of a file or directory. A symbolic link is refused.

        Each is set as far as this process may. Raises NotGiven if the owner in `attributes` could then not open the
        file. The setuid, setgid and sticky bits of `attributes` are ignored. Of a file with several hard links only the
        mtime is set, else EMLINK is raised: it may have been swapped for another user's file.
        """
        if self.directories.is_held(path):
            with self.directories.directory(path) as directory:
                _set_attributes(directory.descriptor, attributes)
            return
        with self.directories.parent(path) as (directory, name):
            mode = directory.status(name).st_mode
            if stat.S_ISLNK(mode):
                raise link_in_the_way(path)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise OSError(errno.EINVAL, "neither a regular file nor a directory", path)
            descriptor = directory.open(name)
        try:
            _set_attributes(descriptor, attributes)
        finally:
            os.close(descriptor)

    def room(self, path: str) -> Room:
        """Return the file system of a file or directory."""
        if not self.directories.is_held(path):
            return _room(path)
        with self.directories.directory(path) as directory:
            return _room(directory.descriptor)

    def lock(self, path: str, *, first_byte: int, exclusive: bool) -> PosixLock:
        """Take a POSIX lock on one byte of the file `path`, which is created if missing and never unlinked.

        Raises BlockingIOError if another process, or another holder in this process, has the lock. Raises another
        OSError if locks do not work.
        """
        with self.directories.parent(path) as (directory, name):
            return take_lock(directory, name, path, first_byte=first_byte, exclusive=exclusive)


RealFilesystem = WritableFilesystem

_TYPE_BITS, _PERMISSION_BITS = 0o170000, 0o7777
"""Of a mode, as S_IFMT and S_IMODE return them. A listing asks for both of each entry."""


def _status(path: str, result: os.stat_result, *, is_symlink: bool) -> FileStatus:
    mode = result.st_mode
    kind = mode & _TYPE_BITS
    return FileStatus(
        path,
        result.st_size,
        result.st_mtime_ns // 1_000_000,
        result.st_ino,
        kind == stat.S_IFDIR,
        kind == stat.S_IFREG,
        is_symlink,
        result.st_blocks * 512,
        result.st_uid,
        result.st_gid,
        mode & _PERMISSION_BITS,
    )


def _room(place: int | str) -> Room:
    found = os.statvfs(place)
    return Room(os.stat(place).st_dev, found.f_bavail * found.f_frsize)


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
    try:
        os.utime(descriptor, ns=(status.st_atime_ns, attributes.mtime_ns))
    except PermissionError as error:
        if error.errno != errno.EPERM:  # the answer to a user who does not own the file
            raise


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


class _ErrorsOf:
    """Turns the operating system's errors about `path` into PathNotFound, NotKafkaLayout or Unreadable."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (OSError, ValueError)):  # ValueError: a NUL character in the name
            raise _error_of(self._path, error) from error


def _error_of(path: str, error: OSError | ValueError) -> KafkalogError:
    if isinstance(error, FileNotFoundError):
        return PathNotFound(path=path)
    if isinstance(error, NotADirectoryError):
        return NotKafkaLayout(path=path, reason="is not a directory")
    if isinstance(error, NotRegular):
        return NotKafkaLayout(path=path, reason=error.strerror)
    if isinstance(error, LinkNotFollowed):
        return Unreadable(path=path, reason=error.strerror)
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENAMETOOLONG:
        return PathNotFound(path=path)
    return Unreadable(path=path, reason=os.strerror(number) if number else str(error))
