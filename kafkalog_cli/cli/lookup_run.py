"""The common parts of lookup-offset and lookup-time: they select the partition and print the answer."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import ExitCode, NoRecordAtTime, NoTimestamps
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.segments.log_end import LogBounds
from kafkalog_cli.ops.lookup import by_offset as lookup
from kafkalog_cli.ops.lookup import by_time as lookup_time
from kafkalog_cli.ops.partition_state import log_bounds
from kafkalog_cli.ops.session.lock_warnings import LockWarnings
from kafkalog_cli.ops.time_spec import time_words
from kafkalog_cli.output.lookup_text import broker_note, found_lines
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.stream import ResultStream


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
        self._out = ResultStream(environment.stdout)
        messages = Messages(environment.stderr, as_json=as_json)
        LockWarnings(environment.fs, messages.report).about_partition(partition.path)
        self._partition = partition
        self._as_json = as_json
        self._answers = 0

    def found(self, found: lookup.Found) -> None:
        """Print a record or batch."""
        if self._as_json:
            from kafkalog_cli.output.lookup_json import found_object

            self.fields({**found_object(found, self._partition)})
            return
        for piece in found_lines(found):
            self._out.write(piece)

    def found_by_time(self, answer: lookup_time.TimeFound, found: lookup.Found) -> None:
        """Print a record, and a broker's answer if it differs; `found` is that of `answer`."""
        notes = answer.notes if answer.broker is None else (*answer.notes, broker_note(answer.broker))
        found = found.noted(*notes)
        if self._as_json:
            from kafkalog_cli.output.lookup_json import broker_fields, found_object

            self.fields({**found_object(found, self._partition), **broker_fields(answer.broker)})
        else:
            self.found(found)

    def fields(self, fields: dict[str, object]) -> None:
        """Print an answer that is not a record; as text, one line `name: value` per field, and a line per note."""
        self._answers += 1
        if self._as_json:
            from kafkalog_cli.output.lookup_json import LOOKUP
            from kafkalog_cli.output.ndjson import JsonLines

            JsonLines(self._out).object(LOOKUP, fields)
            return
        for name, value in fields.items():
            for one in value if isinstance(value, list) else [value]:
                self._out.write(f"{name.replace('_', ' ').removesuffix('s')}: {one}\n")

    def end(self, code: ExitCode) -> ExitCode:
        """Print the summary in JSON output; return the exit code."""
        if self._as_json:
            from kafkalog_cli.output.ndjson import JsonLines

            JsonLines(self._out).summary(code, answers=self._answers)
        self._out.flush()
        return code


def answer_time(environment: Environment, partition: Partition, question: TimeQuestion, *, as_json: bool) -> ExitCode:
    """Answer one question about time. Raises OffsetOutOfRange if no record is at or after the time."""
    bounds = log_bounds(environment.fs, partition)
    printer = LookupPrinter(environment, partition, as_json=as_json)
    if question.before is not None:
        for offset in offsets_before_time(partition, question, question.before, bounds):
            printer.fields({"offset": offset})
    elif question.earliest:
        printer.fields({"offset": bounds.start})
    elif question.latest:
        printer.fields(latest_fields(bounds))
    else:
        answer = found_by_question(environment, partition, question)
        if answer.found is None:
            raise no_record(environment, partition, question, answer)
        printer.found_by_time(answer, answer.found)
    return printer.end(ExitCode.OK)


def offsets_before_time(partition: Partition, question: TimeQuestion, most: int, bounds: LogBounds) -> list[int]:
    """Return the segment starts that --before asks for."""
    if question.latest:
        return lookup_time.latest_offsets(partition, most, bounds)
    if question.time_ms is None:
        return lookup_time.earliest_offsets(partition, most, bounds)
    return lookup_time.offsets_before(partition, question.time_ms, most, bounds, question.now_ms)


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


def found_by_question(environment: Environment, partition: Partition, question: TimeQuestion) -> lookup_time.TimeFound:
    """Return the record of a question that asks for a record. Raises as `lookup_time` does."""
    if question.time_ms is None:
        return lookup_time.lookup_max_timestamp(environment.fs, partition)
    return lookup_time.lookup_time(environment.fs, partition, question.time_ms)


def no_record(
    environment: Environment, partition: Partition, question: TimeQuestion, answer: lookup_time.TimeFound
) -> NoRecordAtTime:
    """Return the error that there is no such record."""
    if question.time_ms is None:
        damage = "; ".join(answer.notes)
        what = f"--max-timestamp ({damage})" if damage else "--max-timestamp"
        return NoTimestamps(path=partition.path, what=what, damage=damage, first="none", last="none")
    return lookup_time.outside_times(environment.fs, partition, time_words(question.time_ms), answer)
