"""The answers of lookup-time for several partitions: one line for each, and a closing line."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.lookup_run import (
    TimeQuestion,
    found_by_question,
    latest_fields,
    no_record,
    offsets_before_time,
)
from kafkalog_cli.errors import ExitCode, KafkalogError, NoRecordAtTime, combined_exit_code
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.lookup.by_time import joined_errors
from kafkalog_cli.ops.partition_state import log_bounds
from kafkalog_cli.ops.session.lock_warnings import LockWarnings
from kafkalog_cli.output.lookup_text import broker_note, partition_line, topic_line
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.paint import paint_of
from kafkalog_cli.output.stream import ResultStream


class TopicAnswers:
    """Answers one question about time for several partitions; an error in one does not end the others.

    A partition without such a record is an answer too. If all partitions are without one, each is an error.
    """

    def __init__(self, environment: Environment, question: TimeQuestion, *, as_json: bool) -> None:
        self._environment = environment
        self._question = question
        self._as_json = as_json
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=as_json)
        self._outside: list[NoRecordAtTime] = []
        self._codes: list[ExitCode] = []
        self._answered = 0

    def print_all(self, partitions: list[Partition]) -> ExitCode:
        """Print the answers and the closing line; return the exit code."""
        locks = LockWarnings(self._environment.fs, self._messages.report)
        for partition in partitions:
            locks.about_partition(partition.path)
            self._print_one(partition)
        self._out.flush()
        if self._outside and len(self._outside) == len(partitions):
            for error in joined_errors(self._outside):
                self._failed(error)
        elif self._outside:
            self._codes.append(ExitCode.OK)
        code = combined_exit_code(self._codes)
        if self._as_json:
            from kafkalog_cli.output.ndjson import JsonLines

            counts = {"partitions": len(partitions), "answers": self._answered, "without": len(self._outside)}
            JsonLines(self._out).summary(code, **counts)
        else:
            self._out.write(topic_line(len(partitions), self._answered, len(self._outside)))
        self._out.flush()
        return code

    def _print_one(self, partition: Partition) -> None:
        try:
            fields, text = self._answer(partition)
        except KafkalogError as error:
            self._failed(error)
            return
        except OSError as error:
            self._out.flush()
            self._messages.tell("unreadable", f"cannot be read: {error.strerror or error}", path=partition.path)
            self._codes.append(ExitCode.FAILURE)
            return
        if self._as_json:
            from kafkalog_cli.output.lookup_json import LOOKUP
            from kafkalog_cli.output.ndjson import JsonLines

            name = {"topic": partition.directory.topic, "partition": partition.directory.partition}
            JsonLines(self._out).object(LOOKUP, {**name, **fields})
        else:
            self._out.write(f"{paint_of(self._out).wrapped(text, indent='  ')}\n")

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
            fields: dict[str, Any] = {"offset": bounds.start} if question.earliest else latest_fields(bounds)
            self._done()
            notes = tuple(fields.get("notes", ()))
            return fields, partition_line(partition, [fields["offset"]], notes=notes)
        return self._record(partition)

    def _record(self, partition: Partition) -> tuple[dict[str, Any], str]:
        answer = found_by_question(self._environment, partition, self._question)
        notes = answer.notes if answer.broker is None else (*answer.notes, broker_note(answer.broker))
        if answer.found is None:
            self._outside.append(no_record(self._environment, partition, self._question, answer))
            return {"offset": None, "notes": list(notes)}, partition_line(partition, [], notes=notes)
        self._done()
        found = answer.found.noted(*notes)
        fields: dict[str, Any] = {}
        if self._as_json:
            from kafkalog_cli.output.lookup_json import broker_fields, found_object

            fields = {**found_object(found, partition), **broker_fields(answer.broker)}
        line = partition_line(partition, [answer.offset], timestamp_ms=found.record_timestamp, notes=found.notes)
        return fields, line

    def _done(self) -> None:
        self._answered += 1
        self._codes.append(ExitCode.OK)

    def _failed(self, error: KafkalogError) -> None:
        self._out.flush()
        self._messages.exception(error)
        self._codes.append(error.exit_code)
