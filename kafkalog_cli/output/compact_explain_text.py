"""The text of compact's explanation: a line per record of a key: why it stays or is removed, and when."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.broker.cleaning.choosing import Dirt, UpTo
from kafkalog_cli.broker.cleaning.explaining import Reason, RecordFate
from kafkalog_cli.errors import counted
from kafkalog_cli.ops.compact.plan import CompactPlan
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.stream import printable

_UNTIL = {
    UpTo.ACTIVE_SEGMENT: "it is in the active segment, until that is rolled",
    UpTo.LAST_STABLE_OFFSET: "a transaction before it is open, or it is above the high watermark",
    UpTo.MIN_COMPACTION_LAG: "it is too young, by min.compaction.lag.ms",
}


def explain_lines(plan: CompactPlan) -> Iterator[str]:
    """Return lines for the settings used, then for each record of the key and its fate in a cleaning now."""
    if plan.explained is None or plan.dirt is None:
        return
    for setting in plan.settings:
        yield f"  setting {printable(setting.explanation)}"
    if not plan.explained:
        yield "  no record has this key"
    elif not plan.choice.is_cleaned:
        yield "  all stays until it is cleaned; then:"
    for fate in plan.explained:
        size = "no value" if fate.value_bytes is None else counted(fate.value_bytes, "byte", "bytes")
        where = f"offset {fate.offset} (segment {fate.base_offset}, {iso_time(fate.timestamp_ms)}, {size})"
        yield f"  {where}: {_words(plan, plan.dirt, fate)}"


def _words(plan: CompactPlan, dirt: Dirt, fate: RecordFate) -> str:
    if fate.reason is Reason.SUPERSEDED:
        return f"goes, offset {fate.by_offset} has the same key"
    if fate.reason is Reason.ABORTED:
        return "goes, its transaction was aborted"
    if fate.reason is Reason.EXPIRED:
        since = "" if fate.due_ms is None else f" since {iso_time(fate.due_ms)}"
        return f"goes, a tombstone whose time is over{since}"
    if fate.reason is Reason.TOMBSTONE:
        if fate.due_ms is not None:
            return f"stays, a tombstone; it goes in the first cleaning after {iso_time(fate.due_ms)}"
        return f"stays, a tombstone; it goes {plan.number_of('delete.retention.ms')} ms after it is cleaned"
    if fate.reason is Reason.NOT_CLEANABLE:
        return f"stays, {_UNTIL[dirt.up_to]}"
    return "stays, it is the last with its key"
