"""Decodes keys and values: one object that a command makes, and asks for every record."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.limits import MOST_DEPTH, MOST_PAYLOAD_BYTES, MOST_VALUES
from kafkalog_cli.format.values.avro_value import AvroNames, AvroNode, decode_avro, json_double, json_float
from kafkalog_cli.format.values.schema_set import (
    AVRO,
    JSON,
    PROTOBUF,
    Reference,
    SchemaSet,
    StoredSchema,
    in_context_of,
)
from kafkalog_cli.format.values.value_format import (
    KEY_HEADER,
    VALUE_HEADER,
    Headers,
    SchemaFraming,
    ValueFormat,
    framing_of,
    message_indexes,
)

NEEDED = "Protobuf needs libraries: pip install 'kafkalog-cli[values]'"
_MOST_CACHED = 2000
_MOST_REFERENCES = 1000


_OTHER_REGISTRIES = {
    "Apicurio": ": --schemas DIR with the schema as ID.avsc has it",
    "AWS Glue": ": `aws glue get-schema-version` gives it, and --schemas DIR with UUID.avsc takes it",
}
"""What to do about a schema of a registry that does not keep its schemas in a topic like Confluent's."""
_KINDS = {ValueFormat.AVRO: AVRO, ValueFormat.PROTOBUF: PROTOBUF}
NUMBER_LAYOUTS = {
    ValueFormat.SHORT: ">h", ValueFormat.INT: ">i", ValueFormat.LONG: ">q", ValueFormat.FLOAT: ">f",
    ValueFormat.DOUBLE: ">d",
}  # fmt: skip


_WINDOW, _WINDOW_OF_STORE, _SESSION = struct.Struct(">q"), struct.Struct(">qi"), struct.Struct(">qq")


class DecodedContents(NamedTuple):
    """A key or value as JSON has it. `schema`: the schema of the writer; None for formats without schemas.

    `is_text`: the value is plain text, which a line of text shows without quotes.
    """

    value: Any
    format: str
    schema: StoredSchema | None = None
    is_text: bool = False


class Undecoded(NamedTuple):
    """Why a key or value could not be decoded."""

    reason: str


class Shape(Protocol):
    """Another form of values than JSON."""

    def read(self, reader: Any, indexes: tuple[int, ...], data: memoryview) -> Any:
        """Return a value; `reader` is an AvroNode or a ProtobufSchema of the writer. Raises ValueError."""


