"""`kafkalog truncate`: cut a log at its end."""

from typing import Annotated

from kafkalog_cli.cli.declared import Command, CommandContext, Option
from kafkalog_cli.cli.groups import OneTopic
from kafkalog_cli.cli.options import Metrics, OnePartition, SingleReplica, safety_option
from kafkalog_cli.cli.session_groups import Printing, Safety, SettingSources, session_options


def truncate(  # noqa: PLR0913
    context: CommandContext,
    *,
    path: OnePartition,
    to: Annotated[int, Option("--to", metavar="OFFSET", min=0, help="First offset to remove.")],
    topics: OneTopic,
    single_replica: SingleReplica = False,
    discard: Annotated[bool, safety_option("--discard",
        help="Keep no copy of removed bytes. The run cannot be undone.")] = False,
    settings: SettingSources,
    safety: Safety,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Remove the records at the end of a log.

    All records from an offset on are removed, as in a follower whose leader lacks them. A batch that contains the
    offset cannot be split, so the log may end earlier. Removed records are kept for `kafkalog undo`. The marker of a
    clean shutdown is removed too: the next broker recovers every partition of the log directory.
    """
    from kafkalog_cli.cli.verbs import run_verb
    from kafkalog_cli.ops.truncate import TRUNCATE, TruncateRequest
    from kafkalog_cli.output.log_change_views import truncate_view

    environment = context.environment
    options = session_options(environment, topics, safety, settings=settings, single_replica=single_replica)
    return run_verb(
        *(environment, TRUNCATE, truncate_view(), options, [path], TruncateRequest),
        printing=printing, metrics=metrics, takes_one=True, target_offset=to, discard=discard,
    )  # fmt: skip


command = Command(truncate)
