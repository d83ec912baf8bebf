"""The JSON output of roll, retain, truncate and delete-records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_cli.log.settings.topic_config import Setting
from kafkalog_cli.output.ndjson import json_path
from kafkalog_cli.output.recover_json import change_object, remark_object

if TYPE_CHECKING:
    from kafkalog_cli.ops.delete_records import DeleteRecordsPlan
    from kafkalog_cli.ops.log_plan import LogPlan
    from kafkalog_cli.ops.retain.plan import RetainPlan, SegmentFate
    from kafkalog_cli.ops.roll import RollPlan
    from kafkalog_cli.ops.truncate import TruncatePlan

ROLL = "kafkalog.roll/1"
RETENTION = "kafkalog.retention/1"
TRUNCATION = "kafkalog.truncation/1"
DELETED_RECORDS = "kafkalog.deleted-records/1"


def plan_object(plan: LogPlan, *, run_id: str | None, dry_run: bool) -> dict[str, Any]:
    """Return the fields that all of them have; `run` is the run that made the changes, null if there were none."""
    high_watermark = plan.high_watermark
    return {
        **json_path(plan.path),
        "topic": plan.topic,
        "partition": plan.partition,
        "dry_run": dry_run,
        "refused": plan.is_refused,
        "run": run_id,
        "log_start_offset": plan.log_start_offset,
        "log_end_offset": plan.log_end_offset,
        "high_watermark": None if high_watermark is None else high_watermark.offset,
        "high_watermark_from": None if high_watermark is None else high_watermark.origin.value,
        "remarks": [remark_object(remark) for remark in plan.remarks],
        "changes": [change_object(change) for change in plan.changes],
        "checkpoints": [{"file": edit.kind.value, "offset": edit.offset} for edit in plan.line_edits],
        "settings": [_setting(setting) for setting in plan.settings],
    }


def roll_fields(plan: RollPlan) -> dict[str, Any]:
    """Return the fields of a roll: its cause, and the segment that was active before it."""
    active = plan.active
    return {
        "rolled": bool(plan.changes),
        "cause": None if plan.cause is None else plan.cause.value,
        "forced": plan.is_forced,
        "active": None
        if active is None
        else {
            "base_offset": active.base_offset,
            "size_bytes": active.size_bytes,
            "first_timestamp_ms": None if active.first_timestamp < 0 else active.first_timestamp,
            "index_entries": active.offset_entries,
            "time_index_entries": active.time_entries,
        },
        "due_ms": plan.due_ms,
    }


def retention_fields(plan: RetainPlan, *, explains: bool) -> dict[str, Any]:
    """Return a retention's fields: removed segments, old files unlinked, and with `explains` each segment's fate."""
    due = plan.due
    return {
        "removed": [_removed(fate) for fate in plan.removed],
        "removed_bytes": plan.removed_bytes,
        "rolled": plan.rolls,
        "delay_ms": plan.delay_ms,
        "unlinked_files": 0 if due is None else len(due.files),
        "unlinked_bytes": 0 if due is None else due.size_bytes,
        **({"segments": [_fate(fate) for fate in plan.fates]} if explains else {}),
    }


def truncation_fields(plan: TruncatePlan) -> dict[str, Any]:
    """Return the fields of a truncation: the segments and bytes removed at the end."""
    return {
        "target_offset": plan.target_offset,
        "old_end_offset": plan.old_end_offset,
        "removed": list(plan.removed),
        "cut_bytes": plan.cut_bytes,
        "cut_batch": None if plan.cut_batch is None else plan.cut_batch._asdict(),
    }


def deleted_records_fields(plan: DeleteRecordsPlan) -> dict[str, Any]:
    """Return the fields of a deletion of records: the segments removed at the start."""
    return {
        "old_start_offset": plan.old_start_offset,
        "removed": list(plan.removed),
        "removed_bytes": plan.removed_bytes,
        "delay_ms": plan.delay_ms,
    }


def _setting(setting: Setting) -> dict[str, str]:
    return {"name": setting.name, "value": setting.text, "origin": setting.origin.value}


def _removed(fate: SegmentFate) -> dict[str, Any]:
    return {
        "base_offset": fate.base_offset,
        "next_offset": fate.next_offset,
        "size_bytes": fate.size_bytes,
        "limit": None if fate.goes is None else fate.goes.value,
    }


def _fate(fate: SegmentFate) -> dict[str, Any]:
    largest = fate.largest
    return {
        "base_offset": fate.base_offset,
        "next_offset": fate.next_offset,
        "size_bytes": fate.size_bytes,
        "goes": None if fate.goes is None else fate.goes.value,
        "stays": None if fate.stays is None else fate.stays.value,
        "setting": None if fate.setting is None else _setting(fate.setting),
        "largest_timestamp_ms": None if largest is None else largest.timestamp_ms,
        "largest_timestamp_from": None if largest is None else largest.origin.value,
        "timestamp_of_broker_ms": None if largest is None else largest.believed_ms,
        "timestamp_is": None if fate.odd is None else fate.odd.value,
        "due_ms": fate.due_ms,
        "due_after_bytes": fate.due_after_bytes,
    }
