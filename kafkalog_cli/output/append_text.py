"""Appends for people: one line."""

from __future__ import annotations

from kafkalog_cli.actions.append.append import AppendPlan
from kafkalog_cli.actions.reports.index_verdict import counted


def append_words(plan: AppendPlan) -> str:
    """What was appended."""
    appended = plan.appended
    if appended is None or not appended.records:
        return "nothing to append"
    records = counted(appended.records, "record", "records")
    batches = counted(appended.batches, "batch", "batches")
    parts = [f"{records} appended at {appended.first_offset} in {batches} ({appended.size_bytes} bytes)"]
    if appended.rolled:
        parts.append(f"{counted(len(appended.rolled), 'segment', 'segments')} begun")
    if plan.is_cut_short:
        parts.append("interrupted")
    return ", ".join(parts)
