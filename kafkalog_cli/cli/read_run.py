"""One run of `kafkalog read`: turns the options into a request, prints one segment after another, then the summary."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog_cli.actions.read.fetches import Fetches
from kafkalog_cli.actions.read.log_read import LogRead, SegmentRead
from kafkalog_cli.actions.read.request import Isolation, ReadRequest, Start
from kafkalog_cli.actions.session.lock_warnings import LockWarnings
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.lookup_run import one_partition
from kafkalog_cli.cli.options import time_of
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.read_printer import ReadPrinter, RecordPrinter, write_fetch
from kafkalog_cli.output.read_text import FIELDS, ReadText
from kafkalog_cli.output.read_text_compiled import CompiledReadText
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.storage.partition import Segment


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options as given."""

    start: str
    from_time: str | None
    to_offset: int | None
    until: str | None
    now: str | None
    max_records: int | None
    isolation: str
    print: str
    is_json: bool
    is_fetch: bool
    chunk_bytes: int
    max_chunk_bytes: int
    max_output_bytes: int
    max_ratio: int


class ReadRun:
    """Reads one partition. An unreadable part ends at most its segment, not the run."""

    def __init__(self, environment: Environment, options: ReadOptions) -> None:
        self._environment = environment
        self._options = options
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=options.is_json)
        self._fields = _fields(options.print)
        self._failed = False

    def run(self, path: str, topics: list[str] | None, partitions: list[int] | None) -> int:
        """Read; return the exit code. Raises UsageError, OffsetOutOfRange, and the exceptions of `one_partition`."""
        self._check_framing()
        environment = self._environment
        request = self._request()
        partition = one_partition(environment, path, topics, partitions)
        LockWarnings(environment.fs, self._messages.report).about_partition(partition.path)
        log = LogRead(environment.fs, partition, request, environment.kernels)
        for segment in log.segments():
            self._segment(log, segment)
        self._tell_notes(log)
        code = self._code(log)
        if self._options.is_json:
            self._write_summary(log, code)
        self._out.flush()
        return code

    def _check_framing(self) -> None:
        options = self._options
        if not options.is_fetch:
            return
        if options.is_json or options.until is not None or options.max_records is not None:
            raise UsageError(reason="--framing fetch takes whole batches: no --format json, --until or --max-records")
        if self._out.is_terminal:
            raise UsageError(reason="--framing fetch writes bytes that are not for a terminal")

    def _request(self) -> ReadRequest:
        options, environment = self._options, self._environment
        if options.max_chunk_bytes < options.chunk_bytes:
            raise UsageError(reason="--max-chunk-bytes is below --chunk-bytes")
        start = _start(options.start)
        if options.from_time is not None and start is not Start.EARLIEST:
            raise UsageError(reason="read takes one of --from and --from-time")
        times = [
            None if t is None else time_of(environment, t, options.now) for t in (options.from_time, options.until)
        ]
        limits = Limits(options.max_chunk_bytes, options.max_output_bytes, options.max_ratio)
        return ReadRequest(
            start, times[0], options.to_offset, times[1], options.max_records, Isolation(options.isolation), limits,
            options.chunk_bytes,
        )  # fmt: skip

    def _segment(self, log: LogRead, segment: SegmentRead) -> None:
        try:
            if self._options.is_fetch:
                self._write_fetches(log, segment)
            else:
                self._print(log, segment)
        except KafkalogError as error:
            self._out.flush()
            self._messages.exception(error)
            self._failed = True
        except BrokenPipeError:
            raise
        except OSError as error:
            self._tell("unreadable", f"cannot be read: {error.strerror or error}", segment.segment.log.path, None)
            self._failed = True

    def _print(self, log: LogRead, segment: SegmentRead) -> None:
        printer = self._printer(log, segment.segment)
        for found in segment.blocks(printer.ahead):
            if isinstance(found, Fault):
                self._tell(found.kind.value, found.message, segment.segment.log.path, found.position)
            else:
                printer.block(found)
            self._tell_notes(log)

    def _write_fetches(self, log: LogRead, segment: SegmentRead) -> None:
        for found in Fetches(log, segment):
            if isinstance(found, Fault):
                self._tell(found.kind.value, found.message, segment.segment.log.path, found.position)
                continue
            write_fetch(found, self._out.write_bytes)

    def _printer(self, log: LogRead, segment: Segment) -> RecordPrinter:
        if self._options.is_json:
            from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, topic_decode
            from kafkalog_cli.output.record_json_printer import JsonPrinter

            directory, name = log.partition.directory, segment.log.path.rpartition("/")[2]
            context = SegmentContext(directory.topic, directory.partition, name, segment.is_seven)
            options = RecordJsonOptions(with_batches=False, decode=topic_decode(directory.topic))
            return JsonPrinter(self._out, context, options)
        escape, number = self._out.is_terminal, log.partition.number
        text = ReadText(self._fields, number, escape=escape, is_seven=segment.is_seven)
        return ReadPrinter(self._out, text, None if escape else CompiledReadText(self._fields, number))

    def _code(self, log: LogRead) -> ExitCode:
        codes = set(log.codes)
        if self._failed or ExitCode.FAILURE in codes:
            return ExitCode.FAILURE
        return ExitCode.CORRUPTION if ExitCode.CORRUPTION in codes else max(codes, default=ExitCode.OK)

    def _tell_notes(self, log: LogRead) -> None:
        while log.notes:
            note = log.notes.popleft()
            self._out.flush()
            self._messages.warn(note.kind, note.message, path=note.path)

    def _tell(self, kind: str, message: str, path: str, position: int | None) -> None:
        self._out.flush()
        self._messages.tell(kind, message, path=path, position=position)

    def _write_summary(self, log: LogRead, code: ExitCode) -> None:
        from kafkalog_cli.output.ndjson import JsonLines

        bounds = log.range.bounds
        JsonLines(self._out).summary(
            code, records=log.shown_records, next_offset=log.next_offset, log_start_offset=bounds.start,
            log_end_offset=bounds.end, last_stable_offset=log.last_stable_offset,
        )  # fmt: skip


def _fields(text: str) -> frozenset[str]:
    fields = frozenset(text.split(","))
    unknown = sorted(fields.difference(FIELDS))
    if unknown:
        raise UsageError(reason=f"--print {','.join(unknown)}: a line has {', '.join(FIELDS)}")
    return fields


def _start(text: str) -> int | Start:
    if text in (Start.EARLIEST.value, Start.LATEST.value):
        return Start(text)
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(reason=f"--from {text}: an offset, earliest or latest") from error
