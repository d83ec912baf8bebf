"""Locks of log directories (`.lock`, POSIX locks, Java's too) and partitions: who holds one, and taking one.

Asking takes no lock and creates nothing. A writer has byte 0 of `<log.dir>/.lock` shared, which keeps every broker
out and lets other writers of ours in; byte 1 exclusively while it changes a root checkpoint; byte 2 exclusively while
it makes partitions that are seen all at once; and the lock of each partition that it changes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from kafkalog_cli.errors import KafkalogError, Locked, NoSpace, Refused, Unreadable
from kafkalog_cli.storage.changing.durable import sweep_temporaries
from kafkalog_cli.storage.changing.posix_lock import descriptor_of
from kafkalog_cli.storage.fs import Filesystem, LockHandle, WritableFilesystem
from kafkalog_cli.storage.names import OWN_DIRECTORY, ROOT_KINDS, FileKind
from kafkalog_cli.storage.partition import holds_partition

POLL_SECONDS = 0.1
WATCH_SECONDS = 11
"""A live broker writes its replication-offset-checkpoint every 5 s (replica.high.watermark.checkpoint.interval.ms)."""

BROKER_BYTE, CHECKPOINT_BYTE, IMPORT_BYTE = 0, 1, 2
PARTITION_LOCK = "lock"
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY)
_BSD_LAYOUT = sys.platform.startswith(("darwin", "freebsd", "netbsd", "openbsd"))
_FLOCK = struct.Struct("qqihh" if _BSD_LAYOUT else "hhqqi0q")
"""`struct flock` of the C library: type, whence, start, len, pid; in BSD start, len, pid, type, whence."""


class LockOwner(NamedTuple):
    """Another process that holds a lock: `pid` is None where the system does not say (another machine or container).

    `is_exclusive`: a broker, which shares the directory with nobody. A shared lock is that of a
    kafkalog command that changes something.
    """

    pid: int | None
    is_exclusive: bool


def lock_owner(log_dir: str) -> LockOwner | None:
    """The process that holds `<log_dir>/.lock`, None if nobody does or there is no such file.

    Asks with F_GETLK; this process's own locks are not told. Raises OSError where the question cannot be put.
    """
    return _owner_of(_inside(log_dir, FileKind.LOCK.value), BROKER_BYTE)


def import_owner(log_dir: str) -> LockOwner | None:
    """The process that is making new partitions in `log_dir`; as `lock_owner`, of another lock."""
    return _owner_of(_inside(log_dir, FileKind.LOCK.value), IMPORT_BYTE)


class LockPolicy(NamedTuple):
    """What to do about a lock that cannot be had at once: wait for it, and `--assume-offline`.

    `assume_offline` covers a file system on which lock calls fail as unsupported, never a lock that is held.
    """

    wait_ms: int = 0
    assume_offline: bool = False
    sleep: Callable[[float], None] = time.sleep


def log_dir_of(fs: Filesystem, partition_directory: str) -> str | None:
    """The log directory that a partition directory lies in; None if what it lies in has no file of one."""
    parent = os.path.dirname(os.path.abspath(partition_directory))  # noqa: PTH100, PTH120  (links are not followed)
    return parent if any(fs.status(_inside(parent, kind.value)) for kind in ROOT_KINDS) else None


class Held:
    """A lock, if locks work here, and the directories that are held open as long."""

    def __init__(self, handles: Sequence[LockHandle]) -> None:
        self._handles = handles

    @property
    def is_held(self) -> bool:
        """Whether this process has the lock: a forked child does not."""
        return all(getattr(handle, "is_held", True) for handle in self._handles)

    def release(self) -> None:
        """Give up all of it."""
        for handle in reversed(self._handles):
            handle.release()

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


class Unlocked:
    """In the place of a lock where locks do not work, and that was agreed to."""

    def release(self) -> None:
        """There is nothing to give up."""

    def __enter__(self) -> Unlocked:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


def lock_log_dir(fs: WritableFilesystem, log_dir: str, policy: LockPolicy) -> LockHandle | None:
    """Keep brokers out of `log_dir` until the handle is released; other writers of ours are let in.

    None where locks do not work and the broker was found and assumed to be offline. Raises Locked,
    Refused (locks do not work), NoSpace, Unreadable.
    """
    path = _inside(log_dir, FileKind.LOCK.value)
    handle = _take_held(fs, log_dir, path, BROKER_BYTE, False, policy)
    if handle is None:
        _watch(fs, log_dir, policy)
        return None
    with suppress(OSError, KafkalogError), lock_checkpoints(fs, log_dir, LockPolicy()) or Unlocked():
        sweep_temporaries(fs, log_dir)  # whoever replaces a root file has the lock on byte 1
    return handle


def lock_checkpoints(fs: WritableFilesystem, log_dir: str, policy: LockPolicy) -> LockHandle | None:
    """Keep other writers of ours from the root files of `log_dir`; for as long as one is read and replaced.

    A run may be half done by now, so that what it means that the disk fails is the caller's to say: raises Locked,
    Refused, and OSError as the disk has it.
    """
    return _take(fs, _inside(log_dir, FileKind.LOCK.value), CHECKPOINT_BYTE, True, policy)


def lock_imports(
    fs: WritableFilesystem, log_dir: str, policy: LockPolicy, *, exclusive: bool = True
) -> LockHandle | None:
    """Have the making of new partitions in `log_dir` alone, or with others who stage some. Raises as `lock_log_dir`."""
    return _take_held(fs, log_dir, _inside(log_dir, FileKind.LOCK.value), IMPORT_BYTE, exclusive, policy)


def lock_partition(fs: WritableFilesystem, directory: str, policy: LockPolicy) -> LockHandle | None:
    """Keep other writers of ours from a partition; makes its `.kafkalog`. Raises as `lock_log_dir` does.

    The directory is held open as long, so that it stays the same whatever its path leads to meanwhile.
    """
    real = real_directory(fs, directory)
    if real != directory:
        check_link(fs, directory, real)
    with _hold(fs, directory):
        if real != directory and not holds_partition(fs, directory, fs.list_directory(directory)):
            reason = f"it is a symbolic link to {real}, which holds no file of a partition; nothing is made there"
            raise Refused(path=directory, reason=reason)
        return lock_own_directory(fs, directory, policy)


def check_link(fs: WritableFilesystem, link: str, real: str) -> None:
    """Raises Refused for a link to another's directory, unless root or the user who runs us made it.

    That is the kernel's rule for sticky directories (fs.protected_symlinks).
    """
    owner_id = fs.attributes(link.rstrip("/")).owner_id
    if owner_id not in (0, os.geteuid()) and owner_id != fs.attributes(real).owner_id:
        reason = f"it is a symbolic link to {real}, made by another user ({owner_id}) than the owner of that directory"
        raise Refused(path=link, reason=f"{reason}; give the directory by its own path")


def lock_own_directory(fs: WritableFilesystem, directory: str, policy: LockPolicy) -> LockHandle | None:
    """As `lock_partition`, in any directory that may be given as a link."""
    with _hold(fs, directory):
        own = make_own_directory(fs, directory)
        return _take_held(fs, directory, _inside(own, PARTITION_LOCK), 0, True, policy)


def real_directory(fs: Filesystem, directory: str) -> str:
    """Where a directory lies that is given by a symbolic link: attributes are the directory's, not the link's.

    One that is held was resolved when it was, and is itself from then on.
    """
    status = fs.status(directory.rstrip("/") or "/")
    return os.path.realpath(directory) if status is not None and status.is_symlink else directory


def make_own_directory(fs: WritableFilesystem, directory: str) -> str:
    """The partition's `.kafkalog`, made if it is missing, with the partition's owner and mode. Raises as above."""
    directory = real_directory(fs, directory)
    own = _inside(directory, OWN_DIRECTORY)
    try:
        found = fs.status(own)
        if found is not None and (found.is_symlink or not found.is_directory):
            raise Refused(path=own, reason="it is a link, or a file: what a run keeps must lie in the partition")
        if found is None:
            attributes = fs.attributes(directory)
            fs.make_directory(own)
            fs.set_attributes(own, attributes)
            with suppress(PermissionError):  # only the owner may; an undo gives back mtimes too
                fs.set_attributes(directory, attributes)
    except FileExistsError:
        pass  # another run of ours was faster
    except OSError as error:
        raise _refusal(own, error) from error
    return own


def _take_held(  # noqa: PLR0913, PLR0917
    fs: WritableFilesystem, directory: str, path: str, first_byte: int, exclusive: bool, policy: LockPolicy
) -> LockHandle | None:
    """Before anything is changed; the directory is held until the lock is released. None without a lock."""
    held = _hold(fs, directory)
    try:
        lock = _take(fs, path, first_byte, exclusive, policy)
    except BaseException as error:
        held.release()
        if isinstance(error, OSError):
            raise _refusal(path, error) from error
        raise
    if lock is None:
        held.release()
        return None
    return Held((held, lock))


def _hold(fs: WritableFilesystem, directory: str) -> LockHandle:
    try:
        return fs.hold_directory(real_directory(fs, directory), directory)
    except OSError as error:
        raise _refusal(directory, error) from error


def _take(fs: WritableFilesystem, path: str, first_byte: int, exclusive: bool, policy: LockPolicy) -> LockHandle | None:
    waited_ms = 0.0
    while True:
        try:
            return fs.lock(path, first_byte=first_byte, exclusive=exclusive)
        except BlockingIOError as error:
            if waited_ms >= policy.wait_ms:
                raise Locked(path=path, reason=_who(path, first_byte)) from error
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            if policy.assume_offline:
                return None
            reason = f"locks do not work here ({_text(error)}); --assume-offline says that no broker is running"
            raise Refused(path=path, reason=reason) from error
        policy.sleep(POLL_SECONDS)
        waited_ms += POLL_SECONDS * 1000


def _watch(fs: Filesystem, log_dir: str, policy: LockPolicy) -> None:
    """Raises Locked if a broker is seen at work."""
    path = _inside(log_dir, FileKind.REPLICATION_CHECKPOINT.value)
    first = fs.status(path)
    for _ in range(WATCH_SECONDS):
        policy.sleep(1.0)
        if fs.status(path) != first:
            raise Locked(path=path, reason="it was just written, so a broker is running on this log directory")


def _who(path: str, byte: int) -> str:
    try:
        owner = _owner_of(path, byte)
    except OSError:
        owner = None
    pid = "" if owner is None or owner.pid is None else f", pid {owner.pid}"
    is_ours = byte in (CHECKPOINT_BYTE, IMPORT_BYTE) or path.endswith(f"{OWN_DIRECTORY}/{PARTITION_LOCK}")
    if is_ours or (owner is not None and not owner.is_exclusive):
        return f"another run of kafkalog has it{pid}; let it end, or wait for it with --wait SECONDS"
    who = f"a broker, or another program that wants it alone, has it{pid}"
    return f"{who}; stop it first, or wait for that with --wait SECONDS"


def _refusal(path: str, error: OSError) -> KafkalogError:
    if error.errno in (errno.ELOOP, errno.ENXIO):
        reason = "it is a symbolic link, or no regular file, and is left alone: move it away"
        return Refused(path=path, reason=reason)
    kind = NoSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else Unreadable
    return kind(path=path, reason="nothing was changed" if kind is NoSpace else _text(error))


def _text(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _inside(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def _owner_of(path: str, byte: int) -> LockOwner | None:
    try:
        own = descriptor_of(path)
        if own is not None:  # another descriptor, closed, would give up the locks that we have
            return _owner(fcntl.fcntl(own, fcntl.F_GETLK, _question(byte)))
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _question(byte))
    finally:
        os.close(descriptor)
    return _owner(answer)


def _question(byte: int) -> bytes:
    """Who would keep us from having `byte` alone?"""
    lock_type, start, length = fcntl.F_WRLCK, byte, 1
    return _FLOCK.pack(
        *((start, length, 0, lock_type, os.SEEK_SET) if _BSD_LAYOUT else (lock_type, os.SEEK_SET, start, length, 0))
    )


def _owner(answer: bytes) -> LockOwner | None:
    fields = _FLOCK.unpack(answer)
    lock_type, pid = (fields[3], fields[2]) if _BSD_LAYOUT else (fields[0], fields[4])
    if lock_type == fcntl.F_UNLCK:
        return None
    return LockOwner(pid if pid > 0 else None, lock_type == fcntl.F_WRLCK)
