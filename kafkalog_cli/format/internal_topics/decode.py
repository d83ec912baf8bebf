"""The schema-driven decoder and encoder of Kafka's messages. The decoder refuses the same bytes as Kafka."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, Protocol

from kafkalog_cli.format.batch import wrap_int32
from kafkalog_cli.format.internal_topics.schema import (
    NEWEST_RELEASE,
    NUMBERS,
    Message,
    MessageSchema,
    NumberFields,
    Release,
    SchemaField,
    fields_by_tag,
    fields_in,
    message_schema,
)
from kafkalog_cli.format.java_text import java_string, parse_uuid, uuid_text
from kafkalog_cli.format.varint import CUT_OFF, BadVarint, decode_unsigned, encode_unsigned


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


_LAYOUTS = {kind: struct.Struct(f">{letter}") for kind, letter in NUMBERS.items()}


class WireReader:
    """A position in bytes that advances with each read. `unknown_tags` collects the unknown tagged fields.

    Raises OverLimit for more than MOST_BYTES, which are not copied. `within`: the reader of the message that contains
    these bytes; both together may have MOST_VALUES.
    """

    def __init__(self, data: bytes | memoryview, position: int = 0, *, within: WireReader | None = None) -> None:
        if len(data) > MOST_BYTES:
            raise OverLimit(f"{len(data)} bytes are more than are decoded (limit {MOST_BYTES})")
        self._data = bytes(data)
        self._end = len(data)
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
        return self._end - self.position

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read numbers of fixed size.

        Raises Undecodable if they are cut off; Java's BufferUnderflowException has no message.
        """
        start = self.position
        if (end := start + layout.size) > self._end:
            raise Undecodable(CUT_OFF)
        self.position = end
        return layout.unpack_from(self._data, start)

    def integer(self, kind: str) -> int:
        """Read an integer of fixed size."""
        return self.numbers(_LAYOUTS[kind])[0]  # type: ignore[no-any-return]

    def unsigned_varint(self) -> int:
        """Read an unsigned varint as a Java int (ByteUtils.readUnsignedVarint)."""
        if self.position < self._end and (first := self._data[self.position]) < 0x80:
            self.position += 1
            return first
        decoded = decode_unsigned(self._data, self.position)
        if isinstance(decoded, BadVarint):
            raise Undecodable(decoded.message)
        value, self.position = decoded
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


_MAX_STRING = 0x7FFF


class Decoded(NamedTuple):
    """A decoded message and the position after it.

    `unknown_tags` are the tagged fields that the schema does not contain, in file order.
    """

    message: Message
    next_position: int
    unknown_tags: tuple[UnknownTag, ...]


class Malformed(NamedTuple):
    """Bytes that do not fit the schema. `reason` is the message of Java's exception, `null` if it has none."""

    reason: str


def decode_message(name: str, version: int, data: bytes | memoryview, position: int = 0) -> Decoded | Malformed:
    """Decode the message `name` in `version` from `data`, starting at `position`. Raises KeyError for an unknown name.

    A version that the message does not have is read as Kafka's class reads it, which does not check the version. Time
    and memory are bounded by the size of `data`, whatever lengths and counts the bytes state, and by the limits of
    WireReader: what exceeds them is Malformed.
    """
    try:
        reader = WireReader(data, position)
        message = read_message(name, version, reader)
    except Undecodable as error:
        return Malformed(str(error))
    return Decoded(message, reader.position, tuple(reader.unknown_tags))


def read_message(name: str, version: int, reader: WireReader, release: Release = NEWEST_RELEASE) -> Message:
    """Read the message at the reader's position, as `release` does.

    Raises Undecodable, with the message of Java's exception, if the bytes do not fit.
    """
    return read_fields(message_schema(name, release), version, reader)


def read_fields(schema: MessageSchema, version: int, reader: WireReader) -> Message:
    """Read the message of `schema` at the reader's position. Raises as `read_message`."""
    return _read_struct(schema.fields, version, version in schema.flexible, reader)


def at_version(name: str, version: int, message: Message) -> Message:
    """Return `message`, read in another version, with only the fields of `version`; missing fields get defaults."""
    return _at_version(message_schema(name).fields, version, message)


def _read_struct(fields: tuple[SchemaField, ...], version: int, flexible: bool, reader: WireReader) -> Message:
    message: Message = {}
    for field in fields_in(fields, version):
        if isinstance(field, NumberFields):
            message.update(zip(field.names, reader.numbers(field.layout), strict=True))
        else:
            message[field.name] = _read_value(field, field.kind, version, flexible, reader)
    if not flexible:
        return message
    tagged = _read_tags(fields, version, reader)
    if not tagged:
        return message
    message.update(tagged)
    return {field.name: message[field.name] for field in fields if field.name in message}


