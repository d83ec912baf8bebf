"""Audits as Arrow tables: the rows of a DataFrame, of a Parquet file, and of the history."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kafkalog_cli.ops.audit.audit import Audited, Failed, PartitionStatistics
from kafkalog_cli.ops.checks.finding_kinds import Severity

_MOST_MS = ((1 << 63) - 1) // 1000
"""Larger timestamps become null, because Spark counts microseconds."""


class HistoryRun(NamedTuple):
    """The run that a row belongs to; `time_ms` is its time, or that of `--now`."""

    run: str
    time_ms: int
    host: str
    version: str


def audit_schema() -> Any:
    """Return the pyarrow.Schema of rows: one per partition directory, and one per log directory."""
    import pyarrow as pa

    text, whole, time = pa.string(), pa.int64(), pa.timestamp("ms", tz="UTC")
    codec = pa.struct([("codec", text), ("batches", whole), ("bytes", whole)])
    key = pa.struct([
        ("key", pa.binary()), ("key_bytes", whole), ("records", whole), ("bytes", whole), ("records_error", whole),
        ("bytes_error", whole),
    ])  # fmt: skip
    finding = pa.struct([
        ("kind", text), ("severity", text), ("path", text), ("position", whole), ("first_offset", whole),
        ("last_offset", whole), ("message", text), ("broker_effect", text), ("next_step", text),
    ])  # fmt: skip
    return pa.schema([
        ("run", text), ("time", time), ("host", text), ("version", text), ("path", text), ("log_dir", text),
        ("cluster_id", text), ("node_id", pa.int32()), ("directory_id", text), ("target", text), ("topic", text),
        ("partition", pa.int32()), ("directory_kind", text), ("topic_id", text), ("level", text), ("segments", whole),
        ("bytes", whole), ("total_bytes", whole), ("allocated_bytes", whole), ("log_start_offset", whole),
        ("log_end_offset", whole), ("high_watermark", whole), ("batches", whole), ("records", whole),
        ("control_records", whole), ("first_timestamp", time), ("max_timestamp", time), ("codecs", pa.list_(codec)),
        ("dirty_bytes", whole), ("dirty_ratio", pa.float64()), ("keys", whole), ("keys_relative_error", pa.float64()),
        ("null_keys", whole), ("tombstones", whole), ("largest_keys", pa.list_(key)),
        ("most_frequent_keys", pa.list_(key)), ("corruptions", pa.int32()), ("warnings", pa.int32()),
        ("infos", pa.int32()), ("findings", pa.list_(finding)), ("not_looked_at", pa.list_(text)), ("error", text),
        ("exit_code", pa.int32()),
    ])  # fmt: skip


def audit_table(audited: Iterable[Audited], run: HistoryRun) -> Any:
    """Return the audits as a pyarrow.Table of `audit_schema`."""
    import pyarrow as pa

    return pa.Table.from_pylist([_row(one, run) for one in audited], schema=audit_schema())


def _row(audited: Audited, run: HistoryRun) -> dict[str, Any]:
    result, log_dir, found = audited.result, audited.log_dir, audited.statistics
    row: dict[str, Any] = {
        **run._asdict(), "time": run.time_ms, "path": as_text(result.path), "exit_code": int(audited.exit_code),
    }  # fmt: skip
    if log_dir is not None:
        row |= {**log_dir._asdict(), "path": row["path"], "log_dir": as_text(log_dir.path)}
    if isinstance(result, Failed):
        return {**row, "error": as_text(str(result.error))}
    row |= {
        "target": result.target.value,
        "topic": None if result.topic is None else as_text(result.topic),
        "partition": result.partition,
        "level": result.level.value,
        "log_start_offset": None if result.log is None else result.log.start,
        "log_end_offset": None if result.log is None else result.log.end,
        **{f"{severity.value}s": result.count(severity) for severity in Severity},
        "not_looked_at": [*result.not_looked_at],
        "findings": [
            {
                "kind": one.kind.value, "severity": one.severity.value, "path": as_text(one.path),
                "position": one.position, "first_offset": one.first_offset, "last_offset": one.last_offset,
                "message": as_text(one.message), "broker_effect": one.broker_effect, "next_step": one.next_step,
            }
            for one in result.findings
        ],
    }  # fmt: skip
    return row if found is None else row | _statistics(found)


def _statistics(found: PartitionStatistics) -> dict[str, Any]:
    plain = ("topic_id", "segments", "bytes", "total_bytes", "allocated_bytes", "high_watermark", "batches", "records",
             "control_records", "dirty_bytes", "dirty_ratio")  # fmt: skip
    row = {name: getattr(found, name) for name in plain}
    row |= {"directory_kind": found.kind.name.lower(), "codecs": _structs(found.codecs)}
    row |= {name: _time(getattr(found, name)) for name in ("first_timestamp", "max_timestamp")}
    keys = found.keys
    if keys is not None:
        row |= {"keys": keys.keys, "keys_relative_error": keys.relative_error, "null_keys": keys.null_keys}
        row |= {"tombstones": keys.tombstones, "largest_keys": _structs(keys.largest)}
        row |= {"most_frequent_keys": _structs(keys.most_frequent)}
    return row


def _structs(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [one._asdict() for one in values]


def _time(millis: int | None) -> int | None:
    return None if millis is None or abs(millis) > _MOST_MS else millis


def as_text(name: str) -> str:
    """Return a name as valid UTF-8; other bytes are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
