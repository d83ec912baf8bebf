"""`kafkalog append`: append records to a log."""

from contextlib import ExitStack, closing
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated

from kafkalog_cli.cli.declared import Argument, Command, CommandContext, Option
from kafkalog_cli.cli.groups import OneTopic
from kafkalog_cli.cli.options import CodecName, Input, Metrics, OnePartition, SingleReplica
from kafkalog_cli.cli.session_groups import Printing, Safety, SettingSources, session_options
from kafkalog_cli.errors import ExitCode

if TYPE_CHECKING:
    from kafkalog_cli.cli.environment import Environment
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.log.partition import Partition
    from kafkalog_cli.ops.append.verb import Appending

_records_option = partial(Option, rich_help_panel="Records and batches")
_producer_option = partial(Option, rich_help_panel="Producer")


class EndingOption(Enum):
    """How a transaction is left."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


def append(  # noqa: PLR0913
    context: CommandContext,
    *,
    path: OnePartition,
    files: Annotated[list[str] | None, Argument(metavar="[FILE...]",
        help="Files with records; - is standard input, the default. More partitions may stand before them.")] = None,
    input: Annotated[Input, _records_option("--input",  # noqa: A002
        help="Format of the input: NDJSON from dump-log or read, or one record per line.")] = Input.NDJSON,
    key_separator: Annotated[str | None, _records_option("--key-separator", metavar="TEXT",
        help="Text between key and value of a line.")] = None,
    codec: Annotated[CodecName, _records_option("--codec",
        help="Compression of batches, if the topic has no compression.type.")] = CodecName.NONE,
    level: Annotated[int | None, _records_option("--compression-level", metavar="N",
        help="Level of the codec. Without it: Kafka's default.")] = None,
    batch_bytes: Annotated[int, _records_option("--batch-bytes", metavar="BYTES", min=1,
        help="Largest batch of several records, before compression.")] = 16_384,
    leader_epoch: Annotated[int | None, _records_option("--leader-epoch", metavar="N", min=0,
        help="Epoch of the leader that appends. Without it: the latest epoch of the log.")] = None,
    producer_id: Annotated[int | None, _producer_option("--producer-id", metavar="ID", min=0,
        help="Id of an idempotent or transactional producer.")] = None,
    producer_epoch: Annotated[int, _producer_option("--producer-epoch", metavar="N", min=0,
        help="Epoch of the producer.")] = 0,
    first_sequence: Annotated[int | None, _producer_option("--first-sequence", metavar="N", min=0,
        help="Sequence of the first record. Without it: the next sequence of the producer.")] = None,
    transaction: Annotated[EndingOption | None, _producer_option("--transaction",
        help="Append all records as one transaction, and end it so.")] = None,
    topic_id: Annotated[str | None, _records_option("--topic-id", metavar="ID",
        help="Topic id for a new partition. Without it: the id in the metadata log.")] = None,
    keep_offsets: Annotated[bool, _records_option("--keep-offsets",
        help="Keep the offsets, timestamp types and leader epochs of the records, as a follower does.")] = False,
    skip_records: Annotated[list[str] | None, _records_option("--skip-records", metavar="[PARTITION:]N",
        help="Leave out the first N records of the input, which an interrupted run has appended. With several"
        " partitions: PARTITION:N for each. An interrupted run prints the command.")] = None,
    coordinator_epoch: Annotated[int, _producer_option("--coordinator-epoch", metavar="N", min=0,
        help="Epoch of the coordinator that ends the transaction.")] = 0,
    topics: OneTopic,
    single_replica: SingleReplica = False,
    settings: SettingSources,
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
    producer does: by its key (murmur2). Records without a key go to the partition that they name, else to one
    partition per full batch, in turn. All input is read before anything is appended. Each partition has its own line
    of output and its own undo.

    A line of JSON that is not a record ends the run with exit code 2: it has an unknown field, or a value of another
    type. A line that is not JSON ends it with 1, and so does a record that a broker would reject.

    Ctrl-C or SIGTERM ends the run between two batches with exit code 130. The run then prints the number of appended
    records, and the command that appends the rest (--skip-records). Standard input has to be sent again.
    """
    from kafkalog_cli.cli.verbs import begin
    from kafkalog_cli.ops.append.batching import Writing
    from kafkalog_cli.ops.append.inputs import AppendInputs, parse_skipped, paths_and_files
    from kafkalog_cli.ops.append.verb import APPEND, Appending, AppendOptions
    from kafkalog_cli.output.log_change_views import append_view

    environment = context.environment
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
    run = begin(environment, APPEND, append_view(), options, printing, metrics)
    session = run.session
    inputs = AppendInputs(environment.fs, records, environment.stdin, session.interruptions, run.printer)
    appending = Appending(session, own, inputs)
    return _append(environment, run, appending, appending.targets(path, more_paths))


def _append(environment: "Environment", run: "VerbRun", appending: "Appending", partitions: "list[Partition]") -> int:
    """Append; if there are several partitions, sort the input first. An interrupted run reports how to continue."""
    from kafkalog_cli.ops.append.inputs import InputCutOff
    from kafkalog_cli.ops.session.verb import Summary

    session = run.session
    with ExitStack() as sorted_lines:
        if len(partitions) > 1:
            try:
                sorted_lines.enter_context(closing(appending.sort(partitions)))
            except (KeyboardInterrupt, InputCutOff):  # nothing is locked or changed yet
                _report_how_to_go_on(environment, run, appending)
                return run._replace(metrics=None).finish(Summary(ExitCode.INTERRUPTED), partitions)
        session.settings(partitions)
        run.printer.begin("append", appending.total_bytes)
        summary = run.run(appending, partitions)
    if summary.code is ExitCode.INTERRUPTED and session.interruptions.are_asked_for:
        _report_how_to_go_on(environment, run, appending)
    return run.finish(summary, partitions)


def _report_how_to_go_on(environment: "Environment", run: "VerbRun", appending: "Appending") -> None:
    from kafkalog_cli.ops.session.observer import Note
    from kafkalog_cli.output.log_change_views import command_that_goes_on, interrupted_words

    if run.session.options.dry_run:
        return
    words = interrupted_words(appending.appended, appending.end_offsets, has_stdin=appending.has_stdin)
    step = command_that_goes_on(environment.argv, appending.appended)
    note = Note("interrupted", words, None, step, is_error=True, exit_code=ExitCode.INTERRUPTED)
    run.printer.report(note)


command = Command(append)
