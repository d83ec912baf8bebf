"""The text of groups: the columns of kafka-consumer-groups --describe, commits, and assignments."""

from collections.abc import Sequence

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.group_history import OffsetChange, OffsetVerdict
from kafkalog_cli.ops.groups import GroupDescription, GroupOffset, MemberDescription, OffsetsRetention
from kafkalog_cli.ops.tables.groups import CLASSIC
from kafkalog_cli.output.human import Column, NumberColumn, iso_time, write_table
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

OFFSET_COLUMNS = (
    Column("TOPIC", lambda row: row.topic),
    NumberColumn("PARTITION", lambda row: row.partition),
    NumberColumn("CURRENT-OFFSET", lambda row: row.current_offset),
    NumberColumn("LOG-END-OFFSET", lambda row: row.log_end_offset, 1),
    NumberColumn("LAG", lambda row: row.lag),
    Column("CONSUMER-ID", lambda row: row.member_id, 4),
    Column("HOST", lambda row: row.member and row.member.client_host, 7),
    Column("CLIENT-ID", lambda row: row.member and row.member.client_id, 3),
    Column("EXPIRES", lambda row: iso_time(row.expires_at_ms), 2),
)

MEMBER_COLUMNS = (
    Column("CONSUMER-ID", lambda row: row.member_id),
    Column("GROUP-INSTANCE-ID", lambda row: row.group_instance_id, 2),
    Column("HOST", lambda row: row.host, 5),
    Column("CLIENT-ID", lambda row: row.client_id, 4),
    NumberColumn("#PARTITIONS", lambda row: row.partitions, 3),
    NumberColumn("EPOCH", lambda row: row.epoch, 6),
    Column("STATE", lambda row: row.state, 7),
    Column("ASSIGNMENT", lambda row: _owned(row) or None, 1),
)

ASSIGNMENT_COLUMNS = (
    Column("GROUP", lambda row: row.group_id, 8),
    Column("TOPIC", lambda row: row.topic),
    Column("CONSUMER-ID", lambda row: row.member_id, 1),
    Column("GROUP-INSTANCE-ID", lambda row: row.group_instance_id, 2),
    Column("BY-RANGE", lambda row: _numbers(row.partitions)),
    Column("OWNED", lambda row: _numbers(row.owned)),
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
            self._table(described, MEMBER_COLUMNS, described.members)
            return
        self._expires |= any(row.expires_at_ms is not None for row in described.offsets)
        self._table(described, OFFSET_COLUMNS, described.offsets)
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

    def _table(
        self, group: GroupDescription, columns: Sequence[Column], rows: Sequence[GroupOffset | MemberDescription]
    ) -> None:
        if rows:
            write_table(self._out, [Column("GROUP", lambda _: group.group_id, 8), *columns], rows)


def _heading(described: GroupDescription) -> str:
    group = described.group
    parts = [described.group_type, described.state.value, counted(len(described.members), "member")]
    if group is None:
        parts.append("known only by its offsets")
    else:
        parts.append(f"{'generation' if group.group_type == CLASSIC else 'epoch'} {group.epoch}")
        protocol_type = group.protocol_type if group.protocol_type not in (None, "", "consumer") else None
        parts += [text for text in (protocol_type, group.protocol) if text]
    coordinator = described.coordinator
    parts.append(f"in {coordinator.loaded.copy.name}")
    if coordinator.belongs_in not in (None, coordinator.partition):
        parts.append(f"but a coordinator looks for it in partition {coordinator.belongs_in}")
    return printable(f"group {described.group_id}: {', '.join(parts)}")


def _owned(row: MemberDescription) -> str:
    return ";".join(f"{one.topic}:{_numbers(one.partitions)}" for one in row.assignment)


def _numbers(partitions: Sequence[int]) -> str | None:
    return ",".join(map(str, partitions)) or None


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
    before = "-" if change.previous_offset is None else change.previous_offset
    after = "-" if change.offset is None else change.offset
    words = _BACK.get(change.verdict) if change.is_back else None
    if change.verdict is OffsetVerdict.TOMBSTONE and change.assumed_retention_ms is not None:
        words = "removed by a tombstone, or expired by a shorter retention"
    place = printable(f"{change.group_id}  {change.topic}-{change.partition}")
    return f"{iso_time(change.timestamp_ms)}  {place}  {before} -> {after}  {words or _WORDS[change.verdict]}\n"
