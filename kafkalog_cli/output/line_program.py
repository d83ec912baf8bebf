"""Lines of output as programs for `format.native.RenderProgram`: texts, columns, contents and conditions in order.

A line is a list of items. A str or bytes is written as it is; `batch`, `record`, `stored` and the other functions here
make further items, and `when`, `unless` and `headers` contain items.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.native import RenderProgram
from kafkalog_cli.format.records import RecordColumns

if TYPE_CHECKING:
    from typing import TypeAlias

_PADDING = bytes(32)
"""After the texts: the kernel copies short texts in blocks."""


class _Code(IntEnum):
    """Operations, as OP_ of native/render.h."""

    TEXT = 0
    BATCH_NUMBER = 1
    LAST_SEQUENCE = 2
    TIME_TYPE = 3
    CODEC = 4
    BOOL = 5
    RECORD_NUMBER = 6
    SIZE = 7
    FIELD = 8
    READY = 9
    IF = 10
    UNLESS = 11
    HEADERS = 12
    NEXT_HEADER = 13
    STOP = 14


class Is(IntEnum):
    """Conditions, as IF_ of native/render.h; those from RECORD_VALID on are of a record."""

    LEGACY = 0
    MAGIC_0 = 1
    TRANSACTIONAL = 2
    CONTROL = 3
    DELETE_HORIZON = 4
    CODEC_KNOWN = 5
    CRC_CHECKED = 6
    CRC_VALID = 7
    EPOCH_KNOWN = 8
    RECORD_VALID = 9
    NULL = 10
    OUTSIDE = 11
    HEADERS = 12
    NO_READY = 13
    LATER_HEADER = 14


class RecordField(IntEnum):
    """Contents of a record, as FIELD_ of native/render.h; those of a header only inside of `headers`."""

    KEY = 0
    VALUE = 1
    HEADER_KEY = 2
    HEADER_VALUE = 3


class Form(IntEnum):
    """How contents are written, as FORM_ of native/render.h."""

    RAW = 0
    JSON = 1
    JAVA = 2
    JAVA_ESCAPED = 3
    TEXT_ESCAPED = 4
    HEX = 5
    HEX_0X = 6
    BASE64 = 7


class Op(NamedTuple):
    """An operation."""

    code: _Code
    a: int = 0
    b: int = 0


class Branch(NamedTuple):
    """Items that are written if a condition holds, does not hold, or for each header."""

    code: _Code
    a: int
    b: int
    items: tuple[Item, ...]


Item: TypeAlias = "str | bytes | Op | Branch"

LAST_SEQUENCE, TIME_TYPE, CODEC, STOP = map(Op, (_Code.LAST_SEQUENCE, _Code.TIME_TYPE, _Code.CODEC, _Code.STOP))
"""Of a batch: the last sequence, the type of its timestamps, the name of its codec; and the end of all rendering."""


def batch(column: str, *, null_for_unknown: bool = False) -> Op:
    """A number of the batch; with `null_for_unknown`, null for -1."""
    return Op(_Code.BATCH_NUMBER, Batch._fields.index(column), int(null_for_unknown))


def record(column: str, *, null_for_unknown: bool = False, at_least_unknown: bool = False) -> Op:
    """A number of the record; with `at_least_unknown`, -1 for any number below."""
    how = 2 if at_least_unknown else int(null_for_unknown)
    return Op(_Code.RECORD_NUMBER, RecordColumns.names.index(column), how)


def true_or_false(condition: Is) -> Op:
    """The answer to a condition as a word."""
    return Op(_Code.BOOL, condition)


def stored(field: RecordField, form: Form) -> Op:
    """Contents; nothing for null, except in JSON."""
    return Op(_Code.FIELD, field, form)


def size(field: RecordField) -> Op:
    """The size of contents: -1 for null, 0 if they are missing."""
    return Op(_Code.SIZE, field)


def size_bytes(field: RecordField, *, escape: bool) -> Op:
    """The size as four bytes."""
    return Op(_Code.SIZE, field, 2 if escape else 1)


def ready(column: int, field: RecordField = RecordField.KEY) -> Op:
    """The text of a column that Python makes; `field` is what is written if the column has a Form in its place."""
    return Op(_Code.READY, column, field)


def when(condition: Is, *items: Item, of: int = 0) -> Branch:
    """Items that are written if the condition holds, `of` a RecordField or a column of ready texts."""
    return Branch(_Code.IF, condition, of, items)


def unless(condition: Is, *items: Item, of: int = 0) -> Branch:
    """Items that are written if the condition does not hold."""
    return Branch(_Code.UNLESS, condition, of, items)


def headers(*items: Item) -> Branch:
    """Items that are written for each header."""
    return Branch(_Code.HEADERS, 0, 0, items)


def program(batch_line: list[Item], record_line: list[Item]) -> RenderProgram:
    """Return the program that writes these lines."""
    ops: array[int] = array("q")
    text = bytearray()
    _append(ops, text, batch_line)
    batch_ops = len(ops) // 4
    _append(ops, text, record_line)
    return RenderProgram(ops, batch_ops, bytes(text + _PADDING))


def _append(ops: array[int], text: bytearray, items: list[Item] | tuple[Item, ...]) -> None:
    for item in items:
        if isinstance(item, Op):
            ops.extend((*item, 0))
        elif isinstance(item, Branch):
            start = len(ops)
            ops.extend((item.code, item.a, item.b, 0))
            _append(ops, text, item.items)
            ops[start + 3] = (len(ops) - start) // 4 - 1
            if item.code is _Code.HEADERS:
                ops[start + 3] += 1
                ops.extend((_Code.NEXT_HEADER, 0, 0, ops[start + 3]))
        else:
            raw = item if isinstance(item, bytes) else item.encode("utf-8", "surrogateescape")
            ops.extend((_Code.TEXT, len(text), len(raw), 0))
            text += raw
