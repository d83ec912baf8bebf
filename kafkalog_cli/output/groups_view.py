"""The text and JSON output of groups: the columns of kafka-consumer-groups --describe, commits, and assignments."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, TypedDict

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.group_assignment import RangeAssignment
from kafkalog_cli.ops.group_history import OffsetChange, OffsetVerdict
from kafkalog_cli.ops.groups import GroupDescription, GroupOffset, MemberDescription, OffsetsRetention
from kafkalog_cli.ops.tables.groups import CLASSIC, GroupState
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.ndjson import From, ObjectKind, PathText, keywords
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

OFFSET_COLUMNS = (
    TextColumn("GROUP", rank=8),
    TextColumn("TOPIC"),
    TextColumn("PARTITION", is_number=True),
    TextColumn("CURRENT-OFFSET", is_number=True),
    TextColumn("LOG-END-OFFSET", is_number=True, rank=1),
    TextColumn("LAG", is_number=True),
    TextColumn("CONSUMER-ID", rank=4),
    TextColumn("HOST", rank=7),
    TextColumn("CLIENT-ID", rank=3),
    TextColumn("EXPIRES", rank=2),
)

MEMBER_COLUMNS = (
    TextColumn("GROUP", rank=8),
    TextColumn("CONSUMER-ID"),
    TextColumn("GROUP-INSTANCE-ID", rank=2),
    TextColumn("HOST", rank=5),
    TextColumn("CLIENT-ID", rank=4),
    TextColumn("#PARTITIONS", is_number=True, rank=3),
    TextColumn("EPOCH", is_number=True, rank=6),
    TextColumn("STATE", rank=7),
    TextColumn("ASSIGNMENT", rank=1),
)


class GroupsText:
    """Writes groups one after another; `members`: a table of members in place of the table of offsets."""

    def __init__(self, out: ResultStream, *, members: bool) -> None:
        self._out = out
        self._members = members
        self._is_first = True
        self._expires = False

    def group(self, described: GroupDescription) -> None:
        """Write a group."""
        if not self._is_first:
            self._out.write("\n")
        self._is_first = False
        self._out.write(paint_of(self._out).wrapped(_heading(described), indent="  ") + "\n")
        if self._members:
            self._table(MEMBER_COLUMNS, [_member_row(described, one) for one in described.members])
            return
        self._expires |= any(row.expires_at_ms is not None for row in described.offsets)
        self._table(OFFSET_COLUMNS, [_offset_row(described, row) for row in described.offsets])
        for row in described.offsets:
            if row.pending_offset is not None:
                text = f"offset {row.pending_offset} of {row.topic}-{row.partition} is in an open transaction"
                self._out.write(f"{printable(text)}\n")

    def end(self, retention: OffsetsRetention) -> None:
        """Write the setting that the column EXPIRES follows."""
        if self._expires:
            self._out.write(
                "\n" + paint_of(self._out).wrapped(f"EXPIRES follows {retention.text}.", indent="  ") + "\n"
            )

    def _table(self, columns: tuple[TextColumn, ...], rows: Iterable[tuple[str, ...]]) -> None:
        found = list(rows)
        if found:
            write_table(self._out, TextTable(columns, found))


def _heading(described: GroupDescription) -> str:
    group = described.group
    parts = [described.group_type, described.state.value, counted(len(described.members), "member")]
    if group is None:
        parts.append("known only by its offsets")
    else:
        parts.append(f"{'generation' if group.group_type == CLASSIC else 'epoch'} {group.epoch}")
        protocol_type = group.protocol_type if group.protocol_type not in (None, "", "consumer") else None
        parts += [text for text in (protocol_type, group.protocol) if text]
    place = described.loaded.copy
    parts.append(f"in {place.name}")
    if described.belongs_in not in (None, place.number):
        parts.append(f"but a coordinator looks for it in partition {described.belongs_in}")
    return printable(f"group {described.group_id}: {', '.join(parts)}")


def _offset_row(described: GroupDescription, row: GroupOffset) -> tuple[str, ...]:
    member = row.member
    return (
        cell(described.group_id), cell(row.topic), cell(row.partition), cell(row.offset), cell(row.log_end_offset),
        cell(row.lag), cell(member and member.member_id), cell(member and member.client_host),
        cell(member and member.client_id), iso_time(row.expires_at_ms),
    )  # fmt: skip


def _member_row(described: GroupDescription, one: MemberDescription) -> tuple[str, ...]:
    member = one.member
    owned = ";".join(f"{part.topic}:{','.join(map(str, part.partitions))}" for part in one.owned)
    return (
        cell(described.group_id), cell(member.member_id), cell(member.group_instance_id), cell(member.client_host),
        cell(member.client_id), cell(one.partitions), cell(member.member_epoch), cell(member.member_state),
        printable(owned) or NOTHING,
    )  # fmt: skip


GroupType = Literal["classic", "consumer", "share", "streams"]


class CopyObject(TypedDict):
    """The copy of a partition in one of the log directories."""

    path: PathText


class GroupCoordinatorObject(TypedDict):
    """The partition of `__consumer_offsets` that has the group."""

    path: Annotated[PathText, From("loaded.copy.path"), "the copy of the partition of __consumer_offsets that was read"]
    partition: Annotated[int, From("loaded.number")]
    belongs_in: Annotated[
        int | None, "the partition in which a coordinator looks for the group; null if their number is not known"
    ]
    end_offset: Annotated[int, From("loaded.copy.bounds.next_offset"), "the end of the log that was read"]
    other_copies: Annotated[
        list[CopyObject], From("loaded.others"), "copies that are not as good, by leader epoch and end of the log"
    ]


class OwnedPartitionsObject(TypedDict):
    """Partitions of a topic that a member owns."""

    topic: Annotated[str, "the topic's id where no file has its name"]
    partitions: list[int]


class MemberObject(TypedDict):
    """A member of a group."""

    member_id: Annotated[str, From("member.member_id")]
    group_instance_id: Annotated[str | None, From("member.group_instance_id")]
    rack_id: Annotated[str | None, From("member.rack_id")]
    client_id: Annotated[str, From("member.client_id")]
    host: Annotated[str, From("member.client_host")]
    session_timeout_ms: Annotated[int | None, From("member.session_timeout_ms")]
    rebalance_timeout_ms: Annotated[int | None, From("member.rebalance_timeout_ms")]
    epoch: Annotated[int | None, From("member.member_epoch"), "the generation in a classic group"]
    state: Annotated[str | None, From("member.member_state"), "null in a classic group"]
    subscribed_topics: Annotated[list[str] | None, From("member.subscribed_topics")]
    subscribed_topic_regex: Annotated[str | None, From("member.subscribed_topic_regex")]
    assignment: Annotated[
        list[OwnedPartitionsObject], From("owned"), "the partitions that the member owns, or still has to revoke"
    ]


class GroupOffsetObject(TypedDict):
    """A partition for which the group has an offset, or which a member owns."""

    topic: str
    partition: int
    current_offset: Annotated[int | None, From("offset"), "the committed offset; the start offset of a share partition"]
    log_end_offset: Annotated[
        int | None, "the latest offset that a broker gives; null if the partition is not in these directories"
    ]
    lag: int | None
    member_id: Annotated[str | None, From("member.member_id")]
    leader_epoch: int | None
    metadata: str | None
    commit_timestamp_ms: Annotated[int | None, From("commit_timestamp")]
    expires_at_ms: Annotated[
        int | None, "the time from which a broker removes the offset; null while it does not expire"
    ]
    pending_offset: Annotated[int | None, "committed in a transaction that is still open"]
    log: Annotated[
        CopyObject | None,
        From("log_path"),
        keywords(lambda path: None if path is None else {"path": PathText(path)}),
        "the copy of the partition that log_end_offset is from",
    ]


class GroupObject(TypedDict):
    """A group of consumers, as a coordinator that loads `__consumer_offsets` has it."""

    group_id: str
    group_type: GroupType
    state: GroupState
    epoch: Annotated[
        int | None,
        From("group.epoch"),
        "the generation of a classic group; null if only offsets of the group are known",
    ]
    assignment_epoch: Annotated[int | None, "of the target assignment; null for classic groups"]
    protocol_type: Annotated[str | None, From("group.protocol_type"), "of a classic group: consumer, connect, …"]
    protocol: Annotated[str | None, From("group.protocol"), "of a classic group: the assignor"]
    leader: Annotated[str | None, From("group.leader"), "of a classic group: a member id"]
    state_timestamp_ms: Annotated[
        int | None, From("group.state_timestamp"), "of a classic group: the last change of its state"
    ]
    coordinator: Annotated[GroupCoordinatorObject, From("")]
    members: list[MemberObject]
    offsets: list[GroupOffsetObject]


GROUP = ObjectKind("kafkalog.group/1", GroupObject)


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
    previous_offset: Annotated[
        int | None, From("previous"), "the last offset that was committed before, removed or not"
    ]
    is_back: Annotated[bool, "whether offset is below previous_offset"]
    verdict: Annotated[
        OffsetVerdict,
        "reset: an earlier offset while the group had no members; of a commit after a removal: that of the removal",
    ]
    producer_id: Annotated[int | None, "of the transaction"]
    timestamp_ms: Annotated[int | None, From("timestamp"), "of the record"]
    log_partition: Annotated[int, "of __consumer_offsets"]
    log_offset: int
    assumed_retention_ms: Annotated[
        int | None, "of a removal: the retention that its verdict assumes; null with --broker-config"
    ]


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
    if change.verdict is OffsetVerdict.TOMBSTONE and change.assumed_retention_ms is not None:
        words = "removed by a tombstone, or expired by a shorter retention"
    place = printable(f"{change.group_id}  {change.topic}-{change.partition}")
    return f"{iso_time(change.timestamp)}  {place}  {before} -> {after}  {words or _WORDS[change.verdict]}\n"


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
    member_id: Annotated[str, From("member.member_id")]
    group_instance_id: Annotated[str | None, From("member.group_instance_id")]
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


def _numbers(partitions: Sequence[int]) -> str:
    return ",".join(map(str, partitions)) or NOTHING
