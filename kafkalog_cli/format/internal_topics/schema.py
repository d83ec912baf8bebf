"""Kafka's message schemas as data (schemas.json), and the one decoder that they drive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from kafkalog_cli.format.internal_topics.wire import Undecodable, WireReader
from kafkalog_cli.format.kafka_uuid import ZERO_UUID

Message = dict[str, Any]
"""A decoded message: fields in schema order; bytes as bytes, uuids in text. A tagged field is there if it
differs from its default, as in the JSON that Kafka's own tools print."""

_MAX_STRING = 0x7FFF


class Versions(NamedTuple):
    """A range of versions, open at the end where `last` is None."""

    first: int
    last: int | None

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version and (self.last is None or version <= self.last)


class SchemaField(NamedTuple):
    """A field of a message or struct. `kind` is the type; of an array `items` is that of its elements.

    `struct` is the name of a struct, `struct_versions` those in which its class can be read.
    """

    name: str
    kind: str
    items: str
    versions: Versions
    nullable: Versions | None
    tag: int
    tagged: Versions | None
    default: Any
    struct: str
    struct_versions: Versions
    fields: tuple[SchemaField, ...]


class MessageSchema(NamedTuple):
    """A message: the versions it exists in, those with flexible encoding, its fields."""

    name: str
    versions: Versions
    flexible: Versions | None
    fields: tuple[SchemaField, ...]


@cache
def definitions() -> dict[str, Any]:
    """schemas.json: topics, control records, messages."""
    text = resources.files(__package__).joinpath("schemas.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


@cache
def message_schema(name: str) -> MessageSchema:
    """The schema of a message by its Kafka name. Raises KeyError for a name that is none."""
    found = definitions()["messages"][name]
    flexible, versions = found["flexible"], Versions(*found["versions"])
    fields = tuple(_field(field, versions) for field in found["fields"])
    return MessageSchema(name, versions, None if flexible is None else Versions(*flexible), fields)


def _field(found: dict[str, Any], message: Versions) -> SchemaField:
    kind = found["type"]
    return SchemaField(
        found["name"],
        kind,
        found.get("items", ""),
        Versions(*found["versions"]),
        Versions(*found["nullable"]) if "nullable" in found else None,
        found.get("tag", -1),
        Versions(*found["tagged"]) if "tagged" in found else None,
        found.get("default", _DEFAULTS.get(kind, 0)),
        found.get("struct", ""),
        Versions(max(found["versions"][0], message.first), message.last),
        tuple(_field(field, message) for field in found.get("fields", ())),
    )


_DEFAULTS: dict[str, Any] = {"string": "", "bytes": b"", "array": [], "uuid": ZERO_UUID, "bool": False, "struct": {}}


def read_message(name: str, version: int, reader: WireReader) -> Message:
    """The message at the reader's position. Raises Undecodable, with Java's words, if it does not fit."""
    schema = message_schema(name)
    flexible = schema.flexible is not None and version in schema.flexible
    return _read_struct(schema.fields, version, flexible, reader)


def _read_struct(fields: tuple[SchemaField, ...], version: int, flexible: bool, reader: WireReader) -> Message:
    untagged: Message = {}
    for field in fields:
        if version in field.versions and not (field.tagged and version in field.tagged):
            untagged[field.name] = _read_value(field, field.kind, version, flexible, reader)
    if not flexible:
        return untagged
    tagged = dict(_read_tags(fields, version, reader))
    if not tagged:
        return untagged
    together = {**untagged, **tagged}
    return {field.name: together[field.name] for field in fields if field.name in together}


def _read_nested(field: SchemaField, version: int, flexible: bool, reader: WireReader) -> Message:
    """A struct inside a message: its class, unlike the message's, looks at the version."""
    if version not in field.struct_versions:
        raise Undecodable(f"Can't read version {version} of {field.struct}")
    return _read_struct(field.fields, version, flexible, reader)


def _read_tags(fields: tuple[SchemaField, ...], version: int, reader: WireReader) -> Iterator[tuple[str, Any]]:
    by_tag = {field.tag: field for field in fields if field.tagged}
    for _ in range(reader.unsigned_varint()):
        tag, size = reader.unsigned_varint(), reader.unsigned_varint()
        field = by_tag.get(tag)
        if field is None:
            reader.array(size)
            continue
        if field.tagged is None or version not in field.tagged:
            raise Undecodable(f"Tag {tag} is not valid for version {version}")
        if field.kind == "struct" and field.nullable and version in field.nullable:
            # In the tagged section presence is an unsigned varint, elsewhere a byte.
            present = reader.unsigned_varint() > 0
            value = _read_nested(field, version, True, reader) if present else None
            default: Any = {nested.name: nested.default for nested in field.fields}  # never null, whatever it says
        else:
            value = _read_value(field, field.kind, version, True, reader)
            default = field.default
        if value != default:
            yield field.name, value


def _read_value(field: SchemaField, kind: str, version: int, flexible: bool, reader: WireReader) -> Any:
    if kind == "string":
        return _read_string(field, field.name, version, flexible, reader)
    if kind == "bytes":
        size = _size(flexible, "int32", reader)
        if size < 0:
            _check_nullable(field, field.name, version)
            return None
        return reader.array(size)
    if kind == "array":
        return _read_array(field, version, flexible, reader)
    if kind == "uuid":
        return reader.uuid()
    if kind == "struct":
        if field.nullable and version in field.nullable and reader.integer("int8") < 0:
            return None
        return _read_nested(field, version, flexible, reader)
    return reader.number(kind)


def _read_array(field: SchemaField, version: int, flexible: bool, reader: WireReader) -> list[Any] | None:
    size = _size(flexible, "int32", reader)
    if size < 0:
        _check_nullable(field, field.name, version)
        return None
    if size > reader.remaining:
        raise Undecodable(
            f"Tried to allocate a collection of size {size}, but there are only {reader.remaining} bytes remaining."
        )
    if field.items == "string":
        name = f"{field.name} element"
        return [_read_string(field, name, -1, flexible, reader) for _ in range(size)]
    if field.items == "struct":
        return [_read_nested(field, version, flexible, reader) for _ in range(size)]
    return [_read_value(field, field.items, version, flexible, reader) for _ in range(size)]


def _read_string(field: SchemaField, name: str, version: int, flexible: bool, reader: WireReader) -> str | None:
    size = _size(flexible, "int16", reader)
    if size < 0:
        _check_nullable(field, name, version)
        return None
    if size > _MAX_STRING:
        raise Undecodable(f"string field {name} had invalid length {size}")
    return reader.string(size)


def _size(flexible: bool, classic: str, reader: WireReader) -> int:
    return reader.unsigned_varint() - 1 if flexible else reader.integer(classic)


def _check_nullable(field: SchemaField, name: str, version: int) -> None:
    if field.nullable is None or version not in field.nullable:
        raise Undecodable(f"non-nullable field {name} was serialized as null")


def at_version(name: str, version: int, message: Message) -> Message:
    """`message`, read in another version, with the fields of `version` only; what was not read has its default."""
    return _at_version(message_schema(name).fields, version, message)


def _at_version(fields: tuple[SchemaField, ...], version: int, message: Message) -> Message:
    result: Message = {}
    for field in fields:
        if version not in field.versions:
            continue
        value = message.get(field.name, field.default)
        if field.kind == "array" and field.items == "struct" and value:
            value = [_at_version(field.fields, version, element) for element in value]
        result[field.name] = value
    return result
