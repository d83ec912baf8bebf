"""Decoders of keys and values for dump-log: the real tool's classes, and more with short names."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from kafkalog_cli.output.line_program import Form

JAVA_PACKAGE = "org.apache.kafka.tools.api."
STRING_DECODER = JAVA_PACKAGE + "StringDecoder"

MOST_JSON_BYTES = 1 << 20
"""A larger value is printed as the text that it is: parsing takes many times its memory."""


class CannotDecode(NamedTuple):
    """The exception of a decoder on which the real tool aborts."""

    message: str


Data = bytes | memoryview
Decode = Form | Callable[[Data], str | Form | CannotDecode]
"""A form in which all contents are printed, or a function that returns their text or their form."""


def decoded(decoder: Decode, data: Data) -> str | Form | CannotDecode:
    """Return the text of contents, or the form in which they are printed."""
    return decoder if isinstance(decoder, Form) else decoder(data)


def _java_number(code: str) -> Decode:
    number = struct.Struct(">" + code)

    def decode(data: Data) -> str | CannotDecode:
        if len(data) < number.size:
            return CannotDecode(f"{len(data)} bytes are too few for this decoder (BufferUnderflowException)")
        return str(number.unpack_from(data)[0])

    return decode


def _number(code: str) -> Decode:
    number = struct.Struct(">" + code)
    return lambda data: str(number.unpack(data)[0]) if len(data) == number.size else Form.HEX_0X


def _uuid(data: Data) -> str | Form:
    import uuid

    return str(uuid.UUID(bytes=bytes(data))) if len(data) == 16 else Form.HEX_0X


def _json(data: Data) -> str | Form:
    import json

    if len(data) > MOST_JSON_BYTES:
        return Form.JAVA
    try:
        text = json.dumps(json.loads(bytes(data)), ensure_ascii=False, separators=(",", ":"))
        text.encode()
    except (ValueError, RecursionError):  # also a lone surrogate, which UTF-8 has not
        return Form.JAVA
    return text


def _identity(data: Data) -> str:
    # The real tool prints the array's identity, which differs from run to run; ours is a checksum of the content.
    import zlib

    return f"[B@{zlib.crc32(data):x}"


DECODERS: dict[str, Decode] = {
    JAVA_PACKAGE + "StringDecoder": Form.JAVA,
    JAVA_PACKAGE + "DefaultDecoder": _identity,
    JAVA_PACKAGE + "IntegerDecoder": _java_number("i"),
    JAVA_PACKAGE + "LongDecoder": _java_number("q"),
    "string": Form.JAVA,
    "int": _number("i"),
    "long": _number("q"),
    "short": _number("h"),
    "double": _number("d"),
    "float": _number("f"),
    "uuid": _uuid,
    "hex": Form.HEX,
    "base64": Form.BASE64,
    "json": _json,
}
"""Decoders by name. The classes abort on too few bytes as in the real tool; the short names show hex instead."""
