"""Fresh looks at files that seem wrong while a broker changes them: only damage that every look sees is reported.

A reader takes no lock, so a broker appends, rolls, cleans and deletes between any two of its calls. The reader may
then hold an index that is newer than its log, or meet a segment in the middle of a rename. Such a state differs from
one look to the next, and damage does not.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.storage.changing.lock import lock_owner, log_dir_of
from kafkalog_cli.storage.fs import Filesystem

PAUSES_SECONDS = (0.1, 0.4, 1.5)
"""How long a running broker gets before each fresh look: a rename of a segment's files takes some milliseconds, and
more on a busy host."""

FileStamp = tuple[int, int, int]
"""Inode, size in bytes, and the time of the last change in ms."""


class FreshLooks:
    """The changes of one directory between looks.

    `is_live`: a broker holds the lock of the log directory. Call `begin` before each look.
    """

    def __init__(self, fs: Filesystem, path: str, *, is_live: bool, sleep: Callable[[float], None]) -> None:
        self.is_live = is_live
        self._fs = fs
        self._path = path
        self._sleep = sleep
        self._before: dict[str, FileStamp] = {}
        self._count = 0

    def begin(self) -> None:
        """A look begins."""
        self._before = self.stamps()

    def stamps(self) -> dict[str, FileStamp]:
        """What identifies each file of the directory, by name; empty if the directory is gone."""
        try:
            entries = self._fs.list_directory(self._path)
        except KafkalogError:
            return {}
        return {e.path.rpartition("/")[2]: (e.inode, e.size_bytes, e.mtime_ms) for e in entries}

    def wants_another(self, stamps: dict[str, FileStamp] | None = None) -> bool:
        """Whether a fresh look may show another state; gives a running broker some time before it.

        `stamps`: those that the files have now, where the caller has them already.
        """
        now = stamps if stamps is not None or self.is_live else self.stamps()
        if self._count == len(PAUSES_SECONDS) or not (self.is_live or now != self._before):
            return False
        self._count += 1
        if self.is_live:
            self._sleep(PAUSES_SECONDS[self._count - 1])
        return True


def is_broker_running(fs: Filesystem, partition_path: str) -> bool:
    """Whether a broker holds the lock of the log directory that a partition lies in; False where nobody can tell."""
    try:
        log_dir = log_dir_of(fs, partition_path)
        owner = None if log_dir is None else lock_owner(log_dir)
    except (KafkalogError, OSError):
        return False
    return owner is not None and owner.is_exclusive
