"""Values of Avro in the types of Spark: the types as Spark's own Avro source has them, older values by resolution.

The rules of schema resolution are those of the specification of Avro. As in Avro's Java library, the names of two
records need not be equal, except to choose the branch of a union.
"""

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from kafkalog_cli.format.values.avro_value import AvroNode, read_avro

Convert = Callable[[Any], Any]

MOST_FIELDS = 4000
"""The most fields and items of a type. Spark and Arrow have an array for each."""
MOST_CELLS = 4_000_000
"""The most fields and items of one value; each record has all fields of its type, also if they are null."""
MOST_US = (1 << 63) - 1
MOST_PRECISION = 38

_FLOAT = struct.Struct("<f")
_EXACT = Context(prec=100)
_NAMED = frozenset(("record", "enum", "fixed"))
_PROMOTED = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",), "string": ("bytes",),
    "bytes": ("string",),
}  # fmt: skip
_SIMPLE = {
    "null": "void", "boolean": "boolean", "int": "integer", "long": "long", "float": "float", "double": "double",
    "bytes": "binary", "fixed": "binary", "string": "string", "enum": "string",
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): "date", ("long", "timestamp-millis"): "timestamp", ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz", ("long", "local-timestamp-micros"): "timestamp_ntz",
}  # fmt: skip
_WIDER = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
"""Unions that are one number in Spark."""


class AvroShape:
    """The type of a schema in Spark, and its values. Raises ValueError for a schema that Spark has no type for."""

    def __init__(self, node: AvroNode) -> None:
        self._node = node
        self._sizes: dict[AvroNode, int] = {}
        self._made: dict[tuple[AvroNode, AvroNode], Convert | ValueError] = {}
        self._cells = 0
        self.type: Any = self._type(node, ())
        self.size = self._sizes[node]
        """The number of fields and items of the type."""

    def read(self, reader: Any, _: tuple[int, ...], data: memoryview) -> Any:
        """Return a value as Arrow takes it. Raises ValueError for a value that does not fit the type."""
        if not isinstance(reader, AvroNode):
            raise ValueError("its schema is not of Avro, as the newest schema is")
        self._cells = MOST_CELLS
        return self._converter(reader, self._node)(read_avro(data, reader))

    def _type(self, node: AvroNode, around: tuple[AvroNode, ...]) -> Any:
        """Return the type in Spark's JSON, and remember its size."""
        if node in around:
            raise ValueError(f"the type {node.label} contains itself")
        inner = (*around, node)
        parts = _without_null(node) if node.kind == "union" else node.parts
        types = [self._type(part, inner) for part in parts]
        self._sizes[node] = 1 + sum(self._sizes[part] for part in parts)
        if self._sizes[node] > MOST_FIELDS:
            raise ValueError(f"the schema has more than {MOST_FIELDS} fields")
        if node.kind == "record":
            nullable = [_may_be_null(part) for part in parts]
            return struct_of(node.names, types, nullable)
        if node.kind == "array":
            return {"type": "array", "elementType": types[0], "containsNull": _may_be_null(parts[0])}
        if node.kind == "map":
            key = {"type": "map", "keyType": "string"}
            return {**key, "valueType": types[0], "valueContainsNull": _may_be_null(parts[0])}
        if node.kind != "union":
            decimal = _decimal(node)
            leaf = _LOGICAL.get(_logical(node), _SIMPLE[node.kind])
            return f"decimal({decimal[0]},{decimal[1]})" if decimal else leaf
        if len(types) <= 1:
            return types[0] if types else "void"
        members = [f"member{number}" for number in range(len(types))]
        return _wider(node) or struct_of(members, types, [True] * len(types))

    def _converter(self, writer: AvroNode, reader: AvroNode) -> Convert:
        """Return the function from a value in the JSON encoding of `writer` to one of `reader`. Raises ValueError."""
        if (writer, reader) not in self._made:
            try:
                self._made[writer, reader] = self._new_converter(writer, reader)
            except ValueError as error:
                self._made[writer, reader] = error
        converter = self._made[writer, reader]
        if isinstance(converter, ValueError):
            raise converter
        return converter

    def _new_converter(self, writer: AvroNode, reader: AvroNode) -> Convert:
        if writer.kind == "union":
            return self._of_branches(writer, reader)
        if reader.kind == "union":
            return self._to_branch(writer, reader)
        if _rank(writer, reader) is None:
            raise ValueError(f"{writer.label} of the writer's schema is not {reader.label}")
        if reader.kind == "record":
            return self._record(writer, reader)
        if reader.kind in ("array", "map"):
            item = self._converter(writer.parts[0], reader.parts[0])
            if reader.kind == "array":
                return lambda found: [item(one) for one in found]
            return lambda found: [(key, item(one)) for key, one in found.items()]
        if reader.kind == "enum":
            return _symbol(reader)
        return _leaf(writer, reader)

    def _of_branches(self, writer: AvroNode, reader: AvroNode) -> Convert:
        """A branch that does not fit is an error of the values that have it, not of the schema."""
        made: dict[str, Convert] = {}
        for part in writer.parts:
            try:
                made[part.label] = self._converter(part, reader)
            except ValueError as error:
                made[part.label] = _refusal(str(error))

        def convert(found: Any) -> Any:
            label, value = ("null", None) if found is None else next(iter(found.items()))
            return made[label](value)

        return convert

    def _to_branch(self, writer: AvroNode, reader: AvroNode) -> Convert:
        ranked = [(rank, part) for part in reader.parts if (rank := _rank(writer, part)) is not None]
        for _, part in sorted(ranked, key=lambda one: one[0]):
            try:
                convert = self._converter(writer, part)
            except ValueError:
                continue
            parts = _without_null(reader)
            if part.kind == "null" or len(parts) == 1:
                return convert
            if _wider(reader) is not None:
                return float if _wider(reader) == "double" and part.kind != "float" else convert
            member = f"member{parts.index(part)}"
            return lambda found: {member: convert(found)}
        raise ValueError(f"{writer.label} of the writer's schema is not a branch of the union")

    def _record(self, writer: AvroNode, reader: AvroNode) -> Convert:
        written = dict(zip(writer.names, writer.parts, strict=True))
        fields: list[tuple[str, str | None, Convert]] = []
        for name, part, definition in zip(reader.names, reader.parts, reader.definition["fields"], strict=True):
            found = next((one for one in (name, *_aliases(definition)) if one in written), None)
            if found is not None:
                fields.append((name, found, self._converter(written[found], part)))
            elif "default" in definition:
                default = self._converter(part, part)(_default(part, definition["default"]))
                fields.append((name, None, _constant(default)))
            else:
                raise ValueError(f"the writer's schema has no field {name} of {reader.label}")
        size = self._sizes[reader]

        def convert(record: dict[str, Any]) -> dict[str, Any]:
            self._cells -= size
            if self._cells < 0:
                raise ValueError(f"it has more than {MOST_CELLS} fields and items")
            return {name: make(None if source is None else record[source]) for name, source, make in fields}

        return convert


