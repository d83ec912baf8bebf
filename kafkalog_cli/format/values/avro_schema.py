"""Avro schemas as readers: a schema of the registry becomes a tree of nodes, with limits on what it may hold."""

from __future__ import annotations

import json
from typing import Any

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
MOST_NODES = 20_000
"""The most types of a schema with all its references."""
MOST_NESTING = 100
"""The deepest nesting of a schema's text."""
_MOST_FIXED_BYTES = 1 << 20


class AvroNode:
    """A type. `kind` is its name in Avro; `label` is what the JSON encoding calls it as a branch of a union.

    `parts`: the types of fields, of the branches, or of the items. `names`: the names of the fields, or the symbols.
    """

    __slots__ = ("kind", "label", "names", "parts", "size")

    def __init__(self, kind: str, label: str) -> None:
        self.kind = kind
        self.label = label
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
            node.parts = tuple(self._node(one, space, depth + 1) for one in value)
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
            return self._known(kind, space)
        raise ValueError("a type of the schema has no name")

    def _known(self, name: str, space: str) -> AvroNode:
        if name in self._primitive:
            return self._primitive[name]
        found = None if "." in name or not space else self._named.get(f"{space}.{name}")
        found = found or self._named.get(name)
        if found is None:
            raise ValueError(f"the schema does not define the type {_short(name)}")
        return found

    def _define(self, value: dict[str, Any], kind: str, space: str, depth: int) -> AvroNode:
        name, own = value.get("name"), value.get("namespace", space)
        if not isinstance(name, str) or not isinstance(own, str):
            raise ValueError(f"a {kind} of the schema has no name")
        if "." in name:
            own = name.rpartition(".")[0]
        full = name if "." in name or not own else f"{own}.{name}"
        node = AvroNode("record" if kind == "error" else kind, full)
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
            if not isinstance(fields, list) or not all(isinstance(one, dict) for one in fields):
                raise ValueError(f"{_short(full)} has no list of fields")
            node.names = _texts([one.get("name") for one in fields], "fields", full)
            node.parts = tuple(self._node(one.get("type"), own, depth + 1) for one in fields)
        return node


def _texts(found: Any, what: str, full: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"the {what} of {_short(full)} are not names")
    return tuple(found)


def _short(name: str) -> str:
    return name if len(name) <= 200 else f"{name[:200]}..."
