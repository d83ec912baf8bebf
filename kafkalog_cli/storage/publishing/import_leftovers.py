"""What imports left in a log directory: partitions of a committed run still to come, and what no run waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.publishing.new_partitions import is_staged, record_of
from kafkalog_cli.storage.publishing.record import ComingFile, Record


@dataclass(frozen=True, slots=True)
class ImportLeftovers:
    """`run` None: no committed run was cut off, only `stale` may hold anything. `what` is the caller's, of that run.

    `coming`: the partitions that are still to come; `lost` the names of those that a broker has removed since.
    `stale`: directories of runs that were not committed, or are at work.
    """

    run: str | None = None
    coming: tuple[ComingFile, ...] = ()
    lost: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    what: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.run is not None or bool(self.stale)

    def place_of(self, staged: str) -> str | None:
        """What a directory that is still to come is to be called."""
        return next((one.path for one in self.coming if one.staged == staged), None)


def import_leftovers(fs: Filesystem, log_dir: str, directories: Iterable[str]) -> ImportLeftovers:
    """What there is among `directories` (names). Raises UnsupportedFormat for an odd record, Unreadable, OSError."""
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


def _is_placed(fs: Filesystem, path: str, record: Record, name: str) -> bool:
    status = fs.status(path)
    return status is not None and status.inode == record.state.get("inodes", {}).get(name)