def struct_of(names: Any, types: list[Any], nullable: list[bool]) -> dict[str, Any]:
    """Return a struct in Spark's JSON. Raises ValueError for a name that is not an identifier, or is there twice."""
    rows = [(name, kind, may) for name, kind, may in zip(names, types, nullable, strict=True)]
    for name, _, _ in rows:
        if not (name.isascii() and name.isidentifier()):
            raise ValueError(f"{name[:100]} is not a name of a field")
    if len({name.casefold() for name, _, _ in rows}) < len(rows):
        raise ValueError("two fields have the same name, apart from the case of letters")
    fields = [{"name": name, "type": kind, "nullable": may, "metadata": {}} for name, kind, may in rows]
    return {"type": "struct", "fields": fields}


def microseconds(value: int) -> int:
    """Return the microseconds of a timestamp. Raises ValueError if it has none."""
    if abs(value) > MOST_US:
        raise ValueError("a timestamp beyond the year 294247: it has no microseconds")
    return value


def _without_null(union: AvroNode) -> list[AvroNode]:
    return [part for part in union.parts if part.kind != "null"]


def _may_be_null(node: AvroNode) -> bool:
    return node.kind == "null" or (node.kind == "union" and any(_may_be_null(part) for part in node.parts))


def _wider(union: AvroNode) -> str | None:
    parts = _without_null(union)
    return _WIDER.get(frozenset(part.kind for part in parts)) if len(parts) == 2 else None


def _logical(node: AvroNode) -> tuple[str, str]:
    return node.kind, str(node.definition.get("logicalType"))


