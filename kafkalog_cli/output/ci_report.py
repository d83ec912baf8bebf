"""Reports of verify for CI services: JUnit XML, SARIF, and GitHub's workflow commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import Protocol

from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.ops.verify.diagnose import Finding
from kafkalog_cli.ops.verify.partition import Verification


@unique
class ReportKind(Enum):
    """The formats of reports. The value is the word of `--report`."""

    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """A run that a report is about: the level of verify, and the time of its start."""

    level: str
    started_ms: int


class CiReport(Protocol):
    """Receives the results of a run. Each method returns text to append to the report.

    A report that can only be written as a whole, such as an XML file, is returned by `end`.
    """

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterable[str]:
        """Add a target, with those of its findings that are to be reported."""

    def fail(self, path: str | None, error: KafkalogError) -> Iterable[str]:
        """Add an error: the target at `path` could not be verified, or the whole run failed if it is None."""

    def end(self, code: ExitCode, ended_ms: int) -> Iterable[str]:
        """End the report of a run with this exit code."""


def ci_report(kind: ReportKind, run: ReportedRun) -> CiReport:
    """Return an empty report."""
    if kind is ReportKind.JUNIT:
        from kafkalog_cli.output.junit_report import JunitReport

        return JunitReport(run)
    if kind is ReportKind.SARIF:
        from kafkalog_cli.output.sarif_report import SarifReport

        return SarifReport(run)
    from kafkalog_cli.output.github_report import GithubReport

    return GithubReport()
