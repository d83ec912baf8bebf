"""The only access to the disk: all reads of log data and all changes of a log directory use these classes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Protocol, runtime_checkable

from kafkalog_cli.disk.followed_links import LinkNotFollowed, NotRegular, check_regular, open_directory, open_file
from kafkalog_cli.disk.fs_changes import DiskChanges, FileAttributes, FilesystemChanges, Room, WritableFile
from kafkalog_cli.disk.held_directories import OPEN_TO_LOOK, HeldEntry, LockHandle, is_own
from kafkalog_cli.disk.names import INDEX_SUFFIXES, OWN_DIRECTORY, most_bytes_read
from kafkalog_cli.disk.page_cache import BrokerDisks
from kafkalog_cli.errors import NotKafkaLayout, NotLookedUp, PathNotFound, Unreadable

__all__ = [
    "FileAttributes",
    "FileStatus",
    "Filesystem",
    "LockHandle",
    "ReadableFile",
    "RealFilesystem",
    "Room",
    "SendableFile",
    "SparseFile",
    "WritableFile",
    "WritableFilesystem",
    "check_size",
    "data_from",
    "file_pieces",
    "read_all",
]

_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)
"""Error numbers of a path that leads nowhere. ELOOP is also that of a link in or to a `.kafkalog`; EINVAL is that of a
name such as "..", which no entry below a held directory has."""

READ_ONCE_BYTES = 64 << 10
"""Files up to this size are read as a whole, once: this takes about as long as reading a header."""

MOST_REMEMBERED_BYTES = 2 << 20
"""The bytes of such files that are kept for one partition."""

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


class ReadableFile(Protocol):
    """An open file for positioned reads. `size_bytes` is its size when it was opened."""

    path: str
    size_bytes: int

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Read from byte `position` until `buffer` is full or the file ends. Return the number of bytes read.

        Raises OSError when the device fails.
        """

    def close(self) -> None:
        """Close the file. A second call does nothing."""

    def __enter__(self) -> ReadableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


@runtime_checkable
class SendableFile(ReadableFile, Protocol):
    """An open file whose bytes the kernel can send to a socket."""

    def send_to(self, descriptor: int, position: int, size_bytes: int) -> int:
        """Send at most `size_bytes` from byte `position`; return the number of bytes sent, 0 at the end of the file.

        Raises OSError, and BlockingIOError for a socket that takes no more bytes now.
        """


@runtime_checkable
class SparseFile(ReadableFile, Protocol):
    """An open file that knows its holes: ranges without blocks on the disk, which read as zeros."""

    def data_from(self, position: int) -> int:
        """Return the first position at or after `position` that is in no hole; the file's size if there is none."""


class Filesystem(Protocol):
    """Reading from a disk: the real one, or a recording or failing one in tests."""

    def open_read(self, path: str) -> ReadableFile:
        """Open a regular file. Raises PathNotFound, NotKafkaLayout (not a regular file), Unreadable."""

    def status(self, path: str) -> FileStatus | None:
        """Return the status of `path`, with symbolic links followed; None if there is nothing.

        Raises NotLookedUp if that cannot be determined: the device fails, a right is missing, or a link on the way is
        not followed. A link that leads nowhere counts as nothing, as it does for a broker.
        """

    def list_directory(self, path: str) -> list[FileStatus]:
        """Return the entries of a directory, sorted by name. Raises PathNotFound, NotKafkaLayout, Unreadable."""


class WritableFilesystem(Filesystem, FilesystemChanges, Protocol):
    """Reading from and writing to a disk. Log directories are changed in no other way."""


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


def data_from(file: ReadableFile, position: int) -> int:
    """Return the first position at or after `position` that may have other bytes than zeros; at most the file's size.

    A hole of 16 TiB is passed over in one call. It is `position` itself for a file that does not know its holes.
    """
    return min(file.data_from(position), file.size_bytes) if isinstance(file, SparseFile) else position


def check_size(path: str, size_bytes: int, limit_bytes: int | None = None) -> None:
    """Raise Unreadable for a file that is too large to be read as a whole; `limit_bytes` as for `read_all`."""
    if limit_bytes is None:
        limit_bytes = most_bytes_read(path)
    if size_bytes > limit_bytes:
        reason = f"it has {size_bytes} bytes; such a file is read up to {limit_bytes} bytes"
        if path.endswith(INDEX_SUFFIXES):
            reason += "; recover --indexes-only rebuilds it from the log"
        raise Unreadable(path=path, reason=reason)


