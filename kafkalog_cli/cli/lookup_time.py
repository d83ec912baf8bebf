"""`kafkalog lookup-time`: find the first record at or after a time, and answer other questions about time."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.commands import Command
from kafkalog_cli.cli.exit_codes import PATHS, exit_codes
from kafkalog_cli.cli.options import TIME_HELP, Format, Now, PartitionOption, TopicOption
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import ExitCode, KafkalogError, NoRecordAtTime, NoTimestamps, UsageError
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.look import lookup_time as by_time
from kafkalog_cli.ops.look.lookup_offset import Found, LookupOffset
from kafkalog_cli.ops.look.lookup_time import BrokerAnswer, joined_errors
from kafkalog_cli.ops.option_values import time_words
from kafkalog_cli.ops.selection import select_of_topics, selection_of
from kafkalog_cli.output.found_record import found_lines, write_found
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.stream import paint_of, printable

EXAMPLES = {
    "Find the first record of a day": "kafkalog lookup-time /var/lib/kafka/orders-0 2023-11-14",
    "Find it in each partition of a topic": "kafkalog lookup-time /var/lib/kafka --topic orders 2023-11-14",
    "Find the record with the largest timestamp": ("kafkalog lookup-time /var/lib/kafka/orders-0 --max-timestamp"),
}
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
    output: Format = "text",
) -> int:  # fmt: skip
    """Find the first record at or after a time.

    A broker trusts its time index and searches one segment only. The answer here is the record itself. If a broker
    would answer with another offset, that is reported too. A topic with several partitions has one line for each.
    """
    run = Run(context, output)
    if sum((time is not None, earliest, latest, max_timestamp)) != 1 or (max_timestamp and before is not None):
        raise UsageError(reason="lookup-time needs one of TIME, --earliest, --latest, --max-timestamp")
    time_ms = run.environment.time_ms(time, now)
    if time_ms is not None and time_ms < 0:
        # Kafka's own tools take -1 and -2 for the latest and the earliest offset.
        raise UsageError(reason="lookup-time needs a time since 1970, or --earliest, --latest, --max-timestamp")
    clock_ms = run.environment.clock_ms(now)
    paths = run.directories_of([path])  # which gives the run another `fs` for a single segment file
    answer_of: Callable[[Partition], Answer] = partial(_record, run.fs, time_ms)
    if before is not None:
        until_ms = time_ms if time_ms is not None else by_time.LATEST if latest else by_time.EARLIEST
        answer_of = partial(_starts_before, until_ms, before, clock_ms)
    elif earliest or latest:
        answer_of = _earliest if earliest else _latest
    partitions = select_of_topics(run.fs, paths, selection_of(topic, partition))
    if len(partitions) == 1:
        return _print_answer(run, partitions[0], answer_of(partitions[0]))
    return _print_answers(run, partitions, answer_of, has_offsets=before is not None)


class Parser(Command):
    """Takes a time such as -15m as an argument. A space before -2h keeps it from being read as -2 and -h."""

    ignore_unknown_options = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        return super().parse_args(ctx, [f" {word}" if re.fullmatch(r"-\d+h", word) else word for word in args])


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


def _starts_before(time_ms: int, most: int, now_ms: int, partition: Partition) -> Answer:
    return Answer(by_time.offsets_before(partition, time_ms, most, partition.bounds, now_ms))


def _earliest(partition: Partition) -> Answer:
    bounds = partition.bounds
    if bounds.remote_start is None:
        return Answer([bounds.start])
    return Answer([bounds.start], {"notes": [f"a broker answers {bounds.remote_start}: {bounds.remote_offsets}"]})


def _latest(partition: Partition) -> Answer:
    bounds, fields = partition.bounds, dict[str, Any]()
    if bounds.high_watermark is not None:
        fields["high_watermark"] = bounds.high_watermark
    if bounds.broker_end is not None:
        fields["notes"] = [
            f"the last index entry makes a broker take {bounds.broker_end} for the end; batches go on to {bounds.end}"
        ]
    return Answer([bounds.next_offset], fields)


def _record(fs: Filesystem, time_ms: int | None, partition: Partition) -> Answer:
    """Return the record at or after a time, or with the largest timestamp, and a broker's answer if it differs."""
    if time_ms is None:
        answer = by_time.lookup_max_timestamp(fs, partition)
    else:
        answer = by_time.lookup_time(fs, partition, time_ms)
    notes = [*answer.notes]
    notes += [] if answer.broker is None else [_broker_note(answer.broker)]
    notes += [f"a broker searches first in remote storage: {answer.remote}"] if answer.remote else []
    if answer.found is not None:
        return Answer([answer.offset], {**_broker_fields(answer.broker)}, answer.found.noted(*notes))
    if time_ms is not None:
        error = by_time.outside_times(fs, partition, time_words(time_ms), answer)
    else:
        damage = "; ".join(answer.notes)
        what = f"--max-timestamp ({damage})" if damage else "--max-timestamp"
        error = NoTimestamps(path=partition.path, what=what, damage=damage, first="none", last="none")
    return Answer([], {"notes": notes}, error=error)


