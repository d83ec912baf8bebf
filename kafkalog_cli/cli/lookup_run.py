"""What lookup-offset and lookup-time share: choosing the partition, printing what was found."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog_cli.actions import lookup, lookup_time
from kafkalog_cli.actions.selection import Selection, select_partitions
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import ExitCode, OffsetOutOfRange, UsageError
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.lookup_text import found_lines, how
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.storage.partition import Partition

LOOKUP = "kafkalog.lookup/1"


@dataclass(frozen=True, slots=True)
class TimeQuestion:
    """What lookup-time was asked; times in epoch ms."""

    time_ms: int | None
    earliest: bool
    latest: bool
    max_timestamp: bool
    before: int | None
    now_ms: int


def one_partition(
    environment: Environment, path: str, topics: list[str] | None, partitions: list[int] | None
) -> Partition:
    """The one partition that is meant. Raises UsageError where several are, NothingSelected where none is."""
    selection = Selection(frozenset(topics or ()), frozenset(partitions or ()))
    found = select_partitions(environment.fs, [path], selection)
    if len(found) > 1:
        raise UsageError(reason=f"{path} holds {len(found)} partitions: choose one with --topic and --partition")
    return found[0]


class LookupPrinter:
    """Prints answers as text, or as one object a line."""

    def __init__(self, environment: Environment, partition: Partition, *, as_json: bool) -> None:
        self._out = ResultStream(environment.stdout)
        self._partition = partition
        self._as_json = as_json
        self._answers = 0

    def found(self, found: lookup.Found, **more: object) -> None:
        """A record or batch."""
        if not self._as_json:
            for line in found_lines(found):
                self._out.write(line + "\n")
            return
        from kafkalog_cli.output.lookup_json import found_object

        self.fields({**found_object(found, self._partition), "how": how(found), **more})

    def fields(self, fields: dict[str, object]) -> None:
        """An answer that is not a record: in text one `name: value` a line."""
        self._answers += 1
        if self._as_json:
            from kafkalog_cli.output.ndjson import JsonLines

            JsonLines(self._out).object(LOOKUP, "lookup", fields)
        else:
            for name, value in fields.items():
                self._out.write(f"{name.replace('_', ' ')}: {value}\n")

    def end(self, code: ExitCode) -> ExitCode:
        """Write the summary, in machine output; the exit code."""
        if self._as_json:
            from kafkalog_cli.output.ndjson import JsonLines

            JsonLines(self._out).summary(code, answers=self._answers)
        self._out.flush()
        return code


def answer_time(environment: Environment, partition: Partition, question: TimeQuestion, *, as_json: bool) -> ExitCode:
    """Answer one question about time. Raises OffsetOutOfRange where no record is so late."""
    fs = environment.fs
    bounds = lookup.log_bounds(fs, partition)
    printer = LookupPrinter(environment, partition, as_json=as_json)
    if question.before is not None:
        wanted = question.now_ms if question.latest else question.time_ms
        offsets = lookup_time.offsets_before(
            fs, partition, wanted, question.before, end_offset=bounds.end, now_ms=question.now_ms
        )
        for offset in offsets:
            printer.fields({"offset": offset})
        return printer.end(ExitCode.OK)
    if question.earliest:
        printer.fields({"offset": bounds.start})
    elif question.latest:
        fields: dict[str, object] = {"offset": bounds.end}
        if bounds.high_watermark is not None:
            fields["high_watermark"] = bounds.high_watermark
        printer.fields(fields)
    elif question.max_timestamp:
        largest = lookup_time.lookup_max_timestamp(fs, partition)
        if largest is None:
            raise OffsetOutOfRange(path=partition.path, what="a timestamp", first=bounds.start, last=bounds.end - 1)
        printer.found(largest)
    else:
        _first_after(printer, fs, partition, question, bounds)
    return printer.end(ExitCode.OK)


def _first_after(
    printer: LookupPrinter, fs: object, partition: Partition, question: TimeQuestion, bounds: lookup.LogBounds
) -> None:
    assert question.time_ms is not None
    answer = lookup_time.lookup_time(fs, partition, question.time_ms, bounds.start)  # type: ignore[arg-type]
    if answer.found is None:
        largest = lookup_time.lookup_max_timestamp(fs, partition)  # type: ignore[arg-type]
        last = "no timestamp" if largest is None or largest.record is None else largest.record.timestamp
        what = f"{iso_time(question.time_ms)} ({question.time_ms})"
        raise OffsetOutOfRange(path=partition.path, what=what, first="any time", last=last)
    notes = list(answer.found.notes + answer.notes)
    if answer.broker_offset is not None:
        said = "that there is none" if answer.broker_offset < 0 else f"offset {answer.broker_offset}"
        notes.append(f"a broker would answer {said}: it believes its time index")
    printer.found(answer.found._replace(notes=tuple(notes)), broker_offset=answer.broker_offset)
