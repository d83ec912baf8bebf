"""The records that `read` and `find` print, as text or objects, with reports of what is damaged between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.look.read.events import DamagedPart, FoundRecords, NotRead, ReadEvent
from kafkalog_cli.output.kcat_text import kcat_form, parse_kcat_format
from kafkalog_cli.output.read_printer import FIELDS, consumer_form
from kafkalog_cli.output.rendering import BlockLines, LineForm

if TYPE_CHECKING:
    from kafkalog_cli.format.values.decoder import ValueDecoder
    from kafkalog_cli.log.partition import Partition, Segment
    from kafkalog_cli.output.decoded_values import DecodedValues

RecordForm = Callable[["Partition", "Segment", "DecodedValues | None", bool], LineForm]
"""Returns the lines for the records of a segment, or those of records around matches (False)."""


def fields_of(text: str) -> frozenset[str]:
    """Return the fields of --print. Raises UsageError."""
    fields = frozenset(text.split(","))
    unknown = sorted(fields.difference(FIELDS))
    if unknown:
        raise UsageError(reason=f"--print {','.join(unknown)}: a line has {', '.join(FIELDS)}")
    return fields


def record_form_of(
    run: Run, fields: frozenset[str], kcat_format: str | None, *, has_context: bool = False
) -> RecordForm:
    """Return how records are printed: as objects, in kcat's format, or with some fields as text. Raises UsageError.

    `has_context`: objects say whether the record is a match.
    """
    tokens = None if kcat_format is None else parse_kcat_format(kcat_format)
    escape = run.out.is_terminal

    def form(partition: Partition, segment: Segment, values: DecodedValues | None, is_match: bool) -> LineForm:
        if run.as_json:
            from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, record_form, topic_decode

            context = SegmentContext.of_segment(partition, segment)
            options = RecordJsonOptions(with_batches=False, decode=topic_decode(context.topic), values=values)
            return record_form(context, options, is_match=is_match if has_context else None)
        if tokens is not None:
            return kcat_form(tokens, partition.topic, partition.number, escape=escape, values=values)
        return consumer_form(fields, partition.number, escape=escape, is_v07=segment.is_v07, values=values)

    return form


class PartitionPrinter:
    """Prints the records of one partition, and reports what is damaged."""

    def __init__(self, run: Run, partition: Partition, form: RecordForm, decoder: ValueDecoder | None) -> None:
        self._run, self._partition, self._form = run, partition, form
        self._segment: Segment | None = None
        self._lines: dict[bool, BlockLines] = {}
        self._values: DecodedValues | None = None
        if decoder is not None:
            from kafkalog_cli.output.decoded_values import DecodedValues

            self._values = DecodedValues(decoder, partition.topic)

    def lines(self, segment: Segment, *, is_match: bool = True) -> BlockLines:
        """Return what renders the records of a segment."""
        if self._segment is not segment:
            self._segment, self._lines = segment, {}
        if is_match not in self._lines:
            self._lines[is_match] = BlockLines(self._form(self._partition, segment, self._values, is_match))
        return self._lines[is_match]

    def report(self, event: ReadEvent) -> None:
        """Report what was not read, or what is to be known about what was read."""
        assert not isinstance(event, FoundRecords)
        if isinstance(event, DamagedPart):
            self._run.damage(self._partition, event.path, event.fault)
        elif isinstance(event, NotRead):
            self._run.not_read(event.path, event.error)
        else:
            self._run.warn(event.kind, event.message, event.path)

    def report_undecoded(self) -> bool:
        """Report the keys and values that were not decoded so far; return whether there are any."""
        return self._values is not None and self._run.report_undecoded(self._values.undecoded, self._partition.path)
