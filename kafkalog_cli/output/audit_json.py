"""The JSON output of audit: the findings of a partition or log directory, then an object for it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, TypedDict, cast

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.audit.audit import Audited, Failed, PartitionStatistics
from kafkalog_cli.ops.audit.compare import AuditChange, AuditChangeKind
from kafkalog_cli.ops.audit.keys import KeyCounts
from kafkalog_cli.ops.verify.partition import Level, TargetKind
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.records import (
    Count,
    DirectoryWord,
    NotRequired,
    ObjectKind,
    PathText,
    Positive,
    RawBytes,
    exit_codes,
    keywords,
    same_fields,
)
from kafkalog_cli.output.verify_view import CODES, FINDING, finding_object, verification_object

_TARGETS = (TargetKind.PARTITION.value, TargetKind.LOG_DIR.value)


class KeyTotalObject(TypedDict):
    """A key, and the totals of its records. An estimated total is at most its error too low."""

    key: Annotated[RawBytes, "its first 1024 bytes"]
    key_bytes: Annotated[Count, "the size of the whole key"]
    records: Count
    bytes: Annotated[Count, "of keys and values, decompressed"]
    records_error: Count
    bytes_error: Count


class KeyCountsObject(TypedDict):
    """The keys of a partition's records."""

    keys: Annotated[Count, "the number of different keys"]
    relative_error: Annotated[float, keywords(minimum=0), "the standard error of an estimated number of keys, else 0"]
    null_keys: Annotated[Count, "records without a key"]
    tombstones: Annotated[Count, "records with a key and without a value"]
    largest: Annotated[list[KeyTotalObject], "by bytes"]
    most_frequent: Annotated[list[KeyTotalObject], "by records"]
    uncounted_records: Annotated[Count, "the most records of a key that was not counted for lack of memory"]
    uncounted_bytes: Annotated[Count, "the most bytes of such a key"]
    is_exact: Annotated[bool, "whether the keys were counted (by hashes of 64 bits), not estimated"]


class CodecCountsObject(TypedDict):
    """The batches of a codec."""

    codec: str
    batches: Count
    bytes: Annotated[Count, "of whole batches in the log"]


class StatisticsObject(TypedDict):
    """The contents of a partition."""

    directory_kind: DirectoryWord
    topic_id: Annotated[str | None, "of partition.metadata"]
    segments: Count
    bytes: Annotated[Count, "of log files"]
    total_bytes: Annotated[Count, "of all files"]
    allocated_bytes: Annotated[Count, "their space on the disk"]
    high_watermark: Annotated[int | None, "at most the log's end; null if unknown"]
    batches: Annotated[Count, "batches whose CRC is right or was not checked"]
    records: Annotated[int | None, "without control records: read, or of headers; null if a header has no count"]
    control_records: Count
    first_timestamp_ms: Annotated[int | None, "of the first batch"]
    max_timestamp_ms: Annotated[int | None, "the largest of all batches"]
    codecs: list[CodecCountsObject]
    dirty_bytes: Annotated[int | None, "of whole segments that the log cleaner may clean; null: it cleans nothing"]
    dirty_ratio: Annotated[
        float | None,
        keywords(minimum=0, maximum=1),
        "dirty bytes divided by the bytes that a cleaning would read; null: the log cleaner cleans nothing",
    ]
    keys: Annotated[KeyCountsObject | None, "null without --keys"]


class AuditObject(TypedDict):
    """The result of audit for a partition directory, or for a log directory's own files."""

    target: NotRequired[Annotated[TargetKind, keywords(enum=_TARGETS)]]
    path: Annotated[PathText, "the directory"]
    topic: NotRequired[str | None]
    partition: NotRequired[int | None]
    level: NotRequired[Level]
    log_start_offset: NotRequired[
        Annotated[int | None, "base offset of the first segment; null if no log could be read"]
    ]
    log_end_offset: NotRequired[Annotated[int | None, "the offset of the next record"]]
    corruptions: NotRequired[Annotated[Count, "findings of this severity"]]
    warnings: NotRequired[Count]
    infos: NotRequired[Count]
    not_looked_at: NotRequired[Annotated[list[str], "parts that the level or a missing metadata log left unchecked"]]
    exit_code: Annotated[int, exit_codes(*CODES, ExitCode.UNSUPPORTED, ExitCode.REFUSED), "of this target"]
    log_dir: NotRequired[Annotated[PathText, "the log directory that contains it; absent if it is in no log directory"]]
    cluster_id: NotRequired[Annotated[str | None, "of meta.properties"]]
    node_id: NotRequired[int | None]
    directory_id: NotRequired[str | None]
    error: Annotated[str | None, "why it could not be checked; then there are no findings"]
    findings: Annotated[dict[str, Positive], "findings by kind; each has its own line before this line"]
    statistics: Annotated[StatisticsObject | None, "null for a log directory, and after an error"]


