"""`kafkalog undo`: restore the state before a run."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.groups import Printing, Safety, Topics, grouped, session_options
from kafkalog_cli.errors import UsageError

command = typer.Typer(add_completion=False)


@command.command("undo")
@grouped
def undo(  # noqa: PLR0913
    context: typer.Context,
    *,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A partition directory, or the log directory.")],
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="The run, as the command printed it at its end. ls lists runs."),
    ] = "",
    topics: Topics,
    safety: Safety,
    printing: Printing,
) -> int:
    """Restore the files from before a run.

    Contents, names, modes, owners, times and lines of checkpoints are restored. An undo is refused (exit code 14) if a
    partition has changed since the run, for example because a broker has started on it. A run that was interrupted can
    be undone too, and so can an undo.
    """
    from kafkalog_cli.cli.verbs import begin
    from kafkalog_cli.ops.undo import UNDO, partitions_to_undo
    from kafkalog_cli.output.runs import undo_view

    if "/" in run or run in (".", ".."):
        raise UsageError(reason=f"{run!r} is not a name of a run")
    environment = environment_of(context)
    begun = begin(environment, UNDO, undo_view(), session_options(environment, topics, safety), printing)
    partitions = partitions_to_undo(begun.session, path, run)
    return begun.complete(run, partitions)
