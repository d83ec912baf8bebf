"""Warns readers when a log directory is locked: readers take no lock, so the files may change while they are read."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.lock import LockOwner, lock_owner, log_dir_of
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.ops.selection import in_its_log_dir
from kafkalog_cli.ops.session.observer import Note


def lock_sentence(owner: LockOwner) -> str:
    """Return a sentence that names the lock's owner and warns that the files may change."""
    who = "a broker is running on it" if owner.is_exclusive else "a kafkalog command is changing it"
    return f"{who} ({'pid unknown' if owner.pid is None else f'pid {owner.pid}'}): what is read may change"


class LockWarnings:
    """Checks the lock of each log directory once, and reports its owner."""

    def __init__(self, fs: Filesystem, report: Callable[[Note], None]) -> None:
        self._fs = fs
        self._report = report
        self._asked: set[str] = set()
        self._directories: set[str] = set()

    def about_partitions(self, *directories: str) -> None:
        """Warn of locked log directories of these partition directories."""
        for directory in directories:
            if directory in self._directories:
                continue
            self._directories.add(directory)
            try:
                log_dir = log_dir_of(self._fs, in_its_log_dir(self._fs, directory))
            except (KafkalogError, OSError):
                continue  # whoever reads the directory reports it
            if log_dir is not None:
                self.about(log_dir)

    def about(self, *log_dirs: str) -> None:
        """Warn of each of these log directories that is locked. An OSError while checking is ignored."""
        for log_dir in log_dirs:
            if log_dir in self._asked:
                continue
            self._asked.add(log_dir)
            try:
                owner = lock_owner(log_dir)
            except OSError:
                continue
            if owner is not None:
                self._report(Note("locked", lock_sentence(owner), log_dir))
