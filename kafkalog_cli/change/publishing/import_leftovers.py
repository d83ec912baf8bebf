"""Finds the staged partitions of interrupted imports in a log directory: of a committed run, and all others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkalog_cli.change.publishing.new_partitions import is_staged, record_of
from kafkalog_cli.change.publishing.record import ComingFile, RunRecord
from kafkalog_cli.disk.fs import Filesystem


@dataclass(frozen=True, slots=True)
class ImportLeftovers:
    """Staged partitions in a log directory; `run` is the interrupted committed run, None if there is none.

    `coming` lists the partitions of this run that are not in their places yet, `lost` the names of partitions that a
    broker has removed since. `what` is the caller's data in the record of the run. `stale` lists the directories of
    runs that are not committed, or that are at work; without a `run` only `stale` may have entries.
    """

    run: str | None = None
    coming: tuple[ComingFile, ...] = ()
    lost: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    what: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.run is not None or bool(self.stale)

    def place_of(self, staged: str) -> str | None:
        """Return the final name of a staged directory of the committed run, None for other directories."""
        return next((one.path for one in self.coming if one.staged == staged), None)


def import_leftovers(fs: Filesystem, log_dir: str, directories: Iterable[str]) -> ImportLeftovers:
    """Find leftovers among `directories` (names).

    Raises UnsupportedFormat if the record is invalid, Unreadable, OSError.
    """
    root = log_dir.rstrip("/")
    record = record_of(fs, root)
    staged = [name for name in directories if is_staged(name)]
    if record is None:
        return ImportLeftovers(stale=tuple(staged))
    coming = tuple(one for one in record.coming if one.staged in staged)
    gone = [one.path for one in record.coming if one not in coming]
    lost = tuple(name for name in gone if not _is_placed(fs, f"{root}/{name}", record, name))
    waiting = {one.staged for one in coming}
    return ImportLeftovers(
        record.run, coming, lost, tuple(name for name in staged if name not in waiting), dict(record.what)
    )


def _is_placed(fs: Filesystem, path: str, record: RunRecord, name: str) -> bool:
    status = fs.status(path)
    return status is not None and status.inode == record.state.get("inodes", {}).get(name)
