"""`kafkalog purge`: permanently remove files whose delay is over, and files that old runs keep."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.groups import Pacing, Printing, Safety, Topics, grouped, session_options
from kafkalog_cli.cli.options import Jobs, PathsArgument, TimeBudget
from kafkalog_cli.errors import UsageError

command = typer.Typer(add_completion=False)


@command.command("purge")
@grouped
def purge(  # noqa: PLR0913
    context: typer.Context,
    *,
    paths: PathsArgument = None,
    topics: Topics,
    older_than: Annotated[
        str, typer.Option(metavar="TIME", help="Remove runs that ended so long ago (90s, 15m, 2h, 7d): no undo then.")
    ] = "7d",
    safety: Safety,
    jobs: Jobs = 0,
    time_budget: TimeBudget = None,
    printing: Printing,
) -> int:
    """Remove for good: files named .deleted that are due, what old runs keep for undo, what killed imports left.

    A file is due file.delete.delay.ms after the run that renamed it, or a minute after it was renamed if no run of
    kafkalog did; so is what an import left, unless one is at work. The last run, if it was cut off half way, stays
    until it is undone, and partitions of an import that was committed until it is completed.
    """
    from kafkalog_cli.actions.purge import PURGE, PurgeRequest
    from kafkalog_cli.actions.time_spec import parse_duration_ms
    from kafkalog_cli.cli.verbs import begin
    from kafkalog_cli.output.runs import purge_view

    request = PurgeRequest(parse_duration_ms(older_than))
    if not paths:
        raise UsageError(reason="purge needs a PATH; see kafkalog purge --help")
    environment = environment_of(context)
    options = session_options(environment, topics, safety, pacing=Pacing(jobs, time_budget))
    begun = begin(environment, PURGE, purge_view(dry_run=safety.dry_run), options, printing)
    partitions = begun.session.partitions(paths)
    return begun.finish(begun.session.run(request, partitions), partitions)
