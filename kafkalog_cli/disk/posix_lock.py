"""The POSIX locks of this process, and who else holds one.

There is one descriptor per locked file: closing any descriptor of a file releases all locks of the process on it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
import threading
from typing import Annotated, NamedTuple

from kafkalog_cli.disk.directories import Directory, LockHandle, link_in_the_way
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.disk.ownership import give
from kafkalog_cli.results import Named

BROKER_BYTE, CHECKPOINT_BYTE, IMPORT_BYTE = 0, 1, 2
_BSD_LAYOUT = sys.platform.startswith(("darwin", "freebsd", "netbsd", "openbsd"))
_FLOCK = struct.Struct("qqihh" if _BSD_LAYOUT else "hhqqi0q")
"""`struct flock` of the C library: type, whence, start, len, pid; in BSD start, len, pid, type, whence."""
_HELD = (errno.EAGAIN, errno.EACCES)
"""Error numbers of a lock call if another process has the lock; POSIX allows both."""


class _LockedFile(NamedTuple):
    """A file with locks. The first of `descriptors` has them; others come from a race and stay open as long.

    `is_new`: this process made the file.
    """

    descriptors: list[int]
    holds: list[PosixLock]
    is_new: bool


_locked_files: dict[tuple[int, int], _LockedFile] = {}
_process_id = os.getpid()
_table_lock = threading.RLock()


class PosixLock(LockHandle):
    """A lock on one byte of a file. It excludes other processes and other holders in this process."""

    def __init__(self, key: tuple[int, int], first_byte: int, exclusive: bool) -> None:
        self.first_byte = first_byte
        self.exclusive = exclusive
        self._key: tuple[int, int] | None = key
        self._process_id = os.getpid()

    @property
    def is_held(self) -> bool:
        """Whether this process has the lock: False after `release`, and in a forked child."""
        return self._key is not None and self._process_id == os.getpid()

    def may_remove_file(self) -> bool:
        """Whether this process made the file and nobody else has a lock on it. Nobody can get one until `release`."""
        with _table_lock:
            file = _locked_files.get(self._key) if self._key is not None and self.is_held else None
            if file is None or not file.is_new or len(file.holds) > 1:
                return False
            try:
                fcntl.lockf(file.descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            return True

    def release(self) -> None:
        """Release the lock. A second call, or a call in a forked child, does nothing."""
        with _table_lock:
            if self._key is None or not self.is_held:
                return
            key, self._key = self._key, None
            _give_up(key, self)


def take_lock(directory: Directory, name: str, path: str, *, first_byte: int, exclusive: bool) -> PosixLock:
    """Lock one byte of the file `name` without waiting. A missing file is created with its directory's owner.

    Raises BlockingIOError if another process, or another holder in this process, has the lock. Raises another OSError
    if the file cannot be opened or locks do not work: ELOOP for a symbolic link, ENXIO for no regular file.
    """
    with _table_lock:
        _forget_after_fork()
        key, file = _locked_file(directory, name, path)
        lock = PosixLock(key, first_byte, exclusive)
        try:
            same = [hold for hold in file.holds if hold.first_byte == first_byte]
            if any(exclusive or hold.exclusive for hold in same):
                raise BlockingIOError(errno.EAGAIN, "another part of this process holds the lock", path)
            if not same:
                _system_lock(path, file.descriptors[0], first_byte, exclusive)
                _check_name(path, file.descriptors[0])
        except BaseException:
            _close_unused(key)
            raise
        file.holds.append(lock)
        return lock


def descriptor_of(path: str) -> int | None:
    """Return the descriptor through which this process has locks on `path`; None if it has none. Raises OSError."""
    with _table_lock:
        _forget_after_fork()
        file = _locked_files.get(_key(os.stat(path)))
        return None if file is None else file.descriptors[0]


def _locked_file(directory: Directory, name: str, path: str) -> tuple[tuple[int, int], _LockedFile]:
    try:
        # Look the file up before opening it: closing a second descriptor would release the locks of this process.
        status = directory.status(name)
        _check(status, path)
        key = _key(status)
        if key in _locked_files:
            return key, _locked_files[key]
    except FileNotFoundError:
        pass
    descriptor, is_new = _open(directory, name)
    status = os.fstat(descriptor)
    key = _key(status)
    try:
        _check(status, path)
    except OSError:
        os.close(descriptor)
        raise
    file = _locked_files.setdefault(key, _LockedFile([], [], is_new))
    file.descriptors.append(descriptor)
    return key, file


def _check(status: os.stat_result, path: str) -> None:
    """Raises OSError unless the entry is a regular file.

    A lock through a link would lock a file elsewhere, and opening a device may have any effect.
    """
    if stat.S_ISLNK(status.st_mode):
        raise link_in_the_way(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, "not a regular file", path)


def _open(directory: Directory, name: str) -> tuple[int, bool]:
    """Open the file, or make it. Return its descriptor, and whether it was made."""
    try:
        return directory.open(name, os.O_RDWR), False
    except FileNotFoundError:
        pass
    try:
        descriptor = directory.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return directory.open(name, os.O_RDWR), False
    try:
        owner = os.fstat(directory.descriptor)
        give(descriptor, owner.st_uid, owner.st_gid, owner.st_mode & 0o666)
    except BaseException:
        os.unlink(name, dir_fd=directory.descriptor)
        os.close(descriptor)
        raise
    return descriptor, True


def _system_lock(path: str, descriptor: int, first_byte: int, exclusive: bool) -> None:
    operation = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
    try:
        fcntl.lockf(descriptor, operation, 1, first_byte)
    except OSError as error:
        if error.errno in _HELD:
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock", path) from error
        raise


def _check_name(path: str, descriptor: int) -> None:
    """Raise BlockingIOError if the locked file was removed by its last holder: the next run locks a new file."""
    if not os.fstat(descriptor).st_nlink:
        raise BlockingIOError(errno.EAGAIN, "another process removed this lock", path)


def _give_up(key: tuple[int, int], lock: PosixLock) -> None:
    file = _locked_files[key]
    file.holds.remove(lock)
    if all(hold.first_byte != lock.first_byte for hold in file.holds) and file.holds:
        fcntl.lockf(file.descriptors[0], fcntl.LOCK_UN, 1, lock.first_byte)
    _close_unused(key)


def _close_unused(key: tuple[int, int]) -> None:
    file = _locked_files[key]
    if not file.holds:
        del _locked_files[key]
        for descriptor in file.descriptors:
            os.close(descriptor)


def _forget_after_fork() -> None:
    """Close the inherited descriptors in a forked child, which has none of its parent's locks."""
    global _process_id  # noqa: PLW0603
    if _process_id != os.getpid():
        for file in _locked_files.values():
            for descriptor in file.descriptors:
                os.close(descriptor)
        _locked_files.clear()
        _process_id = os.getpid()


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def lock_path(log_dir: str) -> str:
    """Return the path of a log directory's lock file."""
    return f"{log_dir.rstrip('/')}/{FileKind.LOCK.value}"


