"""The records that were read as lines of text, as kafka-console-consumer prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_cli.output.line_program import (
    TIME_TYPE,
    Branch,
    Form,
    Is,
    Item,
    RecordField,
    batch,
    headers,
    program,
    ready,
    record,
    stored,
    unless,
    when,
)
from kafkalog_cli.output.rendering import LineForm
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.format.batch import Batch
    from kafkalog_cli.format.records import Row
    from kafkalog_cli.output.decoded_values import DecodedValues
    from kafkalog_cli.output.rendering import MakeTexts, Text


FIELDS = ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
"""The possible fields of a line, in the order in which the real tool prints them."""

_PARTS = {"key": RecordField.KEY, "value": RecordField.VALUE}


def consumer_form(  # noqa: PLR0913
    fields: frozenset[str],
    partition: int,
    *,
    escape: bool,
    is_v07: bool = False,
    values: DecodedValues | None = None,
    before: tuple[Item, ...] = (),
    texts: tuple[tuple[str, ...], MakeTexts] | None = None,
) -> LineForm:
    """Return the form of lines with some of FIELDS, after the items `before`.

    `escape`: for a terminal, control characters of records are escaped. `values` decodes keys and values; what it
    cannot decode is shown as it is stored. `texts` are instead made for the fields of these names.
    """
    if texts is None and values is not None:
        decoded = tuple(name for name in _PARTS if name in fields)
        texts = decoded, decoded_texts(values, decoded, escape=escape)
    columns = () if texts is None else texts[0]
    items: list[Item] = [*before]
    for name in FIELDS:
        if name in fields:
            items += [*_field(name, partition, columns, escape=escape, is_v07=is_v07), "\t"]
    items[-1] = "\n"
    return LineForm(program([], items), None if texts is None else texts[1], len(columns), escape)


def decoded_texts(values: DecodedValues, names: tuple[str, ...], *, escape: bool) -> MakeTexts:
    """Return the function that decodes the key or the value of a record, or both."""

    def texts(buffer: memoryview, row: Row, batch_row: Batch) -> tuple[Text, ...]:
        del batch_row
        return tuple(decoded_text(values, name, buffer, row, escape=escape) for name in names)

    return texts


def decoded_text(values: DecodedValues, name: str, buffer: memoryview, row: Row, *, escape: bool) -> bytes | None:
    """Return the key or value of a record as text; None if it cannot be decoded."""
    text = values.text(name, buffer, row)
    return None if text is None else (printable(text) if escape else text).encode("utf-8", "replace")


def _field(name: str, partition: int, columns: tuple[str, ...], *, escape: bool, is_v07: bool) -> list[Item]:
    if name == "timestamp":
        timed: list[Item] = [TIME_TYPE, ":", record("timestamp")]
        none = "NO_TIMESTAMP"
        return [none] if is_v07 else [when(Is.MAGIC_0, none), unless(Is.MAGIC_0, *timed)]
    if name == "partition":
        return [f"Partition:{partition}"]
    if name == "offset":
        return ["Offset:", record("offset")]
    if name == "epoch":
        return ["Epoch:", when(Is.EPOCH_KNOWN, batch("leader_epoch")), unless(Is.EPOCH_KNOWN, "NOT_PRESENT")]
    if name == "headers":
        # Consumers read the keys of headers as strings, and replace bytes that are not UTF-8.
        key = stored(RecordField.HEADER_KEY, Form.JAVA_ESCAPED if escape else Form.JAVA)
        each = headers(when(Is.LATER_HEADER, ","), key, ":", *_contents(RecordField.HEADER_VALUE, escape=escape))
        items = [unless(Is.HEADERS, "NO_HEADERS"), each]
    else:
        items = _contents(_PARTS[name], escape=escape)
    if name not in columns:
        return [*items]
    column = columns.index(name)
    return [unless(Is.NO_READY, ready(column), of=column), when(Is.NO_READY, *items, of=column)]


def _contents(part: RecordField, *, escape: bool) -> list[Branch]:
    whole = stored(part, Form.TEXT_ESCAPED if escape else Form.RAW)
    return [when(Is.NULL, "null", of=part), unless(Is.NULL, whole, of=part)]
