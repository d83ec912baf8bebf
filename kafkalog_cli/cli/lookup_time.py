"""`kafkalog lookup-time`: find the first record at or after a time, and answer other questions about time."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from typer import Argument, Context, Option

from kafkalog_cli.cli.command_output import CommandOutput
from kafkalog_cli.cli.commands import Command
from kafkalog_cli.cli.environment import Environment, now_of, time_of
from kafkalog_cli.cli.exit_codes import PATHS, exit_codes
from kafkalog_cli.cli.options import TIME_HELP, Format, Now, OutputFormat, PartitionOption, TopicOption, selection_of
from kafkalog_cli.cli.single_files import with_single_files
from kafkalog_cli.errors import ExitCode, KafkalogError, NoRecordAtTime, NoTimestamps, UsageError, combined_exit_code
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops import lookup_time as by_time
from kafkalog_cli.ops.lookup_offset import Found
from kafkalog_cli.ops.lookup_time import joined_errors
from kafkalog_cli.ops.option_values import time_words
from kafkalog_cli.ops.partition_state import log_bounds
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.output.lookup_view import (
    LOOKUP,
    broker_fields,
    broker_note,
    found_lines,
    found_object,
    partition_line,
    topic_line,
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
    from kafkalog_cli.ops.selection import select_of_topics

    environment: Environment = context.obj
    if sum((time is not None, earliest, latest, max_timestamp)) != 1 or (max_timestamp and before is not None):
        raise UsageError(reason="lookup-time needs one of TIME, --earliest, --latest, --max-timestamp")
    time_ms = None if time is None else time_of(environment, time, now)
    if time_ms is not None and time_ms < 0:
        # Kafka's own tools take -1 and -2 for the latest and the earliest offset.
        raise UsageError(reason="lookup-time needs a time since 1970, or --earliest, --latest, --max-timestamp")
    clock_ms = environment.now_ms() if now is None else now_of(environment, now)
    question = TimeQuestion(time_ms, earliest, latest, max_timestamp, before, clock_ms)
    selection = selection_of(topic, partition, None)
    environment, paths = with_single_files(environment, [path])
    chosen = select_of_topics(environment.fs, paths, selection)
    if len(chosen) == 1:
        return answer_time(environment, chosen[0], question, as_json=output.is_json)
    return TopicAnswers(environment, question, as_json=output.is_json).print_all(chosen)


class Parser(Command):
    """Takes a time such as -15m as an argument. A space before -2h keeps it from being read as -2 and -h."""

    ignore_unknown_options = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        return super().parse_args(ctx, [f" {word}" if re.fullmatch(r"-\d+h", word) else word for word in args])


@dataclass(frozen=True, slots=True)
class TimeQuestion:
    """The question of lookup-time; times in epoch ms."""

    time_ms: int | None
    earliest: bool
    latest: bool
    max_timestamp: bool
    before: int | None
    now_ms: int


class LookupPrinter:
    """Prints answers as text, or as one object per line."""

    def __init__(self, environment: Environment, partition: Partition, *, as_json: bool) -> None:
        self._output = CommandOutput(environment, as_json=as_json)
        LockWarnings(environment.fs, self._output.messages.report).about_partitions(partition.path)
        self._partition = partition
        self._answers = 0

    def found(self, found: Found, **broker: object) -> None:
        """Print a record or batch; JSON output has the fields of a broker's answer too."""
        if self._output.lines is not None:
            self.fields({**found_object(found, self._partition), **broker})
            return
        for piece in found_lines(found):
            self._output.out.write(piece)

    def fields(self, fields: dict[str, object]) -> None:
        """Print an answer that is not a record; as text, one line `name: value` per field, and a line per note."""
        self._answers += 1
        if self._output.lines is not None:
            self._output.lines.object(LOOKUP, fields)
            return
        for name, value in fields.items():
            for one in value if isinstance(value, list) else [value]:
                self._output.out.write(f"{name.replace('_', ' ').removesuffix('s')}: {one}\n")

    def end(self, code: ExitCode) -> ExitCode:
        """Print the summary in JSON output; return the exit code."""
        return self._output.end(code, answers=self._answers)


def answer_time(environment: Environment, partition: Partition, question: TimeQuestion, *, as_json: bool) -> ExitCode:
    """Answer one question about time. Raises OffsetOutOfRange if no record is at or after the time."""
    bounds = log_bounds(environment.fs, partition)
    printer = LookupPrinter(environment, partition, as_json=as_json)
    if question.before is not None:
        for offset in offsets_before_time(partition, question, question.before, bounds):
            printer.fields({"offset": offset})
    elif question.earliest:
        printer.fields(earliest_fields(bounds))
    elif question.latest:
        printer.fields(latest_fields(bounds))
    else:
        answer = found_by_question(environment, partition, question)
        if answer.found is None:
            raise no_record(environment, partition, question, answer)
        printer.found(answer.found.noted(*_notes(answer)), **broker_fields(answer.broker))
    return printer.end(ExitCode.OK)


def offsets_before_time(partition: Partition, question: TimeQuestion, most: int, bounds: LogBounds) -> list[int]:
    """Return the segment starts that --before asks for."""
    word = by_time.LATEST if question.latest else by_time.EARLIEST
    time_ms = word if question.time_ms is None else question.time_ms
    return by_time.offsets_before(partition, time_ms, most, bounds, question.now_ms)


