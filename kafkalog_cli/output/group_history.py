"""The output of groups --history: a line or an object per change of a committed offset."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.ops.groups.history import OffsetChange, OffsetVerdict
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.stream import printable

_WORDS = {
    OffsetVerdict.COMMIT: "commit",
    OffsetVerdict.RESET: "reset, while the group had no members",
    OffsetVerdict.EXPIRY: "expired",
    OffsetVerdict.TOMBSTONE: "removed by a tombstone",
    OffsetVerdict.ABORTED: "transaction aborted",
    OffsetVerdict.OPEN: "transaction open",
}
_BACK = {
    OffsetVerdict.COMMIT: "back, by a member's own commit",
    OffsetVerdict.RESET: "back, by a reset while the group had no members",
    OffsetVerdict.EXPIRY: "back, after the offset had expired",
    OffsetVerdict.TOMBSTONE: "back, after a tombstone had removed the offset",
}


def change_line(change: OffsetChange) -> str:
    """Return a line: the time, the group, the partition, the offsets before and after, and the verdict."""
    before = "-" if change.previous is None else change.previous
    after = "-" if change.offset is None else change.offset
    words = _BACK.get(change.verdict) if change.is_back else None
    place = printable(f"{change.group_id}  {change.topic}-{change.partition}")
    return f"{iso_time(change.timestamp)}  {place}  {before} -> {after}  {words or _WORDS[change.verdict]}\n"


def change_object(change: OffsetChange) -> dict[str, Any]:
    """Return the fields of `kafkalog.group-offset-change/1`."""
    return {
        "group_id": change.group_id,
        "topic": change.topic,
        "partition": change.partition,
        "offset": change.offset,
        "previous_offset": change.previous,
        "is_back": change.is_back,
        "verdict": change.verdict.value,
        "producer_id": change.producer_id,
        "timestamp_ms": change.timestamp,
        "log_partition": change.log_partition,
        "log_offset": change.log_offset,
    }
