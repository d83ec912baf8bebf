"""`kafkalog retain`: remove the segments past retention, or make room on a full disk."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.groups import Pacing, Printing, Safety, SettingSources, Topics, grouped, session_options
from kafkalog_cli.cli.options import Delay, Keep, Metrics, PartitionPaths, delay_ms_of
from kafkalog_cli.errors import UsageError

command = typer.Typer(add_completion=False)

ROOM_PANEL = "Room on a full disk"


@command.command("retain")
@grouped
def retain(  # noqa: PLR0913
    context: typer.Context,
    *,
    paths: PartitionPaths = None,
    topics: Topics,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say of each segment why it stays or goes, and when it would go."),
    ] = False,
    delay: Delay = None,
    keep: Keep = False,
    free_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Unlink the oldest segments of all partitions, at once and for good, until so much is free.",
            rich_help_panel=ROOM_PANEL,
        ),
    ] = None,
    keep_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="With --free-bytes: leave so much of each log.", rich_help_panel=ROOM_PANEL),
    ] = None,
    keep_ms: Annotated[
        int,
        typer.Option(
            "--keep-ms",
            metavar="MS",
            min=0,
            help="With --free-bytes: leave what is younger.",
            rich_help_panel=ROOM_PANEL,
        ),
    ] = 0,
    settings: SettingSources,
    safety: Safety,
    pacing: Pacing,
    metrics: Metrics = None,
    printing: Printing,
) -> int:
    """Remove whole segments from the start of logs: before the log's start, above retention.bytes, past retention.ms.

    Settings come from --config, the metadata log, --broker-config, and Kafka's defaults if all of these were read; a
    partition whose settings are not known is skipped. --config cleanup.policy never makes a compacted topic lose
    records, unless that topic alone is named. What goes is renamed to .deleted, and unlinked by a later run once
    file.delete.delay.ms has gone. With --free-bytes the limits do not count: the oldest go, never what is compacted,
    internal or active.
    """
    from kafkalog_cli.actions.retain.plan import RetainRequest
    from kafkalog_cli.actions.retain.retain import RETAIN
    from kafkalog_cli.cli.verbs import run_verb
    from kafkalog_cli.output.log_change_views import retain_view

    environment = environment_of(context)
    options = session_options(environment, topics, safety, settings=settings, pacing=pacing)
    if free_bytes is not None:
        if explain or keep or delay is not None:
            raise UsageError(reason="--explain, --delay and --keep do not go with --free-bytes")
        from kafkalog_cli.cli.free import free

        return free(environment, options, paths or [], (free_bytes, keep_bytes, keep_ms), printing, metrics)
    if keep_bytes is not None or keep_ms:
        raise UsageError(reason="--keep-bytes and --keep-ms go with --free-bytes")
    return run_verb(
        *(environment, RETAIN, retain_view(explains=explain, keeps=keep), options, paths or [], RetainRequest),
        printing=printing, metrics=metrics,
        delay_ms=delay_ms_of(delay, keeps=keep), keeps=keep, explains=explain, now_is_given=safety.now is not None,
    )  # fmt: skip
