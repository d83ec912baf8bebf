"""`kafkalog compact`: keep only the last record of each key, as a broker's log cleaner does."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.groups import Pacing, Printing, Safety, SettingSources, Spark, Topics, grouped, session_options
from kafkalog_cli.cli.options import Delay, Input, Metrics, PartitionPaths, delay_ms_of
from kafkalog_cli.errors import UsageError

command = typer.Typer(add_completion=False)


@command.command("compact")
@grouped
def compact(  # noqa: PLR0913
    context: typer.Context,
    *,
    paths: PartitionPaths = None,
    topics: Topics,
    force: Annotated[
        bool,
        typer.Option("--force", help="Clean also what is not dirty enough, and what was cleaned, once more."),
    ] = False,
    passes: Annotated[
        str,
        typer.Option(
            metavar="N|until-stable",
            help="Number of cleaning passes: 1, like one round of a broker, or N or until-stable to repeat while more"
            " records become removable.",
        ),
    ] = "1",
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="With --dry-run: read the logs, and say how many records would go."),
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="With --dry-run: say of each record of a key why it stays or goes, and when."),
    ] = None,
    erase_keys: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Take out all records of these keys, at once and for good, prove it, and tell what still holds them.",
        ),
    ] = None,
    input: Annotated[  # noqa: A002
        Input,
        typer.Option(
            "--input", help="How FILE has the keys: of records in NDJSON as dump-log prints it, or a line each."
        ),
    ] = Input.NDJSON,
    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="For the keys and marks of one partition; where they need more, the log is read several times.",
        ),
    ] = "128MiB",
    delay: Delay = None,
    settings: SettingSources,
    safety: Safety,
    pacing: Pacing,
    spark: Spark,
    metrics: Metrics = None,
    printing: Printing,
) -> int:
    """Compact logs: of the records with the same key the last one stays, tombstones and aborted records go in time.

    Only topics whose cleanup.policy has compact are touched: by --config, the metadata log, or --broker-config. A log
    is cleaned if it is dirty enough (min.cleanable.dirty.ratio), the dirtiest first. What is replaced is renamed to
    .deleted, and unlinked by a later run once file.delete.delay.ms has gone; with --erase-keys at once.
    """
    from kafkalog_cli.actions.compact.plan import CompactRequest
    from kafkalog_cli.actions.compact.verb import COMPACT, CompactWork, dirtiest_first, keys_to_erase
    from kafkalog_cli.actions.size_spec import parse_size_bytes
    from kafkalog_cli.cli.verbs import begin
    from kafkalog_cli.output.compact_view import compact_view

    if estimate and not safety.dry_run:
        raise UsageError(reason="--estimate goes with --dry-run")
    if explain is not None and not safety.dry_run:
        raise UsageError(reason="--explain goes with --dry-run")
    if erase_keys is not None and (delay is not None or explain is not None):
        raise UsageError(reason="--erase-keys goes neither with --delay, as nothing waits, nor with --explain")
    environment = environment_of(context)
    options = session_options(environment, topics, safety, settings=settings, pacing=pacing, spark=spark)
    own = {
        "is_forced": force,
        "memory_bytes": parse_size_bytes(memory),
        "delay_ms": delay_ms_of(delay, keeps=False) if erase_keys is None else 0,
        "now_is_given": safety.now is not None,
        "passes": _passes(passes),
    }
    explains, erases = explain is not None, erase_keys is not None
    run = begin(environment, COMPACT, compact_view(explains=explains, erases=erases), options, printing)
    partitions = run.session.writable_partitions(paths or [])
    if safety.dry_run and not explains and not erases and len(partitions) > 1:
        run.printer.view = compact_view(has_table=True)
    metrics = None if safety.dry_run else metrics
    run.check_metrics(metrics)
    keys = None if erase_keys is None else keys_to_erase(environment.fs, erase_keys, is_ndjson=input.is_json)
    request = run.session.request(CompactRequest, partitions, **own, erased=None if keys is None else keys.sought)
    summary = run.session.run(
        CompactWork(request, keys, estimate, explain), dirtiest_first(run.session, partitions, request)
    )
    return run.finish(summary, partitions, metrics)


def _passes(text: str) -> int | None:
    if text == "until-stable":
        return None
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise UsageError(reason=f"--passes {text}: a number from 1 on, or until-stable")
    return int(text)