def earliest_fields(bounds: LogBounds) -> dict[str, object]:
    """Return the answer for --earliest: the first offset on this disk."""
    fields: dict[str, object] = {"offset": bounds.start}
    if bounds.remote_start is not None:
        fields["notes"] = [f"a broker answers {bounds.remote_start}: {bounds.remote_offsets}"]
    return fields


def latest_fields(bounds: LogBounds) -> dict[str, object]:
    """Return the answer for --latest."""
    fields: dict[str, object] = {"offset": bounds.next_offset}
    if bounds.high_watermark is not None:
        fields["high_watermark"] = bounds.high_watermark
    if bounds.broker_end is not None:
        fields["notes"] = [
            f"the last index entry makes a broker take {bounds.broker_end} for the end; batches go on to {bounds.end}"
        ]
    return fields


def found_by_question(environment: Environment, partition: Partition, question: TimeQuestion) -> by_time.TimeFound:
    """Return the record of a question that asks for a record. Raises as `lookup_time` does."""
    if question.time_ms is None:
        return by_time.lookup_max_timestamp(environment.fs, partition)
    return by_time.lookup_time(environment.fs, partition, question.time_ms)


def _notes(answer: by_time.TimeFound) -> tuple[str, ...]:
    """Return the notes of an answer, with a broker's answer if it differs."""
    remote = (f"a broker searches first in remote storage: {answer.remote}",) if answer.remote else ()
    broker = () if answer.broker is None else (broker_note(answer.broker),)
    return (*answer.notes, *broker, *remote)


def no_record(
    environment: Environment, partition: Partition, question: TimeQuestion, answer: by_time.TimeFound
) -> NoRecordAtTime:
    """Return the error that there is no such record."""
    if question.time_ms is None:
        damage = "; ".join(answer.notes)
        what = f"--max-timestamp ({damage})" if damage else "--max-timestamp"
        return NoTimestamps(path=partition.path, what=what, damage=damage, first="none", last="none")
    return by_time.outside_times(environment.fs, partition, time_words(question.time_ms), answer)


class TopicAnswers:
    """Answers one question about time for several partitions; an error in one does not end the others.

    A partition without such a record is an answer too. If all partitions are without one, each is an error.
    """

    def __init__(self, environment: Environment, question: TimeQuestion, *, as_json: bool) -> None:
        self._environment = environment
        self._question = question
        self._output = CommandOutput(environment, as_json=as_json)
        self._outside: list[NoRecordAtTime] = []
        self._codes: list[ExitCode] = []
        self._answered = 0

    def print_all(self, partitions: list[Partition]) -> ExitCode:
        """Print the answers and the closing line; return the exit code."""
        locks = LockWarnings(self._environment.fs, self._output.messages.report)
        for partition in partitions:
            locks.about_partitions(partition.path)
            self._print_one(partition)
        without = len(self._outside)
        if without and without == len(partitions):
            self._codes += map(self._output.fail, joined_errors(self._outside))
        elif without:
            self._codes.append(ExitCode.OK)
        if self._output.lines is None:
            self._output.out.write(topic_line(len(partitions), self._answered, without))
        code = combined_exit_code(self._codes)
        return self._output.end(code, partitions=len(partitions), answers=self._answered, without=without)

    def _print_one(self, partition: Partition) -> None:
        try:
            fields, text = self._answer(partition)
        except KafkalogError as error:
            self._codes.append(self._output.fail(error))
            return
        except OSError as error:
            self._output.out.flush()
            self._output.messages.not_read(partition.path, error)
            self._codes.append(ExitCode.FAILURE)
            return
        if self._output.lines is not None:
            name = {"topic": partition.directory.topic, "partition": partition.directory.partition}
            self._output.lines.object(LOOKUP, {**name, **fields})
        else:
            self._output.out.write(f"{paint_of(self._output.out).wrapped(text, indent='  ')}\n")

    def _answer(self, partition: Partition) -> tuple[dict[str, Any], str]:
        """Return the members of the JSON object, and the line of text."""
        question = self._question
        if question.before is not None:
            bounds = log_bounds(self._environment.fs, partition)
            offsets = offsets_before_time(partition, question, question.before, bounds)
            self._done()
            return {"offset": offsets[0] if offsets else None, "offsets": offsets}, partition_line(partition, offsets)
        if question.earliest or question.latest:
            bounds = log_bounds(self._environment.fs, partition)
            fields: dict[str, Any] = earliest_fields(bounds) if question.earliest else latest_fields(bounds)
            self._done()
            notes = tuple(fields.get("notes", ()))
            return fields, partition_line(partition, [fields["offset"]], notes=notes)
        return self._record(partition)

    def _record(self, partition: Partition) -> tuple[dict[str, Any], str]:
        answer = found_by_question(self._environment, partition, self._question)
        notes = _notes(answer)
        if answer.found is None:
            self._outside.append(no_record(self._environment, partition, self._question, answer))
            return {"offset": None, "notes": list(notes)}, partition_line(partition, [], notes=notes)
        self._done()
        found = answer.found.noted(*notes)
        fields: dict[str, Any] = {}
        if self._output.lines is not None:
            fields = {**found_object(found, partition), **broker_fields(answer.broker)}
        line = partition_line(partition, [answer.offset], timestamp_ms=found.record_timestamp, notes=found.notes)
        return fields, line

    def _done(self) -> None:
        self._answered += 1
        self._codes.append(ExitCode.OK)