class RealFile(ReadableFile):
    """A regular file, read with pread. It is not mapped: reads of a mapped file that is truncated get SIGBUS."""

    def __init__(self, path: str, entry: HeldEntry | None = None, disks: BrokerDisks | None = None) -> None:
        self.path = path
        with _errors_of(path):
            if entry is None:
                self._descriptor = _open_in_directory(path)
            else:
                self._descriptor = open_file(entry.name, entry.directory, path, may_follow=not entry.is_own)
            status = os.fstat(self._descriptor)
            try:
                check_regular(status, path)  # it may have been replaced before it was opened
            except OSError:
                os.close(self._descriptor)
                raise
        self.size_bytes = status.st_size
        self._cold = None if disks is None else disks.cold_pages(path, self._descriptor, self.size_bytes)

    def read_into(self, position: int, buffer: memoryview) -> int:
        done = 0
        while done < len(buffer):
            count = os.preadv(self._descriptor, [buffer[done:]], position + done)
            if count == 0:
                break
            done += count
        if self._cold is not None:
            self._cold.read(done)
        return done

    def data_from(self, position: int) -> int:
        """See SparseFile."""
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError as error:  # ENXIO: the file ends in a hole. Other errors: the file system does not say
            return max(position, self.size_bytes) if error.errno == errno.ENXIO else position

    def send_to(self, descriptor: int, position: int, size_bytes: int) -> int:
        """See SendableFile."""
        sent = os.sendfile(descriptor, self._descriptor, position, size_bytes)
        if self._cold is not None:
            self._cold.read(sent)
        return sent

    def close(self) -> None:
        if self._descriptor != -1:
            if self._cold is not None:
                self._cold.drop()
            os.close(self._descriptor)
            self._descriptor = -1


class RealFilesystem(DiskChanges):
    """The disk of this machine. Reads follow the symbolic links that `followed_links` permits, none in a `.kafkalog`.

    Its readers do not push pages of a running broker out of the page cache.
    """

    def __init__(self) -> None:
        super().__init__()
        self._disks = BrokerDisks()

    def open_read(self, path: str) -> ReadableFile:
        if not self.directories.is_guarded(path):
            return RealFile(path, disks=self._disks)
        with _errors_of(path), self.directories.entry_to_read(path) as entry:
            return RealFile(path, entry, self._disks)

    def status(self, path: str) -> FileStatus | None:
        try:
            return self._status(path)
        except ValueError:  # a NUL character in the name
            return None
        except OSError as error:
            if error.errno in _NOTHING_THERE and not isinstance(error, LinkNotFollowed):
                return None
            raise NotLookedUp(path=path, reason=error.strerror) from error

    def _status(self, path: str) -> FileStatus:
        """Return the status of `path`. Raises OSError and ValueError."""
        if self.directories.is_held(path):
            with self.directories.directory(path) as descriptor:
                return _status(path, os.fstat(descriptor), is_symlink=False)
        if not self.directories.is_guarded(path):
            status = os.lstat(path)
            is_symlink = stat.S_ISLNK(status.st_mode)
            return _status(path, os.stat(path) if is_symlink else status, is_symlink=is_symlink)
        with self.directories.entry_to_read(path) as entry:
            status = entry.status()
            is_symlink = stat.S_ISLNK(status.st_mode)
            if is_symlink and not entry.is_own:
                status = os.stat(entry.name, dir_fd=entry.directory)
            return _status(path, status, is_symlink=is_symlink)

    def list_directory(self, path: str) -> list[FileStatus]:
        start = path if path.endswith("/") else f"{path}/"
        follows = not is_own(path)
        with (
            _errors_of(path),
            self.directories.directory(path, to_read=True) as descriptor,
            os.scandir(descriptor) as entries,
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


def _status(path: str, result: os.stat_result, *, is_symlink: bool) -> FileStatus:
    kind = stat.S_IFMT(result.st_mode)
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
        stat.S_IMODE(result.st_mode),
    )


def _open_in_directory(path: str) -> int:
    """Open a file in a directory that may be a link too. Raises OSError."""
    directory, slash, name = path.rpartition("/")
    if not name:
        raise NotRegular(errno.EISDIR, "is a directory", path)
    place = open_directory(directory or slash or ".", None, directory, OPEN_TO_LOOK)
    try:
        return open_file(name, place, path)
    finally:
        os.close(place)


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Turn the operating system's errors about `path` into PathNotFound, NotKafkaLayout or Unreadable."""
    try:
        yield
    except FileNotFoundError as error:
        raise PathNotFound(path=path) from error
    except NotADirectoryError as error:
        raise NotKafkaLayout(path=path, reason="is not a directory") from error
    except NotRegular as error:
        raise NotKafkaLayout(path=path, reason=error.strerror) from error
    except LinkNotFollowed as error:
        raise Unreadable(path=path, reason=error.strerror) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise PathNotFound(path=path) from error
        raise Unreadable(path=path, reason=reason) from error
