"""Found records, as text or NDJSON. In text, a line has the partition and offset before the record, as in ripgrep."""

from collections.abc import Iterator
from typing import Annotated, TypedDict

from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.find.conditions import Conditions
from kafkalog_cli.ops.find.context import FoundBlock
from kafkalog_cli.output.decoded_values import DecodedValues
from kafkalog_cli.output.ndjson import Count, From, ObjectKind, PathText
from kafkalog_cli.output.read_printer import NULL, ReadText
from kafkalog_cli.output.stream import Paint, ResultStream, printable

_CONTINUATION = range(0x80, 0xC0)
GAP_LINE = "--\n"
"""Stands between records that do not follow each other, where records around matches are printed."""


class HighlightedText(ReadText):
    """A ReadText with the matching parts of keys and values coloured, for a terminal."""

    def __init__(self, fields: frozenset[str], partition: int, conditions: Conditions, paint: Paint, *,  # noqa: PLR0913
                 is_seven: bool, values: DecodedValues | None) -> None:  # fmt: skip
        super().__init__(fields, partition, escape=True, is_seven=is_seven, values=values)
        self._conditions = conditions
        self._paint = paint

    def shown(self, data: bytes | None) -> bytes:
        """See ReadText."""
        if data is None:
            return NULL
        parts, done = [], 0
        for begin, end in self._conditions.spans(data):
            first, last = _whole_characters(data, max(begin, done), max(end, done))
            if first < last:
                parts += [_escaped(data[done:first]), self._paint.bad(_escaped(data[first:last]))]
                done = last
        return "".join([*parts, _escaped(data[done:])]).encode()


class FoundText:
    """Writes found records of a partition, each line after its topic, partition and offset.

    `paint` None: not for a terminal, so nothing is escaped.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self, out: ResultStream, fields: frozenset[str], partition: Partition, conditions: Conditions,
        paint: Paint | None, values: DecodedValues | None = None,
    ) -> None:  # fmt: skip
        number, name = partition.number, partition.directory.name
        is_seven = any(segment.is_seven for segment in partition.segments)
        self._out = out
        self._paint = paint or Paint()
        self._plain = ReadText(fields, number, escape=paint is not None, is_seven=is_seven, values=values)
        self._text = self._plain
        if paint is not None:
            self._text = HighlightedText(fields, number, conditions, paint, is_seven=is_seven, values=values)
            name = printable(name)
        self._name = name

    def write(self, found: FoundBlock, *, after_gap: bool) -> None:
        """Write records; `after_gap`: after the line for a gap."""
        write = self._out.write_bytes
        if after_gap:
            self._out.write(GAP_LINE)
        for line in self.lines(found.block, is_match=found.is_match):
            write(line)

    def lines(self, block: RecordBlock, *, is_match: bool) -> Iterator[bytes]:
        """Yield the lines of records; that of a large record comes in pieces."""
        text = self._text if is_match else self._plain
        sign = ":" if is_match else "-"
        name = self._paint.heading(self._name)
        for batch, rows in block.batch_rows():
            for row in rows:
                yield f"{name}:{row[0]}{sign}".encode("utf-8", "surrogateescape")
                yield from text.line(block.buffer, row, batch)


def _whole_characters(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """Return the part of UTF-8 bytes, extended to whole characters."""
    while begin > 0 and begin < len(data) and data[begin] in _CONTINUATION:
        begin -= 1
    while end < len(data) and data[end] in _CONTINUATION:
        end += 1
    return begin, end


def _escaped(data: bytes) -> str:
    return printable(data.decode("utf-8", "replace"))


class MatchCountObject(TypedDict):
    """The number of matching records of a partition, with `find --count`."""

    topic: Annotated[PathText, From("partition.topic")]
    partition: Annotated[int, From("partition.number"), "-1: the directory's name has no number"]
    path: Annotated[PathText, From("partition.path")]
    matches: Count


MATCH_COUNT = ObjectKind("kafkalog.match-count/1", MatchCountObject)
