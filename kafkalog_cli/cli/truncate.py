"""`kafkalog truncate`: cut a log at its end."""

from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.option_groups import OneTopic
from kafkalog_cli.cli.options import Metrics, OnePartition, SingleReplica, safety_option
from kafkalog_cli.cli.session_groups import Printing, Safety, WriterSettings, session_options

EXAMPLES = (
    (
        "See what would be removed from offset 100 on",
        "kafkalog truncate /var/lib/kafka/orders-0 --to 100 --single-replica --dry-run",
    ),
    ("Cut the log", "kafkalog truncate /var/lib/kafka/orders-0 --to 100 --single-replica"),
)
EXIT_CODES = CHANGE


def truncate(  # noqa: PLR0913
    context: Context,
    *,
    path: OnePartition,
    to: Annotated[int, Option("--to", metavar="OFFSET", min=0, help="First offset to remove.")],
    topics: OneTopic,
    single_replica: SingleReplica = False,
    discard: Annotated[bool, safety_option("--discard",
        help="Keep no copy of removed bytes. The run cannot be undone.")] = False,
    settings: WriterSettings,
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
    from kafkalog_cli.ops.truncate import TRUNCATE
    from kafkalog_cli.ops.truncate import truncate as truncate_partition
    from kafkalog_cli.output.log_change_views import truncate_view

    environment: Environment = context.obj
    options = session_options(environment, topics, safety, settings=settings, single_replica=single_replica)
    return run_verb(
        *(context, TRUNCATE, truncate_view(), options, [path], truncate_partition),
        printing=printing, metrics=metrics, takes_one=True, target_offset=to, discard=discard,
    )  # fmt: skip
