"""Found records, as text or NDJSON. In text, a line has the partition and offset before the record, as in ripgrep."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.records import Row, header_views, view_of
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.ops.read.conditions import Conditions
from kafkalog_cli.output.decoded_values import DecodedValues
from kafkalog_cli.output.line_program import record
from kafkalog_cli.output.read_printer import consumer_form, decoded_text
from kafkalog_cli.output.rendering import LineForm
from kafkalog_cli.output.stream import Paint, printable

_CONTINUATION = range(0x80, 0xC0)
GAP_LINE = "--\n"
"""Stands between records that do not follow each other, where records around matches are printed."""


def found_form(  # noqa: PLR0913, PLR0917
    fields: frozenset[str], conditions: Conditions, paint: Paint | None,
    partition: Partition, segment: Segment, values: DecodedValues | None, is_match: bool,
) -> LineForm:  # fmt: skip
    """Return the form of found records of a partition, each line after its topic, partition and offset.

    `paint` None: not for a terminal, so nothing is escaped. On a terminal, the matching parts of contents are coloured.
    """
    name = partition.directory.name if paint is None else paint.heading(printable(partition.directory.name))
    texts = None
    if paint is not None and is_match:
        coloured = tuple(one for one in ("headers", "key", "value") if one in fields)
        texts = coloured, _Coloured(coloured, conditions, paint, values).texts
    return consumer_form(
        fields, partition.number, escape=paint is not None, is_seven=segment.is_seven, values=values,
        before=(name, ":", record("offset"), ":" if is_match else "-"), texts=texts,
    )  # fmt: skip


class _Coloured(NamedTuple):
    """Makes the texts of matching records, with their matching parts coloured."""

    fields: tuple[str, ...]
    conditions: Conditions
    paint: Paint
    values: DecodedValues | None

    def texts(self, buffer: memoryview, row: Row, batch_row: Batch) -> tuple[bytes | None, ...]:
        """Return the texts of the fields of a record."""
        del batch_row
        return tuple(self._text(name, buffer, row) for name in self.fields)

    def _text(self, name: str, buffer: memoryview, row: Row) -> bytes | None:
        if name == "headers":
            found = header_views(buffer, row[7], row[8])
            texts = (f"{printable(java_string(bytes(key)))}:{self._shown(value)}" for key, value in found)
            return ",".join(texts).encode() if row[8] else None
        if self.values is not None:
            text = decoded_text(self.values, name, buffer, row, escape=True)
            if text is not None:
                return text
        data = view_of(buffer, *(row[3:5] if name == "key" else row[5:7]))
        return self._shown(data).encode()

    def _shown(self, view: memoryview | None) -> str:
        if view is None:
            return "null"
        data, parts, done = bytes(view), [], 0
        for begin, end in self.conditions.spans(data):
            first, last = _whole_characters(data, max(begin, done), max(end, done))
            if first < last:
                parts += [_escaped(data[done:first]), self.paint.bad(_escaped(data[first:last]))]
                done = last
        return "".join([*parts, _escaped(data[done:])])


def _whole_characters(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """Return the part of UTF-8 bytes, extended to whole characters."""
    while begin > 0 and begin < len(data) and data[begin] in _CONTINUATION:
        begin -= 1
    while end < len(data) and data[end] in _CONTINUATION:
        end += 1
    return begin, end


def _escaped(data: bytes) -> str:
    return printable(data.decode("utf-8", "replace"))