def _read_nested(field: SchemaField, version: int, flexible: bool, reader: WireReader) -> Message:
    """Read a struct inside a message. Unlike the class of a message, its class checks the version."""
    if version not in field.struct_versions:
        raise Undecodable(f"Can't read version {version} of {field.struct}")
    return _read_struct(field.fields, version, flexible, reader)


def _read_tags(fields: tuple[SchemaField, ...], version: int, reader: WireReader) -> Message:
    """Return the tagged fields that differ from their defaults. If a tag occurs twice, the last value counts."""
    tagged: Message = {}
    if not (count := reader.unsigned_varint()):
        return tagged
    by_tag = fields_by_tag(fields)
    for _ in range(count):
        tag, size = reader.unsigned_varint(), reader.unsigned_varint()
        field = by_tag.get(tag)
        if field is None:
            reader.claim(1)
            reader.unknown_tags.append(UnknownTag(tag, reader.array(size)))
            continue
        if version not in field.tagged:
            raise Undecodable(f"Tag {tag} is not valid for version {version}")
        known = len(reader.unknown_tags)
        value = _read_tagged(field, version, reader)
        if value == field.default and len(reader.unknown_tags) == known:
            tagged.pop(field.name, None)
        else:
            tagged[field.name] = value
    return tagged


def _read_tagged(field: SchemaField, version: int, reader: WireReader) -> Any:
    # The presence of a struct is an unsigned varint in the tagged section, and a byte elsewhere.
    if field.kind == "struct" and version in field.nullable:
        return _read_nested(field, version, True, reader) if reader.unsigned_varint() > 0 else None
    return _read_value(field, field.kind, version, True, reader)


def _read_value(field: SchemaField, kind: str, version: int, flexible: bool, reader: WireReader) -> Any:
    if kind in NUMBERS:
        return reader.numbers(_LAYOUTS[kind])[0]
    if kind == "string":
        return _read_string(field.name, version in field.nullable, flexible, reader)
    if kind in ("bytes", "records"):
        size = _size(field.name, version in field.nullable, flexible, "int32", reader)
        return None if size < 0 else reader.array(size)
    if kind == "array":
        return _read_array(field, version, flexible, reader)
    if kind == "uuid":
        return reader.uuid()
    if version in field.nullable and reader.integer("int8") < 0:
        return None
    return _read_nested(field, version, flexible, reader)


def _read_array(field: SchemaField, version: int, flexible: bool, reader: WireReader) -> list[Any] | None:
    size = _size(field.name, version in field.nullable, flexible, "int32", reader)
    if size < 0:
        return None
    if size > reader.remaining:
        raise Undecodable(
            f"Tried to allocate a collection of size {size}, but there are only {reader.remaining} bytes remaining."
        )
    reader.claim(size * (len(field.fields) + 1))
    if field.items == "string":
        name = f"{field.name} element"
        return [_read_string(name, False, flexible, reader) for _ in range(size)]
    if field.items == "struct":
        return [_read_nested(field, version, flexible, reader) for _ in range(size)]
    return [_read_value(field, field.items, version, flexible, reader) for _ in range(size)]


def _read_string(name: str, nullable: bool, flexible: bool, reader: WireReader) -> str | None:
    size = _size(name, nullable, flexible, "int16", reader)
    if size < 0:
        return None
    if size > _MAX_STRING:
        raise Undecodable(f"string field {name} had invalid length {size}")
    return reader.string(size)


def _size(name: str, nullable: bool, flexible: bool, classic: str, reader: WireReader) -> int:
    """Read a length or count at the reader's position; below 0 means null."""
    size = wrap_int32(reader.unsigned_varint() - 1) if flexible else reader.integer(classic)
    if size < 0 and not nullable:
        raise Undecodable(f"non-nullable field {name} was serialized as null")
    return size


def _at_version(fields: tuple[SchemaField, ...], version: int, message: Message) -> Message:
    result: Message = {}
    for field in fields:
        if field.tag >= 0:
            if field.name in message:
                result[field.name] = message[field.name]
        elif version in field.versions:
            value = message.get(field.name, field.default)
            if field.items == "struct" and value:
                value = [_at_version(field.fields, version, element) for element in value]
            result[field.name] = value
    return result


_NULL_STRING, _NULL_LIST = struct.pack(">h", -1), struct.pack(">i", -1)


