"""`kafkalog groups`: the groups of consumers, with offsets, lag and members."""

from typing import Annotated, NamedTuple

from typer import Context, Option

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import (
    BrokerConfigOption,
    Format,
    LogDirs,
    MetadataOption,
    OutputFormat,
    complete_groups,
    complete_topics,
    selection_option,
)
from kafkalog_cli.cli.shown_reading import shown_reading

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

    paths: LogDirs
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
    from kafkalog_cli.cli.describe_groups_run import run_groups

    return run_groups(context.with_resource(shown_reading(context.obj)), options)
