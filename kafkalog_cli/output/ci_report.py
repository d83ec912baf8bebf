"""Reports of verify for CI services: JUnit XML, SARIF, and GitHub's workflow commands."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, Protocol
from urllib.parse import quote

from kafkalog_cli import __version__
from kafkalog_cli.errors import ExitCode, KafkalogError, counted, next_step
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.check.verify.task import Verification
from kafkalog_cli.ops.steps import text_of
from kafkalog_cli.output.findings import verification_summary
from kafkalog_cli.output.ndjson import json_text
from kafkalog_cli.output.stream import printable

_COMMANDS = {Severity.INFO: "notice", Severity.WARNING: "warning", Severity.CORRUPTION: "error"}
_IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
"""The escapes of GitHub's own toolkit, for a message and for the properties of a command."""


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


KINDS = ("junit", "sarif", "github")
"""The words of `--report`."""


def ci_report(kind: str, level: str, started_ms: int) -> CiReport:
    """Return an empty report of a run at a level of verify that started at this time."""
    if kind == "junit":
        from kafkalog_cli.output.junit_report import JunitReport

        return JunitReport(level, started_ms)
    return SarifReport(level, started_ms) if kind == "sarif" else GithubReport()


class GithubReport:
    """Workflow commands of GitHub Actions, which shows each as an annotation of its file; see CiReport."""

    def __init__(self) -> None:
        self._checked = self._bad = 0

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterable[str]:
        """See CiReport."""
        self._checked += 1
        for finding in findings:
            yield _annotation(finding)
        if verification.exit_code is not ExitCode.OK:
            self._bad += 1
            yield f"kafkalog: {_clean(verification_summary(verification))}\n"

    def fail(self, path: str | None, error: KafkalogError) -> Iterable[str]:
        """See CiReport."""
        step = next_step(error)
        message = str(error) + (f"\nnext: {step}" if step else "")
        yield _command("error", {"file": path, "title": f"kafkalog: {type(error).__name__}"}, message)

    def end(self, code: ExitCode, ended_ms: int) -> Iterable[str]:
        """See CiReport."""
        checked = counted(self._checked, "partition or log directory", "partitions and log directories")
        yield f"kafkalog: {checked}: {self._checked - self._bad} OK, {self._bad} not OK\n"


def _annotation(finding: Finding) -> str:
    """Return the command of one finding. A log has no lines, so the place in the file is in the message."""
    where = "" if finding.position is None else f"at byte {finding.position}: "
    lines = [where + finding.message]
    if finding.severity is not Severity.INFO:
        lines += [f"broker: {finding.broker_effect}"] if finding.broker_effect else []
        lines += [f"next: {finding.next_step}"] if finding.next_step else []
    title = f"kafkalog: {finding.kind.value}"
    return _command(_COMMANDS[finding.severity], {"file": finding.path, "title": title}, "\n".join(lines))


def _command(name: str, properties: dict[str, str | None], message: str) -> str:
    given = (f"{key}={_clean(value).translate(_IN_PROPERTIES)}" for key, value in properties.items() if value)
    return f"::{name} {','.join(given)}::{_clean(message).translate(_IN_MESSAGES)}\n"


def _clean(text: str) -> str:
    """Return the text without control characters and without `##[`, which begins a command wherever it stands."""
    return "\n".join(map(printable, text.split("\n"))).replace("##[", "# #[")


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 25_000
"""The most results: GitHub refuses a run with more. The report names how many are left out."""

_LEVELS = {Severity.INFO: "note", Severity.WARNING: "warning", Severity.CORRUPTION: "error"}


class SarifReport:
    """See CiReport."""

    def __init__(self, level: str, started_ms: int) -> None:
        self._level, self._started_ms = level, started_ms
        self._results: list[dict[str, Any]] = []
        self._rules: dict[FindingKind, int] = {}
        self._notifications: list[dict[str, Any]] = []
        self._left_out = 0
        self._has_failed = False

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterable[str]:
        """See CiReport."""
        free = MOST_RESULTS - len(self._results)
        self._left_out += max(0, len(findings) - free)
        for finding in findings[:free]:
            rule = self._rules.setdefault(finding.kind, len(self._rules))
            self._results.append(_result(finding, verification, rule))
        return ()

    def fail(self, path: str | None, error: KafkalogError) -> Iterable[str]:
        """See CiReport."""
        self._has_failed = True
        step = next_step(error)
        text = printable(str(error)) + (f" (next: {printable(step)})" if step else "")
        locations = {} if path is None else {"locations": [_location(path)]}
        self._notifications.append({"level": "error", "message": {"text": text}, **locations})
        return ()

    def end(self, code: ExitCode, ended_ms: int) -> Iterable[str]:
        """See CiReport."""
        if self._left_out:
            text = f"{self._left_out} more findings are left out: a report has at most {MOST_RESULTS}"
            self._notifications.append({"level": "warning", "message": {"text": text}})
        invocation = {
            "executionSuccessful": not self._has_failed,
            "exitCode": int(code),
            "startTimeUtc": _time(self._started_ms),
            "endTimeUtc": _time(ended_ms),
            "toolExecutionNotifications": self._notifications,
        }
        driver = {"name": "kafkalog", "semanticVersion": __version__, "rules": list(map(_rule, self._rules))}
        run = {
            "tool": {"driver": driver},
            "invocations": [invocation],
            "columnKind": "unicodeCodePoints",
            "properties": {"level": self._level},
            "results": self._results,
        }
        yield json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(kind: FindingKind) -> dict[str, Any]:
    effect = kind.broker_effect or "as the finding says"
    return {
        "id": kind.value,
        "shortDescription": {"text": kind.value.replace("-", " ")},
        "fullDescription": {"text": f"{kind.severity.value}; broker: {effect}"},
        "help": {"text": text_of(kind.steps) or "The finding names the next step, if there is one."},
        "defaultConfiguration": {"level": _LEVELS[kind.severity]},
    }


def _result(finding: Finding, verification: Verification, rule: int) -> dict[str, Any]:
    text = printable(finding.message)
    if finding.severity is not Severity.INFO and finding.next_step:
        text += f" (next: {printable(finding.next_step)})"
    properties = {
        "topic": verification.topic,
        "partition": verification.partition,
        "firstOffset": finding.first_offset,
        "lastOffset": finding.last_offset,
        "brokerEffect": finding.broker_effect or None,
    }
    return {
        "ruleId": finding.kind.value,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding.path, finding.position)],
        "partialFingerprints": {"kafkalogFinding/v1": _fingerprint(finding)},
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _location(path: str, position: int | None = None) -> dict[str, Any]:
    """Return a place in a file. A log is binary: its regions have bytes, and no lines."""
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(path)}}
    if position is not None:
        physical["region"] = {"byteOffset": position}
    return {"physicalLocation": physical}


def _uri(path: str) -> str:
    """Return a relative path as a relative reference, so that services find the file in their checkout."""
    name = quote(os.fsencode(os.path.normpath(path)))
    return f"file://{name}" if name.startswith("/") else name


def _fingerprint(finding: Finding) -> str:
    """Return a hash by which services see that two runs have found the same thing."""
    words = (finding.kind.value, os.path.normpath(finding.path), finding.position, finding.first_offset)
    return hashlib.sha256("\0".join(map(str, words)).encode("utf-8", "surrogateescape")).hexdigest()


def _time(ms: int) -> str:
    moment = datetime.fromtimestamp(ms // 1000, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"
