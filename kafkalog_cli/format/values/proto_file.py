"""The text of a .proto file as a FileDescriptorProto, without protoc: the parser is the library proto-schema-parser.

The library gives a syntax tree. Names of types stay as written: the descriptor pool of protobuf resolves them.
"""

from typing import Any

MOST_TEXT_CHARACTERS = 128 << 10
"""The longest text that is parsed: the parser needs a few seconds and 100 MiB for it."""
MOST_FIELDS = 10_000
_MOST_NESTING = 64

_SCALARS = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes",
    "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
_NUMBERS = {name: number for number, name in enumerate(_SCALARS, start=1) if name not in ("group", "message", "enum")}
_GROUP, _MESSAGE = 10, 11
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_LABELS = {"REQUIRED": _REQUIRED, "REPEATED": _REPEATED}
_FLAGS = ("packed", "deprecated", "lazy")


def parse_proto(text: str, name: str) -> Any:
    """Return the FileDescriptorProto of a .proto file. Raises ValueError, ImportError without the extra `values`."""
    if len(text) > MOST_TEXT_CHARACTERS:
        raise ValueError(f"the schema has {len(text)} characters, the limit is {MOST_TEXT_CHARACTERS}")
    return _FileBuilder(name).build(_syntax_tree(text))


def _syntax_tree(text: str) -> Any:
    from proto_schema_parser.parser import Parser

    depth = most = 0
    for character in text:
        depth += (character == "{") - (character == "}")
        most = max(most, depth)
    if most > _MOST_NESTING:
        raise ValueError("the schema is nested too deeply")
    listener = _ErrorListener()

    def setup(recognizer: Any) -> None:
        recognizer.removeErrorListeners()
        recognizer.addErrorListener(listener)

    try:
        return Parser(setup_lexer=setup, setup_parser=setup).parse(text)
    except RecursionError as error:
        raise ValueError("the schema is nested too deeply") from error
    except (AttributeError, TypeError, IndexError, KeyError) as error:  # of the library, for text it does not expect
        raise ValueError(f"the schema is not a .proto file ({type(error).__name__})") from error


class _ErrorListener:
    """Receives the errors of ANTLR's parsers: the first one ends the parsing."""

    def syntaxError(self, _recognizer: Any, _symbol: Any, line: int, column: int, message: str, _error: Any) -> None:  # noqa: N802
        raise ValueError(f"line {line} of the schema, column {column}: {message[:200]}")

    def reportAmbiguity(self, *_: Any) -> None:  # noqa: N802
        """Ignore it: the grammar decides."""

    reportAttemptingFullContext = reportContextSensitivity = reportAmbiguity  # noqa: N815


