"""dump-log's output of one segment: text, also of a segment of Kafka 0.7.2, and NDJSON; and the final reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from kafkalog_cli.disk.spooled_pairs import SpooledPairs
from kafkalog_cli.format.batch import MESSAGE_V07_MAGIC0, MESSAGE_V07_MAGIC1, Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.dump_text import Abort, LogText
from kafkalog_cli.output.line_program import Form, Is, Item, RecordField, program, record, stored, true_or_false
from kafkalog_cli.output.rendering import BlockLines, LineForm, only_batch, without_records
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.records import Read


class TextPrinter:
    """Prints kafka-dump-log's text. `aborted` is the place where the real tool gives up; None if it has not so far."""

    def __init__(self, out: ResultStream, text: LogText, file_name: str, *, whole_file: bool) -> None:
        self.aborted: Abort | None = None
        self._out = out
        self._text = text
        self._lines = BlockLines(text.form)
        self._file_name = file_name
        self._whole_file = whole_file

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, rendered as far as possible."""
        return self._lines.ahead(read)

    def batches(self, batches: BatchColumns) -> None:
        """Print batch lines."""
        self.block(without_records(batches))

    def block(self, block: RecordBlock) -> None:
        """Print batch lines, each followed by its record lines."""
        fault_row = min(block.faults, default=None)
        end_row = None if fault_row is None else fault_row + 1
        stopped_at = self._lines.write(block, self._out.write_bytes, end_row)
        if stopped_at is not None:
            self.aborted = self._text.aborted_at(block, stopped_at)
        elif fault_row is not None:
            fault = block.faults[fault_row]
            self.aborted = Abort(int(block.batches.position[fault_row]), fault.message, fault.kind.value)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Print the invalid bytes at the end, if any."""
        del valid_bytes
        text, aborted = self._text.ending(fault, self._file_name, whole_file=self._whole_file)
        self._out.write(text)
        self.aborted = aborted or self.aborted


class JsonPrinter:
    """Prints NDJSON: a line per batch, each followed by the lines of its records; counts what it prints."""

    def __init__(self, out: ResultStream, form: LineForm) -> None:
        self.aborted: Abort | None = None
        self.batch_count = 0
        self.record_count = 0
        self._out = out
        self._lines = BlockLines(form)

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, rendered as far as possible."""
        return self._lines.ahead(read)

    def batches(self, batches: BatchColumns) -> None:
        """Print batches without records."""
        self.block(without_records(batches))

    def block(self, block: RecordBlock) -> None:
        """Print batches with their records."""
        self.batch_count += block.batch_count
        self.record_count += block.record_count
        self._lines.write(block, self._out.write_bytes)
        for fault in block.faults.values():
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Set `aborted` for damage, but not for trailing bytes: the caller reports these, as in text."""
        del valid_bytes
        if fault is not None and fault.kind is not FaultKind.TRAILING_BYTES:
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)


_CODEC_OBJECTS = {0: "NoCompressionCodec", 1: "GZIPCompressionCodec", 2: "SnappyCompressionCodec"}

_INNER_MESSAGE: list[Item] = [
    *("| offset: ", record("offset"), " isvalid: ", true_or_false(Is.RECORD_VALID)),
    *(" payloadsize: ", record("value_size"), "\n"),
]


class V07Printer:
    """The text of 0.7's tool for a `.kafka` file that starts at `base_offset`; damage never makes it abort.

    A compressed message is followed by its inner messages, which the old tool did not show.
    """

    def __init__(self, out: ResultStream, base_offset: int, *, deep: bool, contents: bool) -> None:
        self.aborted: Abort | None = None
        self._out = out
        self._base_offset = base_offset
        self._deep = deep
        payload: list[Item] = ["payload:\t", stored(RecordField.VALUE, Form.JAVA), "\n"] if contents else []
        self._outer = BlockLines(LineForm(program([], payload)))
        self._inner = BlockLines(LineForm(program([], [*_INNER_MESSAGE, *payload])))

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks unchanged."""
        return read()

    def batches(self, batches: BatchColumns) -> None:
        """Print message lines."""
        for batch in batches.rows():
            self._message(batch)

    def block(self, block: RecordBlock) -> None:
        """Print message lines with the contents of the messages."""
        for number, batch in enumerate(block.batches.rows(block.first_row, block.end_row)):
            if not block.begun:
                self._message(batch)
            lines = self._inner if batch.codec and self._deep else self._outer
            lines.write(only_batch(block, number), self._out.write_bytes)
        for fault in block.faults.values():
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Print the offset at which the log ends, where the next message would start."""
        del fault
        self._out.write(f"tail of the log is at offset: {self._base_offset + valid_bytes}\n")

    def _message(self, batch: Batch) -> None:
        layout = MESSAGE_V07_MAGIC1 if batch.magic else MESSAGE_V07_MAGIC0
        valid = "true" if batch.valid else "false"
        codec = _CODEC_OBJECTS.get(batch.codec, str(batch.codec))
        self._out.write(
            f"offset: {batch.base_offset} isvalid: {valid} payloadsize: {batch.size_bytes - layout.size}"
            f" magic: {batch.magic} compresscodec: {codec}\n"
        )


