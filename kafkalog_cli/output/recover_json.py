"""The JSON output of recover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_cli.change.changes import Change, Cut, Drop, Move, Put
from kafkalog_cli.ops.change_plan import Remark
from kafkalog_cli.output.ndjson import json_path

if TYPE_CHECKING:
    from kafkalog_cli.ops.recover.plan import RecoverPlan
    from kafkalog_cli.ops.recover.salvage import Copied

RECOVERY = "kafkalog.recovery/1"
SALVAGE = "kafkalog.salvage/1"


def plan_object(plan: RecoverPlan, *, run_id: str | None) -> dict[str, Any]:
    """Return the fields of a recovery; `run` is the run that made the changes, null if there were none."""
    return {
        **json_path(plan.path),
        "topic": plan.topic,
        "partition": plan.partition,
        "mode": plan.mode.value,
        "refused": plan.is_refused,
        "run": run_id,
        "log_start_offset": plan.log_start_offset,
        "log_end_offset": plan.log_end_offset,
        "cut": [cut._asdict() for cut in plan.cut],
        "removed": list(plan.removed),
        "recovered": list(plan.recovered),
        "remarks": [remark_object(remark) for remark in plan.remarks],
        "changes": [change_object(change) for change in plan.changes],
        "checkpoints": [{"file": edit.kind.value, "offset": edit.offset} for edit in plan.line_edits],
        "settings": [
            {"name": setting.name, "value": setting.text, "origin": setting.origin.value} for setting in plan.settings
        ],
    }


def remark_object(remark: Remark) -> dict[str, Any]:
    """Return the fields of a remark."""
    return {
        **json_path(remark.path),
        "position": remark.position,
        "severity": remark.code.name.lower(),
        "message": remark.message,
        "next_step": remark.next_step or None,
    }


def change_object(change: Change) -> dict[str, Any]:
    """Return the fields of a change to a file."""
    if isinstance(change, Cut):
        return {"change": "cut", "name": change.name, "from_bytes": change.from_bytes, "to_bytes": change.to_bytes}
    if isinstance(change, Move):
        return {"change": "move", "name": change.name, "new_name": change.new_name}
    if isinstance(change, Drop):
        return {"change": "drop", "name": change.name}
    assert isinstance(change, Put)
    size_bytes = change.content.size_bytes
    return {"change": "put", "name": change.name, "size_bytes": size_bytes, "replaces": change.replaces}


def salvage_object(copied: Copied) -> dict[str, Any]:
    """Return the fields of a salvage."""
    partition, result = copied.partition, copied.salvaged
    return {
        **json_path(partition.path),
        "topic": partition.topic,
        "partition": partition.number,
        **json_path(result.path, "out"),
        "segments": result.segments,
        "batches": result.batches,
        "bytes": result.size_bytes,
        "skipped": result.skipped,
        "first_offset": result.first_offset,
        "end_offset": result.end_offset,
        "lost": [
            {
                **json_path(lost.path),
                "start": lost.start,
                "end": lost.end,
                "first": lost.first,
                "last": lost.last,
                "unreadable_bytes": lost.unreadable_bytes,
            }
            for lost in result.lost
        ],
        "unreadable": [{**json_path(path), "reason": reason} for path, reason in result.unreadable],
        "next_step": copied.next_step or None,
    }