def encode_message(name: str, version: int, message: Message) -> bytes:
    """Encode `message` in `version`. It has the form that `decode_message` returns; missing fields get defaults.

    A tagged field is written if `message` contains it. Raises KeyError for an unknown message name. Raises ValueError
    or struct.error for a version that the message does not have, and for a value that does not fit in its field.
    """
    return b"".join(encode_pieces(message_schema(name), version, message))  # type: ignore[arg-type]


class Spliced(Protocol):
    """Bytes that are inserted into an encoded message later, such as a part of a file."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""


def encode_pieces(schema: MessageSchema, version: int, message: Message) -> list[bytes | Spliced]:
    """Return the pieces of an encoded message. A field of kind `records` may be Spliced; its size is encoded before it.

    Raises as `encode_message`.
    """
    if version not in schema.versions:
        raise ValueError(f"{schema.name} has no version {version}")
    pieces: list[bytes | Spliced] = []
    _add_struct(pieces, schema.fields, version, version in schema.flexible, message)
    return pieces


def _add_struct(
    pieces: list[bytes | Spliced], fields: tuple[SchemaField, ...], version: int, flexible: bool, message: Message
) -> None:
    for field in fields_in(fields, version):
        if isinstance(field, NumberFields):
            pieces.append(field.layout.pack(*map(message.get, field.names, field.defaults)))
        else:
            _add_value(pieces, field, field.kind, version, flexible, message.get(field.name, field.default))
    tagged = [field for field in fields_by_tag(fields).values() if field.name in message]
    if tagged and not flexible:
        raise ValueError(f"version {version} has no tagged fields")
    if flexible:
        pieces.append(encode_unsigned(len(tagged)))
    for field in tagged:
        value: list[bytes | Spliced] = []
        _add_tagged(value, field, version, message[field.name])
        data = b"".join(value)  # type: ignore[arg-type]
        pieces.append(encode_unsigned(field.tag) + encode_unsigned(len(data)) + data)


def _add_tagged(pieces: list[bytes | Spliced], field: SchemaField, version: int, value: Any) -> None:
    if version not in field.tagged:
        raise ValueError(f"version {version} has no field {field.name}")
    if field.kind != "struct" or version not in field.nullable:
        _add_value(pieces, field, field.kind, version, True, value)
    elif value is None:
        pieces.append(b"\0")
    else:
        pieces.append(b"\1")
        _add_struct(pieces, field.fields, version, True, value)


def _add_value(  # noqa: PLR0913, PLR0917
    pieces: list[bytes | Spliced], field: SchemaField, kind: str, version: int, flexible: bool, value: Any
) -> None:
    if value is None and version not in field.nullable:
        raise ValueError(f"field {field.name} cannot be null in version {version}")
    if kind == "array":
        _add_array(pieces, field, version, flexible, value)
    elif kind == "struct":
        if version in field.nullable:
            pieces.append(b"\xff" if value is None else b"\1")
        if value is not None:
            _add_struct(pieces, field.fields, version, flexible, value)
    elif kind == "records" and hasattr(value, "size_bytes"):
        pieces.append(encode_unsigned(value.size_bytes + 1) if flexible else struct.pack(">i", value.size_bytes))
        pieces.append(value)
    else:
        pieces.append(_plain(kind, flexible, value))


def _add_array(pieces: list[bytes | Spliced], field: SchemaField, version: int, flexible: bool, value: Any) -> None:
    if value is None:
        pieces.append(b"\0" if flexible else _NULL_LIST)
        return
    pieces.append(encode_unsigned(len(value) + 1) if flexible else struct.pack(">i", len(value)))
    for element in value:
        if element is None:
            raise ValueError(f"an element of {field.name} cannot be null")
        if field.items == "struct":
            _add_struct(pieces, field.fields, version, flexible, element)
        else:
            pieces.append(_plain(field.items, flexible, element))


def _plain(kind: str, flexible: bool, value: Any) -> bytes:
    if kind in ("string", "bytes", "records"):
        return _sized(kind, flexible, value)
    if kind == "uuid":
        raw = parse_uuid(value)
        if raw is None:
            raise ValueError(f"{value!r} is not a UUID")
        return raw
    return _LAYOUTS[kind].pack(value)


def _sized(kind: str, flexible: bool, value: str | bytes | None) -> bytes:
    if value is None:
        return b"\0" if flexible else (_NULL_STRING if kind == "string" else _NULL_LIST)
    data = value.encode() if isinstance(value, str) else value
    if kind == "string" and len(data) > _MAX_STRING:
        raise ValueError(f"a string of {len(data)} bytes")
    if flexible:
        return encode_unsigned(len(data) + 1) + data
    return struct.pack(">h" if kind == "string" else ">i", len(data)) + data
