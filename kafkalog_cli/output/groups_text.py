"""The text output of groups: a heading per group, then the columns of kafka-consumer-groups --describe."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.groups.describe import GroupDescription, GroupOffset, MemberDescription
from kafkalog_cli.ops.groups.expiry import OffsetsRetention
from kafkalog_cli.ops.tables.groups import CLASSIC
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.paint import paint_of
from kafkalog_cli.output.stream import ResultStream, printable

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
    parts = [described.group_type, described.state.value, counted(len(described.members), "member", "members")]
    if group is None:
        parts.append("known only by its offsets")
    else:
        parts.append(f"{'generation' if group.group_type == CLASSIC else 'epoch'} {group.epoch}")
        protocol_type = group.protocol_type if group.protocol_type not in (None, "", "consumer") else None
        parts += [text for text in (protocol_type, group.protocol) if text]
    place = described.loaded.copy.partition
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
