"""Kafka's message schemas as data: tables made from schemas.json, with the versions of each field."""

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from struct import Struct
from typing import Any, NamedTuple, cast

from kafkalog_cli.format.java_text import ZERO_UUID

Message = dict[str, Any]
"""A decoded message: fields in schema order, bytes as bytes, uuids as text.

A tagged field is present only if it differs from its default, as in the JSON that Kafka's own tools print.
"""

Release = tuple[int, int]
"""A release of Kafka (major, minor). It decides which messages and fields exist."""

NEWEST_RELEASE: Release = (4, 4)
_MIN_VERSION, _MAX_VERSION = -(1 << 15), (1 << 15) - 1


class Versions(NamedTuple):
    """A range of versions, both ends included."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


@dataclass(frozen=True, slots=True, eq=False)
class SchemaField:
    """A field of a message or struct. `kind` is its type, and `items` the type of an array's elements.

    `versions`, `nullable` and `tagged` are the versions in which the field exists, can be null, and is valid in the
    tagged section. `tag` is -1 for a field that is never tagged. `struct` is the name of a struct, `fields` are its
    fields, and `struct_versions` are the versions that its class accepts.
    """

    name: str
    kind: str
    items: str
    versions: range
    nullable: range
    tag: int
    tagged: range
    default: Any
    struct: str
    struct_versions: range
    fields: "tuple[SchemaField, ...]"


NUMBERS = {
    "int8": "b", "bool": "?", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d",
}  # fmt: skip
"""The numbers of fixed size, as the module struct names them."""


class NumberFields(NamedTuple):
    """Consecutive fields with numbers, which are read and written together."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    layout: Struct


@lru_cache(1024)  # a damaged record can state any version
def fields_in(fields: tuple[SchemaField, ...], version: int) -> tuple[NumberFields | SchemaField, ...]:
    """Return the fields that `version` has outside the tagged section."""
    groups: list[NumberFields | SchemaField] = []
    present = (field for field in fields if field.tag < 0 and version in field.versions)
    for is_number, run in groupby(present, lambda field: field.kind in NUMBERS):
        if is_number:
            numbers = [*run]
            layout = Struct(">" + "".join(NUMBERS[number.kind] for number in numbers))
            names, defaults = zip(*((number.name, number.default) for number in numbers), strict=True)
            groups.append(NumberFields(names, defaults, layout))
        else:
            groups += run
    return tuple(groups)


@lru_cache(1024)
def fields_by_tag(fields: tuple[SchemaField, ...]) -> dict[int, SchemaField]:
    """Return the fields that are ever tagged, by their tags."""
    return {field.tag: field for field in sorted(fields, key=lambda field: field.tag) if field.tag >= 0}


class MessageSchema(NamedTuple):
    """A message: its versions, those of them with flexible encoding, and its fields."""

    name: str
    versions: Versions
    flexible: range
    fields: tuple[SchemaField, ...]


@cache
def definitions() -> dict[str, Any]:
    """Return schemas.json: topics, control records, messages."""
    import json  # here, because most runs of dump-log read no internal topic
    from importlib import resources

    text = resources.files(__package__).joinpath("schemas.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


@cache
def message_schema(name: str, release: Release = NEWEST_RELEASE) -> MessageSchema:
    """Return the schema of a message by its Kafka name, as `release` has it. Raises KeyError for an unknown name.

    Releases before 4.2 are treated as 4.2.
    """
    return schema_of(name, definitions()["messages"][name], release)


def schema_of(name: str, definition: dict[str, Any], release: Release = NEWEST_RELEASE) -> MessageSchema:
    """Return the schema of a message from its definition in the form of schemas.json."""
    versions = _versions(_versions_in(definition, release))
    fields = tuple(_field(field, versions, release) for field in definition["fields"] if is_in(field, release))
    return MessageSchema(name, versions, _asked(_versions(definition["flexible"]), versions), fields)


def is_in(definition: dict[str, Any], release: Release) -> bool:
    """Whether `release` has this record type, message or field of schemas.json."""
    since = definition.get("since")
    return since is None or _release(since) <= release


def _versions_in(definition: dict[str, Any], release: Release) -> list[int | None]:
    """Return the versions of a message in `release`."""
    for until, versions in definition.get("versionsBefore", {}).items():
        if release < _release(until):
            return cast("list[int | None]", versions)
    return cast("list[int | None]", definition["versions"])


def _release(text: str) -> Release:
    major, minor = text.split(".")
    return int(major), int(minor)


def _field(definition: dict[str, Any], possible: Versions, release: Release) -> SchemaField:
    kind, versions = definition["type"], _versions(definition["versions"])
    present = Versions(max(versions.first, possible.first), min(versions.last, possible.last))
    fields = tuple(_field(field, present, release) for field in definition.get("fields", ()) if is_in(field, release))
    default = {field.name: field.default for field in fields} if kind == "struct" else _DEFAULTS.get(kind, 0)
    return SchemaField(
        name=definition["name"],
        kind=kind,
        items=definition.get("items", ""),
        versions=_asked(versions, possible),
        nullable=_asked(_versions(definition.get("nullable")), present),
        tag=definition.get("tag", -1),
        tagged=_asked(_versions(definition.get("tagged")), possible),
        default=definition.get("default", default),
        struct=definition.get("struct", ""),
        struct_versions=_asked(possible, versions),
        fields=fields,
    )


_DEFAULTS: dict[str, Any] = {"string": "", "bytes": b"", "array": [], "uuid": ZERO_UUID, "bool": False}


def _versions(bounds: list[int | None] | None) -> Versions:
    if bounds is None:
        return Versions(1, 0)
    first, last = bounds
    return Versions(first or 0, _MAX_VERSION if last is None else last)


def _asked(wanted: Versions, possible: Versions) -> range:
    """Return the versions that Kafka's generated code accepts for `wanted`, where only `possible` versions can occur.

    The generated code leaves out every comparison that is needless for `possible` (VersionConditional). So a field that
    exists in all versions of its message is also read in a version that the message does not have. A damaged record can
    state such a version.
    """
    if possible.last < wanted.first or wanted.last < possible.first:
        return range(0)
    return range(
        wanted.first if possible.first < wanted.first else _MIN_VERSION,
        (wanted.last if wanted.last < possible.last else _MAX_VERSION) + 1,
    )
