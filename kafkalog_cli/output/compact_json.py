"""The JSON output of compact."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.broker.cleaning.explaining import RecordFate
from kafkalog_cli.ops.compact.erasure import Erasure, Holder
from kafkalog_cli.ops.compact.plan import Compaction, CompactPlan
from kafkalog_cli.ops.retain.plan import RetainPlan
from kafkalog_cli.output.log_change_json import retention_fields
from kafkalog_cli.output.ndjson import json_path

COMPACTION = "kafkalog.compaction/1"


def compaction_fields(plan: CompactPlan) -> dict[str, Any]:
    """Return a compaction's fields: dirtiness, whether and why the log is cleaned, the estimate, and the outcome."""
    dirt, due = plan.dirt, plan.due
    return {
        "choice": plan.choice.value,
        "first_dirty_offset": None if dirt is None else dirt.first_dirty,
        "first_uncleanable_offset": None if dirt is None else dirt.first_uncleanable,
        "up_to": None if dirt is None else dirt.up_to.value,
        "cleaner_checkpoint": None if dirt is None else dirt.checkpoint.value,
        "clean_bytes": None if dirt is None else dirt.clean_bytes,
        "dirty_bytes": None if dirt is None else dirt.cleanable_bytes,
        "dirty_ratio": None if dirt is None else dirt.ratio,
        "compaction_delay_ms": None if dirt is None else dirt.delay_ms,
        "groups": [list(group) for group in plan.groups],
        "delay_ms": plan.delay_ms,
        "unlinked_files": 0 if due is None else len(due.files),
        "unlinked_bytes": 0 if due is None else due.size_bytes,
        "estimate": None if plan.estimate is None else plan.estimate._asdict(),
        "outcome": None if plan.outcome is None else _outcome(plan.outcome),
        **({} if plan.explained is None else {"explained": [_fate(fate) for fate in plan.explained]}),
        **({} if plan.erasure is None else {"erasure": _erasure(plan.erasure)}),
        "retention": None if plan.retention is None else _retention(plan.retention, plan.retention_run),
    }


def _retention(retention: RetainPlan, run_id: str | None) -> dict[str, Any]:
    return {"run": run_id, **retention_fields(retention, explains=False)}


def _fate(fate: RecordFate) -> dict[str, Any]:
    return {**fate._asdict(), "goes": fate.reason.goes, "reason": fate.reason.value}


def _erasure(erasure: Erasure) -> dict[str, Any]:
    after = erasure.after
    return {
        "replication": erasure.replication,
        "keys_wanted": erasure.wanted,
        "keys": [key._asdict() for key in erasure.keys],
        "before": [log._asdict() for log in erasure.before],
        "after": None if after is None else [log._asdict() for log in after],
        "holders": [_holder(holder) for holder in erasure.holders],
    }


def _holder(holder: Holder) -> dict[str, Any]:
    found = {"place": holder.place.value, "records": holder.records, "unread": holder.unread}
    return {**json_path(holder.path), **found}


def _outcome(outcome: Compaction) -> dict[str, Any]:
    counts = outcome.counts
    return {
        "end_offset": outcome.end_offset,
        "passes": outcome.passes,
        "segments": [{"sources": list(each.sources), "made": list(each.made)} for each in outcome.segments],
        "records_read": counts.records_read,
        "records_kept": counts.records_kept,
        "records_without_key": outcome.keyless,
        "bytes_read": counts.bytes_read,
        "bytes_written": counts.bytes_written,
        "batches_copied": counts.batches_copied,
        "batches_rewritten": counts.batches_rewritten,
        "batches_emptied": counts.batches_emptied,
        "batches_gone": counts.batches_gone,
        "lost_ends": counts.lost_ends,
    }