def _decimal(node: AvroNode) -> tuple[int, int] | None:
    """Return the precision and scale; None if the node is not a decimal of Spark."""
    precision, scale = node.definition.get("precision"), node.definition.get("scale", 0)
    if node.kind not in ("bytes", "fixed") or node.definition.get("logicalType") != "decimal":
        return None
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return (precision, scale) if 0 <= scale <= precision and 0 < precision <= MOST_PRECISION else None


def _aliases(definition: dict[str, Any]) -> list[str]:
    aliases = definition.get("aliases")
    return [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []


def _rank(writer: AvroNode, reader: AvroNode) -> int | None:
    """Return how well a type of the writer fits a type of the reader that is not a union, 0 best; None: not at all."""
    if writer.kind != reader.kind:
        return 2 if reader.kind in _PROMOTED.get(writer.kind, ()) else None
    if writer.kind not in _NAMED or writer.label == reader.label:
        same_size = writer.size == reader.size
        return 0 if same_size else None
    space, _, name = reader.label.rpartition(".")
    aliases = [alias if "." in alias or not space else f"{space}.{alias}" for alias in _aliases(reader.definition)]
    if writer.kind == "fixed" and writer.size != reader.size:
        return None
    if writer.label in aliases:
        return 0
    if writer.label.rpartition(".")[2] == name:
        return 1
    return 3 if writer.kind == "record" else None


def _symbol(reader: AvroNode) -> Convert:
    symbols, default = frozenset(reader.names), reader.definition.get("default")

    def convert(symbol: str) -> str:
        if symbol in symbols:
            return symbol
        if default not in symbols:
            raise ValueError(f"{symbol[:100]} is not a symbol of {reader.label}")
        return str(default)

    return convert


def _leaf(writer: AvroNode, reader: AvroNode) -> Convert:
    decimal, logical = _decimal(reader), _LOGICAL.get(_logical(reader))
    if reader.kind == "string" and writer.kind == "bytes":
        return lambda value: value.encode("latin-1").decode()
    if reader.kind in ("bytes", "fixed"):
        encoding = "utf-8" if writer.kind == "string" else "latin-1"
        if decimal is None:
            return lambda value: value.encode(encoding)
        return lambda value: _decimal_of(value.encode(encoding), *decimal)
    if writer.kind == "float":
        return lambda value: _FLOAT.unpack(_FLOAT.pack(float(value)))[0]
    if reader.kind in ("float", "double"):
        return float
    if logical in ("timestamp", "timestamp_ntz"):
        scale = 1000 if str(reader.definition["logicalType"]).endswith("millis") else 1
        return lambda value: microseconds(value * scale)
    return lambda value: value


def _decimal_of(data: bytes, precision: int, scale: int) -> Decimal:
    unscaled = int.from_bytes(data, "big", signed=True)
    if len(data) > 20 or abs(unscaled) >= 10**precision:
        raise ValueError(f"a decimal has more than {precision} digits")
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def _constant(value: Any) -> Convert:
    return lambda _: value


def _refusal(reason: str) -> Convert:
    def refuse(_: Any) -> Any:
        raise ValueError(reason)

    return refuse


def _default(node: AvroNode, value: Any) -> Any:
    """Return a default, as the schema has it, in Avro's JSON encoding. Raises ValueError."""
    if node.kind == "union":
        for part in node.parts:
            try:
                found = _default(part, value)
            except ValueError:
                continue
            return None if part.kind == "null" else {part.label: found}
    elif node.kind == "record" and isinstance(value, dict):
        fields = zip(node.names, node.parts, node.definition["fields"], strict=True)
        return {name: _default(part, value.get(name, one.get("default", _MISSING))) for name, part, one in fields}
    elif node.kind == "array" and isinstance(value, list):
        return [_default(node.parts[0], one) for one in value]
    elif node.kind == "map" and isinstance(value, dict):
        return {key: _default(node.parts[0], one) for key, one in value.items()}
    elif isinstance(value, _OF_DEFAULTS.get(node.kind, ())) and isinstance(value, bool) is (node.kind == "boolean"):
        return value
    raise ValueError(f"a default is not a {node.label}")


_MISSING = object()
_OF_DEFAULTS: dict[str, type | tuple[type, ...]] = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "float": (int, float), "double": (int, float),
    "string": str, "bytes": str, "fixed": str, "enum": str,
}  # fmt: skip
