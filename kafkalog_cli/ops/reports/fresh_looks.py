"""Fresh looks at files that seem wrong while a broker changes them: only damage that every look sees is reported.

A reader takes no lock, so a broker appends, rolls, cleans and deletes between any two of its calls. The reader may
then hold an index that is newer than its log, or meet a segment in the middle of a rename. Such a state differs from
one look to the next, and damage does not.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.lock import lock_owner, log_dir_of
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.ops.damage import is_last_segment

PAUSES_SECONDS = (0.1, 0.4, 1.5)
"""Pauses before each fresh look if a broker runs.

A rename of a segment's files takes some milliseconds, and more on a busy host.
"""

MAY_BE_UNUSED = (
    "a running broker that truncated the log leaves unused entries at the end: it knows how many entries it uses,"
    " and cuts off the rest when it closes the index"
)
"""Why wrong entries in an index of the last segment do not count as corruption while a broker runs.

AbstractIndex.truncateToEntries moves a position in memory, and the preallocated file keeps its bytes.
"""

_ZERO_TAIL_BYTES = 12
"""Bytes of a time index entry, the longer of the two kinds of index entries."""

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
        """Note the state of the files at the start of a look."""
        self._before = self.stamps()

    def stamps(self) -> dict[str, FileStamp]:
        """Return what identifies each file of the directory, by name; empty if the directory was removed."""
        try:
            entries = self._fs.list_directory(self._path)
        except KafkalogError:
            return {}
        return {e.path.rpartition("/")[2]: (e.inode, e.size_bytes, e.mtime_ms) for e in entries}

    def wants_another(self, stamps: dict[str, FileStamp] | None = None) -> bool:
        """Whether a fresh look may show another state. Pauses first if a broker runs.

        `stamps`: the current stamps of the files, if the caller already has them.
        """
        now = stamps if stamps is not None or self.is_live else self.stamps()
        if self._count == len(PAUSES_SECONDS) or not (self.is_live or now != self._before):
            return False
        self._count += 1
        if self.is_live:
            self._sleep(PAUSES_SECONDS[self._count - 1])
        return True


def may_have_unused_entries(fs: Filesystem, path: str) -> bool:
    """Whether a running broker may have the index open: it is of the last segment, and longer than its entries.

    A broker preallocates such an index, and cuts it to its entries when it rolls the segment or stops.
    """
    if not is_last_segment(fs, path):
        return False
    end = bytearray(_ZERO_TAIL_BYTES)
    try:
        with fs.open_read(path) as file:
            start = file.size_bytes - len(end)
            return start >= 0 and file.read_into(start, memoryview(end)) == len(end) and not any(end)
    except (KafkalogError, OSError):
        return False


def is_broker_running(fs: Filesystem, partition_path: str) -> bool:
    """Whether a broker holds the lock of the log directory that contains a partition; False if that is not known."""
    try:
        log_dir = log_dir_of(fs, partition_path)
        owner = None if log_dir is None else lock_owner(log_dir)
    except (KafkalogError, OSError):
        return False
    return owner is not None and owner.is_exclusive
