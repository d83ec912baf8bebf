"""Avro's binary encoding, read into the values of Avro's JSON encoding.

The JSON encoding names the branch of a union, which fastavro does not report. Libraries of Avro follow lengths and
recursive types as far as the bytes say. This reader counts the values and the nesting, and stops.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from kafkalog_cli.format.limits import MOST_DEPTH, MOST_VALUES

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_NOT_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def decode_avro(data: memoryview, schema: AvroNode) -> Any:
    """Return the value as JSON has it. Raises ValueError for bytes that the schema cannot have written.

    A union at the top has no name of its branch, as kafka-avro-console-consumer prints it.
    """
    value = read_avro(data, schema)
    return value if schema.kind != "union" or value is None else next(iter(value.values()))


def read_avro(data: memoryview, schema: AvroNode) -> Any:
    """Return the value in Avro's JSON encoding, also of a union at the top. Raises ValueError as `decode_avro`."""
    reader = _Reader(data)
    value = reader.value(schema, 0)
    if reader.position != len(data):
        raise ValueError(f"{len(data) - reader.position} bytes follow the value")
    return value


def json_double(value: float) -> float | str:
    """Return a number of JSON, or the text with which Java's encoder writes a number that is not finite."""
    return _NOT_NUMBERS[str(value)] if value != value or value in (float("inf"), float("-inf")) else value  # noqa: PLR0124


def json_float(value: float) -> float | str:
    """Return the shortest decimal number that is this number of 32 bits, as Java prints it."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        try:
            if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
                return json_double(short)
        except OverflowError:
            continue
    return json_double(float(f"{value:.9g}"))


class _Reader:
    """The bytes of one value, and how far they are read."""

    def __init__(self, data: memoryview) -> None:
        self.position = 0
        self._data = bytes(data)
        self._left = MOST_VALUES
        self._readers: dict[str, Callable[[AvroNode, int], Any]] = {
            "null": lambda *_: None,
            "boolean": self._boolean,
            "int": self._int,
            "long": lambda *_: self._varint(),
            "float": lambda *_: json_float(_FLOAT.unpack(self._take(4))[0]),
            "double": lambda *_: json_double(_DOUBLE.unpack(self._take(8))[0]),
            "bytes": lambda *_: self._sized().decode("latin-1"),
            "string": lambda *_: self._text(),
            "fixed": lambda node, _: self._take(node.size).decode("latin-1"),
            "enum": self._enum,
            "union": self._union,
            "array": self._array,
            "map": self._map,
            "record": self._record,
        }

    def value(self, node: AvroNode, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} deep")
        return self._readers[node.kind](node, depth)

    def _union(self, node: AvroNode, depth: int) -> Any:
        index = self._varint()
        if not 0 <= index < len(node.parts):
            raise ValueError(f"branch {index} of a union with {len(node.parts)}")
        branch = node.parts[index]
        value = self.value(branch, depth + 1)
        return None if branch.kind == "null" else {branch.label: value}

    def _record(self, node: AvroNode, depth: int) -> dict[str, Any]:
        return {name: self.value(part, depth + 1) for name, part in zip(node.names, node.parts, strict=True)}

    def _array(self, node: AvroNode, depth: int) -> list[Any]:
        items: list[Any] = []
        while count := self._block():
            items.extend(self.value(node.parts[0], depth + 1) for _ in range(count))
        return items

    def _map(self, node: AvroNode, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while count := self._block():
            for _ in range(count):
                key = self._text()
                entries[key] = self.value(node.parts[0], depth + 1)
        return entries

    def _block(self) -> int:
        """Return the number of items of the next block of an array or map; 0 after the last one."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        count = self._varint()
        if count < 0:
            self._varint()  # the bytes of the block, for readers that skip it
            count = -count
        return count

    def _enum(self, node: AvroNode, _: int) -> str:
        index = self._varint()
        if not 0 <= index < len(node.names):
            raise ValueError(f"symbol {index} of an enum with {len(node.names)}")
        return node.names[index]

    def _boolean(self, *_: Any) -> bool:
        byte = self._take(1)[0]
        if byte > 1:
            raise ValueError(f"a boolean with the value {byte}")
        return byte == 1

    def _int(self, *_: Any) -> int:
        value = self._varint()
        if not -(1 << 31) <= value < 1 << 31:
            raise ValueError(f"an int with the value {value}")
        return value

    def _text(self) -> str:
        try:
            return self._sized().decode()
        except UnicodeDecodeError as error:
            raise ValueError("a string that is not UTF-8") from error

    def _sized(self) -> bytes:
        size = self._varint()
        if size < 0:
            raise ValueError(f"a length of {size}")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        start = self.position
        if size > len(self._data) - start:
            raise ValueError(f"it ends after {len(self._data)} bytes, and {size} were to follow byte {start}")
        self.position = start + size
        return self._data[start : self.position]

    def _varint(self) -> int:
        data, position, result, shift = self._data, self.position, 0, 0
        end = min(len(data), position + 10)
        while position < end:
            byte = data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                if result >> 64:
                    break
                self.position = position
                return (result >> 1) ^ -(result & 1)
            shift += 7
        raise ValueError(f"no number at byte {self.position}")


PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
MOST_NODES = 20_000
"""The most types of a schema with all its references."""
MOST_NESTING = 100
"""The deepest nesting of a schema's text."""
_MOST_FIXED_BYTES = 1 << 20


class AvroNode:
    """A type. `kind` is its name in Avro; `label` is what the JSON encoding calls it as a branch of a union.

    `parts`: the types of fields, of the branches, or of the items. `names`: the names of the fields, or the symbols.
    `definition` is the object of a named or logical type in the text of the schema: it has defaults and aliases.
    """

    __slots__ = ("definition", "kind", "label", "names", "parts", "size")

    def __init__(self, kind: str, label: str, definition: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.label = label
        self.definition: dict[str, Any] = definition or {}
        self.names: tuple[str, ...] = ()
        self.parts: tuple[AvroNode, ...] = ()
        self.size = 0


class AvroNames:
    """The named types that schemas define, for a schema and the schemas that it refers to."""

    def __init__(self) -> None:
        self._named: dict[str, AvroNode] = {}
        self._primitive = {name: AvroNode(name, name) for name in PRIMITIVES}
        self._count = 0

    def parse(self, text: str) -> AvroNode:
        """Parse a schema; its named types are known to schemas parsed later. Raises ValueError."""
        try:
            value = text.strip() if text.strip() in PRIMITIVES else json.loads(text)
        except RecursionError as error:
            raise ValueError("the schema is nested too deeply") from error
        except ValueError:
            value = text.strip()  # the registry also takes the bare name of a type
        return self._node(value, "", 0)

    def _node(self, value: Any, space: str, depth: int) -> AvroNode:
        self._count += 1
        if self._count > MOST_NODES:
            raise ValueError(f"the schema has more than {MOST_NODES} types")
        if depth > MOST_NESTING:
            raise ValueError("the schema is nested too deeply")
        if isinstance(value, str):
            return self._known(value, space)
        if isinstance(value, list):
            node = AvroNode("union", "union")
            node.parts = tuple(self._node(branch, space, depth + 1) for branch in value)
            return node
        if not isinstance(value, dict):
            raise ValueError("a type of the schema is neither a name, a list nor an object")
        kind = value.get("type")
        if isinstance(kind, (dict, list)):
            return self._node(kind, space, depth + 1)
        if kind in ("array", "map"):
            node = AvroNode(kind, kind)
            node.parts = (self._node(value.get("items" if kind == "array" else "values"), space, depth + 1),)
            return node
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(value, kind, space, depth)
        if isinstance(kind, str):
            is_logical = kind in self._primitive and "logicalType" in value
            return AvroNode(kind, kind, value) if is_logical else self._known(kind, space)
        raise ValueError("a type of the schema has no name")

    def _known(self, name: str, space: str) -> AvroNode:
        if name in self._primitive:
            return self._primitive[name]
        node = None if "." in name or not space else self._named.get(f"{space}.{name}")
        node = node or self._named.get(name)
        if node is None:
            raise ValueError(f"the schema does not define the type {_short(name)}")
        return node

    def _define(self, value: dict[str, Any], kind: str, space: str, depth: int) -> AvroNode:
        name, own = value.get("name"), value.get("namespace", space)
        if not isinstance(name, str) or not isinstance(own, str):
            raise ValueError(f"a {kind} of the schema has no name")
        if "." in name:
            own = name.rpartition(".")[0]
        full = name if "." in name or not own else f"{own}.{name}"
        node = AvroNode("record" if kind == "error" else kind, full, value)
        if kind == "enum":
            node.names = _texts(value.get("symbols"), "symbols", full)
        elif kind == "fixed":
            size = value.get("size")
            if type(size) is not int or not 0 <= size <= _MOST_FIXED_BYTES:
                raise ValueError(f"the size of {_short(full)} is not a number from 0 to {_MOST_FIXED_BYTES}")
            node.size = size
        self._named[full] = node
        if kind in ("record", "error"):
            fields = value.get("fields")
            if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
                raise ValueError(f"{_short(full)} has no list of fields")
            node.names = _texts([field.get("name") for field in fields], "fields", full)
            node.parts = tuple(self._node(field.get("type"), own, depth + 1) for field in fields)
        return node


def _texts(texts: Any, what: str, full: str) -> tuple[str, ...]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"the {what} of {_short(full)} are not names")
    return tuple(texts)


def _short(name: str) -> str:
    return name if len(name) <= 200 else f"{name[:200]}..."
