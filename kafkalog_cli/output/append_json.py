"""The JSON output of append."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.ops.append.append import AppendPlan

APPENDED = "kafkalog.appended/1"


def appended_fields(plan: AppendPlan) -> dict[str, Any]:
    """Return the fields of an append: its records, how they were written, and the segments that it started."""
    appended, style = plan.appended, plan.style
    return {
        "first_offset": None if appended is None else appended.first_offset,
        "records": 0 if appended is None else appended.records,
        "batches": 0 if appended is None else appended.batches,
        "size_bytes": 0 if appended is None else appended.size_bytes,
        "segments": []
        if appended is None
        else [{"base_offset": rolled.base_offset, "cause": rolled.cause.value} for rolled in appended.rolled],
        "codec": codec_name(style.codec),
        "leader_epoch": style.leader_epoch,
        "producer_id": style.producer_id,
        "producer_epoch": style.producer_epoch,
        "transactional": style.is_transactional,
        "interrupted": plan.is_cut_short,
    }
