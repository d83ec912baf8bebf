"""Reads one partition for `kafkalog read`: prints its records, and reports its damage."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.ops.read.fetches import Fetches
from kafkalog_cli.ops.read.log_read import LogRead, SegmentRead
from kafkalog_cli.output.kcat_text import KcatText, Token
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.read_printer import CompiledReadText, ReadPrinter, RecordPrinter, write_fetch
from kafkalog_cli.output.read_text import ReadText
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.format.values.decoder import ValueDecoder
    from kafkalog_cli.output.decoded_values import DecodedValues


@dataclass(frozen=True, slots=True)
class RecordOutput:
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
            kcat = KcatText(self.kcat_format, partition.topic, number, escape=escape, values=values)
            return ReadPrinter(self.out, kcat, None)
        text = ReadText(self.fields, number, escape=escape, is_seven=segment.is_seven, values=values)
        return ReadPrinter(self.out, text, None if escape or values else CompiledReadText(self.fields, number))


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
                for found in Fetches(self._log, segment):
                    if isinstance(found, Fault):
                        self._report(found.kind.value, found.message, segment, found.position)
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
                self._report(found.kind.value, found.message, segment, found.position)
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
            self._report("unreadable", f"cannot be read: {error.strerror or error}", segment, None)
            self._failed = True

    def _report_notes(self) -> None:
        while self._log.notes:
            note = self._log.notes.popleft()
            self._output.out.flush()
            self._output.messages.warn(note.kind, note.message, path=note.path)

    def _report(self, kind: str, message: str, segment: SegmentRead, position: int | None) -> None:
        self._output.out.flush()
        self._output.messages.tell(kind, message, path=segment.segment.log.path, position=position)
