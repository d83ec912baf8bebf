"""The text in Kafka's files as Java reads and writes it: numbers, lines, white space, properties, malformed UTF-8."""

from __future__ import annotations

import binascii
import codecs
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_INTEGER = re.compile(r"([+-]?)(\d+)")
_WHITE_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|[\r\n])|([^\r\n]+)")
_LINE_END = r"\r\n|\r|\n"
_LAST_LINE_END = r"[\r\n]\Z"
_PROPERTY = r"(?s)((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)"
_ESCAPE = r"(?s)\\(u[0-9a-fA-F]{4}|.)"
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_MAX_DIGITS = 19


def string_hash(text: str) -> int:
    """Return String.hashCode of `text`, a signed 32-bit integer."""
    units = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >> 31 else hashed


def parse_int(text: str) -> int | None:
    """Parse `text` as Integer.parseInt does; None if that throws."""
    return _parse(text, 1 << 31)


def parse_long(text: str) -> int | None:
    """Parse `text` as Long.parseLong does; None if that throws.

    A sign, leading zeros and digits outside ASCII are legal, spaces are not.
    """
    return _parse(text, 1 << 63)


def _parse(text: str, limit: int) -> int | None:
    match = _INTEGER.fullmatch(text)
    digits = match[2].lstrip("0") if match else ""
    # Java checks UTF-16 units, so digits outside the basic plane are not digits to it.
    if match is None or len(digits) > _MAX_DIGITS or max(text) > "\uffff":
        return None
    value = int(match[1] + (digits or "0"))
    return value if -limit <= value < limit else None


def lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (position, line) for each line, without its line end, split as BufferedReader.readLine does."""
    for match in _LINE.finditer(data):
        yield match.start(), match[1] or match[2] or b""


def split_white_space(line: str) -> list[str]:
    r"""Split `line` at `\s+` as Java's Pattern.split does.

    An empty first field stays, empty last fields are removed.
    """
    return _without_empty_end(_WHITE_SPACE.split(line))


def split_colon(line: str) -> list[str]:
    r"""Split `line` at `:\s+` as Java's Pattern.split does."""
    return _without_empty_end(re.split(r":[ \t\n\x0b\f\r]+", line))


def _without_empty_end(fields: list[str]) -> list[str]:
    if len(fields) > 1:
        while fields and not fields[-1]:
            fields.pop()
    return fields


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Return the keys and values of a properties file as Properties.load(InputStream) reads them (ISO 8859-1).

    Raises ValueError for a malformed \uXXXX, as Java does.
    """
    properties = {}
    for line in _logical_lines(data.decode("latin-1")):
        key, value = re.findall(_PROPERTY, line)[0]
        properties[_unescape(key)] = _unescape(value)
    return properties


def format_properties(properties: Iterable[tuple[str, str]], comments: Iterable[str] = ()) -> bytes:
    """Return a properties file that Properties.load can read, with the keys in the given order.

    `comments` are written first, one per line after a `#`. They must not contain line ends.
    """
    pairs = (f"{_escape(key, every_space=True)}={_escape(value, every_space=False)}\n" for key, value in properties)
    return "".join([*(f"#{comment}\n" for comment in comments), *pairs]).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    pending: list[str] = []
    for natural_line in re.split(_LINE_END, re.sub(_LAST_LINE_END, "", text)):
        line = natural_line.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            yield "".join([*pending, line])
            pending = []
        elif len(line) > 1:
            pending.append(line[:-1])
    if pending or line == "\\":  # Java reads a lone backslash at the end of the file as an empty key
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
    # Two escapes can be the surrogate halves of one character.
    return re.sub(_ESCAPE, character, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


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


REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def java_string(data: bytes) -> str:
    """Decode `data` as `new String(data, UTF_8)` does in the JDK: malformed parts become U+FFFD.

    CPython's error handler `replace` differs for surrogates encoded as three bytes: Java gives one U+FFFD, Python
    three. The time is linear in the number of bytes.
    """
    return data.decode(errors=_JAVA_REPLACE)


def _replace(error: UnicodeError) -> tuple[str, int]:
    from kafkalog_cli.format.native import malformed_bytes  # here: few texts are malformed

    assert isinstance(error, UnicodeDecodeError)
    return REPLACEMENT, error.start + malformed_bytes(error.object[error.start : error.start + 4])


_JAVA_REPLACE = "kafkalog-java"
codecs.register_error(_JAVA_REPLACE, _replace)


_TEXT = re.compile(r"([A-Za-z0-9_-]{22})(==)?")
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")

ZERO_UUID = "A" * 22
"""The uuid that means "none" (Uuid.ZERO_UUID)."""

RESERVED_DIRECTORY_IDS = 100
"""Directory ids below this number are reserved for meanings such as lost or migrating (DirectoryId)."""


def uuid_text(raw: bytes) -> str:
    """Return the 22 characters for 16 bytes."""
    return binascii.b2a_base64(raw, newline=False).translate(_TO_URL).rstrip(b"=").decode("ascii")


def parse_uuid(text: str) -> bytes | None:
    """Return the 16 bytes of a uuid as Uuid.fromString reads it, or None if that throws. Padding is legal."""
    match = _TEXT.fullmatch(text)
    return binascii.a2b_base64(match[1].encode("ascii").translate(_FROM_URL) + b"==") if match else None


def canonical_uuid(text: str) -> str | None:
    """Return the uuid in `text` as Kafka writes it, or None if `text` is not a uuid."""
    raw = parse_uuid(text)
    return None if raw is None else uuid_text(raw)


def java_double(value: float) -> str:
    """Return `value` in Java's decimal notation, with at least one digit after the point.

    From 10^-3 up to 10^7 there is no exponent; otherwise there is one digit before the point, and an exponent.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, point = _digits(abs(value))
    if 0 < point < 8:
        whole = digits[:point].ljust(point, "0")
        return f"{sign}{whole}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(value: float) -> tuple[str, int]:
    """Return (d1d2..., p) so that `value` is 0.d1d2... times 10^p: the shortest digits that give the same double.

    JDK 17 prints a digit more of some doubles with 16 or 17 digits.
    """
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    return digits.rstrip("0"), len(digits) - len(fraction) + int(exponent or 0)
