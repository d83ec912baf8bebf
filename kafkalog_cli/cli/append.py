"""`kafkalog append`: append records to a log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import fields, replace
from functools import partial
from typing import Annotated, Literal, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.options import (
    CodecName,
    Metrics,
    OnePartition,
    OneTopic,
    PartitionerOption,
    Printing,
    Safety,
    SingleReplica,
    WriterSettings,
)
from kafkalog_cli.errors import ExitCode, as_typed, counted
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.call import Call
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.target import Changed
from kafkalog_cli.ops.change.append.append import AppendPlan
from kafkalog_cli.ops.change.append.batching import Writing
from kafkalog_cli.ops.change.append.inputs import AppendInputs, InputCutOff, parse_skipped, paths_and_files
from kafkalog_cli.ops.change.append.verb import Appending, AppendOptions
from kafkalog_cli.ops.choices import Hashing
from kafkalog_cli.output.changes import CHANGED, Sums, changed_lines, undo_words
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "Append the records of a file, one value per line": (
        "kafkalog append /var/lib/kafka/orders-0 records.txt --input lines --single-replica"
    ),
    "Copy records from another partition": (
        "kafkalog read /var/lib/kafka/orders-1 --format json | kafkalog append /var/lib/kafka/orders-0"
        " - --single-replica"
    ),
    "Check the input only": (
        "kafkalog append /var/lib/kafka/orders-0 records.txt --input lines --single-replica --dry-run"
    ),
}
EXIT_CODES = CHANGE

_records_option = partial(Option, rich_help_panel="Records and batches")
_producer_option = partial(Option, rich_help_panel="Producer")


# fmt: off
class RecordOptions(NamedTuple):
    """The format of the records, their batches and their producer."""

    input: Annotated[Literal["ndjson", "json", "lines", "kcat"], _records_option("--input",
        help="Format of the input: NDJSON from dump-log or read, one record per line, or lines of kcat -J."
        )] = "ndjson"
    key_separator: Annotated[str | None, _records_option("--key-separator", metavar="TEXT",
        help="Text between key and value of a line.")] = None
    codec: Annotated[CodecName, _records_option("--codec",
        help="Compression of batches, if the topic has no compression.type.")] = "none"
    compression_level: Annotated[int | None, _records_option("--compression-level", metavar="N",
        help="Level of the codec. Without it: Kafka's default.")] = None
    batch_bytes: Annotated[int, _records_option("--batch-bytes", metavar="BYTES", min=1,
        help="Largest batch of several records, before compression.")] = 16_384
    leader_epoch: Annotated[int | None, _records_option("--leader-epoch", metavar="N", min=0,
        help="Epoch of the leader that appends. Without it: the latest epoch of the log.")] = None
    producer_id: Annotated[int | None, _producer_option("--producer-id", metavar="ID", min=0,
        help="Id of an idempotent or transactional producer.")] = None
    producer_epoch: Annotated[int, _producer_option("--producer-epoch", metavar="N", min=0,
        help="Epoch of the producer.")] = 0
    first_sequence: Annotated[int | None, _producer_option("--first-sequence", metavar="N", min=0,
        help="Sequence of the first record. Without it: the next sequence of the producer.")] = None
    transaction: Annotated[Literal["commit", "abort", "open"] | None, _producer_option("--transaction",
        help="Append all records as one transaction, and end it so.")] = None
    topic_id: Annotated[str | None, _records_option("--topic-id", metavar="ID",
        help="Topic id for a new partition. Without it: the id in the metadata log.")] = None
    keep_offsets: Annotated[bool, _records_option("--keep-offsets",
        help="Keep the offsets, timestamp types and leader epochs of the records, as a follower does.")] = False
    skip_records: Annotated[list[str] | None, _records_option("--skip-records", metavar="[PARTITION:]N",
        help="Leave out the first N records of the input, which an interrupted run has appended. With several"
        " partitions: PARTITION:N for each. An interrupted run prints the command.")] = None
    partitioner: PartitionerOption = Hashing.MURMUR2_RANDOM
    coordinator_epoch: Annotated[int, _producer_option("--coordinator-epoch", metavar="N", min=0,
        help="Epoch of the coordinator that ends the transaction.")] = 0
# fmt: on

    def checked(self) -> AppendOptions:
        """Return the options as an append takes them. Raises UsageError if they contradict each other."""
        writing = Writing(**{field.name: getattr(self, field.name) for field in fields(Writing)})
        skipped = parse_skipped(self.skip_records or ())
        options = AppendOptions(
            writing, self.input in ("ndjson", "json"), self.key_separator, self.topic_id, skipped,
            self.input == "kcat", self.partitioner,
        )  # fmt: skip
        options.check()
        return options


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
    environment: Environment = context.obj
    more_paths, inputs = paths_and_files(environment.fs, files or ())
    own = records.checked()
    run = Changes(
        context, printing, _lines, _SUMS, question=_question, metrics=metrics, is_dry_run=safety.dry_run
    )  # fmt: skip
    options = run.options(topics, safety, settings=settings, single_replica=single_replica)
    call = Call("append", [path, *more_paths], options)
    read = AppendInputs(environment.fs, inputs, environment.stdin, run.interruptions, run)
    appending = Appending(call, own, read)
    return _append(run, call, appending, appending.targets())


def _append(run: Changes, call: Call, appending: Appending, partitions: list[Partition]) -> int:
    """Append; if there are several partitions, sort the input first. An interrupted run reports how to continue."""
    with ExitStack() as sorted_lines:
        try:
            if len(partitions) > 1:
                sorted_lines.enter_context(closing(appending.sort(partitions)))
        except (KeyboardInterrupt, InputCutOff):  # nothing is locked or changed yet
            run.interruptions.request()
            run.metrics, outcome = None, call.end(ExitCode.INTERRUPTED, ())
            outcome = replace(outcome, partitions=len(partitions))
        else:
            run.progress.begin("append", appending.total_bytes)
            outcome = appending.append(partitions)
    if outcome.exit_code is ExitCode.INTERRUPTED and run.interruptions.is_requested and not call.dry_run:
        run.report(_interruption(appending, call.argv))
    return run.finish(outcome)


_SUMS: Sums = {
    **CHANGED,
    "records": lambda changed: 0 if changed.plan.appended is None else changed.plan.appended.records,
    "batches": lambda changed: 0 if changed.plan.appended is None else changed.plan.appended.batches,
    "appended_bytes": lambda changed: 0 if changed.plan.appended is None else changed.plan.appended.size_bytes,
}


def _lines(changed: Changed[AppendPlan]) -> Iterator[str]:
    return changed_lines(changed, _words(changed.plan), undo_words(changed))


def _question(plan: AppendPlan) -> str:
    return f"Append in {printable(plan.path)}: {_words(plan)}"


def _words(plan: AppendPlan) -> str:
    """Return what was appended, in words."""
    appended = plan.appended
    if appended is None or not appended.records:
        return "nothing to append"
    records = counted(appended.records, "record")
    batches = counted(appended.batches, "batch", "batches")
    words = [f"{records} appended at {appended.first_offset} in {batches} ({sized(appended.size_bytes)})"]
    if appended.rolled:
        words.append(f"{counted(len(appended.rolled), 'segment')} begun")
    if plan.is_cut_short:
        words.append("interrupted")
    return ", ".join(words)


def _interruption(appending: Appending, argv: Sequence[str]) -> Note:
    """Return what an interrupted append has done, and the command that appends the rest of the input."""
    words = _interrupted_words(appending.appended, appending.end_offsets, has_stdin=appending.has_stdin)
    step = _command_that_goes_on(argv, appending.appended)
    return Note("interrupted", words, None, step, is_error=True, exit_code=ExitCode.INTERRUPTED)


def _interrupted_words(appended: Mapping[int, int], end_offsets: Mapping[int, int], *, has_stdin: bool) -> str:
    """Return what an interrupted append has done: the number of appended records per partition, and the log's end."""
    if not any(appended.values()):
        done = "interrupted: no record of the input is appended"
    elif len(appended) == 1:
        ((number, count),) = appended.items()
        what = "the first record" if count == 1 else f"the first {count} records"
        verb = "is" if count == 1 else "are"
        done = f"interrupted: {what} of the input {verb} appended, up to offset {end_offsets[number] - 1}, and no more"
    else:
        counts = [
            f"partition {number}: {counted(count, 'record')}"
            + (f" up to offset {end_offsets[number] - 1}" if count else "")
            for number, count in sorted(appended.items())
        ]
        done = f"interrupted: of the input's records for each partition the first are appended: {', '.join(counts)}"
    again = "; standard input has to be sent again, from its beginning" if has_stdin else ""
    return done + again


def _command_that_goes_on(argv: Sequence[str], appended: Mapping[int, int]) -> str:
    """Return the command line that appends the remaining records: `argv`, with --skip-records for `appended` records.

    `appended` is the number of records per partition.
    """
    words, at = list(argv), 0
    while at < len(words) and words[at] != "--":
        name, equals, _ = words[at].partition("=")
        if name == "--skip-records":
            del words[at : at + (1 if equals else 2)]
        else:
            at += 1
    counts = {number: count for number, count in sorted(appended.items()) if count}
    skipped = [str(count) if len(appended) == 1 else f"{number}:{count}" for number, count in counts.items()]
    command = words.index("append") + 1 if "append" in words else 0
    words[command:command] = [word for count in skipped for word in ("--skip-records", count)]
    return " ".join(["kafkalog", *map(as_typed, words)])
