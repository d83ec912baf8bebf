"""`kafkalog append`: append records to a log."""

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context

from kafkalog_cli.cli.append_options import RecordOptions
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.option_groups import OneTopic
from kafkalog_cli.cli.options import Metrics, OnePartition, SingleReplica
from kafkalog_cli.cli.session_groups import Printing, Safety, WriterSettings, session_options
from kafkalog_cli.errors import ExitCode

if TYPE_CHECKING:
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.log.partition import Partition
    from kafkalog_cli.ops.append.verb import Appending

EXAMPLES = (
    (
        "Append the records of a file, one value per line",
        "kafkalog append /var/lib/kafka/orders-0 records.txt --input lines --single-replica",
    ),
    (
        "Copy records from another partition",
        (
            "kafkalog read /var/lib/kafka/orders-1 --format json"
            " | kafkalog append /var/lib/kafka/orders-0 - --single-replica"
        ),
    ),
    (
        "Check the input only",
        "kafkalog append /var/lib/kafka/orders-0 records.txt --input lines --single-replica --dry-run",
    ),
)
EXIT_CODES = CHANGE


def append(  # noqa: PLR0913
    context: Context,
    *,
    path: OnePartition,
    files: Annotated[list[str] | None, Argument(metavar="[FILE...]",
        help="Files with records; - is standard input, the default. More partitions may stand before them.")] = None,
    records: RecordOptions,
    topics: OneTopic,
    single_replica: SingleReplica = False,
    settings: WriterSettings,
    safety: Safety,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Append records to a partition as its leader would.

    Offsets, segments, indexes and the state of producers and transactions are written as a broker writes them. A
    partition that does not exist is created in its log directory. Input is NDJSON from dump-log or read, with new
    offsets, or lines. If a broker would reject a record (too large, no key in a compacted topic, a time in the
    future), nothing is appended. A crash leaves all synced records (flush.messages, flush.ms) and at worst a torn tail
    for `recover`.

    With several directories of a topic, or a log directory and --topic, the partition of each record is chosen as a
    producer does: by its key (--partitioner). Records without a key go to the partition that they name, else to one
    partition per full batch, in turn. All input is read before anything is appended. Each partition has its own line
    of output and its own undo.

    A line of JSON that is not a record ends the run with exit code 2: it has an unknown field, or a value of another
    type. A line that is not JSON ends it with 1, and so does a record that a broker would reject.

    Ctrl-C or SIGTERM ends the run between two batches with exit code 130. The run then prints the number of appended
    records, and the command that appends the rest (--skip-records). Standard input has to be sent again.
    """
    from kafkalog_cli.cli.verbs import begin
    from kafkalog_cli.ops.append.inputs import AppendInputs, paths_and_files
    from kafkalog_cli.ops.append.verb import APPEND, Appending
    from kafkalog_cli.output.log_change_views import append_view

    environment: Environment = context.obj
    more_paths, inputs = paths_and_files(environment.fs, files or ())
    own = records.checked()
    options = session_options(environment, topics, safety, settings=settings, single_replica=single_replica)
    run = begin(environment, APPEND, append_view(), options, printing, metrics)
    read = AppendInputs(environment.fs, inputs, environment.stdin, run.session.interruptions, run.printer)
    appending = Appending(run.session, own, read)
    return _append(run, appending, appending.targets(path, more_paths))


def _append(run: "VerbRun", appending: "Appending", partitions: "list[Partition]") -> int:
    """Append; if there are several partitions, sort the input first. An interrupted run reports how to continue."""
    from kafkalog_cli.ops.append.inputs import InputCutOff
    from kafkalog_cli.ops.session.verb import Summary
    from kafkalog_cli.output.log_change_views import interruption

    session = run.session
    with ExitStack() as sorted_lines:
        try:
            if len(partitions) > 1:
                sorted_lines.enter_context(closing(appending.sort(partitions)))
        except (KeyboardInterrupt, InputCutOff):  # nothing is locked or changed yet
            session.interruptions.ask()
            run, summary = run._replace(metrics=None), Summary(ExitCode.INTERRUPTED)
        else:
            run.printer.begin("append", appending.total_bytes)
            summary = run.run(appending.append, partitions)
    if summary.code is ExitCode.INTERRUPTED and session.interruptions.are_asked_for and not session.options.dry_run:
        run.printer.report(interruption(appending, session.argv))
    return run.finish(summary, partitions)
