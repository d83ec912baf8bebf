"""`kafkalog retain`: remove the segments past retention, or make room on a full disk."""

from typing import Annotated

from kafkalog_cli.cli.declared import Command, CommandContext, Option
from kafkalog_cli.cli.groups import Pacing, Printing, Safety, SettingSources, Topics, session_options
from kafkalog_cli.cli.options import Delay, Keep, Metrics, PartitionPaths, delay_ms_of
from kafkalog_cli.errors import UsageError

ROOM_PANEL = "Room on a full disk"


def retain(  # noqa: PLR0913
    context: CommandContext,
    *,
    paths: PartitionPaths = None,
    topics: Topics,
    explain: Annotated[
        bool,
        Option("--explain", help="Explain for each segment why it stays or is removed, and when it would be removed."),
    ] = False,
    delay: Delay = None,
    keep: Keep = False,
    free_bytes: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            help="Unlink the oldest segments of all partitions, without undo, until SIZE is free on the disk.",
            rich_help_panel=ROOM_PANEL,
        ),
    ] = None,
    keep_bytes: Annotated[
        str | None,
        Option(metavar="SIZE", help="With --free-bytes: leave at least SIZE of each log.", rich_help_panel=ROOM_PANEL),
    ] = None,
    keep_ms: Annotated[
        int,
        Option(
            "--keep-ms",
            metavar="MS",
            min=0,
            help="With --free-bytes: leave segments with records younger than MS.",
            rich_help_panel=ROOM_PANEL,
        ),
    ] = 0,
    settings: SettingSources,
    safety: Safety,
    pacing: Pacing,
    metrics: Metrics = None,
    printing: Printing,
) -> int:
    """Remove segments past retention, or make room on a full disk.

    As in a broker, whole segments are removed from the start of a log: before its log start offset, above
    retention.bytes, or past retention.ms. Settings come from --config, the metadata log and --broker-config.
    Kafka's defaults apply only if these sources were read. A partition with unknown settings is skipped. --config
    cleanup.policy never makes a compacted topic lose records, unless only that topic is named.

    Removed files are renamed to .deleted. A later run unlinks them after file.delete.delay.ms. With --free-bytes,
    the limits are ignored: the oldest segments of all partitions are unlinked at once, but never compacted topics,
    internal topics or active segments.
    """
    from kafkalog_cli.cli.verbs import run_verb
    from kafkalog_cli.ops.retain.plan import RetainRequest
    from kafkalog_cli.ops.retain.retain import RETAIN
    from kafkalog_cli.output.retain_view import retain_view

    environment = context.environment
    options = session_options(environment, topics, safety, settings=settings, pacing=pacing)
    if free_bytes is not None:
        if explain or keep or delay is not None:
            raise UsageError(reason="--explain, --delay and --keep cannot be combined with --free-bytes")
        from kafkalog_cli.cli.free import free

        return free(environment, options, paths or [], (free_bytes, keep_bytes, keep_ms), printing, metrics)
    if keep_bytes is not None or keep_ms:
        raise UsageError(reason="--keep-bytes and --keep-ms need --free-bytes")
    return run_verb(
        *(environment, RETAIN, retain_view(explains=explain, keeps=keep), options, paths or [], RetainRequest),
        printing=printing, metrics=metrics,
        delay_ms=delay_ms_of(delay, keeps=keep), keeps=keep, explains=explain, now_is_given=safety.now is not None,
    )  # fmt: skip


command = Command(retain)
