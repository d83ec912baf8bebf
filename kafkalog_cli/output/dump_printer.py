"""dump-log's text of one segment, also of a segment of Kafka 0.7.2, and the final reports; plain or compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from kafkalog_cli.disk.pair_spool import PairSpool
from kafkalog_cli.format.batch import MESSAGE_SEVEN_MAGIC0, MESSAGE_SEVEN_MAGIC1, Batch, BatchArrays, BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.internal_topics.schema import NEWEST, KafkaVersion
from kafkalog_cli.format.java_text import java_string, string_hash
from kafkalog_cli.format.records import RecordBlock, field_bytes
from kafkalog_cli.output.dump_text import Abort, LogText
from kafkalog_cli.output.large_fields import is_large, java_pieces
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.read_ahead import Read
    from kafkalog_cli.output.block_lines import BlockLines, CompiledLogText


class SegmentPrinter(Protocol):
    """Prints the parts of one segment; `aborted` is set where the real tool gives up."""

    aborted: Abort | None

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, prepared for printing as far as possible; this runs in other threads."""

    def batches(self, batches: BatchColumns) -> None:
        """Print batches without records."""

    def block(self, block: RecordBlock) -> None:
        """Print batches with their records."""

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Print the text after the last batch."""


class TextPrinter:
    """Prints kafka-dump-log's text. `compiled` makes the compiled renderer; None if a decoder needs plain rendering."""

    def __init__(
        self,
        out: ResultStream,
        text: LogText,
        compiled: Callable[[], CompiledLogText] | None,
        file_name: str,
        *,
        whole_file: bool,
    ) -> None:
        self._out = out
        self._text = text
        self._compiled = compiled
        self._block_lines: BlockLines | None = None
        self._file_name = file_name
        self._whole_file = whole_file

    @property
    def aborted(self) -> Abort | None:
        """The place where the real tool gives up; None if it has not so far."""
        return self._text.aborted

    @aborted.setter
    def aborted(self, value: Abort | None) -> None:
        self._text.aborted = value

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, rendered by compiled kernels if possible."""
        lines = self._lines()
        return read() if lines is None else lines.ahead(read)

    def batches(self, batches: BatchColumns) -> None:
        """Print batch lines."""
        if not isinstance(batches, BatchArrays) or self._compiled is None:
            for line in self._text.batches(batches.rows()):
                self._out.write(line)
            return

        def one(row: int) -> bool:
            self._out.write(self._text.batch(batches.row(row)))
            return self._text.aborted is None

        self._compiled().batches(batches, self._out.write_bytes, one)

    def block(self, block: RecordBlock) -> None:
        """Print batch lines, each followed by its record lines."""
        if block.is_compiled and (lines := self._lines()) is not None and _can_render(block):
            lines.write(block, self._out.write_bytes)
            return
        for line in self._text.block(block):
            self._out.write(line)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Print the invalid bytes at the end, if any."""
        del valid_bytes
        self._out.write(self._text.ending(fault, self._file_name, whole_file=self._whole_file))

    def _lines(self) -> BlockLines | None:
        if self._block_lines is None and self._compiled is not None:
            from kafkalog_cli.output.block_lines import BlockLines

            self._block_lines = BlockLines(self._compiled())
        return self._block_lines


def _can_render(block: RecordBlock) -> bool:
    from kafkalog_cli.output.block_lines import can_render

    return can_render(block)


_CODEC_OBJECTS = {0: "NoCompressionCodec", 1: "GZIPCompressionCodec", 2: "SnappyCompressionCodec"}


class SevenPrinter:
    """The text of 0.7's tool for a `.kafka` file that starts at `base_offset`; damage never makes it abort.

    A compressed message is followed by its inner messages, which the old tool did not show.
    """

    def __init__(self, out: ResultStream, base_offset: int, *, deep: bool, contents: bool) -> None:
        self.aborted: Abort | None = None
        self._out = out
        self._base_offset = base_offset
        self._deep = deep
        self._contents = contents

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks unchanged."""
        return read()

    def batches(self, batches: BatchColumns) -> None:
        """Print message lines."""
        for batch in batches.rows():
            self._message(batch)

    def block(self, block: RecordBlock) -> None:
        """Print message lines with the contents of the messages."""
        for batch, rows in block.batch_rows():
            if not block.begun:
                self._message(batch)
            for row in rows:
                if batch.codec and self._deep:
                    valid = "true" if row[10] else "false"
                    self._out.write(f"| offset: {row[0]} isvalid: {valid} payloadsize: {row[6]}\n")
                if self._contents and is_large(block.buffer, row):
                    self._out.write("payload:\t")
                    for piece in java_pieces(block.buffer[row[5] : row[5] + row[6]]):
                        self._out.write(piece)
                    self._out.write("\n")
                elif self._contents:
                    payload = field_bytes(block.buffer, row[5], row[6]) or b""
                    self._out.write(f"payload:\t{java_string(payload)}\n")
        for fault in block.faults.values():
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Print the offset at which the log ends, where the next message would start."""
        del fault
        self._out.write(f"tail of the log is at offset: {self._base_offset + valid_bytes}\n")

    def _message(self, batch: Batch) -> None:
        layout = MESSAGE_SEVEN_MAGIC1 if batch.magic else MESSAGE_SEVEN_MAGIC0
        valid = "true" if batch.valid else "false"
        codec = _CODEC_OBJECTS.get(batch.codec, str(batch.codec))
        self._out.write(
            f"offset: {batch.base_offset} isvalid: {valid} payloadsize: {batch.size_bytes - layout.size}"
            f" magic: {batch.magic} compresscodec: {codec}\n"
        )


