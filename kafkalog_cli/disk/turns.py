"""Locks between the threads of this process for the root files of a log directory.

They complement the POSIX locks, which exclude only other processes.
"""

from __future__ import annotations

import os
import threading

_turns: dict[tuple[int, str], threading.RLock] = {}
_table_lock = threading.Lock()


def turn_of(log_dir: str) -> threading.RLock:
    """Return the reentrant lock that a thread holds while it changes files that all partitions of `log_dir` share.

    A forked child gets its own locks: a thread that held one in the parent would never release it in the child.
    """
    key = os.getpid(), os.path.realpath(log_dir)
    with _table_lock:
        return _turns.setdefault(key, threading.RLock())
