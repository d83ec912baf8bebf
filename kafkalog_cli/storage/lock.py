"""The lock of a log directory (`.lock`, a POSIX lock): who holds it. Asking takes no lock and creates nothing."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from typing import NamedTuple

from kafkalog_cli.storage.names import FileKind

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

    Asks with F_GETLK. Never call it in a process that holds the lock itself: closing any descriptor of
    a file gives up all of a process's POSIX locks on it. Raises OSError where the question cannot be put.
    """
    path = f"{log_dir.rstrip('/') or '/'}/{FileKind.LOCK.value}".replace("//", "/")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _pack(fcntl.F_WRLCK))
    finally:
        os.close(descriptor)
    return _owner(answer)


def _pack(lock_type: int) -> bytes:
    """A question about the whole file: from byte 0, without an end."""
    fields = (0, 0, 0, lock_type, os.SEEK_SET) if _BSD_LAYOUT else (lock_type, os.SEEK_SET, 0, 0, 0)
    return _FLOCK.pack(*fields)


def _owner(answer: bytes) -> LockOwner | None:
    fields = _FLOCK.unpack(answer)
    lock_type, pid = (fields[3], fields[2]) if _BSD_LAYOUT else (fields[0], fields[4])
    if lock_type == fcntl.F_UNLCK:
        return None
    return LockOwner(pid if pid > 0 else None, lock_type == fcntl.F_WRLCK)
