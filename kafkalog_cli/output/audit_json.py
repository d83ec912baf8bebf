"""The JSON output of audit: the findings of a partition or log directory, then an object for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkalog_cli.ops.audit.audit import Audited, Failed, PartitionStatistics
from kafkalog_cli.ops.audit.compare import AuditChange
from kafkalog_cli.ops.audit.keys import KeyCounts
from kafkalog_cli.output.ndjson import JsonLines, json_path
from kafkalog_cli.output.verify_json import FINDING, finding_object, verification_object

AUDIT = "kafkalog.audit/1"
CHANGE = "kafkalog.audit-change/1"


def write_audited(lines: JsonLines, audited: Audited) -> None:
    """Write the findings, then the result."""
    if not isinstance(audited.result, Failed):
        for one in audited.result.findings:
            lines.object(FINDING, "finding", finding_object(one, audited.result))
    lines.object(AUDIT, "audit", audit_object(audited))


def write_change(lines: JsonLines, change: AuditChange) -> None:
    """Write the change of one partition since an earlier run."""
    names = ("new_findings", "gone_findings")
    findings = {name: [{"kind": kind, "path": path} for kind, path in getattr(change, name)] for name in names}
    fields = {**change._asdict(), "kind": change.kind.value, **findings}
    lines.object(CHANGE, "audit-change", fields)


def audit_object(audited: Audited) -> dict[str, Any]:
    """Return the fields of `kafkalog.audit/1`: a verification's and `statistics`; a failed audit has an `error`."""
    log_dir, result = audited.log_dir, audited.result
    where = {} if log_dir is None else {**json_path(log_dir.path, "log_dir"), **log_dir._asdict()}
    where.pop("path", None)
    if isinstance(result, Failed):
        failed: dict[str, Any] = {"error": str(result.error), "findings": {}, "statistics": None}
        return {**json_path(result.path), **where, **failed, "exit_code": int(audited.exit_code)}
    told = verification_object(result)
    for name in ("segments", "bytes", "batches", "records"):
        told.pop(name)  # the verification counts what it checked; the statistics count what exists
    statistics = audited.statistics
    return {
        **told,
        **where,
        "error": None,
        "findings": dict(Counter(one.kind.value for one in result.findings)),
        "statistics": None if statistics is None else statistics_object(statistics),
    }


def statistics_object(found: PartitionStatistics) -> dict[str, Any]:
    """Return the statistics of a partition."""
    return {
        "directory_kind": found.kind.name.lower(),
        "topic_id": found.topic_id,
        "segments": found.segments,
        "bytes": found.bytes,
        "total_bytes": found.total_bytes,
        "allocated_bytes": found.allocated_bytes,
        "high_watermark": found.high_watermark,
        "batches": found.batches,
        "records": found.records,
        "control_records": found.control_records,
        "first_timestamp_ms": found.first_timestamp,
        "max_timestamp_ms": found.max_timestamp,
        "codecs": [one._asdict() for one in found.codecs],
        "dirty_bytes": found.dirty_bytes,
        "dirty_ratio": found.dirty_ratio,
        "keys": None if found.keys is None else keys_object(found.keys),
    }


def keys_object(found: KeyCounts) -> dict[str, Any]:
    """Return the counts of keys of a partition."""
    tops = {name: [one._asdict() for one in getattr(found, name)] for name in ("largest", "most_frequent")}
    return {**found._asdict(), "is_exact": not found.relative_error, **tops}
