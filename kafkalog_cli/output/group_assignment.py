"""The output of groups --assign: a row or an object per member and topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from kafkalog_cli.ops.groups.assignment import RangeAssignment
from kafkalog_cli.output.human import NOTHING, TextColumn, cell
from kafkalog_cli.output.records import ObjectKind

ASSIGNMENT_COLUMNS = (
    TextColumn("GROUP", rank=8),
    TextColumn("TOPIC"),
    TextColumn("CONSUMER-ID", rank=1),
    TextColumn("GROUP-INSTANCE-ID", rank=2),
    TextColumn("BY-RANGE"),
    TextColumn("OWNED"),
)


class RangeAssignmentObject(TypedDict):
    """The partitions of a topic that the range assignor gives to a member (groups --assign)."""

    group_id: str
    topic: str
    member_id: str
    group_instance_id: str | None
    partitions: Annotated[list[int], "by the range assignor"]
    owned: Annotated[list[int], "the member's partitions of this topic in __consumer_offsets"]


RANGE_ASSIGNMENT = ObjectKind("kafkalog.range-assignment/1", RangeAssignmentObject)


def assignment_row(found: RangeAssignment) -> tuple[str, ...]:
    """Return the cells of a row."""
    member = found.member
    return (
        cell(found.group_id), cell(found.topic), cell(member.member_id), cell(member.group_instance_id),
        _numbers(found.partitions), _numbers(found.owned),
    )  # fmt: skip


def assignment_object(found: RangeAssignment) -> RangeAssignmentObject:
    """Return the object of a member and topic."""
    return {
        "group_id": found.group_id,
        "topic": found.topic,
        "member_id": found.member.member_id,
        "group_instance_id": found.member.group_instance_id,
        "partitions": list(found.partitions),
        "owned": list(found.owned),
    }


def _numbers(partitions: Sequence[int]) -> str:
    return ",".join(map(str, partitions)) or NOTHING
