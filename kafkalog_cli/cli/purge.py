"""`kafkalog purge`: permanently remove files whose delay is over, and files that old runs keep."""

from functools import partial
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.cli.options import IfOffline, Jobs, PathsArgument, TimeBudget
from kafkalog_cli.cli.session_groups import Pacing, Printing, Safety, session_options
from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.option_values import parse_duration_ms

EXAMPLES = (
    ("See what can be removed", "kafkalog purge /var/lib/kafka --dry-run"),
    ("Remove what runs of more than a day ago kept", "kafkalog purge /var/lib/kafka --older-than 1d"),
)
EXIT_CODES = CHANGE


def purge(  # noqa: PLR0913
    context: Context,
    *,
    paths: PathsArgument = None,
    topics: Topics,
    older_than: Annotated[str, Option(metavar="TIME",
        help="Remove runs that ended longer ago than this (90s, 15m, 2h, 7d). They cannot be undone then.")] = "7d",
    safety: Safety,
    jobs: Jobs = 0,
    time_budget: TimeBudget = None,
    if_offline: IfOffline = False,
    printing: Printing,
) -> int:  # fmt: skip
    """Remove files that earlier runs kept, and due .deleted files.

    Removed files cannot be restored. A .deleted file is due file.delete.delay.ms after the run that renamed it, or a
    minute after another program renamed it. Files of an interrupted import are due too, unless an import is running.

    The last run stays until it is undone if it was interrupted. Partitions of a committed import stay until the
    import is completed.
    """
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.ops.purge import PURGE
    from kafkalog_cli.ops.purge import purge as purge_partition
    from kafkalog_cli.output.runs import purge_view

    older_than_ms = parse_duration_ms(older_than)
    if not paths:
        raise UsageError(reason="purge needs a PATH; see kafkalog purge --help")
    environment: Environment = context.obj
    options = session_options(environment, topics, safety, pacing=Pacing(jobs, time_budget, None, if_offline))
    begun = VerbRun(context, PURGE, purge_view(dry_run=safety.dry_run), options, printing)
    partitions = begun.session.partitions(paths)
    return begun.complete(partial(purge_partition, older_than_ms=older_than_ms), partitions)
