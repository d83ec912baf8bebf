"""`kafkalog delete-records`: move the log start offset forward."""

from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.option_groups import OneTopic
from kafkalog_cli.cli.options import Delay, Keep, Metrics, OnePartition, SingleReplica, delay_ms_of
from kafkalog_cli.cli.session_groups import Printing, Safety, WriterSettings, session_options

EXAMPLES = (
    (
        "See what would be removed before offset 100",
        "kafkalog delete-records /var/lib/kafka/orders-0 --before 100 --single-replica --dry-run",
    ),
    (
        "Move the log's start, and keep the files for undo",
        "kafkalog delete-records /var/lib/kafka/orders-0 --before 100 --single-replica --keep",
    ),
)
EXIT_CODES = CHANGE


def delete_records(  # noqa: PLR0913
    context: Context,
    *,
    path: OnePartition,
    before: Annotated[int, Option("--before", metavar="OFFSET", min=-1,
        help="The new start of the log; -1: the high watermark.")],
    topics: OneTopic,
    single_replica: SingleReplica = False,
    delay: Delay = None,
    keep: Keep = False,
    settings: WriterSettings,
    safety: Safety,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Move the start of a log forward.

    Consumers no longer get earlier records, as after kafka-delete-records. Whole segments below the new start are
    renamed to .deleted. Records that share a segment with later records stay on the disk until that segment is removed.
    """
    from kafkalog_cli.cli.verbs import run_verb
    from kafkalog_cli.ops.delete_records import DELETE_RECORDS
    from kafkalog_cli.ops.delete_records import delete_records as delete_from_partition
    from kafkalog_cli.output.log_change_views import delete_records_view

    environment: Environment = context.obj
    options = session_options(environment, topics, safety, settings=settings, single_replica=single_replica)
    return run_verb(
        *(context, DELETE_RECORDS, delete_records_view(keeps=keep), options, [path], delete_from_partition),
        printing=printing, metrics=metrics, takes_one=True,
        before_offset=before, delay_ms=delay_ms_of(delay, keeps=keep), keeps=keep,
    )  # fmt: skip
