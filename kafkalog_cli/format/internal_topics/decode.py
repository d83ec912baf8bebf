"""The schema-driven decoder of Kafka's messages. It refuses the same bytes as Kafka, with the same message."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkalog_cli.format.batch import wrap_int32
from kafkalog_cli.format.internal_topics.schema import (
    NEWEST_RELEASE,
    Message,
    MessageSchema,
    Release,
    SchemaField,
    message_schema,
)
from kafkalog_cli.format.internal_topics.wire import Undecodable, UnknownTag, WireReader

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
    found: Message = {}
    for field in fields:
        if field.tag < 0 and version in field.versions:
            found[field.name] = _read_value(field, field.kind, version, flexible, reader)
    if not flexible:
        return found
    tagged = _read_tags(fields, version, reader)
    if not tagged:
        return found
    found.update(tagged)
    return {field.name: found[field.name] for field in fields if field.name in found}


def _read_nested(field: SchemaField, version: int, flexible: bool, reader: WireReader) -> Message:
    """Read a struct inside a message. Unlike the class of a message, its class checks the version."""
    if version not in field.struct_versions:
        raise Undecodable(f"Can't read version {version} of {field.struct}")
    return _read_struct(field.fields, version, flexible, reader)


def _read_tags(fields: tuple[SchemaField, ...], version: int, reader: WireReader) -> Message:
    """Return the tagged fields that differ from their defaults. If a tag occurs twice, the last value counts."""
    by_tag = {field.tag: field for field in fields if field.tag >= 0}
    found: Message = {}
    for _ in range(reader.unsigned_varint()):
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
            found.pop(field.name, None)
        else:
            found[field.name] = value
    return found


def _read_tagged(field: SchemaField, version: int, reader: WireReader) -> Any:
    # The presence of a struct is an unsigned varint in the tagged section, and a byte elsewhere.
    if field.kind == "struct" and version in field.nullable:
        return _read_nested(field, version, True, reader) if reader.unsigned_varint() > 0 else None
    return _read_value(field, field.kind, version, True, reader)


def _read_value(field: SchemaField, kind: str, version: int, flexible: bool, reader: WireReader) -> Any:
    if kind == "string":
        return _read_string(field.name, version in field.nullable, flexible, reader)
    if kind in ("bytes", "records"):
        size = _size(field.name, version in field.nullable, flexible, "int32", reader)
        return None if size < 0 else reader.array(size)
    if kind == "array":
        return _read_array(field, version, flexible, reader)
    if kind == "uuid":
        return reader.uuid()
    if kind == "struct":
        if version in field.nullable and reader.integer("int8") < 0:
            return None
        return _read_nested(field, version, flexible, reader)
    return reader.number(kind)


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
