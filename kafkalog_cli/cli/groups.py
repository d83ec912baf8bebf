"""`kafkalog groups`: the groups of consumers, with offsets, lag and members."""

from typing import Annotated, NamedTuple

from typer import Context, Option

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import (
    BrokerConfigOption,
    Format,
    LogDirPaths,
    MetadataOption,
    OutputFormat,
    complete_groups,
    complete_topics,
    selection_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.coordinators import Copies
from kafkalog_cli.ops.group_assignment import assign_ranges
from kafkalog_cli.ops.group_history import group_history
from kafkalog_cli.ops.groups import GroupsRequest, describe_groups, offsets_retention
from kafkalog_cli.output.groups_view import ASSIGNMENT_COLUMNS, GroupsText, change_line
from kafkalog_cli.output.human import write_table

EXAMPLES = (
    ("Print the offsets and the lag of all groups", "kafkalog groups /var/lib/kafka"),
    ("Print the members of a group", "kafkalog groups /var/lib/kafka --group billing --members"),
    (
        "Take the best copy of each partition from two brokers' disks",
        "kafkalog groups /var/lib/kafka /mnt/backup --topic orders",
    ),
)
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
    output: Format = OutputFormat.TEXT
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
    code = run.end(**counts)
    run.messages.report(*log_dirs.notes)
    return code


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
    found = [one for group in groups for one in assign_ranges(log_dirs, group) if not topics or one.topic in topics]
    if run.lines is not None:
        run.lines.results(found)
    elif found:
        write_table(run.out, ASSIGNMENT_COLUMNS, found)
    return {"groups": len(groups), "assignments": len(found)}


def _print_groups(run: Run, log_dirs: Copies, request: GroupsRequest, *, members: bool) -> dict[str, int]:
    counts = {"groups": 0, "offsets": 0}
    text = GroupsText(run.out, members=members)
    for described in describe_groups(log_dirs, request):
        counts["groups"] += 1
        counts["offsets"] += len(described.offsets)
        if run.lines is not None:
            run.lines.result(described)
        else:
            text.group(described)
    if run.lines is None and not counts["groups"]:
        run.out.write(
            "no group has an offset or a member here; --history prints offsets that expired or were removed\n"
        )
    elif run.lines is None:
        text.end(request.retention)
    return counts
