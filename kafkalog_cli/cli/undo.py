"""`kafkalog undo`: restore the state before a run."""

from functools import partial
from typing import Annotated

from typer import Argument, Context

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.cli.session_groups import Printing, Safety, session_options
from kafkalog_cli.errors import UsageError

EXAMPLES = (
    (
        "See what undoing a run would restore",
        "kafkalog undo /var/lib/kafka/orders-0 20261121T131034.088Z-recover-91ac --dry-run",
    ),
    (
        "Undo a run in all partitions of a log directory",
        "kafkalog undo /var/lib/kafka 20261121T131034.088Z-recover-91ac",
    ),
)
EXIT_CODES = CHANGE


def undo(  # noqa: PLR0913
    context: Context,
    *,
    path: Annotated[str, Argument(metavar="PATH", help="A partition directory, or the log directory.")],
    run: Annotated[str, Argument(metavar="RUN",
        help="The run, as the command printed it at its end. ls lists runs.")] = "",
    topics: Topics,
    safety: Safety,
    printing: Printing,
) -> int:  # fmt: skip
    """Restore the files from before a run.

    Contents, names, modes, owners, times and lines of checkpoints are restored. An undo is refused (exit code 14) if a
    partition has changed since the run, for example because a broker has started on it. A run that was interrupted can
    be undone too, and so can an undo.
    """
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.ops.undo.verb import UNDO, partitions_to_undo
    from kafkalog_cli.ops.undo.verb import undo as undo_on_partition
    from kafkalog_cli.output.runs import undo_view

    if "/" in run or run in (".", ".."):
        raise UsageError(reason=f"{run!r} is not a name of a run")
    environment: Environment = context.obj
    begun = VerbRun(context, UNDO, undo_view(), session_options(environment, topics, safety), printing)
    partitions = partitions_to_undo(begun.session, path, run)
    return begun.complete(partial(undo_on_partition, run_id=run), partitions)
