"""Messages of Protobuf in the types of Spark.

A message is read by the newest schema: Protobuf's own evolution finds fields by their numbers.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kafkalog_cli.format.values.protobuf_value import ProtobufSchema
from kafkalog_cli.ops.scans.structs.avro import MOST_CELLS, MOST_FIELDS, microseconds, struct_of

_TIMESTAMP = "google.protobuf.Timestamp"
_UINT64, _FIXED64 = 4, 6
_TYPES = {
    1: "double", 2: "float", 3: "long", _UINT64: "decimal(20,0)", 5: "integer", _FIXED64: "decimal(20,0)", 7: "long",
    8: "boolean", 9: "string", 12: "binary", 13: "long", 14: "string", 15: "integer", 16: "long", 17: "integer",
    18: "long",
}  # fmt: skip
"""The types by the numbers of FieldDescriptorProto.Type. Unsigned numbers have a larger type, so none is negative."""


class ProtobufShape:
    """The type of the first message of a schema in Spark, and its values.

    Raises ValueError for a message that Spark has no type for. Other messages of the schema are not decoded.
    """

    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._kind = schema.message((0,))
        self._sizes: dict[str, int] = {}
        self._cells = self._fields = 0
        self.type: Any = self._message(self._kind, ())
        self.size = self._sizes[self._kind.full_name]
        """The number of fields and items of the type."""

    def read(self, reader: Any, indexes: tuple[int, ...], data: memoryview) -> Any:
        """Return a value as Arrow takes it. Raises ValueError for a value that does not fit the type."""
        if not isinstance(reader, ProtobufSchema):
            raise ValueError("its schema is not of Protobuf, as the newest schema is")
        name = reader.message(indexes).full_name
        if name != self._kind.full_name:
            raise ValueError(f"it is a message {name}, not {self._kind.full_name}")
        self._cells = MOST_CELLS
        return self._value(self._schema.parse((0,), data))

    def _message(self, kind: Any, around: tuple[str, ...]) -> Any:
        """Return the type of a message in Spark's JSON, and remember its size."""
        before = self._fields
        if kind.full_name in around:
            raise ValueError(f"the message {kind.full_name} contains itself")
        types = [self._field(field, (*around, kind.full_name)) for field in kind.fields]
        self._sizes[kind.full_name] = 1 + self._fields - before
        if kind.full_name == _TIMESTAMP:
            return "timestamp"
        return struct_of([field.name for field in kind.fields], types, [field.has_presence for field in kind.fields])

    def _field(self, field: Any, around: tuple[str, ...]) -> Any:
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise ValueError(f"the schema has more than {MOST_FIELDS} fields")
        kind = field.message_type
        if _is_map(kind):
            key, value = (self._field(kind.fields_by_name[name], around) for name in ("key", "value"))
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": False}
        type_ = _TYPES[field.type] if kind is None else self._message(kind, around)
        if _is_repeated(field):
            return {"type": "array", "elementType": type_, "containsNull": False}
        return type_

    def _value(self, message: Any) -> Any:
        kind = message.DESCRIPTOR
        self._cells -= self._sizes[kind.full_name]
        if self._cells < 0:
            raise ValueError(f"it has more than {MOST_CELLS} fields and items")
        if kind.full_name == _TIMESTAMP:
            return microseconds(message.seconds * 1_000_000 + message.nanos // 1000)
        return {field.name: self._field_value(message, field) for field in kind.fields}

    def _field_value(self, message: Any, field: Any) -> Any:
        if field.has_presence and not message.HasField(field.name):
            return None
        contents = getattr(message, field.name)
        if _is_map(field.message_type):
            keys, values = (self._single(field.message_type.fields_by_name[name]) for name in ("key", "value"))
            return [(keys(key), values(contents[key])) for key in contents]
        convert = self._single(field)
        return [convert(value) for value in contents] if _is_repeated(field) else convert(contents)

    def _single(self, field: Any) -> Callable[[Any], Any]:
        """Return the conversion of one value of a field."""
        if field.message_type is not None:
            return self._value
        if field.enum_type is not None:
            names = field.enum_type.values_by_number
            return lambda number: names[number].name if number in names else str(number)
        return Decimal if field.type in (_UINT64, _FIXED64) else lambda value: value


def _is_map(kind: Any) -> bool:
    return kind is not None and bool(kind.GetOptions().map_entry)


def _is_repeated(field: Any) -> bool:
    """Whether a field is repeated; libraries before 6.31 have no `is_repeated`, and later libraries have no `label`."""
    is_repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if is_repeated is None else is_repeated)
