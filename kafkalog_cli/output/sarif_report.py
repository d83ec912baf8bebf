"""A report of verify as SARIF 2.1.0, the format of GitHub's code scanning and of other viewers of findings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from kafkalog_cli import __version__
from kafkalog_cli.errors import ExitCode, KafkalogError, next_step
from kafkalog_cli.ops.checks.diagnose import DIAGNOSES, Finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.verify.partition import Verification
from kafkalog_cli.output.ci_report import ReportedRun
from kafkalog_cli.output.ndjson import json_text
from kafkalog_cli.output.stream import printable

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 25_000
"""The most results: GitHub refuses a run with more. The report names how many are left out."""

_LEVELS = {Severity.INFO: "note", Severity.WARNING: "warning", Severity.CORRUPTION: "error"}


class SarifReport:
    """See CiReport."""

    def __init__(self, run: ReportedRun) -> None:
        self._run = run
        self._results: list[dict[str, Any]] = []
        self._rules: dict[FindingKind, int] = {}
        self._notifications: list[dict[str, Any]] = []
        self._left_out = 0
        self._has_failed = False

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterable[str]:
        """See CiReport."""
        room = MOST_RESULTS - len(self._results)
        self._left_out += max(0, len(findings) - room)
        for found in findings[:room]:
            rule = self._rules.setdefault(found.kind, len(self._rules))
            self._results.append(_result(found, verification, rule))
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
            "startTimeUtc": _time(self._run.started_ms),
            "endTimeUtc": _time(ended_ms),
            "toolExecutionNotifications": self._notifications,
        }
        driver = {"name": "kafkalog", "semanticVersion": __version__, "rules": list(map(_rule, self._rules))}
        run = {
            "tool": {"driver": driver},
            "invocations": [invocation],
            "columnKind": "unicodeCodePoints",
            "properties": {"level": self._run.level},
            "results": self._results,
        }
        yield json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(kind: FindingKind) -> dict[str, Any]:
    diagnosis = DIAGNOSES[kind]
    effect = diagnosis.broker_effect or "as the finding says"
    return {
        "id": kind.value,
        "shortDescription": {"text": kind.value.replace("-", " ")},
        "fullDescription": {"text": f"{diagnosis.severity.value}; broker: {effect}"},
        "help": {"text": diagnosis.next_step or "The finding names the next step, if there is one."},
        "defaultConfiguration": {"level": _LEVELS[diagnosis.severity]},
    }


def _result(found: Finding, verification: Verification, rule: int) -> dict[str, Any]:
    text = printable(found.message)
    if found.severity is not Severity.INFO and found.next_step:
        text += f" (next: {printable(found.next_step)})"
    properties = {
        "topic": verification.topic,
        "partition": verification.partition,
        "firstOffset": found.first_offset,
        "lastOffset": found.last_offset,
        "brokerEffect": found.broker_effect or None,
    }
    return {
        "ruleId": found.kind.value,
        "ruleIndex": rule,
        "level": _LEVELS[found.severity],
        "message": {"text": text},
        "locations": [_location(found.path, found.position)],
        "partialFingerprints": {"kafkalogFinding/v1": _fingerprint(found)},
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


def _fingerprint(found: Finding) -> str:
    """Return a hash by which services see that two runs have found the same thing."""
    words = (found.kind.value, os.path.normpath(found.path), found.position, found.first_offset)
    return hashlib.sha256("\0".join(map(str, words)).encode("utf-8", "surrogateescape")).hexdigest()


def _time(ms: int) -> str:
    moment = datetime.fromtimestamp(ms // 1000, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"