def _print_answer(run: Run, partition: Partition, answer: Answer) -> int:
    """Print the answer of the only partition. Raises NoRecordAtTime."""
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
            run.write_lines(f"{words}: {item}" for item in (value if isinstance(value, list) else [value]))
    return run.end(answers=len(answer.offsets))


def _print_answers(
    run: Run, partitions: Sequence[Partition], answer_of: Callable[[Partition], Answer], *, has_offsets: bool
) -> int:
    """Print the answers of several partitions; an error in one does not end the others.

    A partition without such a record is an answer too. If all partitions are without one, each is an error.
    """
    answered, outside = 0, list[NoRecordAtTime]()
    for partition in partitions:
        run.lock_warnings.about_partitions(partition.path)
        try:
            answer = answer_of(partition)
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
            line = _partition_line(partition, answer.offsets, timestamp_ms=time_ms, notes=answer.notes)
            run.write_lines([paint_of(run.out).wrapped(line, indent="  ")])
            del answer
            continue
        fields = {"offset": next(iter(answer.offsets), None), **answer.fields}
        fields |= {"offsets": answer.offsets} if has_offsets else {}
        name = {"topic": partition.directory.topic, "partition": partition.directory.partition}
        if answer.found is None:
            run.lines.result(LookupOffset(**fields), **name)
        else:
            write_found(run.lines, answer.found, partition, **answer.fields, **name)
        del answer  # the records of its batch may be large
    if len(outside) == len(partitions):
        for failure in joined_errors(outside):
            run.fail(failure)
    elif outside:
        run.codes.append(ExitCode.OK)
    if run.lines is None:
        run.out.write(_topic_line(len(partitions), answered, len(outside)))
    return run.end(partitions=len(partitions), answers=answered, without=len(outside))


def _partition_line(
    partition: Partition, offsets: Sequence[int | None], *, timestamp_ms: int | None = None, notes: Sequence[str] = ()
) -> str:
    """Return the answer for one of several partitions in one line; no offsets: there is no such record."""
    words = f"offset{'s' * (len(offsets) > 1)} {', '.join(map(str, offsets))}" if offsets else "none"
    if timestamp_ms is not None:
        words += f", timestamp {timestamp_ms} ({iso_time(timestamp_ms)})"
    return f"{'; '.join([f'{printable(partition.name)}: {words}', *map(printable, notes)])}"


def _topic_line(partitions: int, answered: int, without: int) -> str:
    """Return the closing line after the answers for several partitions."""
    failed = partitions - answered - without
    words = [f"{answered} found"]
    words += [f"{without} without such a record"] if without else []
    words += [f"{failed} failed"] if failed else []
    return f"{partitions} partitions: {', '.join(words)}\n"


def _broker_note(answer: BrokerAnswer) -> str:
    """Return a broker's different answer, and its reason."""
    if answer.failure:
        return f"a broker would answer with an error: {answer.reason}: {answer.failure}"
    words = "that there is none" if answer.offset is None else f"offset {answer.offset}"
    return f"a broker would answer {words}: {answer.reason}"


def _broker_fields(answer: BrokerAnswer | None) -> dict[str, object]:
    """Return a broker's answer if it differs: -1 for none; null for the same answer or an error (in `broker_error`)."""
    if answer is None:
        return {"broker_offset": None}
    if answer.failure:
        return {"broker_offset": None, "broker_error": answer.failure}
    return {"broker_offset": -1 if answer.offset is None else answer.offset}
