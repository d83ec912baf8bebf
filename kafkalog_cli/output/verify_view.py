"""How `verify` shows its results as JSON: the objects of the findings, then the object of the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, TypedDict

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.checks.diagnose import Finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.verify.partition import Level, TargetKind, Verification
from kafkalog_cli.output.records import Count, ObjectKind, PathText, exit_codes
from kafkalog_cli.output.views import FAILURES, Listener, View

_OF_SEVERITY = {Severity.CORRUPTION: "corruptions", Severity.WARNING: "warnings", Severity.INFO: "infos"}
CODES = (ExitCode.OK, ExitCode.FAILURE, ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.NOT_FOUND)
"""The exit codes of a target."""


class FindingObject(TypedDict):
    """A finding of verify."""

    kind: Annotated[FindingKind, "docs/findings.md explains each; later versions may have more"]
    severity: Severity
    path: Annotated[PathText, "the file or directory"]
    topic: Annotated[str | None, "null at the root of a log directory"]
    partition: int | None
    position: Annotated[Count | None, "in bytes from the start of the file"]
    expected: Annotated[str | None, "as text"]
    got: Annotated[str | None, "as text"]
    first_offset: Annotated[int | None, "the first offset concerned"]
    last_offset: Annotated[int | None, "the last offset concerned"]
    message: str
    broker_effect: Annotated[str | None, "a broker's reaction, at its start or while it runs"]
    next_step: Annotated[str | None, "null if nothing has to be done"]


class VerificationObject(TypedDict):
    """The result of verify for a partition, for the root of a log directory, or for two replicas."""

    target: TargetKind
    path: Annotated[PathText, "the directory"]
    topic: str | None
    partition: int | None
    level: Level
    log_start_offset: Annotated[int | None, "base offset of the first segment; null if no log could be read"]
    log_end_offset: Annotated[int | None, "the offset of the next record"]
    segments: Annotated[Count, "checked segments"]
    bytes: Annotated[Count, "of these segments"]
    batches: Count
    records: Annotated[Count, "read, at level deep"]
    corruptions: Annotated[Count, "findings of this severity"]
    warnings: Count
    infos: Count
    not_looked_at: Annotated[list[str], "parts that the level or a missing metadata log left unchecked"]
    exit_code: Annotated[int, exit_codes(*CODES), "of this target"]


FINDING = ObjectKind("kafkalog.finding/1", FindingObject)
VERIFICATION = ObjectKind("kafkalog.verification/1", VerificationObject)


def verify_view(listener: Listener, *, quiet: bool) -> View[Verification]:
    """Return the view; with `quiet` only warnings and worse are shown. `listener` writes the text and the reports."""
    return View(
        VERIFICATION,
        verification_object,
        lambda _: (),
        ("targets", FAILURES, *_OF_SEVERITY.values(), "batches", "records", "bytes"),
        _counts,
        objects=partial(_objects, quiet=quiet),
        counts_partitions=False,
        listener=listener,
    )


def _objects(result: Verification, *, quiet: bool) -> Iterator[tuple[ObjectKind[Any], Mapping[str, object]]]:
    found = [one for one in result.findings if not quiet or one.severity is not Severity.INFO]
    for one in found:
        yield FINDING, finding_object(one, result)
    if found or not quiet:
        yield VERIFICATION, verification_object(result)


def _counts(result: Verification) -> dict[str, int]:
    of_findings = {name: result.count(severity) for severity, name in _OF_SEVERITY.items()}
    totals = result.totals
    return {"targets": 1, **of_findings, "batches": totals.batches, "records": totals.records, "bytes": totals.bytes}


def finding_object(found: Finding, verification: Verification) -> FindingObject:
    """Return the fields of a finding."""
    return {
        "kind": found.kind,
        "severity": found.severity,
        "path": PathText(found.path),
        "topic": verification.topic,
        "partition": verification.partition,
        "position": found.position,
        "expected": found.expected or None,
        "got": found.got or None,
        "first_offset": found.first_offset,
        "last_offset": found.last_offset,
        "message": found.message,
        "broker_effect": found.broker_effect or None,
        "next_step": found.next_step or None,
    }


def verification_object(verification: Verification) -> VerificationObject:
    """Return the fields of a target's result."""
    log, totals = verification.log, verification.totals
    return {
        "target": verification.target,
        "path": PathText(verification.path),
        "topic": verification.topic,
        "partition": verification.partition,
        "level": verification.level,
        "log_start_offset": None if log is None else log.start,
        "log_end_offset": None if log is None else log.end,
        "segments": totals.segments,
        "bytes": totals.bytes,
        "batches": totals.batches,
        "records": totals.records,
        "corruptions": verification.count(Severity.CORRUPTION),
        "warnings": verification.count(Severity.WARNING),
        "infos": verification.count(Severity.INFO),
        "not_looked_at": list(verification.not_looked_at),
        "exit_code": int(verification.exit_code),
    }
