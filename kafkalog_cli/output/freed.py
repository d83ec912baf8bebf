"""What was unlinked to make room, for people and for programs."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.actions.retain.free import Freed
from kafkalog_cli.output.ndjson import json_path
from kafkalog_cli.output.recover_json import remark_object
from kafkalog_cli.output.stream import printable

FREED = "kafkalog.freed/1"


def freed_line(freed: Freed, *, dry_run: bool) -> str:
    """One line: what went, where the log starts and ends, and that it is gone."""
    plan = freed.plan
    path = printable(plan.path)
    parts = []
    if freed.segments:
        parts.append(f"{counted(len(freed.segments), 'segment', 'segments')} unlinked")
    if freed.old_files:
        parts.append(f"{counted(freed.old_files, 'old file', 'old files')} unlinked")
    if not parts:
        because = plan.protected_by or next((remark.message for remark in plan.remarks), "")
        return f"{path}: nothing unlinked{f', {printable(because)}' if because else ''}"
    offsets = "" if freed.log_start_offset is None else f", offsets {freed.log_start_offset} to {plan.log_end_offset}"
    how = "dry run: " if dry_run else ""
    return f"{path}: {how}{', '.join(parts)} ({freed.disk_bytes} bytes){offsets}" + (
        "" if dry_run else "; cannot be undone"
    )


def freed_object(freed: Freed, *, run_id: str, dry_run: bool) -> dict[str, Any]:
    """Fields of a `kafkalog.freed/1`."""
    plan = freed.plan
    is_changed = bool(freed.segments) and not dry_run
    return {
        **json_path(plan.path),
        "topic": plan.topic,
        "partition": plan.partition,
        "dry_run": dry_run,
        "refused": plan.is_refused,
        "protected_by": plan.protected_by or None,
        "run": run_id if is_changed else None,
        "log_start_offset": freed.log_start_offset,
        "log_end_offset": plan.log_end_offset,
        "removed": [segment.segment.base_offset for segment in freed.segments],
        "unlinked_files": freed.old_files,
        "freed_bytes": freed.disk_bytes,
        "remarks": [remark_object(remark) for remark in plan.remarks],
    }
