"""`kafkalog lookup-time`: find the first record at or after a time, and answer other questions about time."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.commands import Command
from kafkalog_cli.cli.environment import now_of, time_of
from kafkalog_cli.cli.exit_codes import PATHS, exit_codes
from kafkalog_cli.cli.options import TIME_HELP, Format, Now, OutputFormat, PartitionOption, TopicOption, selection_of
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import ExitCode, KafkalogError, NoRecordAtTime, NoTimestamps, UsageError
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops import lookup_time as by_time
from kafkalog_cli.ops.lookup_offset import Found, LookupOffset
from kafkalog_cli.ops.lookup_time import joined_errors
from kafkalog_cli.ops.option_values import time_words
from kafkalog_cli.ops.selection import select_of_topics
from kafkalog_cli.output.lookup_view import (
    broker_fields,
    broker_note,
    found_lines,
    partition_line,
    topic_line,
    write_found,
)
from kafkalog_cli.output.stream import paint_of

EXAMPLES = (
    ("Find the first record of a day", "kafkalog lookup-time /var/lib/kafka/orders-0 2023-11-14"),
    (
        "Find it in each partition of a topic",
        "kafkalog lookup-time /var/lib/kafka --topic orders 2023-11-14",
    ),
    (
        "Find the record with the largest timestamp",
        "kafkalog lookup-time /var/lib/kafka/orders-0 --max-timestamp",
    ),
)
EXIT_CODES = PATHS | exit_codes(ExitCode.PARTIAL)


def lookup_time(  # noqa: PLR0913, PLR0917 options
    context: Context,
    path: Annotated[str, Argument(metavar="PATH",
        help="A partition directory, a log directory with --topic, or a segment file.")],
    time: Annotated[str | None, Argument(metavar="[TIME]", help=f"The time: {TIME_HELP}.")] = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    earliest: Annotated[bool, Option("--earliest", help="Print the first offset of the log.")] = False,
    latest: Annotated[bool, Option("--latest", help="Print the offset that the next record will get.")] = False,
    max_timestamp: Annotated[bool, Option("--max-timestamp",
        help="Print the first record with the largest timestamp.")] = False,
    before: Annotated[int | None, Option(metavar="N", min=1,
        help="Print at most N segment starts before the time, by file times, as brokers did until 0.10.")] = None,
    now: Now = None,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Find the first record at or after a time.

    A broker trusts its time index and searches one segment only. The answer here is the record itself. If a broker
    would answer with another offset, that is reported too. A topic with several partitions has one line for each.
    """
    run = Run(context, output)
    if sum((time is not None, earliest, latest, max_timestamp)) != 1 or (max_timestamp and before is not None):
        raise UsageError(reason="lookup-time needs one of TIME, --earliest, --latest, --max-timestamp")
    time_ms = None if time is None else time_of(run.environment, time, now)
    if time_ms is not None and time_ms < 0:
        # Kafka's own tools take -1 and -2 for the latest and the earliest offset.
        raise UsageError(reason="lookup-time needs a time since 1970, or --earliest, --latest, --max-timestamp")
    clock_ms = run.environment.now_ms() if now is None else now_of(run.environment, now)
    question = TimeQuestion(time_ms, earliest, latest, before, clock_ms)
    selection, paths = selection_of(topic, partition, None), run.directories_of([path])
    chosen = select_of_topics(run.fs, paths, selection)
    return _print_answer(run, chosen[0], question) if len(chosen) == 1 else _print_answers(run, chosen, question)


class Parser(Command):
    """Takes a time such as -15m as an argument. A space before -2h keeps it from being read as -2 and -h."""

    ignore_unknown_options = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        return super().parse_args(ctx, [f" {word}" if re.fullmatch(r"-\d+h", word) else word for word in args])


class TimeQuestion(NamedTuple):
    """The question of lookup-time; times in epoch ms. `time_ms` None: the record with the largest timestamp."""

    time_ms: int | None
    earliest: bool
    latest: bool
    before: int | None
    now_ms: int


class Answer(NamedTuple):
    """The answer of a partition: offsets with further `fields`, or a record, or the error that there is none."""

    offsets: Sequence[int | None]
    fields: dict[str, Any] = {}  # noqa: RUF012
    found: Found | None = None
    error: NoRecordAtTime | None = None

    @property
    def notes(self) -> Sequence[str]:
        """What is unusual about the answer."""
        return self.fields.get("notes", ()) if self.found is None else self.found.notes


