"""The text of retain's explanation: a line per segment: why it stays or is removed, and when it is due."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.log.segments.segment_times import LargestTimestamp, TimestampOrigin
from kafkalog_cli.ops.retain.plan import RetainPlan, SegmentFate, Stay
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable


def explain_lines(plan: RetainPlan) -> Iterator[str]:
    """Return lines for the settings used, then for each segment."""
    for setting in plan.settings:
        yield f"  setting {printable(setting.explanation)}"
    if plan.is_refused and plan.fates:
        yield "  without that refusal:"
    for fate in plan.fates:
        offsets = f"offsets {fate.base_offset} to {fate.next_offset}"
        yield f"  segment {fate.base_offset}: {offsets}, {sized(fate.size_bytes)}{_newest(fate.largest)}: {_fate(fate)}"


_ORIGINS = {
    TimestampOrigin.BATCHES: "from its batches",
    TimestampOrigin.TIME_INDEX: "from its time index",
    TimestampOrigin.MTIME: "from the file's mtime, its records have no timestamp",
}


def _newest(largest: LargestTimestamp | None) -> str:
    return "" if largest is None else f", newest {iso_time(largest.timestamp_ms)} ({_ORIGINS[largest.origin]})"


def _fate(fate: SegmentFate) -> str:
    by = "" if fate.setting is None else f" by {fate.setting.name}={printable(fate.setting.text)}"
    if fate.goes is RetentionPass.LOG_START:
        return "removed, it is before the log's start"
    if fate.goes is not None:
        return f"removed{by}"
    reason = _REASONS[fate.stays or Stay.LIMITS].format(odd=fate.odd.value if fate.odd else "")
    return f"kept, {reason}{_due(fate, by)}"


_REASONS = {
    Stay.EMPTY: "the active segment has no records",
    Stay.POLICY: "nothing is deleted",
    Stay.NO_LIMIT: "no limit is set",
    Stay.LIMITS: "within the limits",
    Stay.FUTURE: "its newest timestamp is in the future",
    Stay.UNIT: "its newest timestamp is {odd}",
    Stay.NOT_REPLICATED: "it reaches past the high watermark",
    Stay.BEHIND: "an earlier segment is kept",
}


def _due(fate: SegmentFate, by: str) -> str:
    """Return when a segment that stays would be removed."""
    if fate.stays in (Stay.POLICY, Stay.NO_LIMIT):
        return by
    if fate.stays is Stay.EMPTY:
        return ""
    parts = []
    if fate.due_ms is not None:
        parts.append(f"at {iso_time(fate.due_ms)}")
    if fate.due_after_bytes is not None:
        parts.append(f"after {sized(fate.due_after_bytes)} more")
    return f"; due {' or '.join(parts)}{by}" if parts else by
