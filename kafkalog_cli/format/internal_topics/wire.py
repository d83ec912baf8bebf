"""Read Kafka's protocol encoding from bytes, as generated messages do with a ByteBufferAccessor."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.kafka_uuid import uuid_text
from kafkalog_cli.format.varint import CUT_OFF, BadVarint, decode_unsigned


class Undecodable(Exception):
    """Bytes that do not fit the schema. The text is the message of Java's exception (`null` if it has none).

    It is raised and caught only inside this package.
    """


class OverLimit(Undecodable):
    """Bytes that Kafka may decode, but that would take too much memory here."""


MOST_BYTES = 8 << 20
"""The size of the largest key or value that is decoded: that of the largest batch of the metadata log.

The brokers' own topics take records of 1 MiB (message.max.bytes).
"""

MOST_VALUES = 500_000
"""The largest number of elements of arrays, with their fields, and of unknown tagged fields, in one key or value.

As Python objects and text they take many times their bytes: so many take about 150 MiB.
"""


class UnknownTag(NamedTuple):
    """A tagged field that the schema does not contain, because a newer Kafka wrote it."""

    tag: int
    data: bytes


NUMBERS = {
    "int8": struct.Struct(">b"),
    "bool": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}


class WireReader:
    """A position in bytes that advances with each read. `unknown_tags` collects the unknown tagged fields.

    Raises OverLimit for more than MOST_BYTES, which are not copied. `within`: the reader of the message that contains
    these bytes; both together may have MOST_VALUES.
    """

    def __init__(self, data: bytes | memoryview, position: int = 0, *, within: WireReader | None = None) -> None:
        if len(data) > MOST_BYTES:
            raise OverLimit(f"{len(data)} bytes are more than are decoded (limit {MOST_BYTES})")
        self._data = bytes(data)
        self._outer = within
        self._values = 0
        self.position = position
        self.unknown_tags: list[UnknownTag] = []

    def claim(self, values: int) -> None:
        """Count values that are to be read. Raises OverLimit if they become more than MOST_VALUES."""
        if self._outer is not None:
            self._outer.claim(values)
            return
        self._values += values
        if self._values > MOST_VALUES:
            raise OverLimit(f"more values than are decoded (limit {MOST_VALUES})")

    @property
    def remaining(self) -> int:
        """Number of bytes left."""
        return len(self._data) - self.position

    def number(self, kind: str) -> int | float | bool:
        """Read a number of fixed size.

        Raises Undecodable if it is cut off; Java's BufferUnderflowException has no message.
        """
        layout = NUMBERS[kind]
        if self.remaining < layout.size:
            raise Undecodable(CUT_OFF)
        value = layout.unpack_from(self._data, self.position)[0]
        self.position += layout.size
        return value != 0 if kind == "bool" else value  # type: ignore[no-any-return]

    def integer(self, kind: str) -> int:
        """Read an integer of fixed size."""
        return int(self.number(kind))

    def unsigned_varint(self) -> int:
        """Read an unsigned varint as a Java int (ByteUtils.readUnsignedVarint)."""
        found = decode_unsigned(self._data, self.position)
        if isinstance(found, BadVarint):
            raise Undecodable(found.message)
        value, self.position = found
        return value

    def array(self, size: int) -> bytes:
        """Read `size` bytes (readArray)."""
        if size > self.remaining:
            raise Undecodable(f"Error reading byte array of {size} byte(s): only {self.remaining} byte(s) available")
        if size < 0:  # NegativeArraySizeException
            raise Undecodable(str(size))
        data = self._data[self.position : self.position + size]
        self.position += size
        return data

    def string(self, size: int) -> str:
        """Read a string of `size` bytes, decoded from UTF-8 as in Java."""
        return java_string(self.array(size))

    def uuid(self) -> str:
        """Read a uuid; return Kafka's text form."""
        if self.remaining < 16:
            raise Undecodable(CUT_OFF)
        return uuid_text(self.array(16))