def _answer(fs: Filesystem, partition: Partition, question: TimeQuestion) -> Answer:
    if question.before is None and not question.earliest and not question.latest:
        return _record(fs, partition, question)
    bounds = partition.bounds
    if question.before is not None:
        word = by_time.LATEST if question.latest else by_time.EARLIEST
        time_ms = word if question.time_ms is None else question.time_ms
        return Answer(by_time.offsets_before(partition, time_ms, question.before, bounds, question.now_ms))
    fields: dict[str, Any] = {}
    if question.earliest:
        if bounds.remote_start is not None:
            fields["notes"] = [f"a broker answers {bounds.remote_start}: {bounds.remote_offsets}"]
        return Answer([bounds.start], fields)
    if bounds.high_watermark is not None:
        fields["high_watermark"] = bounds.high_watermark
    if bounds.broker_end is not None:
        fields["notes"] = [
            f"the last index entry makes a broker take {bounds.broker_end} for the end; batches go on to {bounds.end}"
        ]
    return Answer([bounds.next_offset], fields)


def _record(fs: Filesystem, partition: Partition, question: TimeQuestion) -> Answer:
    """Return the record at or after a time, or with the largest timestamp, and a broker's answer if it differs."""
    if question.time_ms is None:
        answer = by_time.lookup_max_timestamp(fs, partition)
    else:
        answer = by_time.lookup_time(fs, partition, question.time_ms)
    notes = [*answer.notes]
    notes += [] if answer.broker is None else [broker_note(answer.broker)]
    notes += [f"a broker searches first in remote storage: {answer.remote}"] if answer.remote else []
    if answer.found is not None:
        return Answer([answer.offset], {**broker_fields(answer.broker)}, answer.found.noted(*notes))
    if question.time_ms is not None:
        error = by_time.outside_times(fs, partition, time_words(question.time_ms), answer)
    else:
        damage = "; ".join(answer.notes)
        what = f"--max-timestamp ({damage})" if damage else "--max-timestamp"
        error = NoTimestamps(path=partition.path, what=what, damage=damage, first="none", last="none")
    return Answer([], {"notes": notes}, error=error)


def _print_answer(run: Run, partition: Partition, question: TimeQuestion) -> int:
    """Print the answer of the only partition. Raises NoRecordAtTime."""
    answer = _answer(run.fs, partition, question)
    if answer.error is not None:
        raise answer.error
    run.lock_warnings.about_partitions(partition.path)
    if answer.found is not None:
        if run.lines is not None:
            write_found(run.lines, answer.found, partition, **answer.fields)
        else:
            for piece in found_lines(answer.found):
                run.out.write(piece)
        return run.end(answers=1)
    for offset in answer.offsets:
        fields = {"offset": offset, **answer.fields}
        if run.lines is not None:
            run.lines.result(LookupOffset(**fields))
            continue
        for name, value in fields.items():
            words = name.replace("_", " ").removesuffix("s")
            run.write_lines(f"{words}: {one}" for one in (value if isinstance(value, list) else [value]))
    return run.end(answers=len(answer.offsets))


def _print_answers(run: Run, partitions: Sequence[Partition], question: TimeQuestion) -> int:
    """Print the answers of several partitions; an error in one does not end the others.

    A partition without such a record is an answer too. If all partitions are without one, each is an error.
    """
    answered, outside = 0, list[NoRecordAtTime]()
    for partition in partitions:
        run.lock_warnings.about_partitions(partition.path)
        try:
            answer = _answer(run.fs, partition, question)
        except (KafkalogError, OSError) as error:
            run.fail(error, partition.path)
            continue
        if answer.error is not None:
            outside.append(answer.error)
        else:
            answered += 1
            run.codes.append(ExitCode.OK)
        if run.lines is None:
            time_ms = None if answer.found is None else answer.found.record_timestamp
            line = partition_line(partition, answer.offsets, timestamp_ms=time_ms, notes=answer.notes)
            run.write_lines([paint_of(run.out).wrapped(line, indent="  ")])
            continue
        fields = {"offset": next(iter(answer.offsets), None), **answer.fields}
        fields |= {} if question.before is None else {"offsets": answer.offsets}
        name = {"topic": partition.directory.topic, "partition": partition.directory.partition}
        if answer.found is None:
            run.lines.result(LookupOffset(**fields), **name)
        else:
            write_found(run.lines, answer.found, partition, **answer.fields, **name)
    if len(outside) == len(partitions):
        for failure in joined_errors(outside):
            run.fail(failure)
    elif outside:
        run.codes.append(ExitCode.OK)
    if run.lines is None:
        run.out.write(topic_line(len(partitions), answered, len(outside)))
    return run.end(partitions=len(partitions), answers=answered, without=len(outside))
