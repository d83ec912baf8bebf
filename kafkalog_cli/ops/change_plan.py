"""The base class of all plans that change a partition, and the fingerprints of its files when a plan was made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog_cli.change.changes import Change, Cut, Drop, Move, Put
from kafkalog_cli.change.checkpoint_lines import LineEdit
from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.settings.topic_config import Setting


class Remark(NamedTuple):
    """A plan's remark on a file. `code` is WARNINGS, CORRUPTION, or REFUSED if the remark prevents the change."""

    path: str
    message: str
    code: ExitCode
    position: int | None = None
    next_step: str = ""


class Fingerprint(NamedTuple):
    """A file's state when a plan was made. It is compared again before anything is changed."""

    name: str
    size_bytes: int
    mtime_ms: int
    inode: int


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The changes to one partition, and the log that they leave. Offsets are None if the plan is refused.

    `is_refused`: nothing may be done, and a remark says why. `settings` are the settings that were used. `log_dir` is
    the log directory whose checkpoints have the partition's lines, None if the partition is in no log directory.
    """

    path: str
    topic: str
    partition: int
    log_dir: str | None = None
    changes: tuple[Change, ...] = ()
    line_edits: tuple[LineEdit, ...] = ()
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    remarks: tuple[Remark, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()
    settings: tuple[Setting, ...] = ()
    is_refused: bool = False

    @property
    def name(self) -> str:
        """The name of the partition's directory."""
        return self.path.rpartition("/")[2]

    @property
    def has_work(self) -> bool:
        """Whether the plan changes anything."""
        return not self.is_refused and bool(self.changes or self.line_edits)

    @property
    def drops_valid(self) -> bool:
        """Whether valid records are removed, so that the user is asked first."""
        return False

    @property
    def exit_code(self) -> ExitCode:
        """REFUSED if the plan is refused, else the worst code of the remarks on damage; OK without any."""
        if self.is_refused:
            return ExitCode.REFUSED
        codes = {remark.code for remark in self.remarks}
        return next((code for code in (ExitCode.CORRUPTION, ExitCode.WARNINGS) if code in codes), ExitCode.OK)


def in_place(plan: ChangePlan) -> frozenset[str]:
    """Return the names of the files that are cut in place."""
    return frozenset(change.name for change in plan.changes if isinstance(change, Cut))


def fingerprints_of(fs: Filesystem, directory: str) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of a directory's regular files."""
    return tuple(_fingerprint(status) for status in fs.list_directory(directory) if status.is_file)


def _fingerprint(status: FileStatus) -> Fingerprint:
    return Fingerprint(status.path.rpartition("/")[2], status.size_bytes, status.mtime_ms, status.inode)


def describe(changes: Iterable[Change]) -> list[str]:
    """Describe the changes as sentences."""
    return [_sentence(change) for change in changes]


def _sentence(change: Change) -> str:
    if isinstance(change, Cut):
        return f"cut {change.name} from {change.from_bytes} to {change.to_bytes} bytes"
    if isinstance(change, Move):
        return f"rename {change.name} to {change.new_name}"
    if isinstance(change, Drop):
        return f"take {change.name} away"
    assert isinstance(change, Put)
    return f"{'rewrite' if change.replaces else 'write'} {change.name}, {change.content.size_bytes} bytes"
