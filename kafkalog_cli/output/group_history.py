"""The output of groups --history: a line or an object per change of a committed offset."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kafkalog_cli.ops.groups.history import OffsetChange, OffsetVerdict
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.records import ObjectKind
from kafkalog_cli.output.stream import printable


class OffsetChangeObject(TypedDict):
    """A change of a committed offset, with a verdict (groups --history)."""

    group_id: str
    topic: str
    partition: int
    offset: Annotated[
        int | None,
        "the offset afterwards, null if it was removed; with the verdicts aborted and open the offset that was not"
        " committed",
    ]
    previous_offset: Annotated[int | None, "the last offset that was committed before, removed or not"]
    is_back: Annotated[bool, "whether offset is below previous_offset"]
    verdict: Annotated[
        OffsetVerdict,
        "reset: an earlier offset while the group had no members; of a commit after a removal: that of the removal",
    ]
    producer_id: Annotated[int | None, "of the transaction"]
    timestamp_ms: Annotated[int | None, "of the record"]
    log_partition: Annotated[int, "of __consumer_offsets"]
    log_offset: int


OFFSET_CHANGE = ObjectKind("kafkalog.group-offset-change/1", OffsetChangeObject)

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


def change_object(change: OffsetChange) -> OffsetChangeObject:
    """Return the object of a change."""
    return {
        "group_id": change.group_id,
        "topic": change.topic,
        "partition": change.partition,
        "offset": change.offset,
        "previous_offset": change.previous,
        "is_back": change.is_back,
        "verdict": change.verdict,
        "producer_id": change.producer_id,
        "timestamp_ms": change.timestamp,
        "log_partition": change.log_partition,
        "log_offset": change.log_offset,
    }
