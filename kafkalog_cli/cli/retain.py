"""`kafkalog retain`: remove the segments past retention, or make room on a full disk."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.cli.options import Delay, Keep, Metrics, PartitionPaths, delay_ms_of
from kafkalog_cli.cli.session_groups import Pacing, Printing, Safety, WriterSettings, session_options
from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.option_values import parse_size_bytes

if TYPE_CHECKING:
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.ops.retain.freeing import Freeing

EXAMPLES = (
    ("See why each segment stays or is removed", "kafkalog retain /var/lib/kafka --dry-run --explain"),
    (
        "Apply the limits in the broker's configuration",
        "kafkalog retain /var/lib/kafka --broker-config /etc/kafka/server.properties",
    ),
    ("Make room on a full disk at once", "kafkalog retain /var/lib/kafka --free-bytes 20GiB"),
)
EXIT_CODES = CHANGE

_room_option = partial(Option, rich_help_panel="Room on a full disk")


def retain(  # noqa: PLR0913
    context: Context,
    *,
    paths: PartitionPaths = None,
    topics: Topics,
    explain: Annotated[bool, Option("--explain",
        help="Explain for each segment why it stays or is removed, and when it would be removed.")] = False,
    delay: Delay = None,
    keep: Keep = False,
    free_bytes: Annotated[str | None, _room_option(metavar="SIZE",
        help="Unlink the oldest segments of all partitions, without undo, until SIZE is free on the disk.")] = None,
    keep_bytes: Annotated[str | None, _room_option(metavar="SIZE",
        help="With --free-bytes: leave at least SIZE of each log.")] = None,
    keep_ms: Annotated[int, _room_option("--keep-ms", metavar="MS", min=0,
        help="With --free-bytes: leave segments with records younger than MS.")] = 0,
    settings: WriterSettings,
    safety: Safety,
    pacing: Pacing,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Remove segments past retention, or make room on a full disk.

    As in a broker, whole segments are removed from the start of a log: before its log start offset, above
    retention.bytes, or past retention.ms. Settings come from --config, the metadata log and --broker-config.
    Kafka's defaults apply only if these sources were read. A partition with unknown settings is skipped. --config
    cleanup.policy never makes a compacted topic lose records, unless only that topic is named.

    Removed files are renamed to .deleted. A later run unlinks them after file.delete.delay.ms. With --free-bytes,
    the limits are ignored: the oldest segments of all partitions are unlinked at once, but never compacted topics,
    internal topics or active segments.
    """
    from kafkalog_cli.cli.verbs import VerbRun, run_verb
    from kafkalog_cli.ops.retain.retain import RETAIN, retain_partition
    from kafkalog_cli.output.retain_view import free_view, retain_view

    environment: Environment = context.obj
    options = session_options(environment, topics, safety, settings=settings, pacing=pacing)
    if free_bytes is not None:
        if explain or keep or delay is not None:
            raise UsageError(reason="--explain, --delay and --keep cannot be combined with --free-bytes")
        from kafkalog_cli.ops.retain.freeing import FREE, Freeing

        wanted_bytes, least = parse_size_bytes(free_bytes), 0 if keep_bytes is None else parse_size_bytes(keep_bytes)
        run = VerbRun(context, FREE, free_view(), options, printing, metrics, only_plans=True)
        return _free(run, paths or [], Freeing(run.session, keep_ms, wanted_bytes, options.dry_run), least)
    if keep_bytes is not None or keep_ms:
        raise UsageError(reason="--keep-bytes and --keep-ms need --free-bytes")
    return run_verb(
        *(context, RETAIN, retain_view(explains=explain, keeps=keep), options, paths or [], retain_partition),
        printing=printing, metrics=metrics,
        delay_ms=delay_ms_of(delay, keeps=keep), keeps=keep, explains=explain,
    )  # fmt: skip


def _free(run: "VerbRun", paths: list[str], freeing: "Freeing", keep_bytes: int) -> int:
    """Unlink segments until enough is free; return the exit code. Each log keeps `keep_bytes`."""
    from kafkalog_cli.ops.retain.freeing import plan_freeing

    partitions = run.session.writable_partitions(paths)
    summary = freeing.free(run.run(partial(plan_freeing, keep_bytes=keep_bytes), partitions, freeing.plans.append))
    for freed in freeing.results():
        run.show(freed)
    return run.finish(summary, partitions)
