"""Reading beside a running broker without pushing the broker's pages out of the page cache.

If a broker has locked the log directory, a reader drops the pages of closed segments after it has read them
(posix_fadvise). Pages that were in memory before (mincore) stay: the broker or its consumers use them.
"""

import mmap
import os
from functools import cache
from typing import Any

from kafkalog_cli.disk.live_logs import LOG_SUFFIX, is_broker_running, newest_log, parent_directory

PAGE_BYTES = mmap.PAGESIZE
STEP_BYTES = 16 << 20
"""Bytes to read before pages are dropped, so that reading a segment of 1 GiB does not push other pages out."""

Run = tuple[int, int]
"""A range of whole pages of a file, from byte `start` to byte `end`."""


class ColdPages:
    """The pages of one open file that were not in memory when it was opened."""

    def __init__(self, descriptor: int, runs: list[Run]) -> None:
        self._descriptor = descriptor
        self._runs = runs
        self._read_bytes = 0

    def read(self, size_bytes: int) -> None:
        """Count `size_bytes` as read, and drop the pages after every STEP_BYTES."""
        self._read_bytes += size_bytes
        if self._read_bytes >= STEP_BYTES:
            self._read_bytes = 0
            self.drop()

    def drop(self) -> None:
        """Drop the pages from the page cache."""
        for start, end in self._runs:
            try:
                os.posix_fadvise(self._descriptor, start, end - start, os.POSIX_FADV_DONTNEED)
            except OSError:  # only an advice, which a file system may refuse
                return


class BrokerDisks:
    """Finds log files that are closed segments of a running broker. Each directory is checked only once."""

    def __init__(self) -> None:
        self._live: dict[str, bool] = {}
        self._newest: dict[str, str] = {}

    def cold_pages(self, path: str, descriptor: int, size_bytes: int) -> ColdPages | None:
        """Return the pages of a log to drop after reading; None if there are none.

        There are none if no broker runs, or if the file is not a closed segment.
        """
        if not path.endswith(LOG_SUFFIX) or not size_bytes or not self._is_closed(path):
            return None
        runs = cold_runs(descriptor, size_bytes)
        return ColdPages(descriptor, runs) if runs else None

    def _is_closed(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        directory = directory or "."
        parent = parent_directory(directory)
        if parent not in self._live:
            self._live[parent] = is_broker_running(parent)
        if not self._live[parent]:
            return False
        if directory not in self._newest:
            try:
                self._newest[directory] = newest_log(directory)
            except OSError:
                return False
        return name < self._newest[directory]


def cold_runs(descriptor: int, size_bytes: int) -> list[Run]:
    """Return the ranges of a file's pages that are not in memory; none if the system does not report them."""
    import ctypes  # only beside a running broker

    libc = _libc()
    if libc is None or not hasattr(os, "posix_fadvise"):
        return []
    address = libc.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):  # MAP_FAILED
        return []
    pages = -(-size_bytes // PAGE_BYTES)
    resident = (ctypes.c_ubyte * pages)()
    try:
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), resident):
            return []
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes))
    runs: list[Run] = []
    states = bytes(bit & 1 for bit in resident)
    at = states.find(0)
    while at >= 0:
        end = states.find(1, at)
        end = pages if end < 0 else end
        runs.append((at * PAGE_BYTES, end * PAGE_BYTES))
        at = states.find(0, end)
    return runs


@cache
def _libc() -> Any:
    import ctypes

    try:
        libc: Any = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
        )  # fmt: skip
        return libc if hasattr(libc, "mincore") else None
    except (OSError, AttributeError):
        return None
