"""The schema-driven encoder of Kafka's messages, the counterpart of `decode`: it writes the bytes that Kafka writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Protocol

from kafkalog_cli.format.internal_topics.schema import Message, MessageSchema, SchemaField, message_schema
from kafkalog_cli.format.internal_topics.wire import NUMBERS
from kafkalog_cli.format.kafka_uuid import parse_uuid
from kafkalog_cli.format.varint import encode_unsigned

_MAX_STRING = 0x7FFF
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


def encode_pieces(schema: MessageSchema, version: int, message: Message) -> Iterator[bytes | Spliced]:
    """Yield the pieces of an encoded message. A field of kind `records` may be Spliced; its size is encoded before it.

    Raises as `encode_message`.
    """
    if version not in schema.versions:
        raise ValueError(f"{schema.name} has no version {version}")
    yield from _struct(schema.fields, version, version in schema.flexible, message)


def _struct(
    fields: tuple[SchemaField, ...], version: int, flexible: bool, message: Message
) -> Iterator[bytes | Spliced]:
    tagged = []
    for field in fields:
        if field.tag >= 0:
            if field.name in message:
                tagged.append(field)
        elif version in field.versions:
            yield from _value(field, field.kind, version, flexible, message.get(field.name, field.default))
    if tagged and not flexible:
        raise ValueError(f"version {version} has no tagged fields")
    if flexible:
        yield encode_unsigned(len(tagged))
    for field in sorted(tagged, key=lambda field: field.tag):
        data = b"".join(_tagged(field, version, message[field.name]))  # type: ignore[arg-type]
        yield encode_unsigned(field.tag) + encode_unsigned(len(data)) + data


def _tagged(field: SchemaField, version: int, value: Any) -> Iterator[bytes | Spliced]:
    if version not in field.tagged:
        raise ValueError(f"version {version} has no field {field.name}")
    if field.kind != "struct" or version not in field.nullable:
        yield from _value(field, field.kind, version, True, value)
    elif value is None:
        yield b"\0"
    else:
        yield b"\1"
        yield from _struct(field.fields, version, True, value)


def _value(field: SchemaField, kind: str, version: int, flexible: bool, value: Any) -> Iterator[bytes | Spliced]:
    if value is None and version not in field.nullable:
        raise ValueError(f"field {field.name} cannot be null in version {version}")
    if kind == "array":
        yield from _array(field, version, flexible, value)
    elif kind == "struct":
        if version in field.nullable:
            yield b"\xff" if value is None else b"\1"
        if value is not None:
            yield from _struct(field.fields, version, flexible, value)
    elif kind == "records" and hasattr(value, "size_bytes"):
        yield encode_unsigned(value.size_bytes + 1) if flexible else struct.pack(">i", value.size_bytes)
        yield value
    else:
        yield _plain(kind, flexible, value)


def _array(field: SchemaField, version: int, flexible: bool, value: Any) -> Iterator[bytes | Spliced]:
    if value is None:
        yield b"\0" if flexible else _NULL_LIST
        return
    yield encode_unsigned(len(value) + 1) if flexible else struct.pack(">i", len(value))
    for element in value:
        if element is None:
            raise ValueError(f"an element of {field.name} cannot be null")
        if field.items == "struct":
            yield from _struct(field.fields, version, flexible, element)
        else:
            yield _plain(field.items, flexible, element)


def _plain(kind: str, flexible: bool, value: Any) -> bytes:
    if kind in ("string", "bytes", "records"):
        return _sized(kind, flexible, value)
    if kind == "uuid":
        raw = parse_uuid(value)
        if raw is None:
            raise ValueError(f"{value!r} is not a UUID")
        return raw
    return NUMBERS[kind].pack(value)


def _sized(kind: str, flexible: bool, value: str | bytes | None) -> bytes:
    if value is None:
        return b"\0" if flexible else (_NULL_STRING if kind == "string" else _NULL_LIST)
    data = value.encode() if isinstance(value, str) else value
    if kind == "string" and len(data) > _MAX_STRING:
        raise ValueError(f"a string of {len(data)} bytes")
    if flexible:
        return encode_unsigned(len(data) + 1) + data
    return struct.pack(">h" if kind == "string" else ">i", len(data)) + data
