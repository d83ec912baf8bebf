"""The text and JSON output of retain --free-bytes."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.ops.reports.index_verdict import counted
from kafkalog_cli.ops.retain.free import Freed
from kafkalog_cli.output.ndjson import json_path
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.recover_json import remark_object
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import FAILED, View

FREED = "kafkalog.freed/1"


def freed_line(freed: Freed) -> str:
    """Return one line: the unlinked files, the log's start and end, and that this cannot be undone."""
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
    how = "dry run: " if freed.is_dry_run else ""
    return f"{path}: {how}{', '.join(parts)} ({sized(freed.disk_bytes)}){offsets}" + (
        "" if freed.is_dry_run else "; cannot be undone"
    )


def freed_object(freed: Freed) -> dict[str, Any]:
    """Return the fields of `kafkalog.freed/1`."""
    plan = freed.plan
    is_changed = bool(freed.segments) and not freed.is_dry_run
    return {
        **json_path(plan.path),
        "topic": plan.topic,
        "partition": plan.partition,
        "dry_run": freed.is_dry_run,
        "refused": plan.is_refused,
        "protected_by": plan.protected_by or None,
        "run": freed.run_id if is_changed else None,
        "log_start_offset": freed.log_start_offset,
        "log_end_offset": plan.log_end_offset,
        "removed": [segment.segment.base_offset for segment in freed.segments],
        "unlinked_files": freed.old_files,
        "freed_bytes": freed.disk_bytes,
        "remarks": [remark_object(remark) for remark in plan.remarks],
    }


def free_view() -> View[Freed]:
    """Return the View of retain --free-bytes."""
    return View(
        FREED,
        freed_object,
        lambda freed: (freed_line(freed),),
        ("changed", "removed_segments", "removed_bytes", "unlinked_files", "freed_bytes"),
        _counts,
        lambda freed: not (freed.segments or freed.old_files),
        has_work=lambda freed: bool(freed.segments or freed.old_files),
    )


def _counts(freed: Freed) -> dict[str, int]:
    is_changed = bool(freed.segments or freed.old_files) and not freed.is_dry_run
    return {
        FAILED: int(freed.plan.is_refused),
        "changed": int(is_changed),
        "removed_segments": len(freed.segments),
        "removed_bytes": sum(segment.segment.log.size_bytes for segment in freed.segments),
        "unlinked_files": freed.old_files,
        "freed_bytes": freed.disk_bytes,
    }
