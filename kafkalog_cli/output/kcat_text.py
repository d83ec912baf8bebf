"""Records in a format of the user's, in the language of kcat's option -f."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalog_cli.errors import UsageError
from kafkalog_cli.output.line_program import (
    Form,
    Is,
    Item,
    RecordField,
    headers,
    program,
    ready,
    record,
    size,
    size_bytes,
    stored,
    unless,
    when,
)
from kafkalog_cli.output.read_printer import decoded_texts
from kafkalog_cli.output.rendering import LineForm
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.output.decoded_values import DecodedValues

FIELDS = {
    "s": "payload",
    "S": "payload length, -1 for null",
    "R": "payload length as a binary big-endian 32-bit integer",
    "k": "key",
    "K": "key length, -1 for null",
    "T": "timestamp in epoch ms",
    "h": "headers (name=value,...)",
    "t": "topic",
    "p": "partition",
    "o": "offset",
}
"""The letters after a percent sign, and their meanings in kcat."""

_PARTS = re.compile(r"%(.?)|\\(x[0-9A-Fa-f]{1,2}|0[0-7]{0,3}|[1-9]\d{0,2}|.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t"}

Token = str | bytes
"""A letter of FIELDS, or bytes that are printed as they are."""


def parse_kcat_format(text: str) -> tuple[Token, ...]:
    r"""Return the parts of a format. Raises UsageError for a percent sign with another letter.

    Escapes are \n, \r, \t, \xHH, and \NNN in decimal, or in octal after a zero. A backslash before any other character
    is left out, as kcat does.
    """
    tokens: list[Token] = []
    at = 0
    for match in _PARTS.finditer(text):
        tokens.append(_raw(text[at : match.start()]))
        at = match.end()
        letter, escape = match.groups()
        if escape is not None:
            tokens.append(_unescape(escape))
        elif letter == "%":
            tokens.append(b"%")
        elif letter in FIELDS:
            tokens.append(letter)
        else:
            known = ", ".join(f"%{field}" for field in FIELDS)
            what = f"there is no %{letter}" if letter else "nothing follows the last %"
            raise UsageError(reason=f"-f: {what}. A format has {known}, %%")
    return (*tokens, _raw(text[at:]))


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _unescape(escape: str) -> bytes:
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if escape[0] == "x" and escape[1:]:
        return bytes([int(escape[1:], 16)])
    if escape[0] in "0123456789":
        return bytes([int(escape, 8 if escape[0] == "0" else 10) & 0xFF])
    return _raw(escape)


_CONTENTS = {"k": ("key", RecordField.KEY), "s": ("value", RecordField.VALUE)}
_SIZES = {"K": RecordField.KEY, "S": RecordField.VALUE}


def kcat_form(
    tokens: tuple[Token, ...], topic: str, partition: int, *, escape: bool, values: DecodedValues | None = None
) -> LineForm:
    """Return how records become text in a parsed format. `escape` and `values` are those of `consumer_form`."""
    names = tuple(dict.fromkeys(_CONTENTS[token][0] for token in tokens if token in _CONTENTS))
    columns = names if values is not None else ()
    name = printable(topic).encode() if escape else _raw(topic)
    constant: dict[Token, Item] = {
        "t": name, "p": b"%d" % partition, "o": record("offset"), "T": record("timestamp"),
        "R": size_bytes(RecordField.VALUE, escape=escape), **{token: size(part) for token, part in _SIZES.items()},
    }  # fmt: skip
    form = Form.TEXT_ESCAPED if escape else Form.RAW
    items: list[Item] = []
    for token in tokens:
        if token in _CONTENTS:
            what, part = _CONTENTS[token]
            items += _decoded(columns.index(what), part, form) if what in columns else [stored(part, form)]
        elif token == "h":
            value = when(Is.NULL, "NULL", of=RecordField.HEADER_VALUE), stored(RecordField.HEADER_VALUE, form)
            items.append(headers(when(Is.LATER_HEADER, ","), stored(RecordField.HEADER_KEY, form), "=", *value))
        else:
            items.append(constant.get(token, token))
    texts = None if values is None else decoded_texts(values, columns, escape=escape)
    given = "".join(token.decode(errors="replace") for token in tokens if isinstance(token, bytes))
    return LineForm(program([], items), texts, len(columns), escape, unescaped=frozenset(given))


def _decoded(column: int, part: RecordField, form: Form) -> list[Item]:
    return [unless(Is.NO_READY, ready(column), of=column), when(Is.NO_READY, stored(part, form), of=column)]
