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
        typer.Argument(metavar="RUN", help="The run, as the command that made it said at its end; ls lists them."),
    ] = "",
    topics: Topics,
    safety: Safety,
    printing: Printing,
) -> int:
    """Put back what was there before a run: content, names, modes, owners, times, and lines of the checkpoints.

    Refused (exit code 14) if a partition is not what the run left, as after a broker has started on it. A run that was
    cut off half way is undone too, and so is an undo.
    """
    from kafkalog_cli.actions.undo_verb import UNDO, partitions_to_undo
    from kafkalog_cli.cli.verbs import begin
    from kafkalog_cli.output.runs import undo_view

    if "/" in run or run in (".", ".."):
        raise UsageError(reason=f"{run!r} is no name of a run")
    environment = environment_of(context)
    begun = begin(environment, UNDO, undo_view(), session_options(environment, topics, safety), printing)
    partitions = partitions_to_undo(begun.session, path, run)
    return begun.finish(begun.session.run(run, partitions), partitions)
