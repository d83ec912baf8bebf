"""How Java reads and writes the text in Kafka's files: integers, lines, white space, properties."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INTEGER = re.compile(r"([+-]?)(\d+)")
_WHITE_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|[\r\n])|([^\r\n]+)")
_LINE_END = re.compile(r"\r\n|\r|\n")
_LAST_LINE_END = re.compile(r"[\r\n]\Z")
_PROPERTY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_MAX_DIGITS = 19


def parse_int(text: str) -> int | None:
    """`text` as Integer.parseInt reads it, None where that throws."""
    return _parse(text, 1 << 31)


def parse_long(text: str) -> int | None:
    """`text` as Long.parseLong reads it, None where that throws: a sign is legal, spaces are not, any width is."""
    return _parse(text, 1 << 63)


def _parse(text: str, limit: int) -> int | None:
    match = _INTEGER.fullmatch(text)
    digits = match[2].lstrip("0") if match else ""
    # Java looks at UTF-16 units, so digits outside the basic plane are none.
    if match is None or len(digits) > _MAX_DIGITS or max(text) > "\uffff":
        return None
    value = int(match[1] + (digits or "0"))
    return value if -limit <= value < limit else None


def lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(position, line) of each line without its end, as BufferedReader.readLine cuts them."""
    for match in _LINE.finditer(data):
        yield match.start(), match[1] or match[2] or b""


def split_white_space(line: str) -> list[str]:
    r"""`line` split as Java's Pattern.split does at `\s+`: an empty first field stays, empty last ones go."""
    return _without_empty_end(_WHITE_SPACE.split(line))


def split_colon(line: str) -> list[str]:
    r"""`line` split as Java's Pattern.split does at `:\s+`."""
    return _without_empty_end(re.split(r":[ \t\n\x0b\f\r]+", line))


def _without_empty_end(fields: list[str]) -> list[str]:
    while len(fields) > 1 and not fields[-1]:
        fields.pop()
    return fields


def parse_properties(data: bytes) -> dict[str, str]:
    r"""The keys and values of a properties file, as Properties.load(InputStream) reads them (ISO 8859-1).

    Raises ValueError for a malformed \uXXXX, as that does.
    """
    properties = {}
    for line in _logical_lines(data.decode("latin-1")):
        key, value = _PROPERTY.findall(line)[0]
        properties[_unescape(key)] = _unescape(value)
    return properties


def format_properties(properties: Iterable[tuple[str, str]], comments: Iterable[str] = ()) -> bytes:
    """A properties file that Properties.load reads back, keys in the order given.

    `comments` are written first, one a line after a `#`: no line end may be in them.
    """
    pairs = (f"{_escape(key, every_space=True)}={_escape(value, every_space=False)}\n" for key, value in properties)
    return "".join([*(f"#{comment}\n" for comment in comments), *pairs]).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    pending: list[str] = []
    for natural_line in _LINE_END.split(_LAST_LINE_END.sub("", text)):
        line = natural_line.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            yield "".join([*pending, line])
            pending = []
        elif len(line) > 1:
            pending.append(line[:-1])
    if pending or line == "\\":  # Java takes a file that ends in a lone backslash for an empty key
        yield "".join(pending)


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _UNESCAPED.get(code, code)
        if len(code) != 5:
            raise ValueError("Malformed \\uxxxx encoding.")
        return chr(int(code[1:], 16))

    if "\\" not in text:
        return text
    # Two escapes can be the halves of one character.
    return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(text: str, *, every_space: bool) -> str:
    parts = []
    for position, character in enumerate(text):
        if character in _ESCAPED:
            parts.append(_ESCAPED[character])
        elif character in "\\=:#!" or (character == " " and (every_space or position == 0)):
            parts.append("\\" + character)
        elif " " <= character <= "~":
            parts.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            parts.extend(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
    return "".join(parts)
