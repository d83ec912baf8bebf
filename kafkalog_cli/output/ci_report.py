"""Reports of verify for CI services: JUnit XML, SARIF, and GitHub's workflow commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import Protocol

from kafkalog_cli.errors import ExitCode, KafkalogError, next_step
from kafkalog_cli.ops.checks.diagnose import Finding
from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.verify.partition import Verification
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.verify_text import verification_summary

_COMMANDS = {Severity.INFO: "notice", Severity.WARNING: "warning", Severity.CORRUPTION: "error"}
_IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
"""The escapes of GitHub's own toolkit, for a message and for the properties of a command."""


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
    return GithubReport()


class GithubReport:
    """Workflow commands of GitHub Actions, which shows each as an annotation of its file; see CiReport."""

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterable[str]:
        """See CiReport."""
        for found in findings:
            yield _annotation(found)
        yield f"kafkalog: {_clean(verification_summary(verification))}\n"

    def fail(self, path: str | None, error: KafkalogError) -> Iterable[str]:
        """See CiReport."""
        step = next_step(error)
        message = str(error) + (f"\nnext: {step}" if step else "")
        yield _command("error", {"file": path, "title": f"kafkalog: {type(error).__name__}"}, message)

    def end(self, code: ExitCode, ended_ms: int) -> Iterable[str]:
        """See CiReport."""
        return ()


def _annotation(found: Finding) -> str:
    """Return the command of one finding. A log has no lines, so the place in the file is in the message."""
    where = "" if found.position is None else f"at byte {found.position}: "
    lines = [where + found.message]
    if found.severity is not Severity.INFO:
        lines += [f"broker: {found.broker_effect}"] if found.broker_effect else []
        lines += [f"next: {found.next_step}"] if found.next_step else []
    title = f"kafkalog: {found.kind.value}"
    return _command(_COMMANDS[found.severity], {"file": found.path, "title": title}, "\n".join(lines))


def _command(name: str, properties: dict[str, str | None], message: str) -> str:
    given = (f"{key}={_clean(value).translate(_IN_PROPERTIES)}" for key, value in properties.items() if value)
    return f"::{name} {','.join(given)}::{_clean(message).translate(_IN_MESSAGES)}\n"


def _clean(text: str) -> str:
    """Return the text without control characters and without `##[`, which begins a command wherever it stands."""
    return "\n".join(map(printable, text.split("\n"))).replace("##[", "# #[")
