"""Decoders of keys and values for dump-log: the real tool's classes, and more with short names."""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.output.large_fields import LARGE_BYTES, Pieces, base64_pieces, hex_pieces, java_pieces

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
