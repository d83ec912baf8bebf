"""Turns of this process's threads at the root files of a log directory: a POSIX lock keeps out other processes only."""

from __future__ import annotations

import os
import threading

_turns: dict[tuple[int, str], threading.RLock] = {}
_table_lock = threading.Lock()


def turn_of(log_dir: str) -> threading.RLock:
    """The lock that a thread has while it changes what all partitions of `log_dir` share; it may take it again.

    A forked child has others: whoever had one in the parent does not give it back there.
    """
    key = os.getpid(), os.path.realpath(log_dir)
    with _table_lock:
        return _turns.setdefault(key, threading.RLock())
