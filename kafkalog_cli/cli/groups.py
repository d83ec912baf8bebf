"""`kafkalog groups`: the groups of consumers, with offsets, lag and members."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from typer import Context, Option

from kafkalog_cli.cli.completion import complete_groups, complete_topics
from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import (
    BrokerConfigOption,
    Format,
    LogDirPaths,
    MetadataOption,
    selection_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import UsageError, counted
from kafkalog_cli.ops.cluster.coordinators import Copies
from kafkalog_cli.ops.cluster.group_assignment import assign_ranges
from kafkalog_cli.ops.cluster.group_history import OffsetChange, OffsetVerdict, group_history
from kafkalog_cli.ops.cluster.groups import (
    GroupDescription,
    GroupOffset,
    GroupsRequest,
    MemberDescription,
    describe_groups,
    offsets_retention,
)
from kafkalog_cli.ops.cluster.tables.groups import CLASSIC
from kafkalog_cli.output.human import Column, NumberColumn, iso_time, write_table
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

EXAMPLES = {
    "Print the offsets and the lag of all groups": "kafkalog groups /var/lib/kafka",
    "Print the members of a group": "kafkalog groups /var/lib/kafka --group billing --members",
    "Take the best copy of each partition from two brokers' disks": (
        "kafkalog groups /var/lib/kafka /mnt/backup --topic orders"
    ),
}
EXIT_CODES = READ


# fmt: off
class GroupsOptions(NamedTuple):
    """The options of groups."""

    paths: LogDirPaths
    group: Annotated[list[str] | None, selection_option("--group", metavar="GROUP", autocompletion=complete_groups,
        help="Take only this group; may be repeated.")] = None
    topic: Annotated[list[str] | None, selection_option("--topic", metavar="TOPIC", autocompletion=complete_topics,
        help="Take only rows of this topic; may be repeated.")] = None
    members: Annotated[bool, Option("--members", help="Print a row per member, with its assignment.")] = False
    history: Annotated[bool, Option("--history",
        help="Print each commit in the order of the log, with a verdict on each step back.")] = False
    assign: Annotated[bool, Option("--assign",
        help="Print the partitions that the range assignor gives to each member.")] = False
    broker_config: BrokerConfigOption = None
    metadata: MetadataOption = None
    output: Format = "text"
# fmt: on


def groups(context: Context, options: GroupsOptions) -> int:
    """Print groups with offsets, lag and members.

    The columns are those of kafka-consumer-groups --describe, for groups of all types: classic, consumer, share and
    streams. The state is that of a coordinator that loads __consumer_offsets. EXPIRES is the time from which a broker
    removes the offset. For a share group, CURRENT-OFFSET is the start offset.

    --history gives each change of an offset a verdict. A reset is an earlier offset while the group had no members. A
    tombstone that is not the expiry of an offset removes an offset, a group or a topic. Changes in a transaction count
    only if it was committed. After a removal, a lower offset has the verdict of the removal.

    --assign divides the partitions of each topic among its members by the range assignor. Member i gets the partitions
    from i*N to (i+1)*N-1, where N is the number of partitions per member. If the division leaves a rest, each of the
    first members gets one more. OWNED are the partitions that the member had.

    Several log directories may have copies of a partition: the copy with the last leader epoch, and of these the
    longest, is taken. Nothing is locked or changed.
    """
    if options.history and options.assign:
        raise UsageError(reason="--history and --assign exclude each other")
    run = Run(context, options.output)
    run.show_reads()
    retention = offsets_retention(run.fs, options.broker_config)
    log_dirs = Copies(run.fs, options.paths, options.metadata)
    run.lock_warnings.about(*log_dirs.log_dirs)
    request = GroupsRequest(frozenset(options.group or ()), frozenset(options.topic or ()), retention)
    if options.history:
        counts = _print_history(run, log_dirs, request)
    elif options.assign:
        counts = _print_assignment(run, log_dirs, request)
    else:
        counts = _print_groups(run, log_dirs, request, members=options.members)
    run.codes += log_dirs.codes
    return run.end(log_dirs.notes, **counts)


def _print_history(run: Run, log_dirs: Copies, request: GroupsRequest) -> dict[str, int]:
    counts = {"changes": 0, "back": 0}
    is_assumed = False
    for change in group_history(log_dirs, request):
        is_assumed |= change.assumed_retention_ms is not None
        counts["changes"] += 1
        counts["back"] += change.is_back
        run.show(change, change_line)
    if run.lines is None and is_assumed:
        run.out.write(f"\nWhether a removed offset had expired follows {request.retention.text}.\n")
    elif run.lines is None and not counts["changes"]:
        run.out.write("no commit of an offset is in __consumer_offsets here\n")
    return counts


def _print_assignment(run: Run, log_dirs: Copies, request: GroupsRequest) -> dict[str, int]:
    groups, topics = list(describe_groups(log_dirs, request)), request.topics
    assignments = [
        assignment
        for group in groups
        for assignment in assign_ranges(log_dirs, group)
        if not topics or assignment.topic in topics
    ]
    if run.lines is not None:
        run.lines.results(assignments)
    elif assignments:
        write_table(run.out, ASSIGNMENT_COLUMNS, assignments)
    return {"groups": len(groups), "assignments": len(assignments)}


def _print_groups(run: Run, log_dirs: Copies, request: GroupsRequest, *, members: bool) -> dict[str, int]:
    counts, expires = {"groups": 0, "offsets": 0}, False
    for described in describe_groups(log_dirs, request):
        if run.lines is not None:
            run.lines.result(described)
        else:
            run.out.write("\n" if counts["groups"] else "")
            write_group(run.out, described, members=members)
        counts["groups"] += 1
        counts["offsets"] += len(described.offsets)
        expires |= not members and any(row.expires_at_ms is not None for row in described.offsets)
    if run.lines is None and not counts["groups"]:
        run.out.write(
            "no group has an offset or a member here; --history prints offsets that expired or were removed\n"
        )
    elif run.lines is None and expires:
        sentence = f"EXPIRES follows {request.retention.text}."
        run.out.write(f"\n{paint_of(run.out).wrapped(sentence, indent='  ')}\n")
    return counts


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


def write_group(out: ResultStream, described: GroupDescription, *, members: bool) -> None:
    """Write a group; `members`: a table of members in place of the table of offsets."""
    out.write(paint_of(out).wrapped(_heading(described), indent="  ") + "\n")
    rows: Sequence[GroupOffset | MemberDescription] = described.members if members else described.offsets
    if rows:
        columns = MEMBER_COLUMNS if members else OFFSET_COLUMNS
        write_table(out, [Column("GROUP", lambda _: described.group_id, 8), *columns], rows)
    for row in () if members else described.offsets:
        if row.pending_offset is not None:
            text = f"offset {row.pending_offset} of {row.topic}-{row.partition} is in an open transaction"
            out.write(f"{printable(text)}\n")


def _heading(described: GroupDescription) -> str:
    group = described.group
    words = [described.group_type, described.state.value, counted(len(described.members), "member")]
    if group is None:
        words.append("known only by its offsets")
    else:
        words.append(f"{'generation' if group.group_type == CLASSIC else 'epoch'} {group.epoch}")
        protocol_type = group.protocol_type if group.protocol_type not in (None, "", "consumer") else None
        words += [text for text in (protocol_type, group.protocol) if text]
    coordinator = described.coordinator
    words.append(f"in {coordinator.loaded.copy.name}")
    if coordinator.belongs_in not in (None, coordinator.partition):
        words.append(f"but a coordinator looks for it in partition {coordinator.belongs_in}")
    return printable(f"group {described.group_id}: {', '.join(words)}")


def _owned(row: MemberDescription) -> str:
    return ";".join(f"{topic.topic}:{_numbers(topic.partitions)}" for topic in row.assignment)


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
    partition = printable(f"{change.group_id}  {change.topic}-{change.partition}")
    return f"{iso_time(change.timestamp_ms)}  {partition}  {before} -> {after}  {words or _WORDS[change.verdict]}\n"
