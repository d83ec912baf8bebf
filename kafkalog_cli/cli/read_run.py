"""One run of `kafkalog read`: turns the options into a request, and prints the records and damage of each partition."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode, KafkalogError, NoRecordAtTime, UsageError
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.ops.damage import is_torn_tail
from kafkalog_cli.ops.lookup_time import joined_errors
from kafkalog_cli.ops.read.log_read import LogRead, SegmentRead, fetches
from kafkalog_cli.ops.read.request import ReadRequest, merged_by_time
from kafkalog_cli.ops.selection import select_of_topics
from kafkalog_cli.output.kcat_text import Token, kcat_form, parse_kcat_format
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.read_printer import FIELDS, ReadPrinter, RecordPrinter, consumer_form, write_fetch
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.cli.read import ReadOptions
    from kafkalog_cli.format.values.decoder import ValueDecoder
    from kafkalog_cli.ops.keys import WantedKey
    from kafkalog_cli.output.decoded_values import DecodedValues

MERGE_BYTES = 16 << 20
LEAST_CHUNK_BYTES = 16 << 10
"""A merge reads this much of all partitions at a time, but at least so much of each; or one batch if it is larger.

Compressed batches take several times as much when they are decompressed.
"""


class ReadRun:
    """Reads partitions, one after another or merged. An error in one partition does not end the others."""

    def __init__(self, run: Run, options: ReadOptions) -> None:
        self._run, self._environment = run, run.environment
        self._options = options
        self._as_json = run.as_json
        self._out, self._messages = run.out, run.messages
        fields = fields_of(options.print_ or "value")
        kcat_format = None if options.kcat_format is None else parse_kcat_format(options.kcat_format)
        self._output = RecordOutput(self._out, self._messages, fields, kcat_format, self._as_json)
        self._reads: list[PartitionRead] = []
        self._outside: list[NoRecordAtTime] = []
        self._keys: list[tuple[str, WantedKey]] = []

    def run(self) -> int:
        """Read; return the exit code.

        Raises UsageError, and the exceptions of `select_of_topics`. A single partition raises as LogRead does.
        """
        self._check()
        request = self._request()
        options = self._options
        chosen = select_of_topics(self._run.fs, options.paths, options.topics.selection)
        if self._options.is_fetch and len(chosen) > 1:
            raise UsageError(reason=f"--framing fetch is for one partition, and {len(chosen)} are selected")
        paths = [partition.path for partition in chosen]
        self._run.lock_warnings.about_partitions(*paths)
        decoder = self._run.decoder_of(self._options.contents.decoding, paths)
        self._output = self._output._replace(decoder=decoder)
        is_cut = self._read(chosen, request)
        self._run.codes += [read.code for read in self._reads]
        if not self._as_json:
            return self._run.end()
        if len(chosen) == 1:
            return self._run.end(**self._reads[0].counts())
        records = sum(read.counts()["records"] or 0 for read in self._reads)
        partitions = [read.named_counts(is_cut=is_cut) for read in self._reads]
        return self._run.end(records=records, partitions=partitions)

    def _read(self, chosen: list[Partition], request: ReadRequest) -> bool:
        """Read all; return whether a merge ended early, as it had enough records."""
        is_cut = False
        if len(chosen) == 1:
            self._one(PartitionRead(self._log(chosen[0], request), self._output))
        elif self._options.merge_by_time:
            is_cut = self._merged(chosen, request)
        else:
            self._in_turn(chosen, request)
        self._end_outside(len(chosen))
        self._end_keys()
        return is_cut

    def _one(self, read: PartitionRead) -> int:
        self._reads.append(read)
        if self._options.is_fetch:
            read.write_fetches()
            return 0
        return read.print_records()

    def _in_turn(self, chosen: list[Partition], request: ReadRequest) -> None:
        left = request.max_records
        for partition in chosen:
            log = self._opened(partition, request._replace(max_records=left))
            records = 0 if log is None else self._one(PartitionRead(log, self._output))
            left = None if left is None else left - records
            if left == 0:
                return

    def _merged(self, chosen: list[Partition], request: ReadRequest) -> bool:
        most = request.max_records
        chunk_bytes = min(request.chunk_bytes, max(LEAST_CHUNK_BYTES, MERGE_BYTES // len(chosen)))
        request = request._replace(max_records=None, chunk_bytes=chunk_bytes, read_ahead=False)
        for partition in chosen:
            log = self._opened(partition, request)
            if log is not None:
                self._reads.append(PartitionRead(log, self._output))
        records = 0
        with ExitStack() as stack:
            sources = [stack.enter_context(closing(read.blocks())) for read in self._reads]
            for number, block in merged_by_time(sources, most, self._options.limits.max_output_bytes):
                self._reads[number].print_part(block)
                records += len(block.records)
        return records == most

    def _log(self, partition: Partition, request: ReadRequest) -> LogRead:
        if request.key is not None:
            key = request.key.with_decoder(self._output.decoder).in_topic(partition.topic)
            self._keys.append((partition.path, key))
            request = request._replace(key=key)
        return LogRead(self._run.fs, partition, request)

    def _opened(self, partition: Partition, request: ReadRequest) -> LogRead | None:
        """Return the log of one of several partitions; None if it cannot be read, or has no record of the time."""
        try:
            return self._log(partition, request)
        except NoRecordAtTime as error:
            self._outside.append(error)
        except KafkalogError as error:
            self._run.fail(error)
        except OSError as error:
            self._run.fail(error, partition.path)
        return None

    def _end_keys(self) -> None:
        """Report keys that could not be decoded, and so not be compared with the wanted key."""
        for path, key in self._keys:
            for one in key.undecoded.failures():
                self._run.warn("undecoded", one.message, path)
                self._run.codes.append(ExitCode.WARNINGS)

    def _end_outside(self, selected: int) -> None:
        """Report partitions without a record at or after --from-time, if no selected partition has such a record."""
        if self._outside and len(self._outside) == selected:
            for error in joined_errors(self._outside):
                self._run.fail(error)
        elif self._outside:
            self._run.codes.append(ExitCode.OK)

    def _check(self) -> None:
        options = self._options
        options.contents.decoding.check()
        if options.kcat_format is not None and (self._as_json or options.print_ is not None or options.is_fetch):
            raise UsageError(reason="-f cannot be combined with --format json, --print or --framing fetch")
        if not options.is_fetch:
            return
        if options.contents.decoding:
            raise UsageError(reason="--framing fetch takes bytes as they are stored: no --value-format or --key-format")
        if self._as_json or (options.range.until, options.max_records, options.key) != (None, None, None):
            raise UsageError(
                reason="--framing fetch takes whole batches: no --format json, --until, --max-records or --key"
            )
        if self._out.is_terminal:
            raise UsageError(reason="--framing fetch writes bytes that are not for a terminal")

    def _request(self) -> ReadRequest:
        from kafkalog_cli.ops.keys import WantedKey

        options, environment = self._options, self._environment
        if options.max_chunk_bytes < options.chunk_bytes:
            raise UsageError(reason="--max-chunk-bytes is below --chunk-bytes")
        bounds = options.range.bounds(environment, options.now, "read")
        limits = options.limits.limits(options.max_chunk_bytes)
        key = None if options.key is None else WantedKey(options.key, options.contents.key_format)
        return ReadRequest(
            *bounds, options.max_records, options.isolation,
            limits, options.chunk_bytes, key=key,
        )  # fmt: skip


def fields_of(text: str) -> frozenset[str]:
    """Return the fields of --print. Raises UsageError."""
    fields = frozenset(text.split(","))
    unknown = sorted(fields.difference(FIELDS))
    if unknown:
        raise UsageError(reason=f"--print {','.join(unknown)}: a line has {', '.join(FIELDS)}")
    return fields


class RecordOutput(NamedTuple):
    """Where records are printed, and how: as JSON, in kcat's format if there is one, else with some fields as text."""

    out: ResultStream
    messages: Messages
    fields: frozenset[str]
    kcat_format: tuple[Token, ...] | None = None
    is_json: bool = False
    decoder: ValueDecoder | None = None

    def values(self, partition: Partition) -> DecodedValues | None:
        """Return what decodes the keys and values of a partition; None if they are printed as they are stored."""
        if self.decoder is None:
            return None
        from kafkalog_cli.output.decoded_values import DecodedValues

        return DecodedValues(self.decoder, partition.topic)

    def printer(self, partition: Partition, segment: Segment, values: DecodedValues | None = None) -> RecordPrinter:
        """Return the printer for the records of a segment."""
        if self.is_json:
            from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, topic_decode
            from kafkalog_cli.output.record_json_printer import JsonPrinter

            directory, name = partition.directory, segment.log.path.rpartition("/")[2]
            context = SegmentContext(directory.topic, directory.partition, name, segment.is_seven)
            options = RecordJsonOptions(with_batches=False, decode=topic_decode(directory.topic), values=values)
            return JsonPrinter(self.out, context, options)
        escape, number = self.out.is_terminal, partition.number
        if self.kcat_format is not None:
            form = kcat_form(self.kcat_format, partition.topic, number, escape=escape, values=values)
        else:
            form = consumer_form(self.fields, number, escape=escape, is_seven=segment.is_seven, values=values)
        return ReadPrinter(self.out, form)


