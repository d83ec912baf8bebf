"""The task of verifying a partition, and its result, a verification."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.checks.diagnose import Finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.choices import Level as Level  # noqa: PLC0414 - others import it from here
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.verify.places import TopicFacts

Advance = Callable[[int, str], None]
"""A callback for progress: the number of bytes just checked, and the path of their file."""


@unique
class TargetKind(Enum):
    """The kind of thing that a verification is about."""

    PARTITION = "partition"
    LOG_DIR = "log-directory"
    COMPARISON = "comparison"


@dataclass(slots=True)
class Totals:
    """Counts of what was checked in a partition."""

    segments: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True)
class Verification:
    """The findings at one path.

    `topic` and `partition` are None for the root of a log directory. `log` is the range of offsets, None if none could
    be read. `not_looked_at` names what the level left unchecked. `files` are the names of the files verified, None for
    the whole directory.
    """

    path: str
    level: Level
    target: TargetKind = TargetKind.PARTITION
    topic: str | None = None
    partition: int | None = None
    findings: tuple[Finding, ...] = ()
    totals: Totals = field(default_factory=Totals)
    log: LogBounds | None = None
    not_looked_at: tuple[str, ...] = ()
    files: frozenset[str] | None = None

    @property
    def directory(self) -> str:
        """The directory that was verified, or the directory of the one file that was."""
        return self.path.rpartition("/")[0] or "." if self.files is not None and len(self.files) == 1 else self.path

    @property
    def is_whole(self) -> bool:
        """Whether the whole directory was verified, not some of its files."""
        return self.files is None

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the worst finding; 1 if a file could not be read and there is no corruption elsewhere.

        10 for a comparison in which nothing was compared, 12 for metadata of a newer Kafka.
        """
        if any(found.kind is FindingKind.NOT_COMPARED for found in self.findings):
            return ExitCode.NOT_FOUND
        if any(found.kind is FindingKind.METADATA_NEWER for found in self.findings):
            return ExitCode.UNSUPPORTED
        worst = max((found.severity.exit_code for found in self.findings), default=ExitCode.OK)
        is_read = all(found.kind is not FindingKind.NOT_READ for found in self.findings)
        return worst if is_read or worst is ExitCode.CORRUPTION else ExitCode.FAILURE

    def count(self, severity: Severity) -> int:
        """Return the number of findings with this severity."""
        return sum(found.severity is severity for found in self.findings)


def shown_path(directory: str, wanted: frozenset[str] | None) -> str:
    """Return the path that a verification is about: a directory, or the one file of it that is wanted."""
    return directory if wanted is None or len(wanted) > 1 else f"{directory.rstrip('/')}/{next(iter(wanted))}"


class VerifyTask(NamedTuple):
    """A partition to verify, with what is known of its log directory and topic.

    `wanted` names the files to verify (None: all). `elsewhere` are findings about other directories of the same
    partition. `leftover` is the finding for a directory that belongs to no committed import. Its contents are not
    checked.
    """

    partition: Partition
    level: Level
    now_ms: int
    root: LogDirRoot | None = None
    facts: TopicFacts = TopicFacts()
    elsewhere: tuple[Finding, ...] = ()
    wanted: frozenset[str] | None = None
    advance: Advance | None = None
    leftover: Finding | None = None

    @property
    def is_deep(self) -> bool:
        """Whether records are checked, too."""
        return self.level is Level.DEEP

    def wants(self, path: str) -> bool:
        """Whether a file is to be verified."""
        return self.wanted is None or path.rpartition("/")[2] in self.wanted