class _FileBuilder:
    """Builds one FileDescriptorProto."""

    def __init__(self, name: str) -> None:
        from google.protobuf import descriptor_pb2

        self._pb2 = descriptor_pb2
        self._file = descriptor_pb2.FileDescriptorProto(name=name)
        self._fields = 0
        self._is_proto3 = False

    def build(self, tree: Any) -> Any:  # noqa: C901 - a case for each kind of element
        file = self._file
        self._is_proto3 = tree.syntax == "proto3"
        if tree.edition:
            file.syntax, file.edition = "editions", self._edition(str(tree.edition))
        elif self._is_proto3:
            file.syntax = "proto3"
        for element in tree.file_elements:
            kind = type(element).__name__
            if kind == "Package":
                file.package = element.name
            elif kind == "Import":
                if element.public:
                    file.public_dependency.append(len(file.dependency))
                file.dependency.append(element.name)
            elif kind == "Message":
                self._message(file.message_type.add(), element)
            elif kind == "Enum":
                self._enum(file.enum_type.add(), element)
            elif kind == "Extension":
                self._extension(file, file.message_type, element)
            elif kind == "Option":
                self._features(file, element)
        return file

    def _edition(self, text: str) -> int:
        edition = self._pb2.Edition.DESCRIPTOR.values_by_name.get(f"EDITION_{text}")
        if edition is None:
            raise ValueError(f"the edition {text[:50]} is unknown")
        return int(edition.number)

    def _features(self, owner: Any, option: Any) -> None:
        """Set an option of an edition's features; other options do not change how values are read."""
        prefix, _, name = option.name.partition(".")
        if prefix != "features":
            return
        features = owner.options.features
        field = features.DESCRIPTOR.fields_by_name.get(name)
        value = getattr(option.value, "name", option.value)
        if field is None or field.enum_type is None or value not in field.enum_type.values_by_name:
            return
        setattr(features, name, field.enum_type.values_by_name[value].number)

    def _message(self, message: Any, tree: Any) -> None:  # noqa: C901, PLR0912 - as build
        message.name = tree.name
        optional = []
        for element in tree.elements:
            kind = type(element).__name__
            if kind == "Field":
                field = self._field(message.field, element)
                if self._is_proto3 and _word(element.cardinality) == "OPTIONAL":
                    optional.append(field)
            elif kind == "MapField":
                self._map(message, element)
            elif kind == "Group":
                self._group(message.field, message.nested_type, element)
            elif kind == "OneOf":
                self._oneof(message, element)
            elif kind == "Message":
                self._message(message.nested_type.add(), element)
            elif kind == "Enum":
                self._enum(message.enum_type.add(), element)
            elif kind == "ExtensionRange":
                for text in element.ranges:
                    start, end = _range(text)
                    message.extension_range.add(start=start, end=end)
            elif kind == "Extension":
                self._extension(message, message.nested_type, element)
            elif kind == "Option":
                if element.name == "message_set_wire_format":
                    raise ValueError("message sets are not supported")
                self._features(message, element)
        for field in optional:  # a oneof of their own, after all others, as protoc makes it
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, message: Any, tree: Any) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=tree.name)
        for element in tree.elements:
            kind = type(element).__name__
            if kind == "Field":
                self._field(message.field, element).oneof_index = index
            elif kind == "Group":
                self._group(message.field, message.nested_type, element).oneof_index = index

    def _field(self, fields: Any, tree: Any) -> Any:
        self._count()
        field = fields.add(name=tree.name, number=_number(tree.number))
        field.label = _LABELS.get(_word(tree.cardinality), _OPTIONAL)
        self._type(field, tree.type)
        for option in tree.options:
            if option.name in _FLAGS and isinstance(option.value, bool):
                setattr(field.options, option.name, option.value)
            elif option.name == "json_name" and isinstance(option.value, str):
                field.json_name = option.value
            elif option.name == "default":
                field.default_value = _default(option.value)
            else:
                self._features(field, option)
        return field

    def _type(self, field: Any, name: str) -> None:
        if name in _NUMBERS:
            field.type = _NUMBERS[name]
        else:
            field.type_name = name

    def _map(self, message: Any, tree: Any) -> None:
        self._count()
        entry = message.nested_type.add(name=f"{_camel(tree.name)}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", tree.key_type), ("value", tree.value_type)), start=1):
            self._type(entry.field.add(name=name, number=number, label=_OPTIONAL), kind)
        field = message.field.add(name=tree.name, number=_number(tree.number), label=_REPEATED)
        field.type, field.type_name = _MESSAGE, entry.name
        for option in tree.options:
            if option.name == "json_name" and isinstance(option.value, str):
                field.json_name = option.value

    def _group(self, fields: Any, types: Any, tree: Any) -> Any:
        self._count()
        self._message(types.add(), tree)
        label = _LABELS.get(_word(tree.cardinality), _OPTIONAL)
        return fields.add(
            name=tree.name.lower(), number=_number(tree.number), label=label, type=_GROUP, type_name=tree.name
        )

    def _extension(self, owner: Any, types: Any, tree: Any) -> None:
        for element in tree.elements:
            kind = type(element).__name__
            if kind == "Field":
                self._field(owner.extension, element).extendee = tree.typeName
            elif kind == "Group":
                self._group(owner.extension, types, element).extendee = tree.typeName

    def _enum(self, enum: Any, tree: Any) -> None:
        enum.name = tree.name
        for element in tree.elements:
            kind = type(element).__name__
            if kind == "EnumValue":
                self._count()
                enum.value.add(name=element.name, number=_number(element.number))
            elif kind == "Option" and element.name == "allow_alias":
                enum.options.allow_alias = bool(element.value)
            elif kind == "Option":
                self._features(enum, element)

    def _count(self) -> None:
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise ValueError(f"the schema has more than {MOST_FIELDS} fields")


def _word(cardinality: Any) -> str:
    return "" if cardinality is None else str(cardinality.value)


def _number(value: Any) -> int:
    number = int(str(value), 0) if not isinstance(value, int) else value
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{number} is not a number of 32 bits")
    return number


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition(" to ")
    start = _number(first.strip())
    end = start if not last else (1 << 29) - 1 if last.strip() == "max" else _number(last.strip())
    return start, end + 1


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(getattr(value, "name", value))


def _camel(name: str) -> str:
    """Return the first part of the name of a map's entry, as protoc makes it."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
