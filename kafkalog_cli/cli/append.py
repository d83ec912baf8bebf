"""`kafkalog append`: append records to a log."""

from contextlib import ExitStack, closing
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.groups import OneTopic, Printing, Safety, SettingSources, grouped, session_options
from kafkalog_cli.cli.options import CodecName, Input, Metrics, OnePartition, SingleReplica
from kafkalog_cli.errors import ExitCode

if TYPE_CHECKING:
    from kafkalog_cli.actions.append.verb import Appending
    from kafkalog_cli.cli.environment import Environment
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.storage.partition import Partition

command = typer.Typer(add_completion=False)

RECORDS_PANEL = "Records and batches"
PRODUCER_PANEL = "Producer"


class EndingOption(Enum):
    """How a transaction is left."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


def _option(name: str, panel: str, text: str, metavar: str | None = None, least: int | None = None) -> object:
    return typer.Option(name, metavar=metavar, min=least, rich_help_panel=panel, help=text)


@command.command("append")
@grouped
def append(  # noqa: PLR0913
    context: typer.Context,
    *,
    path: OnePartition,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="Files with the records, '-' for standard input, which is the default; before them more partitions.",
        ),
    ] = None,
    input: Annotated[  # noqa: A002
        Input, _option("--input", RECORDS_PANEL, "NDJSON as dump-log prints it, or a record a line.")
    ] = Input.NDJSON,
    key_separator: Annotated[
        str | None, _option("--key-separator", RECORDS_PANEL, "Of lines: the key is what comes before it.", "TEXT")
    ] = None,
    codec: Annotated[
        CodecName,
        _option("--codec", RECORDS_PANEL, "How batches are packed, unless the topic's compression.type says."),
    ] = CodecName.NONE,
    level: Annotated[
        int | None, _option("--compression-level", RECORDS_PANEL, "The codec's level; Kafka's default without it.", "N")
    ] = None,
    batch_bytes: Annotated[
        int,
        _option(
            "--batch-bytes", RECORDS_PANEL, "Most bytes of a batch of several records, before packing.", "BYTES", 1
        ),
    ] = 16_384,
    leader_epoch: Annotated[
        int | None,
        _option(
            "--leader-epoch", RECORDS_PANEL, "The epoch of the leader that appends; the latest without it.", "N", 0
        ),
    ] = None,
    producer_id: Annotated[
        int | None, _option("--producer-id", PRODUCER_PANEL, "Of an idempotent or transactional producer.", "ID", 0)
    ] = None,
    producer_epoch: Annotated[int, _option("--producer-epoch", PRODUCER_PANEL, "Its epoch.", "N", 0)] = 0,
    first_sequence: Annotated[
        int | None,
        _option(
            "--first-sequence", PRODUCER_PANEL, "Of the first record; else it goes on with the last one's.", "N", 0
        ),
    ] = None,
    transaction: Annotated[
        EndingOption | None,
        _option("--transaction", PRODUCER_PANEL, "All records are one transaction, which is left so."),
    ] = None,
    topic_id: Annotated[
        str | None,
        _option(
            "--topic-id", RECORDS_PANEL, "Of a partition that is not there yet; else the metadata log tells.", "ID"
        ),
    ] = None,
    keep_offsets: Annotated[
        bool,
        typer.Option(
            "--keep-offsets",
            rich_help_panel=RECORDS_PANEL,
            help="Keep offsets, timestamp types and leader epochs of the records, as a follower does.",
        ),
    ] = False,
    skip_records: Annotated[
        list[str] | None,
        _option(
            "--skip-records",
            RECORDS_PANEL,
            "Leave out the first N records of the input, which an interrupted run has appended; with several"
            " partitions PARTITION:N for each of them. An interrupted run prints the command.",
            "[PARTITION:]N",
        ),
    ] = None,
    coordinator_epoch: Annotated[
        int, _option("--coordinator-epoch", PRODUCER_PANEL, "Of the coordinator whose marker ends it.", "N", 0)
    ] = 0,
    topics: OneTopic,
    single_replica: SingleReplica = False,
    settings: SettingSources,
    safety: Safety,
    metrics: Metrics = None,
    printing: Printing,
) -> int:
    """Append records to a partition as its leader would, with its offsets, segments, indexes, producers, transactions.

    A partition that is not there is made, where its log directory is. What dump-log and read print with --format json
    goes in: keys, values, headers and timestamps, with new offsets. A record that a broker would not take (too large,
    no key in a compacted topic, a time in the future) ends it, and nothing is appended. A crash leaves what was
    synced (flush.messages, flush.ms) and at worst a torn tail for `recover`.

    With several directories of a topic, or a log directory and --topic, a record goes where a producer of Kafka would
    send it: by its key (murmur2); without one to the partition that it names, if it is given, else to one for as long
    as a batch takes to fill, and then to the next. All is read before anything is appended; each partition has its own
    line, and undo.

    Ctrl-C or SIGTERM ends it between two batches with exit code 130. It then prints how many records of the input are
    appended, and the command that appends the others (--skip-records); standard input has to be sent again.
    """
    from kafkalog_cli.actions.append.inputs import AppendInputs, paths_and_files
    from kafkalog_cli.actions.append.skipping import parse_skipped
    from kafkalog_cli.actions.append.verb import APPEND, Appending, AppendOptions
    from kafkalog_cli.actions.append.writing import Writing
    from kafkalog_cli.cli.verbs import begin
    from kafkalog_cli.output.append_view import append_view

    environment = environment_of(context)
    more_paths, records = paths_and_files(environment.fs, files or ())
    writing = Writing(
        codec=codec.value,
        compression_level=level,
        batch_bytes=batch_bytes,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        first_sequence=first_sequence,
        transaction=None if transaction is None else transaction.value,
        coordinator_epoch=coordinator_epoch,
        keep_offsets=keep_offsets,
    )
    own = AppendOptions(writing, input.is_json, key_separator, topic_id, parse_skipped(skip_records or ()))
    own.check()
    options = session_options(environment, topics, safety, settings=settings, single_replica=single_replica)
    run = begin(environment, APPEND, append_view(), options, printing)
    session = run.session
    inputs = AppendInputs(environment.fs, records, environment.stdin, session.interruptions, run.printer)
    appending = Appending(session, own, inputs)
    return _append(environment, run, appending, appending.targets(path, more_paths), metrics)


def _append(
    environment: "Environment",
    run: "VerbRun",
    appending: "Appending",
    partitions: "list[Partition]",
    metrics: str | None,
) -> int:
    """Append; if there are several partitions, sort the input first. An interrupted run reports how to continue."""
    from kafkalog_cli.actions.append.inputs import InputCutOff
    from kafkalog_cli.actions.session.verb import Summary

    session = run.session
    metrics = None if session.options.dry_run else metrics
    with ExitStack() as sorted_lines:
        if len(partitions) > 1:
            try:
                sorted_lines.enter_context(closing(appending.sort(partitions)))
            except (KeyboardInterrupt, InputCutOff):  # nothing is locked or changed yet
                _report_how_to_go_on(environment, run, appending)
                return run.finish(Summary(ExitCode.INTERRUPTED), partitions)
        run.check_metrics(metrics)
        session.settings(partitions)
        run.printer.begin("append", appending.total_bytes)
        summary = session.run(appending, partitions)
    if summary.code is ExitCode.INTERRUPTED and session.interruptions.are_asked_for:
        _report_how_to_go_on(environment, run, appending)
    return run.finish(summary, partitions, metrics)


def _report_how_to_go_on(environment: "Environment", run: "VerbRun", appending: "Appending") -> None:
    from kafkalog_cli.actions.session.observer import Note
    from kafkalog_cli.output.append_text import command_that_goes_on, interrupted_words

    if run.session.options.dry_run:
        return
    words = interrupted_words(appending.appended, appending.end_offsets, has_stdin=appending.has_stdin)
    step = command_that_goes_on(environment.argv, appending.appended)
    note = Note("interrupted", words, None, step, is_error=True, exit_code=ExitCode.INTERRUPTED)
    run.printer.report(note)