class ValueDecoder:
    """Decodes keys and values in the given formats; None: not at all. It can be pickled, for tasks of Spark.

    Nothing raises: contents that cannot be decoded give an `Undecoded`. In the format AUTO, contents without framing
    give None.
    """

    def __init__(self, schemas: SchemaSet, key_format: ValueFormat | None, value_format: ValueFormat | None) -> None:
        self.schemas = schemas
        self.key_format = key_format
        self.value_format = value_format
        self._readers: dict[tuple[str, int, str], Any] = {}
        self._shape: Shape | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the schemas that were parsed."""
        return ValueDecoder, (self.schemas, self.key_format, self.value_format)

    def of_another_thread(self) -> ValueDecoder:
        """Return a decoder with the same schemas that another thread may use at the same time."""
        return ValueDecoder(self.schemas, self.key_format, self.value_format)

    def in_shape(self, shape: Shape) -> ValueDecoder:
        """Return a decoder with the same schemas for values that a schema describes; other values are Undecoded."""
        decoder = self.of_another_thread()
        decoder._shape = shape
        return decoder

    def key(self, topic: str, data: memoryview | None, headers: Headers | None) -> DecodedContents | Undecoded | None:
        """Decode a key. `topic` names the subject of schemas for contents without framing."""
        return self._decode(self.key_format, f"{topic}-key", data, headers, KEY_HEADER)

    def value(self, topic: str, data: memoryview | None, headers: Headers | None) -> DecodedContents | Undecoded | None:
        """Decode a value, as `key`."""
        return self._decode(self.value_format, f"{topic}-value", data, headers, VALUE_HEADER)

    def _decode(
        self, wanted: ValueFormat | None, subject: str, data: memoryview | None, headers: Headers | None, header: bytes
    ) -> DecodedContents | Undecoded | None:
        if wanted is None or data is None:
            return None
        if len(data) > MOST_PAYLOAD_BYTES:
            return Undecoded(f"it has {len(data)} bytes, and at most {MOST_PAYLOAD_BYTES} are decoded")
        try:
            if wanted.is_windowed:
                return self._windowed(wanted, subject, data, headers)
            if wanted.needs_schemas:
                return self._by_schema(wanted, subject, data, _framings(framing_of(data, headers, header)))
            if wanted is ValueFormat.JSON:
                payloads = [*map(_payload, _framings(framing_of(data, headers, header))), data]
                return DecodedContents(
                    _json(next((payload for payload in payloads if _may_be_json(payload)), data)), "json"
                )
            return _PLAIN[wanted](data)
        except ValueError as error:
            return Undecoded(str(error))
        except ImportError:
            return Undecoded(NEEDED)
        except RecursionError:
            return Undecoded(f"it is nested more than {MOST_DEPTH} deep")

    def _windowed(
        self, wanted: ValueFormat, subject: str, data: memoryview, headers: Headers | None
    ) -> DecodedContents | Undecoded | None:
        """Decode a key with its window, as WindowKeySchema and SessionKeySchema of Kafka Streams write it.

        The changelog of a window store has a sequence number after the start of the window.
        """
        of_store = subject.removesuffix("-key").endswith("-changelog")
        layout = _SESSION if wanted.is_session else _WINDOW_OF_STORE if of_store else _WINDOW
        if len(data) < layout.size:
            raise ValueError(f"it has {len(data)} bytes, and the window alone has {layout.size}")
        end = len(data) - layout.size
        key = self._decode(wanted.inner, subject, data[:end], headers, KEY_HEADER)
        if not isinstance(key, DecodedContents):
            return key
        first, *more = layout.unpack(data[end:])
        window = (
            {"window_start_ms": more[0], "window_end_ms": first} if wanted.is_session else {"window_start_ms": first}
        )
        return DecodedContents({"key": key.value, **window}, wanted.value, key.schema)

    def _by_schema(
        self, wanted: ValueFormat, subject: str, data: memoryview, framings: list[SchemaFraming]
    ) -> DecodedContents | Undecoded | None:
        """Decode by the schema that a framing names, else, in a format of its own, by the subject's newest schema.

        The first bytes of a value without framing may look like one: 0 and 1 are common in Avro.
        """
        kind, reason = _KINDS.get(wanted), ""
        for framing in framings:
            schema = self.schemas.by_guid(framing.guid) if framing.guid else self.schemas.by_id(framing.schema_id or 0)
            if schema is None:
                reason = reason or f"no {framing.name} in {self._places}{_OTHER_REGISTRIES.get(framing.registry, '')}"
                continue
            try:
                return self._framed(kind, schema, framing)
            except ValueError as error:
                reason = str(error)
                break
        is_in_header = any(framing.payload is not None for framing in framings)
        newest = None if kind is None or is_in_header else self.schemas.latest(subject)
        if newest is not None and newest.kind == kind:
            try:
                return DecodedContents(self._read(newest, data, (0,)), newest.kind.lower(), newest)
            except ValueError as error:
                reason = f"{reason}, and without a framing by {subject}: {error}" if reason else str(error)
        if kind is not None and not reason:
            reason = f"it has no framing of a Schema Registry, and there is no schema {subject}"
        return Undecoded(reason) if reason else None

    @property
    def _places(self) -> str:
        return " or ".join(self.schemas.places) or "any place"

    def _framed(self, kind: str | None, schema: StoredSchema, framing: SchemaFraming) -> DecodedContents:
        """Decode what follows a framing. Raises ValueError."""
        if kind is not None and schema.kind != kind:
            raise ValueError(f"{framing.name} is of the type {schema.kind}, not {kind}")
        data = _payload(framing)
        if schema.kind == JSON and self._shape is None:
            return DecodedContents(_json(data), "json", schema)
        if schema.kind != PROTOBUF:
            return DecodedContents(self._read(schema, data, ()), schema.kind.lower(), schema)
        if framing.registry == "Apicurio":
            raise ValueError("Apicurio's framing of Protobuf is not decoded")
        if framing.registry:
            indexes, data = message_indexes(data)
        else:
            indexes, rest = message_indexes(framing.rest)
            data = rest if framing.payload is None else framing.payload
        return DecodedContents(self._read(schema, data, indexes), "protobuf", schema)

    def _read(self, schema: StoredSchema, data: memoryview, indexes: tuple[int, ...]) -> Any:
        """Return the value. Raises ValueError."""
        reader = self.reader(schema)
        if isinstance(reader, Undecoded):
            raise ValueError(reader.reason)
        if self._shape is not None:
            return self._shape.read(reader, indexes, data)
        return decode_avro(data, reader) if isinstance(reader, AvroNode) else reader.decode(indexes, data)

    def reader(self, schema: StoredSchema) -> Any:
        """Return the AvroNode or ProtobufSchema that reads the values of a schema, or an Undecoded. It is kept."""
        place = (schema.subject, schema.version, schema.text)
        if place not in self._readers:
            if len(self._readers) >= _MOST_CACHED:
                self._readers.clear()
            try:
                self._readers[place] = self._parsed(schema)
            except ValueError as error:
                self._readers[place] = Undecoded(f"the schema cannot be used: {error}")
        return self._readers[place]

    def _parsed(self, schema: StoredSchema) -> Any:
        if schema.kind == AVRO:
            names = AvroNames()
            for referenced in self._referenced(schema):
                names.parse(referenced.text)
            return names.parse(schema.text)
        if schema.kind == PROTOBUF:
            from kafkalog_cli.format.values.protobuf_value import ProtobufSchema

            imports = self._imports(schema)
            return ProtobufSchema(schema.text, imports.get)
        raise ValueError(f"its type is {schema.kind[:50]}")

    def _referenced(self, schema: StoredSchema) -> list[StoredSchema]:
        """Return the schemas that a schema refers to, each after the schemas that it refers to itself."""
        referenced: dict[StoredSchema, None] = {}
        waiting: list[tuple[StoredSchema, bool]] = [(schema, False)]
        begun = {schema}
        while waiting:
            stored, is_done = waiting.pop()
            if is_done:
                if stored is not schema:
                    referenced[stored] = None
                continue
            waiting.append((stored, True))
            for reference in stored.references:
                other = self._reference(stored, reference)
                if other not in begun:
                    begun.add(other)
                    waiting.append((other, False))
            if len(begun) > _MOST_REFERENCES:
                raise ValueError(f"it refers to more than {_MOST_REFERENCES} schemas")
        return list(referenced)

    def _imports(self, schema: StoredSchema) -> dict[str, str]:
        """Return the texts of the imported files by their names in the imports."""
        texts: dict[str, str] = {}
        for referenced in (*self._referenced(schema), schema):
            for reference in referenced.references:
                texts.setdefault(reference.name, self._reference(referenced, reference).text)
        return texts

    def _reference(self, schema: StoredSchema, reference: Reference) -> StoredSchema:
        """Return the schema that a schema refers to, in its own context (QualifiedSubject.qualifySubjectWithParent)."""
        subject = in_context_of(schema.subject, reference.subject)
        stored = self.schemas.version(subject, reference.version)
        if stored is None:
            raise ValueError(f"it refers to version {reference.version} of {subject}, which is not in {self._places}")
        return stored


def _framings(framing: SchemaFraming | None) -> list[SchemaFraming]:
    """Return the framing and the same bytes with a long id, as far as there are such."""
    return [one for one in (framing, None if framing is None else framing.with_long_id) if one is not None]


def _payload(framing: SchemaFraming) -> memoryview:
    """Return what follows the framing. Raises ValueError for data that cannot be unpacked."""
    data = framing.rest if framing.payload is None else framing.payload
    if not framing.is_packed:
        return data
    import zlib

    unpacker = zlib.decompressobj()
    try:
        payload = unpacker.decompress(data, MOST_PAYLOAD_BYTES)
    except zlib.error as error:
        raise ValueError(f"its payload is not zlib data: {error}") from error
    if not unpacker.eof:
        raise ValueError(f"its payload is cut off, or has more than {MOST_PAYLOAD_BYTES} bytes")
    return memoryview(payload)


def _may_be_json(data: memoryview) -> bool:
    return len(data) > 0 and data[0] > 8  # JSON has no control character but blanks


def _json(data: memoryview) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    def number(text: str) -> float:
        parsed = float(text)
        if math.isinf(parsed):
            raise ValueError("a number is larger than a double can be")
        return parsed

    raw = bytes(data)
    if sum(raw.count(character) for character in (b",", b"[", b"{")) > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES} values")
    try:
        return json.loads(raw.decode(), parse_constant=refuse, parse_float=number)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8, which JSON is") from error
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error


def _number(wanted: ValueFormat) -> Callable[[memoryview], DecodedContents]:
    form = struct.Struct(NUMBER_LAYOUTS[wanted])
    shown = {ValueFormat.FLOAT: json_float, ValueFormat.DOUBLE: json_double}.get(wanted)

    def decode(data: memoryview) -> DecodedContents:
        if len(data) != form.size:
            raise ValueError(f"it has {len(data)} bytes, and a {wanted.value} has {form.size}")
        value = form.unpack(data)[0]
        return DecodedContents(value if shown is None else shown(value), wanted.value, is_text=True)

    return decode


def _uuid(data: memoryview) -> DecodedContents:
    """Decode the text that Kafka's UUIDSerializer writes, or 16 bytes."""
    try:
        uuid = UUID(bytes=bytes(data)) if len(data) == 16 else UUID(bytes(data).decode())
    except ValueError as error:
        raise ValueError("it is not a UUID") from error
    return DecodedContents(str(uuid), "uuid", is_text=True)


def _base64(data: memoryview) -> DecodedContents:
    import base64

    return DecodedContents(base64.b64encode(data).decode(), "base64", is_text=True)


_PLAIN: dict[ValueFormat, Callable[[memoryview], DecodedContents]] = {
    ValueFormat.STRING: lambda data: DecodedContents(java_string(bytes(data)), "string", is_text=True),
    ValueFormat.UUID: _uuid,
    ValueFormat.HEX: lambda data: DecodedContents(data.hex(), "hex", is_text=True),
    ValueFormat.BASE64: _base64,
    **{wanted: _number(wanted) for wanted in NUMBER_LAYOUTS},
}
