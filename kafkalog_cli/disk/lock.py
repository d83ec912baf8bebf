"""Locks of log directories and partitions: finding the owner of a lock, and taking one.

The locks of a log directory are POSIX locks on its file `.lock`, as Java takes them. Finding the owner takes no lock
and creates no file. A writer takes these locks:

- byte 0 of `<log.dir>/.lock`, shared: it excludes every broker and admits other kafkalog writers;
- byte 1, exclusive, while it changes a root checkpoint;
- byte 2, while it makes new partitions: exclusive, or shared among tasks that stage files of an import;
- the lock of each partition that it changes.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import NamedTuple

from kafkalog_cli.disk.directory_contents import has_root_file, holds_partition
from kafkalog_cli.disk.durable import NOTHING_CHANGED, sweep_temporaries
from kafkalog_cli.disk.fs import FileAttributes, Filesystem, LockHandle, WritableFilesystem
from kafkalog_cli.disk.names import OWN_DIRECTORY, FileKind, moved_aside, moved_out
from kafkalog_cli.disk.ownership import NotGiven
from kafkalog_cli.disk.posix_lock import BROKER_BYTE, CHECKPOINT_BYTE, IMPORT_BYTE, lock_path, owner_of
from kafkalog_cli.errors import NO_ROOM, KafkalogError, Locked, NoSpace, Refused, Unreadable, shell_word

POLL_SECONDS = 0.1
WATCH_SECONDS = 11
"""A live broker writes its replication-offset-checkpoint every 5 s (replica.high.watermark.checkpoint.interval.ms)."""

PARTITION_LOCK = "lock"
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY)


class LockPolicy(NamedTuple):
    """The policy if a lock is not free: wait up to `wait_ms` milliseconds.

    `assume_offline` (`--assume-offline`) permits to go on without a lock on a file system that does not support locks.
    It never overrides a lock that another process holds.
    """

    wait_ms: float = 0
    assume_offline: bool = False
    sleep: Callable[[float], None] = time.sleep


def log_dir_of(fs: Filesystem, partition_directory: str) -> str | None:
    """Return the log directory of a partition directory; None if the parent contains no file of a log directory."""
    parent = os.path.dirname(os.path.abspath(partition_directory))  # noqa: PTH100, PTH120  (links are not followed)
    return parent if has_root_file(fs, parent) else None


class Held(LockHandle):
    """A lock together with the directories that stay open as long as it is held.

    Where locks do not work, and the user permitted to go on without, it is only the directories. `withdraw` removes
    what was made for the lock.
    """

    def __init__(self, handles: Sequence[LockHandle], withdraw: Callable[[], None] = lambda: None) -> None:
        self._handles = handles
        self.withdraw = withdraw

    @property
    def is_held(self) -> bool:
        """Whether this process has the lock, if there is one. A forked child does not have it."""
        return all(getattr(handle, "is_held", True) for handle in self._handles)

    @property
    def has_lock(self) -> bool:
        """Whether there is a lock."""
        return len(self._handles) > 1

    def release(self) -> None:
        """Release the lock, then the directories."""
        for handle in reversed(self._handles):
            handle.release()

    def __exit__(self, kind: object, *_: object) -> None:
        """Release the lock. A run that failed leaves no lock file that was not there."""
        try:
            if kind is not None:
                self.withdraw()
        finally:
            self.release()


def lock_log_dir(fs: WritableFilesystem, log_dir: str, policy: LockPolicy) -> Held:
    """Keep brokers out of `log_dir` until the handle is released. Other kafkalog writers are admitted.

    If locks do not work here, `policy` permits that, and no broker was seen writing, the directory is only held open.
    Raises Locked, Refused (locks do not work), NoSpace, Unreadable.
    """
    path = lock_path(log_dir)
    handle = _take_held(fs, log_dir, path, BROKER_BYTE, False, policy)
    if not handle.has_lock:
        try:
            _watch(fs, log_dir, policy)
        except BaseException:
            handle.release()
            raise
        return handle
    with suppress(OSError, KafkalogError), lock_checkpoints(fs, log_dir, LockPolicy()) or nullcontext():
        sweep_temporaries(fs, log_dir)  # whoever replaces a root file has the lock on byte 1
    return handle


def lock_checkpoints(fs: WritableFilesystem, log_dir: str, policy: LockPolicy) -> LockHandle | None:
    """Keep other kafkalog writers from the root files of `log_dir` while a root file is read and replaced.

    Return None if locks do not work here and `policy` permits that. Raises Locked, Refused, and OSError as the disk
    reports it: a run may be half done by now, so only the caller knows what the error means.
    """
    return _take(fs, lock_path(log_dir), CHECKPOINT_BYTE, True, policy)


@contextmanager
def root_files_locked(fs: WritableFilesystem, log_dir: str, policy: LockPolicy) -> Iterator[None]:
    """Have the turn of this process and `lock_checkpoints`, as far as locks work here. Raises as `lock_checkpoints`."""
    with turn_of(log_dir), lock_checkpoints(fs, log_dir, policy) or nullcontext():
        yield


def lock_imports(fs: WritableFilesystem, log_dir: str, policy: LockPolicy, *, exclusive: bool = True) -> LockHandle:
    """Take the lock for making new partitions in `log_dir`: alone, or shared with other runs that stage partitions.

    Raises what `lock_log_dir` raises.
    """
    return _take_held(fs, log_dir, lock_path(log_dir), IMPORT_BYTE, exclusive, policy)


def lock_partition(fs: WritableFilesystem, directory: str, policy: LockPolicy) -> Held:
    """Keep other kafkalog writers from a partition, and create its `.kafkalog`. Raises what `lock_log_dir` raises.

    The directory stays open until the lock is released, so every access reaches the same directory even if its path
    leads elsewhere meanwhile. Refused also means that `directory` is a link to a directory without partition files.
    """
    real = real_directory(fs, directory)
    if real != directory:
        check_link(fs, directory, real)
        _check_log_dir(fs, directory, real)
    with _hold(fs, directory, real):  # not looked up again: the directory may be a link by now
        if real != directory and not holds_partition(fs, fs.list_directory(directory)):
            reason = f"it is a symbolic link to {real}, which holds no file of a partition; nothing is made there"
            raise Refused(path=directory, reason=f"{reason}; {moved_out(directory)} moves the link away")
        return lock_own_directory(fs, directory, policy)


def check_link(fs: WritableFilesystem, link: str, real: str) -> None:
    """Raises Refused unless the owner of a link is root, the user of this process, or the owner of `real`, its target.

    The kernel has the same rule for sticky directories (fs.protected_symlinks).
    """
    owner_id = fs.attributes(link.rstrip("/")).owner_id
    if owner_id not in (0, os.geteuid()) and owner_id != fs.attributes(real).owner_id:
        reason = f"it is a symbolic link to {real}, made by another user ({owner_id}) than the owner of that directory"
        raise Refused(path=link, reason=f"{reason}; give the directory by its own path")


def _check_log_dir(fs: WritableFilesystem, link: str, real: str) -> None:
    """Raises Refused for a link that lies in one log directory and leads into another, which is not locked."""
    above, beside = log_dir_of(fs, real), log_dir_of(fs, link)
    if above is not None and (beside is None or os.path.realpath(beside) != os.path.realpath(above)):
        reason = f"it is a symbolic link to {real}, which lies in another log directory"
        raise Refused(path=link, reason=f"{reason}; give the directory by its own path")


def lock_own_directory(fs: WritableFilesystem, directory: str, policy: LockPolicy) -> Held:
    """Take the lock in the `.kafkalog` of a directory, as `lock_partition` does but without its checks of links."""
    with hold(fs, directory):
        own, before = _make_own_directory(fs, directory)
        try:
            if before is not None:
                fs.set_attributes(real_directory(fs, directory), before)
            is_new = before is not None
            return _take_held(fs, directory, _inside(own, PARTITION_LOCK), 0, True, policy, own if is_new else None)
        except BaseException as error:
            if before is not None:
                with suppress(OSError):
                    fs.remove_directory(own)
                with suppress(OSError):
                    fs.set_attributes(real_directory(fs, directory), before)
            if isinstance(error, OSError):
                raise _refusal(own, error) from error
            raise


def real_directory(fs: Filesystem, directory: str) -> str:
    """Return the target of `directory` if it is a symbolic link, otherwise `directory` itself.

    Attributes must be read from the target, not from the link. A held directory was resolved when it was opened, so
    its path no longer counts as a link.
    """
    status = fs.status(directory.rstrip("/") or "/")
    return os.path.realpath(directory) if status is not None and status.is_symlink else directory


def _make_own_directory(fs: WritableFilesystem, directory: str) -> tuple[str, FileAttributes | None]:
    """Return the path of the partition's `.kafkalog`. If this call has created it, with the partition's owner and mode,
    return the attributes that the partition's directory had before, else None.

    Raises Refused, NoSpace, Unreadable.
    """
    directory = real_directory(fs, directory)
    own = _inside(directory, OWN_DIRECTORY)
    try:
        found = fs.status(own)
        if found is not None and (found.is_symlink or not found.is_directory):
            raise Refused(
                path=own,
                reason="it is a link, or a file: a run keeps files only in the partition's own directory;"
                f" find out who made it; `rm {shell_word(own)}` removes it",
            )
        if found is None:
            before = fs.attributes(directory)
            fs.make_directory(own, before)
            return own, before
    except FileExistsError:
        pass  # another run of kafkalog has created it meanwhile
    except OSError as error:
        raise _refusal(own, error) from error
    return own, None


def _take_held(  # noqa: PLR0913, PLR0917
    fs: WritableFilesystem,
    directory: str,
    path: str,
    first_byte: int,
    exclusive: bool,
    policy: LockPolicy,
    own: str | None = None,
) -> Held:
    """Take a lock before anything is changed, and keep the directory open as long, also where there is no lock.

    `own` is the `.kafkalog` that was made for the lock. An OSError becomes Refused, NoSpace or Unreadable.
    """
    held = hold(fs, directory)
    try:
        before = fs.attributes(directory)
        try:
            lock = _take(fs, path, first_byte, exclusive, policy)
        except NotGiven:
            fs.set_attributes(directory, before)  # the lock file was removed again
            raise
    except BaseException as error:
        held.release()
        if isinstance(error, OSError):
            raise _refusal(path, error) from error
        raise
    if lock is None:
        return Held((held,))

    def withdraw() -> None:
        with suppress(OSError, KafkalogError):
            is_used = own is not None and len(fs.list_directory(own)) > 1
            if not is_used and getattr(lock, "may_remove_file", bool)():
                fs.unlink(path)
                if own is not None:
                    fs.remove_directory(own)
                fs.set_attributes(directory, before)

    return Held((held, lock), withdraw)


def hold(fs: WritableFilesystem, directory: str) -> LockHandle:
    """Keep a directory open without a lock. Raises Refused, Unreadable.

    A link is refused by the rule of `check_link`. A task of Spark looks the path up again, and by then another user may
    have swapped the directory for a link.
    """
    real = real_directory(fs, directory)
    if real != directory:
        try:
            check_link(fs, directory, real)
        except OSError as error:
            raise _refusal(directory, error) from error
    return _hold(fs, directory, real)


def _hold(fs: WritableFilesystem, directory: str, real: str) -> LockHandle:
    try:
        return fs.hold_directory(real, directory)
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
    """Watch a checkpoint that brokers write regularly. Raises Locked if it changes."""
    path = _inside(log_dir, FileKind.REPLICATION_CHECKPOINT.value)
    first = fs.status(path)
    for _ in range(WATCH_SECONDS):
        policy.sleep(1.0)
        if fs.status(path) != first:
            raise Locked(path=path, reason="it was just written, so a broker is running on this log directory")


def _who(path: str, byte: int) -> str:
    try:
        owner = owner_of(path, byte)
    except OSError:
        owner = None
    pid = None if owner is None else owner.pid
    is_ours = byte in (CHECKPOINT_BYTE, IMPORT_BYTE) or path.endswith(f"{OWN_DIRECTORY}/{PARTITION_LOCK}")
    if is_ours or (owner is not None and not owner.is_exclusive):
        run = "another run of kafkalog holds the lock" + ("" if pid is None else f", pid {pid}")
        return f"{run}; let it end, or wait for it with --wait SECONDS"
    broker = "a broker" if pid is None else f"a broker (pid {pid})"
    return f"{broker} uses this log directory. Stop it, or wait for it with --wait SECONDS"


def _refusal(path: str, error: OSError) -> KafkalogError:
    if error.errno in (errno.ELOOP, errno.ENXIO):
        reason = f"it is a symbolic link or not a regular file, and is not changed: {moved_aside(path)} moves it away"
        return Refused(path=path, reason=reason)
    kind = NoSpace if error.errno in NO_ROOM else Unreadable
    return kind(path=path, reason=NOTHING_CHANGED if kind is NoSpace else _text(error))


def _text(error: OSError) -> str:
    return error.strerror or str(error)


def _inside(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


_turns: dict[tuple[int, str], threading.RLock] = {}
_table_lock = threading.Lock()


def turn_of(log_dir: str) -> threading.RLock:
    """Return the reentrant lock that a thread holds while it changes files that all partitions of `log_dir` share.

    A forked child gets its own locks: a thread that held one in the parent would never release it in the child.
    """
    key = os.getpid(), os.path.realpath(log_dir)
    with _table_lock:
        return _turns.setdefault(key, threading.RLock())
