"""The schemas of a registry: what the records of its topic `_schemas` say, or what files say."""

import binascii
import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kafkalog_cli.format.json_files import integer, read_json_object

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"

MOST_SCHEMAS = 200_000
MOST_TEXT_BYTES = 96 << 20
"""The most schemas, and bytes of their texts, that are kept: the rest is left out with a word."""
_MOST_REFERENCES = 1000


class Reference(NamedTuple):
    """A schema that another schema uses: its name there (a type or an import), and where the registry has it."""

    name: str
    subject: str
    version: int


class StoredSchema(NamedTuple):
    """One version of a subject. `is_deleted`: softly or hard; its text is still on this disk."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    schema_id: int | None = None
    guid: str | None = None
    subject: str = ""
    version: int = 0
    is_deleted: bool = False

    @property
    def is_in_default_context(self) -> bool:
        """Whether the subject belongs to the default context of the registry, which has ids of its own."""
        return _context(self.subject) == _DEFAULT


_DEFAULT = ":.:"


def _context(subject: str) -> str:
    """Return the context of a subject as it stands before the name: `:.NAME:`."""
    if not subject.startswith(":.") or ":" not in subject[2:]:
        return _DEFAULT
    return subject[: subject.index(":", 2) + 1]


def in_context_of(parent: str, subject: str) -> str:
    """Return the subject as a schema of the subject `parent` means it: in the context of `parent`, or in its own."""
    own, context = _context(subject), _context(parent)
    plain = subject.removeprefix(own)
    if own != _DEFAULT:
        return subject
    return plain if context == _DEFAULT else context + plain


class SchemaSet:
    """Schemas by id, GUID, and subject and version. `places` are where they were looked for, for messages.

    Schemas that were deleted stay: records that were written with them may still be on the disk.
    """

    def __init__(self) -> None:
        self.places: list[str] = []
        self.is_full = False
        self._versions: dict[tuple[str, int], StoredSchema] = {}
        self._numbers: dict[str, set[int]] = {}
        self._by_id: dict[int, StoredSchema] = {}
        self._by_guid: dict[str, StoredSchema] = {}
        self._hard_deleted: set[tuple[str, int]] = set()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._versions)

    def __iter__(self) -> Iterator[StoredSchema]:
        return iter(self._versions.values())

    def by_id(self, schema_id: int) -> StoredSchema | None:
        """Return the schema with this id, of the default context if several contexts have one."""
        return self._by_id.get(schema_id)

    def by_guid(self, guid: str) -> StoredSchema | None:
        """Return the schema with this GUID."""
        return self._by_guid.get(guid)

    def version(self, subject: str, version: int) -> StoredSchema | None:
        """Return a version of a subject; -1 stands for the latest version that is not deleted."""
        return self.latest(subject) if version == -1 else self._versions.get((subject, version))

    def latest(self, subject: str) -> StoredSchema | None:
        """Return the latest version of a subject that is not deleted."""
        return next((version for version in self.versions(subject) if not version.is_deleted), None)

    def versions(self, subject: str) -> list[StoredSchema]:
        """Return all versions of a subject, the latest first."""
        return [self._versions[subject, number] for number in sorted(self._numbers.get(subject, ()), reverse=True)]

    def add(self, schema: StoredSchema) -> None:
        """Add a version, or replace it.

        An id keeps its first schema, as in the registry, unless that schema was deleted for good.
        """
        key = (schema.subject, schema.version)
        size = len(schema.text)
        if self.is_full or len(self._versions) >= MOST_SCHEMAS or self._bytes + size > MOST_TEXT_BYTES:
            self.is_full = True
            return
        self._bytes += size
        self._versions[key] = schema
        self._numbers.setdefault(schema.subject, set()).add(schema.version)
        self._hard_deleted.discard(key)
        if schema.schema_id is not None:
            held = self._by_id.get(schema.schema_id)
            if held is None or self._gives_way(held, schema):
                self._by_id[schema.schema_id] = schema
        for guid in {schema.guid, _guid(schema)} - {None}:
            self._by_guid.setdefault(str(guid), schema)

    def _gives_way(self, held: StoredSchema, schema: StoredSchema) -> bool:
        place = (held.subject, held.version)
        if place == (schema.subject, schema.version) or place in self._hard_deleted:
            return True
        return schema.is_in_default_context and not held.is_in_default_context

    def apply(self, key: bytes | None, value: bytes | None) -> str:  # noqa: C901 - a reason for each form
        """Apply a record of `_schemas`; return what is wrong with it, or "".

        Raises nothing: a record that is not the registry's changes nothing.
        """
        if key is None:
            return "it has no key"
        name, why = read_json_object(key.decode("utf-8", "replace"))
        if why:
            return f"its key is not JSON: {why}"
        kind = name.get("keytype")
        if kind not in ("SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT"):
            return ""  # CONFIG, MODE, NOOP, CONTEXT and newer kinds: no schemas
        subject = name.get("subject")
        if not isinstance(subject, str):
            return "its key has no subject"
        if value is None:
            version = integer(name.get("version"), 32)
            if kind == "SCHEMA" and version is not None:
                self._delete(subject, version, for_good=True)
            return ""
        fields, why = read_json_object(value.decode("utf-8", "replace"))
        if why:
            return f"its value is not JSON: {why}"
        if kind == "SCHEMA":
            return self._register(subject, fields)
        last = integer(fields.get("version"), 32)
        for version in self._numbers.get(subject, ()):
            if kind == "CLEAR_SUBJECT" or last is None or version <= last:
                self._delete(subject, version, for_good=kind == "CLEAR_SUBJECT")
        return ""

    def _register(self, subject: str, fields: dict[str, Any]) -> str:
        version, schema_id = integer(fields.get("version"), 32), integer(fields.get("id"), 32)
        text, kind = fields.get("schema"), fields.get("schemaType") or AVRO
        if version is None or schema_id is None or not isinstance(text, str) or not isinstance(kind, str):
            return "it has no version, id or schema"
        if "__enc__" in (fields.get("metadata") or {}):
            kind = f"encrypted {kind}"
        references = _references(fields.get("references") or [])
        if references is None:
            return "its references are not those of a schema"
        guid = _guid_of_md5(fields.get("md5"))
        deleted = fields.get("deleted") is True
        self.add(StoredSchema(kind.upper(), text, references, schema_id, guid, subject, version, deleted))
        return ""

    def _delete(self, subject: str, version: int, *, for_good: bool) -> None:
        place = (subject, version)
        held = self._versions.get(place)
        if held is None:
            return
        deleted = held._replace(is_deleted=True)
        self._versions[place] = deleted
        if for_good:
            self._hard_deleted.add(place)
        if held.schema_id is not None and self._by_id.get(held.schema_id) is held:
            self._by_id[held.schema_id] = deleted


def _references(objects: Any) -> tuple[Reference, ...] | None:
    if not isinstance(objects, list) or len(objects) > _MOST_REFERENCES:
        return None
    references = []
    for reference in objects:
        if not isinstance(reference, dict):
            return None
        name, subject, version = reference.get("name"), reference.get("subject"), integer(reference.get("version"), 32)
        if not isinstance(name, str) or not isinstance(subject, str) or version is None:
            return None
        references.append(Reference(name, subject, version))
    return tuple(references)


def _guid_of_md5(md5: Any) -> str | None:
    import base64

    try:
        return str(UUID(bytes=base64.b64decode(md5))) if isinstance(md5, str) else None
    except (ValueError, binascii.Error):
        return None


def _guid(schema: StoredSchema) -> str | None:
    """Return the GUID as the registry computes it, for a schema without metadata and rules: an MD5 sum."""
    if schema.schema_id is None:
        return None
    digest = hashlib.md5(schema.text.encode("utf-8", "replace"), usedforsecurity=False)
    for reference in schema.references:
        digest.update(reference.name.encode("utf-8", "replace") + reference.subject.encode("utf-8", "replace"))
        digest.update(reference.version.to_bytes(4, "big", signed=True))
    return str(UUID(bytes=digest.digest()))
