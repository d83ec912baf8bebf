"""Decoders of keys and values, and decoded contents in the output of records: as text, or as members of objects."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypedDict

from kafkalog_cli.errors import counted
from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.records import header_views, view_of
from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded, ValueDecoder
from kafkalog_cli.output.large_fields import LARGE_BYTES, Pieces, base64_pieces, hex_pieces, java_pieces
from kafkalog_cli.output.ndjson import json_text
from kafkalog_cli.output.records import NotRequired

_MOST_REASONS = 20
"""The most reasons that are kept for each partition; further reasons are counted."""


class DecodedContentsObject(TypedDict):
    """A key or value that was decoded, or why it was not."""

    format: NotRequired[Annotated[str, "avro, protobuf, json or the name of another format"]]
    data: NotRequired[Annotated[Any, "the contents as JSON"]]
    schema_id: NotRequired[Annotated[int | None, "null for a schema of a file without an id"]]
    subject: NotRequired[str]
    version: NotRequired[int]
    error: NotRequired[Annotated[str, "why it was not decoded; the other members are absent"]]


class Failures(NamedTuple):
    """Keys or values that were not decoded for one reason: how many, and the first offset."""

    what: str
    reason: str
    first_offset: int
    records: int


@dataclass(slots=True)
class DecodedValues:
    """Decodes the records of one topic for output, and counts what was not decoded."""

    decoder: ValueDecoder
    topic: str
    _counts: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _others: int = 0

    def failures(self) -> list[Failures]:
        """Return what was not decoded so far, by reason, and forget it."""
        found = [Failures(what, reason, *numbers) for (what, reason), numbers in self._counts.items()]
        if self._others:
            found.append(Failures("contents", "other reasons", -1, self._others))
        self._counts, self._others = {}, 0
        return found

    def json_object(self, buffer: memoryview, row: tuple[int, ...]) -> dict[str, DecodedContentsObject]:
        """Return the member `decoded`: key and value, as far as a decoder applies to them."""
        found = {}
        for what in ("key", "value"):
            decoded = self._decoded(what, buffer, row)
            if decoded is not None:
                found[what] = _object(decoded)
        return found

    def text(self, what: str, buffer: memoryview, row: tuple[int, ...]) -> str | None:
        """Return the key or value (`what`) as text; None if it is to be shown as it is stored."""
        found = self._decoded(what, buffer, row)
        if not isinstance(found, DecodedContents):
            return None
        return str(found.value) if found.is_text else json_text(found.value)

    def _decoded(self, what: str, buffer: memoryview, row: tuple[int, ...]) -> DecodedContents | Undecoded | None:
        key_at, key_size, value_at, value_size, headers_at, header_count = row[3:9]
        headers: Callable[[], Iterator[Any]] | None = None
        if header_count:
            headers = lambda: header_views(buffer, headers_at, header_count)  # noqa: E731
        if what == "key":
            found = self.decoder.key(self.topic, view_of(buffer, key_at, key_size), headers)
        else:
            found = self.decoder.value(self.topic, view_of(buffer, value_at, value_size), headers)
        if isinstance(found, Undecoded):
            self._count(what, found.reason, row[0])
        return found

    def _count(self, what: str, reason: str, offset: int) -> None:
        place = (what, reason)
        if place in self._counts:
            self._counts[place][1] += 1
        elif len(self._counts) < _MOST_REASONS:
            self._counts[place] = [offset, 1]
        else:
            self._others += 1


def failure_message(failures: Failures) -> str:
    """Return the warning about keys or values that were not decoded."""
    if failures.first_offset < 0:
        return f"{counted(failures.records, 'key or value is', 'keys or values are')} not decoded for other reasons"
    first = "" if failures.records == 1 else f" and {failures.records - 1} more"
    verb = "is" if failures.records == 1 else "are"
    return f"the {failures.what} of offset {failures.first_offset}{first} {verb} not decoded: {failures.reason}"


def _object(found: DecodedContents | Undecoded) -> DecodedContentsObject:
    if isinstance(found, Undecoded):
        return {"error": found.reason}
    made: DecodedContentsObject = {"format": found.format, "data": found.value}
    if found.schema is not None:
        made["schema_id"] = found.schema.schema_id
        made["subject"] = found.schema.subject
        made["version"] = found.schema.version
    return made


Decoder = Callable[[bytes], str]

JAVA_PACKAGE = "org.apache.kafka.tools.api."
STRING_DECODER = JAVA_PACKAGE + "StringDecoder"


class CannotDecode(NamedTuple):
    """The exception of a decoder on which the real tool aborts."""

    message: str


def _java_number(code: str) -> Callable[[bytes], str | CannotDecode]:
    number = struct.Struct(">" + code)

    def decode(data: bytes) -> str | CannotDecode:
        if len(data) < number.size:
            return CannotDecode(f"{len(data)} bytes are too few for this decoder (BufferUnderflowException)")
        return str(number.unpack_from(data)[0])

    return decode


def _number(code: str) -> Callable[[bytes], str]:
    number = struct.Struct(">" + code)

    def decode(data: bytes) -> str:
        return str(number.unpack(data)[0]) if len(data) == number.size else _hex(data)

    return decode


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _uuid(data: bytes) -> str:
    import uuid

    return str(uuid.UUID(bytes=data)) if len(data) == 16 else _hex(data)


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


def _json(data: bytes) -> str:
    import json

    try:
        return json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return java_string(data)


def _identity(data: bytes | memoryview) -> str:
    # The real tool prints the array's identity, which differs from run to run; ours is a checksum of the content.
    import zlib

    return f"[B@{zlib.crc32(data):x}"


DECODERS: dict[str, Callable[[bytes], str | CannotDecode]] = {
    JAVA_PACKAGE + "StringDecoder": java_string,
    JAVA_PACKAGE + "DefaultDecoder": _identity,
    JAVA_PACKAGE + "IntegerDecoder": _java_number("i"),
    JAVA_PACKAGE + "LongDecoder": _java_number("q"),
    "string": java_string,
    "int": _number("i"),
    "long": _number("q"),
    "short": _number("h"),
    "double": _number("d"),
    "float": _number("f"),
    "uuid": _uuid,
    "hex": lambda data: data.hex(),
    "base64": _base64,
    "json": _json,
}
"""Decoders by name. The classes abort on too few bytes as in the real tool; the short names show hex instead."""


def _shown_hex(data: memoryview) -> Iterator[str]:
    yield "0x"
    yield from hex_pieces(data)


def pieces_of(decoder: Callable[[bytes], str | CannotDecode], data: memoryview) -> Iterator[str] | CannotDecode:
    """Return the text of a key or value in pieces if it is large, otherwise whole."""
    shown = PIECES.get(decoder) if len(data) > LARGE_BYTES else None
    if shown is not None:
        return shown(data)
    text = decoder(bytes(data[:LARGE_BYTES]))  # of a large field, only numbers are left: their first bytes
    return text if isinstance(text, CannotDecode) else iter((text,))


PIECES: dict[Callable[[bytes], str | CannotDecode], Pieces] = {
    java_string: java_pieces,
    _identity: lambda data: iter((_identity(data),)),
    DECODERS["hex"]: hex_pieces,
    _base64: base64_pieces,
    _json: java_pieces,
    _uuid: _shown_hex,
    **{DECODERS[name]: _shown_hex for name in ("int", "long", "short", "double", "float")},
}
"""Functions that show a large key or value in pieces. Numbers and UUIDs are never large; JSON is shown as text.

The Java classes of numbers are not among them: they show the first bytes, however many follow.
"""
