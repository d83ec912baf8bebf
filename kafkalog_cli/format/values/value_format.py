"""The formats of keys and values, and the framing of serialisers, which names the schema of a value.

The payload follows the byte 0 and a schema id of four bytes, or the byte 1 and a GUID of 16 bytes. For Protobuf, the
indexes of the message in its file follow. The same bytes may be in a header of the record instead, which goes first
(DualSchemaIdDeserializer). Apicurio has ids of eight bytes, also in headers of its own; AWS Glue has the byte 3, a byte
for the compression, and a UUID. Commands have the formats as choices, so this module imports little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, unique
from typing import NamedTuple


@unique
class ValueFormat(Enum):
    """How keys or values were written."""

    AUTO = "auto"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON = "json"
    STRING = "string"
    INT = "int"
    LONG = "long"
    SHORT = "short"
    FLOAT = "float"
    DOUBLE = "double"
    UUID = "uuid"
    HEX = "hex"
    BASE64 = "base64"
    WINDOWED_STRING = "windowed-string"
    WINDOWED_INT = "windowed-int"
    WINDOWED_LONG = "windowed-long"
    WINDOWED_SHORT = "windowed-short"
    WINDOWED_UUID = "windowed-uuid"
    WINDOWED_JSON = "windowed-json"
    WINDOWED_AVRO = "windowed-avro"
    WINDOWED_PROTOBUF = "windowed-protobuf"
    WINDOWED_HEX = "windowed-hex"
    WINDOWED_BASE64 = "windowed-base64"
    SESSION_WINDOWED_STRING = "session-windowed-string"
    SESSION_WINDOWED_INT = "session-windowed-int"
    SESSION_WINDOWED_LONG = "session-windowed-long"
    SESSION_WINDOWED_SHORT = "session-windowed-short"
    SESSION_WINDOWED_UUID = "session-windowed-uuid"
    SESSION_WINDOWED_JSON = "session-windowed-json"
    SESSION_WINDOWED_AVRO = "session-windowed-avro"
    SESSION_WINDOWED_PROTOBUF = "session-windowed-protobuf"
    SESSION_WINDOWED_HEX = "session-windowed-hex"
    SESSION_WINDOWED_BASE64 = "session-windowed-base64"

    @property
    def needs_schemas(self) -> bool:
        """Whether a value of this format cannot be decoded without its schema."""
        return self.inner in (ValueFormat.AUTO, ValueFormat.AVRO, ValueFormat.PROTOBUF)

    @property
    def is_windowed(self) -> bool:
        """Whether these are keys of Kafka Streams with a window: only keys have such a format."""
        return self.inner is not self

    @property
    def is_session(self) -> bool:
        """Whether the window has an end of its own (SessionKeySchema)."""
        return self.value.startswith("session-")

    @property
    def inner(self) -> ValueFormat:
        """The format of a windowed key without its window; else the format itself."""
        _, is_windowed, name = self.value.rpartition("windowed-")
        return ValueFormat(name) if is_windowed else self


KEY_HEADER, VALUE_HEADER = b"__key_schema_id", b"__value_schema_id"
"""The headers that may hold the framing of the key and of the value."""

_ID_BYTES, _LONG_ID_BYTES, _GUID_BYTES = 4, 8, 16
_GLUE, _GLUE_PLAIN, _GLUE_ZLIB = 3, 0, 5
_MOST_INDEXES = 64


class SchemaFraming(NamedTuple):
    """A schema id or a GUID (the other is None), and the bytes that follow it: indexes or the payload.

    `registry` is the program whose framing it is, "" for Confluent's. `is_packed`: the payload is compressed (zlib).
    """

    schema_id: int | None
    guid: str | None
    rest: memoryview
    payload: memoryview | None = None
    """The payload, if the framing is in a header: then `rest` is what follows in the header."""
    registry: str = ""
    is_packed: bool = False

    @property
    def name(self) -> str:
        """The id or GUID, for messages."""
        name = f"schema id {self.schema_id}" if self.guid is None else f"schema GUID {self.guid}"
        return f"{self.registry} {name}" if self.registry else name

    @property
    def with_long_id(self) -> SchemaFraming | None:
        """The framing with an id of eight bytes, as Apicurio writes it, if the first four are 0."""
        if self.guid is not None or self.schema_id or self.payload is not None or len(self.rest) < _ID_BYTES:
            return None
        schema_id = int.from_bytes(self.rest[:_ID_BYTES], "big")
        return self._replace(schema_id=schema_id, rest=self.rest[_ID_BYTES:], registry="Apicurio")


Headers = Callable[[], Iterable[tuple[bytes, bytes | None]]]
"""Returns the headers of a record; it is called for records that may have the framing in a header."""


def framing_of(data: memoryview, headers: Headers | None, header_name: bytes) -> SchemaFraming | None:
    """Return the framing of a key or value; None if it has none."""
    apicurio = b"apicurio.key." if header_name == KEY_HEADER else b"apicurio.value."
    named = {bytes(name): value for name, value in headers()} if headers is not None else {}
    for name in (b"globalId", b"contentId"):
        header = named.get(apicurio + name)
        if header is not None and len(header) == _LONG_ID_BYTES:
            return SchemaFraming(int.from_bytes(header, "big"), None, data[:0], data, "Apicurio")
    header = named.get(header_name)
    if header is not None:
        framing = _read(memoryview(header))
        return None if framing is None else framing._replace(payload=data)
    return _read(data)


def _read(data: memoryview) -> SchemaFraming | None:
    if len(data) > _ID_BYTES and data[0] == 0:
        end = 1 + _ID_BYTES
        return SchemaFraming(int.from_bytes(data[1:end], "big"), None, data[end:])
    if len(data) > _GUID_BYTES and data[0] == 1:
        return _of_guid(data, 1)
    if len(data) > _GUID_BYTES + 1 and data[0] == _GLUE and data[1] in (_GLUE_PLAIN, _GLUE_ZLIB):
        return _of_guid(data, 2)._replace(registry="AWS Glue", is_packed=data[1] == _GLUE_ZLIB)
    return None


def _of_guid(data: memoryview, start: int) -> SchemaFraming:
    from uuid import UUID  # only here: all commands import this module

    end = start + _GUID_BYTES
    return SchemaFraming(None, str(UUID(bytes=bytes(data[start:end]))), data[end:])


def message_indexes(data: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """Return the indexes of a Protobuf message in its file, from the outermost message in, and the bytes after them.

    Raises ValueError for bytes that are not indexes.
    """
    count, position = _zigzag(data, 0)
    if count == 0:
        return (0,), data[position:]
    if not 0 < count <= _MOST_INDEXES:
        raise ValueError(f"{count} message indexes: there can be 1 to {_MOST_INDEXES}")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(data, position)
        indexes.append(index)
    return tuple(indexes), data[position:]


def _zigzag(data: memoryview, position: int) -> tuple[int, int]:
    from kafkalog_cli.format.varint import BadVarint, decode_zigzag_32  # only here: all commands import this module

    decoded = decode_zigzag_32(data, position)
    if isinstance(decoded, BadVarint):
        raise ValueError("the message indexes end early")
    return decoded