class PartitionRead:
    """One partition that is read. An unreadable part ends at most its segment."""

    def __init__(self, log: LogRead, output: RecordOutput) -> None:
        self._log = log
        self._output = output
        self._values = output.values(log.partition)
        self._undecoded = False
        self._printer: RecordPrinter | None = None
        self._failed = False
        self._merged_records = 0
        self._merged_end: int | None = None

    def print_records(self) -> int:
        """Print all records, segment after segment; return their number."""
        for segment in self._log.segments():
            with self._errors_of(segment):
                for _ in self._blocks(segment, prints=True):
                    pass
        self._report_notes()
        return self._log.shown_records

    def write_fetches(self) -> None:
        """Write all batches as fetch responses."""
        for segment in self._log.segments():
            with self._errors_of(segment):
                for found in fetches(self._log.request, segment):
                    if isinstance(found, Fault):
                        self._report_damage(found, segment)
                    else:
                        write_fetch(found, self._output.out.write_bytes)
        self._report_notes()

    def blocks(self) -> Generator[RecordBlock, None, None]:
        """Yield all records without printing them; damage is reported."""
        self._merged_end = self._log.range.first
        for segment in self._log.segments():
            with self._errors_of(segment):
                yield from self._blocks(segment, prints=False)
        self._report_notes()

    def print_part(self, block: RecordBlock) -> None:
        """Print records of the last block that `blocks` returned."""
        assert self._printer is not None
        self._printer.block(block)
        count = len(block.records)
        self._merged_records += count
        self._merged_end = int(block.records.offset[count - 1]) + 1

    def _blocks(self, segment: SegmentRead, *, prints: bool) -> Iterator[RecordBlock]:
        self._printer = self._output.printer(self._log.partition, segment.segment, self._values)
        for found in segment.blocks(self._printer.ahead if prints else None):
            if isinstance(found, Fault):
                self._report_damage(found, segment)
            elif prints:
                self._printer.block(found)
            else:
                yield found
            self._report_notes()

    @property
    def code(self) -> ExitCode:
        """The exit code of this partition."""
        self.report_undecoded()
        codes = {*self._log.codes, *((ExitCode.WARNINGS,) if self._undecoded else ())}
        if self._failed or ExitCode.FAILURE in codes:
            return ExitCode.FAILURE
        return ExitCode.CORRUPTION if ExitCode.CORRUPTION in codes else max(codes, default=ExitCode.OK)

    def report_undecoded(self) -> None:
        """Report the keys and values that were not decoded."""
        if self._values is None:
            return
        for failures in self._values.failures():
            self._undecoded = True
            self._output.out.flush()
            self._output.messages.warn("undecoded", failures.message, path=self._log.partition.path)

    def counts(self, *, is_cut: bool = False) -> dict[str, int | None]:
        """Return the members of the summary. `is_cut`: a merge ended before all records of `blocks` were printed."""
        log = self._log
        bounds, merged = log.range.bounds, self._merged_end is not None
        return {
            "records": self._merged_records if merged else log.shown_records,
            "next_offset": self._merged_end if is_cut and merged else log.next_offset,
            "log_start_offset": bounds.start,
            "log_end_offset": bounds.end,
            "last_stable_offset": log.last_stable_offset,
        }

    def named_counts(self, *, is_cut: bool = False) -> dict[str, object]:
        """Return the members of the summary, with the topic and the number of the partition."""
        directory = self._log.partition.directory
        return {"topic": directory.topic, "partition": directory.partition, **self.counts(is_cut=is_cut)}

    @contextmanager
    def _errors_of(self, segment: SegmentRead) -> Iterator[None]:
        """Report an error that ends the reading of a segment."""
        try:
            yield
        except KafkalogError as error:
            self._output.out.flush()
            self._output.messages.exception(error)
            self._failed = True
        except BrokenPipeError:
            raise
        except OSError as error:
            self._output.out.flush()
            reason = f"cannot be read: {error.strerror or error}"
            self._output.messages.tell("unreadable", reason, path=segment.segment.log.path)
            self._failed = True

    def _report_notes(self) -> None:
        while self._log.notes:
            note = self._log.notes.popleft()
            self._output.out.flush()
            self._output.messages.warn(note.kind, note.message, path=note.path)

    def _report_damage(self, fault: Fault, segment: SegmentRead) -> None:
        self._output.out.flush()
        path = segment.segment.log.path
        is_torn = is_torn_tail(self._log.partition, path, fault)
        self._output.messages.damage(fault, path, fault.position, is_warning=is_torn)