class LockOwner(NamedTuple):
    """The owner of the lock of a log directory, another process.

    The system does not report the process of another machine or container.
    """

    pid: Annotated[int | None, "null if the system does not show it"]
    is_exclusive: Annotated[bool, Named("exclusive"), "true: a broker; false: a kafkalog command that changes a log"]


def lock_owner(log_dir: str) -> LockOwner | None:
    """Return the process that holds `<log_dir>/.lock`; None if no other process does or there is no such file.

    The check uses F_GETLK, which does not report locks of this process. Raises OSError if the check fails.
    """
    return owner_of(lock_path(log_dir), BROKER_BYTE)


def import_owner(log_dir: str) -> LockOwner | None:
    """Return the process that is making new partitions in `log_dir`; None and errors as for `lock_owner`."""
    return owner_of(lock_path(log_dir), IMPORT_BYTE)


def owner_of(path: str, byte: int) -> LockOwner | None:
    """Return the process that prevents an exclusive lock on `byte` of a file; None if there is none, or no file."""
    try:
        own = descriptor_of(path)
        if own is not None:  # closing a second descriptor of the file would release the locks of this process
            return _owner(_answer(own, byte))
        directory, name = Directory.containing(path)
        with directory:
            descriptor = directory.open_to_read(name, path)
    except FileNotFoundError:
        return None
    try:
        return _owner(_answer(descriptor, byte))
    finally:
        os.close(descriptor)


def _answer(descriptor: int, byte: int) -> bytes:
    """Ask for the lock that prevents an exclusive lock on `byte`."""
    lock_type, start, length = fcntl.F_WRLCK, byte, 1
    question = (start, length, 0, lock_type, os.SEEK_SET) if _BSD_LAYOUT else (lock_type, os.SEEK_SET, start, length, 0)
    return fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(*question))


def _owner(answer: bytes) -> LockOwner | None:
    fields = _FLOCK.unpack(answer)
    lock_type, pid = (fields[3], fields[2]) if _BSD_LAYOUT else (fields[0], fields[4])
    if lock_type == fcntl.F_UNLCK:
        return None
    return LockOwner(pid if pid > 0 else None, lock_type == fcntl.F_WRLCK)
