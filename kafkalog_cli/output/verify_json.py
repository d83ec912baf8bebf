"""The JSON output of verify: findings, and an object per target."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.ops.verify.diagnose import Finding
from kafkalog_cli.ops.verify.finding_kinds import Severity
from kafkalog_cli.ops.verify.partition import Verification
from kafkalog_cli.output.ndjson import json_path

FINDING = "kafkalog.finding/1"
VERIFICATION = "kafkalog.verification/1"


def finding_object(found: Finding, verification: Verification) -> dict[str, Any]:
    """Return the fields of a finding; `topic` and `partition` are null at the root of a log directory."""
    return {
        "kind": found.kind.value,
        "severity": found.severity.value,
        **json_path(found.path),
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


def verification_object(verification: Verification) -> dict[str, Any]:
    """Return the fields of a target's result; offsets are null if no log could be read."""
    log, totals = verification.log, verification.totals
    return {
        "target": verification.target.value,
        **json_path(verification.path),
        "topic": verification.topic,
        "partition": verification.partition,
        "level": verification.level.value,
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
