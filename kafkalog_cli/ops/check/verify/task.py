"""The task of verifying a partition, and its result, a verification."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.check.checks.log_check import Advance, Totals
from kafkalog_cli.ops.check.verify.places import TopicFacts
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.look.listing.root import LogDirRoot
from kafkalog_cli.results import ABSENT, FLAT, Before, Count, Hidden, Host, PathName, exit_codes, of, result


@unique
class TargetKind(Enum):
    """The kind of thing that a verification is about."""

    PARTITION = "partition"
    LOG_DIR = "log-directory"
    COMPARISON = "comparison"


CODES = (ExitCode.OK, ExitCode.FAILURE, ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.NOT_FOUND)
"""The exit codes of a target."""


@result("kafkalog.finding/1")
class LocatedFinding(NamedTuple):
    """A finding of verify."""

    finding: Annotated[Finding, FLAT]
    topic: Annotated[str | None, Before("position"), "null at the root of a log directory"]
    partition: Annotated[int | None, Before("position")]
    host: Annotated[Host, Before("path")] = None


@result("kafkalog.verification/1")
@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verify for a partition, for the root of a log directory, or for two replicas.

    `topic` and `partition` are None for the root of a log directory. `files` are the names of the files verified, None
    for the whole directory.
    """

    path: Annotated[PathName, "the directory"]
    level: Level
    target: Annotated[TargetKind, Before("path")] = TargetKind.PARTITION
    topic: Annotated[str | None, Before("level")] = None
    partition: Annotated[int | None, Before("level")] = None
    findings: Hidden[tuple[Finding, ...]] = ()
    totals: Annotated[Totals, FLAT] = field(default_factory=Totals)
    log: Hidden[LogBounds | None] = None
    log_start_offset: ClassVar[
        Annotated[int | None, Before("segments"), "base offset of the first segment; null if no log could be read"]
    ] = of("log.start")
    log_end_offset: ClassVar[Annotated[int | None, Before("segments"), "the offset of the next record"]] = of("log.end")
    corruptions: ClassVar[Annotated[Count, "findings of this severity"]] = of(
        lambda found: found.count(Severity.CORRUPTION)
    )
    warnings: ClassVar[Count] = of(lambda found: found.count(Severity.WARNING))
    infos: ClassVar[Count] = of(lambda found: found.count(Severity.INFO))
    not_looked_at: Annotated[tuple[str, ...], "parts that the level or a missing metadata log left unchecked"] = ()
    files: Hidden[frozenset[str] | None] = None
    hosts: Annotated[tuple[str, ...] | None, ABSENT, "with replicas, of a comparison across hosts"] = None
    host: Annotated[Host, Before("path")] = None
    facts: Hidden[object] = None
    """The ReplicaFacts for a comparison with replicas of other hosts, if one is wanted."""

    @property
    def directory(self) -> str:
        """The directory that was verified, or the directory of the one file that was."""
        return self.path.rpartition("/")[0] or "." if self.files is not None and len(self.files) == 1 else self.path

    @property
    def is_whole(self) -> bool:
        """Whether the whole directory was verified, not some of its files."""
        return self.files is None

    @property
    def located(self) -> Iterator[LocatedFinding]:
        """The findings, with the partition that they are about."""
        return (LocatedFinding(found, self.topic, self.partition, self.host) for found in self.findings)

    @property
    def exit_code(self) -> Annotated[ExitCode, exit_codes(*CODES), "of this target"]:
        """The exit code of the worst finding; 1 if a file could not be read and there is no corruption elsewhere.

        10 for a comparison in which nothing was compared, 12 for metadata of a newer Kafka.
        """
        kinds = {found.kind for found in self.findings}
        if FindingKind.NOT_COMPARED in kinds:
            return ExitCode.NOT_FOUND
        if FindingKind.METADATA_NEWER in kinds:
            return ExitCode.UNSUPPORTED
        worst = max((kind.severity.exit_code for kind in kinds), default=ExitCode.OK)
        return ExitCode.FAILURE if FindingKind.NOT_READ in kinds and worst is not ExitCode.CORRUPTION else worst

    def count(self, severity: Severity) -> int:
        """Return the number of findings with this severity."""
        return sum(found.severity is severity for found in self.findings)


@result("kafkalog.verified-host/1")
class VerifiedHost(NamedTuple):
    """The counts of what verify found on a host (--each-host)."""

    host: str
    targets: Annotated[Count, "partitions and log directories"]
    corruptions: Count
    warnings: Count
    infos: Count
    batches: Count
    records: Count
    bytes: Count


def shown_path(directory: str, wanted: frozenset[str] | None) -> str:
    """Return the path that a verification is about: a directory, or the one file of it that is wanted."""
    return directory if wanted is None or len(wanted) > 1 else f"{directory.rstrip('/')}/{next(iter(wanted))}"


class VerifyTask(NamedTuple):
    """A partition to verify, with what is known of its log directory and topic.

    `wanted` names the files to verify (None: all). `with_facts`: the result has the facts of the replica.
    """

    partition: Partition
    level: Level
    now_ms: int
    root: LogDirRoot | None = None
    facts: TopicFacts = TopicFacts()
    wanted: frozenset[str] | None = None
    advance: Advance | None = None
    with_facts: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the partition's own lines of the checkpoints: Spark sends a task to another process."""
        root = self.root and self.root.about(self.partition.topic, self.partition.number)
        return VerifyTask, tuple(self._replace(root=root))

    def wants(self, path: str) -> bool:
        """Whether a file is to be verified."""
        return self.wanted is None or path.rpartition("/")[2] in self.wanted