class AuditFindingObject(TypedDict):
    """A warning or a corruption."""

    kind: Annotated[str, "as in kafkalog.finding/1"]
    path: str


class AuditNumbersObject(TypedDict):
    """The numbers of a partition, compared with those of an earlier audit."""

    path: Annotated[str, "the partition directory; bytes that are not UTF-8 as \\xNN"]
    topic: Annotated[str | None, "null for a log directory's own files"]
    partition: int | None
    kind: AuditChangeKind
    since_run: Annotated[str, "the earlier run"]
    since_ms: Annotated[int, "the time of the earlier run"]
    seconds: Annotated[float, "between both runs"]
    bytes: Annotated[int | None, "the change of the size; negative: less than before"]
    records: Annotated[int | None, "the change of the number; null if a number is unknown"]
    offsets: Annotated[int | None, "the change of the log end offset"]
    bytes_per_s: float | None
    offsets_per_s: float | None
    dirty_ratio_before: float | None
    dirty_ratio: float | None


class AuditChangeObject(AuditNumbersObject):
    """The change of a partition since an earlier audit."""

    new_findings: Annotated[list[AuditFindingObject], "warnings and corruptions"]
    gone_findings: Annotated[list[AuditFindingObject], "warnings and corruptions of the earlier run"]


AUDIT = ObjectKind("kafkalog.audit/1", AuditObject)
CHANGE = ObjectKind("kafkalog.audit-change/1", AuditChangeObject)


def write_audited(lines: JsonLines, audited: Audited) -> None:
    """Write the findings, then the result."""
    if not isinstance(audited.result, Failed):
        for one in audited.result.findings:
            lines.object(FINDING, finding_object(one, audited.result))
    lines.object(AUDIT, audit_object(audited))


def write_change(lines: JsonLines, change: AuditChange) -> None:
    """Write the change of one partition since an earlier run."""
    fields: AuditChangeObject = {
        **same_fields(AuditNumbersObject, change),
        "new_findings": [{"kind": kind, "path": path} for kind, path in change.new_findings],
        "gone_findings": [{"kind": kind, "path": path} for kind, path in change.gone_findings],
    }
    lines.object(CHANGE, fields)


def audit_object(audited: Audited) -> AuditObject:
    """Return the fields of an audit: a verification's and `statistics`; a failed audit has an `error`."""
    log_dir, result = audited.log_dir, audited.result
    found: Any = {} if isinstance(result, Failed) else verification_object(result)
    for name in ("segments", "bytes", "batches", "records"):
        found.pop(name, None)  # the verification counts what it checked; the statistics count what exists
    if isinstance(result, Failed):
        found["path"] = PathText(result.path)
    if log_dir is not None:
        found |= {"log_dir": PathText(log_dir.path), "cluster_id": log_dir.cluster_id}
        found |= {"node_id": log_dir.node_id, "directory_id": log_dir.directory_id}
    if isinstance(result, Failed):
        found |= {"error": str(result.error), "findings": {}, "statistics": None, "exit_code": int(audited.exit_code)}
    else:
        counts = Counter(one.kind.value for one in result.findings)
        statistics = None if audited.statistics is None else statistics_object(audited.statistics)
        found |= {"error": None, "findings": dict(counts), "statistics": statistics}
    return cast(AuditObject, found)


def statistics_object(found: PartitionStatistics) -> StatisticsObject:
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
        "codecs": [same_fields(CodecCountsObject, one) for one in found.codecs],
        "dirty_bytes": found.dirty_bytes,
        "dirty_ratio": found.dirty_ratio,
        "keys": None if found.keys is None else keys_object(found.keys),
    }


def keys_object(found: KeyCounts) -> KeyCountsObject:
    """Return the counts of keys of a partition."""
    return {
        "keys": found.keys,
        "relative_error": found.relative_error,
        "null_keys": found.null_keys,
        "tombstones": found.tombstones,
        "largest": [same_fields(KeyTotalObject, key) for key in found.largest],
        "most_frequent": [same_fields(KeyTotalObject, key) for key in found.most_frequent],
        "uncounted_records": found.uncounted_records,
        "uncounted_bytes": found.uncounted_bytes,
        "is_exact": not found.relative_error,
    }
