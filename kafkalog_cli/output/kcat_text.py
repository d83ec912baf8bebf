"""Records in a format of the user's, in the language of kcat's option -f."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.records import OUTSIDE, RecordBlock, header_views, view_of
from kafkalog_cli.output.large_fields import is_large, pieces, utf8_pieces
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
    found: list[Token] = []
    at = 0
    for part in _PARTS.finditer(text):
        found.append(_raw(text[at : part.start()]))
        at = part.end()
        letter, escape = part.groups()
        if escape is not None:
            found.append(_escaped(escape))
        elif letter == "%":
            found.append(b"%")
        elif letter in FIELDS:
            found.append(letter)
        else:
            known = ", ".join(f"%{one}" for one in FIELDS)
            what = f"there is no %{letter}" if letter else "nothing follows the last %"
            raise UsageError(reason=f"-f: {what}. A format has {known}, %%")
    return (*found, _raw(text[at:]))


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _escaped(escape: str) -> bytes:
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if escape[0] == "x" and escape[1:]:
        return bytes([int(escape[1:], 16)])
    if escape[0] in "0123456789":
        return bytes([int(escape, 8 if escape[0] == "0" else 10) & 0xFF])
    return _raw(escape)


_NAMES = {"s": "value", "k": "key"}


class KcatText:
    """Renders records in a parsed format. `escape` and `values` are those of ReadText."""

    def __init__(
        self,
        tokens: tuple[Token, ...],
        topic: str,
        partition: int,
        *,
        escape: bool,
        values: DecodedValues | None = None,
    ) -> None:
        self._escape = escape
        self._values = values
        name = printable(topic).encode() if escape else _raw(topic)
        constant: dict[Token, bytes] = {"t": name, "p": b"%d" % partition}
        self._tokens = [constant.get(token, token) for token in tokens if token]

    def lines(self, block: RecordBlock) -> Iterator[bytes]:
        """Iterate over the text of each record; that of a large record comes in pieces."""
        for row in block.records.rows():
            if is_large(block.buffer, row):
                yield from self._text(block.buffer, row)
            else:
                yield b"".join(self._text(block.buffer, row))

    def _text(self, buffer: memoryview, row: tuple[int, ...]) -> Iterator[bytes]:
        offset, timestamp, _, key_at, key_size, value_at, value_size, headers_at, header_count = row[:9]
        for token in self._tokens:
            if isinstance(token, bytes):
                yield token
            elif token in ("s", "k"):
                text = None if self._values is None else self._values.text(_NAMES[token], buffer, row)
                if text is not None:
                    yield (printable(text) if self._escape else text).encode("utf-8", "replace")
                elif token == "s":
                    yield from self._contents(view_of(buffer, value_at, value_size))
                else:
                    yield from self._contents(view_of(buffer, key_at, key_size))
            elif token == "h":
                yield from self._headers(buffer, headers_at, header_count)
            elif token == "R":
                yield from self._contents(memoryview(struct.pack(">i", _length(value_at, value_size))))
            else:
                numbers = {"o": offset, "T": timestamp}
                lengths = {"S": (value_at, value_size), "K": (key_at, key_size)}
                yield b"%d" % (numbers[token] if token in numbers else _length(*lengths[token]))

    def _headers(self, buffer: memoryview, position: int, count: int) -> Iterator[bytes]:
        for number, (name, value) in enumerate(header_views(buffer, position, count)):
            yield b"," if number else b""
            yield from self._contents(name)
            yield b"="
            yield from (b"NULL",) if value is None else self._contents(value)

    def _contents(self, data: memoryview | None) -> Iterator[bytes]:
        if data is None:
            return
        if self._escape:
            yield from (printable(piece.decode("utf-8", "replace")).encode() for piece in utf8_pieces(data))
        else:
            yield from map(bytes, pieces(data))


def _length(position: int, size: int) -> int:
    if size < 0:
        return -1
    return 0 if position == OUTSIDE else size