SegmentPrinter = TextPrinter | JsonPrinter | V07Printer
"""Prints the parts of one segment. `ahead` runs in other threads, and `aborted` is set where the real tool gives up."""

Pairs = list[tuple[int, int]]


@dataclass(slots=True, eq=False, repr=False)
class DumpReports:
    """Pairs by absolute path.

    The Scala tool prepends to its lists of mismatches and gaps, so these print newest first. The Java tool has them in
    sorted maps: the newest pair of each offset, mismatches from the last offset down, gaps from the first up. The files
    are in the order in which they were dumped. There can be as many gaps as records, so `gaps` spools all of them;
    `_non_consecutive` has the ranges in `gaps` by path.
    """

    version: KafkaVersion = NEWEST
    index_mismatches: dict[str, SpooledPairs] = field(default_factory=dict)
    time_mismatches: dict[str, SpooledPairs] = field(default_factory=dict)
    out_of_order: dict[str, SpooledPairs] = field(default_factory=dict)
    not_found: dict[str, SpooledPairs] = field(default_factory=dict)
    gaps: SpooledPairs = field(default_factory=SpooledPairs)
    _non_consecutive: dict[str, Pairs] = field(default_factory=dict)

    @staticmethod
    def add(report: dict[str, SpooledPairs], path: str, pair: tuple[int, int]) -> None:
        """Add `pair` to the pairs of `path` in `report`."""
        report.setdefault(path, SpooledPairs()).extend((pair,))

    def add_gaps(self, path: str, begin: int) -> None:
        """Assign the gaps from number `begin` on to `path`."""
        if len(self.gaps) > begin:
            self._non_consecutive.setdefault(path, []).append((begin, len(self.gaps)))

    def text(self) -> Iterator[str]:
        """Iterate over the text of all reports; empty if there is nothing to report."""
        where = "the log." if self.version.is_scala else ":{}"
        mismatches = {path: pairs for path, pairs in self.index_mismatches.items() if len(pairs)}
        for path, pairs in mismatches.items():
            yield f"Mismatches in :{path}\n"
            yield from _lines("  Index offset: {}, log offset: {}", self._mismatches(pairs))
        for times, heading, line in (
            (self.time_mismatches, "Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}"),
            (
                self.out_of_order,
                "Found out of order timestamp in :{}",
                "  Index timestamp: {}, Previously indexed timestamp: {}",
            ),
            (
                self.not_found,
                f"The following indexed offsets are not found in {where}",
                "Indexed offset: {}, found log offset: {}",
            ),
        ):
            for path, pairs in times.items():
                yield f"{heading.format(path)}\n"
                yield from _lines(line, pairs.oldest_first(0, len(pairs)))
        for path, ranges in self._non_consecutive.items():
            yield f"Non-consecutive offsets in {path}\n"
            yield from _lines("  {} is followed by {}", self._gaps(ranges))

    def _mismatches(self, pairs: SpooledPairs) -> Iterator[tuple[int, int]]:
        return pairs.newest_first(0, len(pairs)) if self.version.is_scala else pairs.last_first()

    def _gaps(self, ranges: Pairs) -> Iterator[tuple[int, int]]:
        if self.version.is_scala:
            return chain.from_iterable(self.gaps.newest_first(begin, end) for begin, end in reversed(ranges))
        return self.gaps.by_first(ranges)


def _lines(line: str, pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    return (f"{line.format(*pair)}\n" for pair in pairs)