Pairs = list[tuple[int, int]]


@dataclass(slots=True, eq=False, repr=False)
class DumpReports:
    """Pairs by absolute path.

    The Scala tool prepends to its lists of mismatches and gaps, so these print newest first. The Java tool has them in
    sorted maps: the newest pair of each offset, mismatches from the last offset down, gaps from the first up. The files
    are in the order of the tools' hash maps. There can be as many gaps as records, so `gaps` spools all of them;
    `_non_consecutive` has the ranges in `gaps` by path.
    """

    version: KafkaVersion = NEWEST
    index_mismatches: dict[str, PairSpool] = field(default_factory=dict)
    time_mismatches: dict[str, PairSpool] = field(default_factory=dict)
    out_of_order: dict[str, PairSpool] = field(default_factory=dict)
    not_found: dict[str, PairSpool] = field(default_factory=dict)
    gaps: PairSpool = field(default_factory=PairSpool)
    _non_consecutive: dict[str, Pairs] = field(default_factory=dict)

    @staticmethod
    def add(report: dict[str, PairSpool], path: str, pair: tuple[int, int]) -> None:
        """Add `pair` to the pairs of `path` in `report`."""
        report.setdefault(path, PairSpool()).extend((pair,))

    def add_gaps(self, path: str, begin: int) -> None:
        """Assign the gaps from number `begin` on to `path`."""
        if len(self.gaps) > begin:
            self._non_consecutive.setdefault(path, []).append((begin, len(self.gaps)))

    def text(self) -> Iterator[str]:
        """Iterate over the text of all reports; empty if there is nothing to report."""
        place = "the log." if self.version.is_scala else ":{}"
        found = {path: pairs for path, pairs in self.index_mismatches.items() if len(pairs)}
        for path in self._in_map_order(found, is_put_again=_has_several(found)):
            yield f"Mismatches in :{path}\n"
            yield from _lines("  Index offset: {}, log offset: {}", self._mismatches(found[path]))
        for times, heading, line in (
            (self.time_mismatches, "Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}"),
            (
                self.out_of_order,
                "Found out of order timestamp in :{}",
                "  Index timestamp: {}, Previously indexed timestamp: {}",
            ),
            (
                self.not_found,
                f"The following indexed offsets are not found in {place}",
                "Indexed offset: {}, found log offset: {}",
            ),
        ):
            for path in self._in_map_order(times, is_put_again=not self.version.is_scala and _has_several(times)):
                yield f"{heading.format(path)}\n"
                yield from _lines(line, times[path].oldest_first(0, len(times[path])))
        ranges = self._non_consecutive
        last = sum(end - begin for begin, end in next(reversed(ranges.values()), []))
        for path in self._in_map_order(ranges, is_put_again=last > 1, is_computed=False):
            yield f"Non-consecutive offsets in {path}\n"
            yield from _lines("  {} is followed by {}", self._gaps(ranges[path]))

    def _in_map_order(self, paths: Collection[str], *, is_put_again: bool, is_computed: bool = True) -> list[str]:
        """Return paths in the order of the real tool's hash map, into which they were put one after another.

        A Scala map grows before a put into 11 keys, and sorts the keys of a bucket by their hashes. A Java map grows
        after its 13th put. computeIfAbsent (`is_computed`) grows it before a call with 13 keys, and puts a key before
        the others of its bucket. Scala and computeIfAbsent grow the map even if it has the key; `is_put_again` says so
        of the last key.
        """
        rank = {path: at for at, path in enumerate(paths)}
        spread = {path: (hashed := string_hash(path)) ^ (hashed & 0xFFFFFFFF) >> 16 for path in paths}
        full = len(rank) - 1
        if self.version.is_scala:
            full, rank = len(rank) + is_put_again, spread
        elif is_computed:
            full, rank = len(rank) + is_put_again - 2, {path: -at for path, at in rank.items()}
        buckets = 16
        while full >= buckets * 3 // 4:
            buckets *= 2
        return sorted(rank, key=lambda path: (spread[path] & buckets - 1, rank[path]))

    def _mismatches(self, pairs: PairSpool) -> Iterator[tuple[int, int]]:
        return pairs.newest_first(0, len(pairs)) if self.version.is_scala else pairs.last_first()

    def _gaps(self, ranges: Pairs) -> Iterator[tuple[int, int]]:
        if self.version.is_scala:
            return chain.from_iterable(self.gaps.newest_first(begin, end) for begin, end in reversed(ranges))
        return self.gaps.by_first(ranges)


def _has_several(found: Mapping[str, PairSpool]) -> bool:
    """Whether the last path has more than one pair."""
    return any(len(pairs) > 1 for pairs in list(found.values())[-1:])


def _lines(line: str, pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    return (f"{line.format(*pair)}\n" for pair in pairs)
