"""Protobuf messages as JSON, by the library protobuf: its parser, and its JSON mapping (JsonFormat)."""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any

from kafkalog_cli.format.limits import MOST_DEPTH, MOST_VALUES
from kafkalog_cli.format.values.proto_file import parse_proto

_KNOWN = ("any", "api", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type", "wrappers")
"""The files google/protobuf/NAME.proto that the library brings; descriptor.proto is another."""
_GOOGLE_TYPES = (
    *("calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval", "latlng"),
    *("localized_text", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday"),
)
"""The files google/type/NAME.proto that clients of Confluent know without a reference, and the others of the folder."""
_DECIMAL = """syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"""
_BUILT_IN = {"confluent/type/decimal.proto": _DECIMAL, "confluent/meta.proto": 'syntax = "proto3";'}
"""Files that a registry knows without a reference. The second one has only options, which do not change values."""
_MOST_FILES = 500
_VARINT, _FIXED64, _SIZED, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
_FIXED_SIZES = {1: 8, 6: 8, 16: 8, 2: 4, 7: 4, 15: 4}
"""The bytes of double, fixed64, sfixed64, float, fixed32 and sfixed32, by the number of the type."""
_ANY = "google.protobuf.Any"
_OWN_NAME = "schema.proto"

Import = Callable[[str], "str | None"]
"""Returns the text of an imported file; None if there is none."""


class ProtobufSchema:
    """The messages of one file and its imports. Raises ValueError for a file that protobuf does not accept."""

    def __init__(self, text: str, imports: Import) -> None:
        from google.protobuf import descriptor_pool

        self._pool = descriptor_pool.DescriptorPool()
        self._added: set[str] = set()
        self._missing: list[str] = []
        self._classes: dict[tuple[int, ...], Any] = {}
        self._imports = imports
        try:
            self._add(_file_of(text, _OWN_NAME), 0)
            self._file = self._pool.FindFileByName(_OWN_NAME)
            self._most_fields = max((len(message.fields) for message in self._all_messages()), default=0)
        except (TypeError, KeyError) as error:
            missing = f"; the imports {', '.join(self._missing)} were not found" if self._missing else ""
            raise ValueError(f"protobuf rejects the schema: {str(error)[:300]}{missing}") from error

    def decode(self, indexes: Iterable[int], data: memoryview) -> Any:
        """Return a message as JSON. Raises ValueError for bytes that are not a message of this kind."""
        from google.protobuf import json_format, message

        parsed = self.parse(indexes, data)
        try:
            return json_format.MessageToDict(
                parsed, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except RecursionError as error:
            raise ValueError(f"it is nested more than {MOST_DEPTH} deep") from error
        except (json_format.Error, message.Error, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"it has no JSON form: {str(error)[:300]}") from error

    def parse(self, indexes: Iterable[int], data: memoryview) -> Any:
        """Return a message as protobuf's object. Raises ValueError as `decode`."""
        from google.protobuf import message

        kind = self._class(tuple(indexes))
        if len(data) * (1 + self._most_fields) > MOST_VALUES:
            _Counter(self._most_fields).message(data, kind.DESCRIPTOR, 0)
        try:
            return kind.FromString(bytes(data))
        except message.DecodeError as error:
            raise ValueError(f"the bytes are not a message {kind.DESCRIPTOR.full_name}") from error

    def message(self, indexes: Iterable[int]) -> Any:
        """Return the descriptor of a message. Raises ValueError if there is none with these indexes."""
        return self._class(tuple(indexes)).DESCRIPTOR

    def _class(self, indexes: tuple[int, ...]) -> Any:
        if indexes not in self._classes:
            from google.protobuf import message_factory

            types, descriptor = list(self._file.message_types_by_name.values()), None
            for index in indexes:
                if not 0 <= index < len(types):
                    raise ValueError(f"the schema has no message {'.'.join(map(str, indexes))}")
                descriptor = types[index]
                # Java's serialiser counts the messages that are declared, and no entries of maps.
                types = [nested for nested in descriptor.nested_types if not nested.GetOptions().map_entry]
            assert descriptor is not None
            self._classes[indexes] = message_factory.GetMessageClass(descriptor)
        return self._classes[indexes]

    def _all_messages(self) -> list[Any]:
        messages = [
            message
            for name in self._added
            for message in self._pool.FindFileByName(name).message_types_by_name.values()
        ]
        for message in messages:
            messages.extend(message.nested_types)
        return messages

    def _add(self, file: Any, depth: int) -> None:
        self._added.add(file.name)
        if depth > MOST_DEPTH or len(self._added) > _MOST_FILES:
            raise ValueError("the schema has too many imports")
        for name in file.dependency:
            if name in self._added:
                continue
            known = _known_file(name)
            if known is not None:
                self._add(known, depth + 1)
                continue
            text = _BUILT_IN.get(name) or self._imports(name)
            if text is None:  # it may have only options, such as those of another tool
                self._missing.append(name)
                text = 'syntax = "proto3";'
            self._add(_file_of(text, name), depth + 1)
        self._pool.AddSerializedFile(file.SerializeToString())


def _known_file(name: str) -> Any:
    from importlib import import_module

    from google.protobuf import descriptor_pb2

    folder, _, file = name.rpartition("/")
    short = file.removesuffix(".proto")
    known = {"google/protobuf": (*_KNOWN, "descriptor"), "google/type": _GOOGLE_TYPES}.get(folder, ())
    if file != f"{short}.proto" or short not in known:
        return None
    descriptor = descriptor_pb2.FileDescriptorProto()
    import_module(f"{folder.replace('/', '.')}.{short}_pb2").DESCRIPTOR.CopyToProto(descriptor)
    return descriptor


def _file_of(text: str, name: str) -> Any:
    """Return the FileDescriptorProto of a schema: the text of a .proto file, or a serialised descriptor in base64."""
    from google.protobuf import descriptor_pb2, message

    if "{" not in text and ";" not in text:
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError, message.DecodeError):
            file = None
        if file is not None and file.message_type:
            file.name = name
            return file
    return parse_proto(text, name)


class _Counter:
    """Counts what a message would have in memory, before it is parsed. Raises ValueError above the limit."""

    def __init__(self, most_fields: int) -> None:
        self._left = MOST_VALUES
        self._most_fields = most_fields

    def message(self, data: memoryview, kind: Any, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} deep")
        self._spend(1 + len(kind.fields))
        if kind.full_name == _ANY:
            self._spend(len(data) * (1 + self._most_fields) // 2)
        self._fields(data, 0, kind, depth, 0)

    def _fields(self, data: memoryview, position: int, kind: Any, depth: int, group: int) -> int:
        """Count fields up to the end, or to the end of a group; return the position after it."""
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} deep")
        while position < len(data):
            tag, position = _varint(data, position)
            self._spend(1)
            number, wire = tag >> 3, tag & 7
            field = None if kind is None else kind.fields_by_number.get(number)
            if wire == _VARINT:
                _, position = _varint(data, position)
            elif wire in (_FIXED64, _FIXED32):
                position += 8 if wire == _FIXED64 else 4
            elif wire == _SIZED:
                size, position = _varint(data, position)
                self._sized(data[position : position + size], field, depth)
                position += size
            elif wire == _START_GROUP:
                inner = None if field is None else field.message_type
                self._spend(1 + (0 if inner is None else len(inner.fields)))
                position = self._fields(data, position, inner, depth + 1, number)
            elif wire == _END_GROUP and number == group:
                return position
            else:
                raise ValueError("the bytes are not a message")
        return position

    def _sized(self, data: memoryview, field: Any, depth: int) -> None:
        if field is None:
            return
        if field.message_type is not None:
            self.message(data, field.message_type, depth + 1)
        elif field.type not in (9, 12):  # neither a string nor bytes: numbers, packed
            size = _FIXED_SIZES.get(field.type)
            self._spend(len(data) // size if size else sum(byte < 0x80 for byte in data))

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_VALUES} values")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = 0
    for place, byte in enumerate(data[position : position + 10]):
        result |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return result, position + place + 1
    raise ValueError("the bytes are not a message")
