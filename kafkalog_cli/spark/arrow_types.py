"""Converts Spark's types, as in its JSON, to Arrow: the form of data between tasks and the driver."""

from __future__ import annotations

import re
from typing import Any

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_TEXT = re.compile(r"(string|char|varchar)\b.*")


def arrow_of(kind: Any) -> Any:
    """Return the pyarrow.DataType of a type in Spark's JSON; None if Arrow lacks the type or defines it differently."""
    if isinstance(kind, str):
        return _simple(kind)
    import pyarrow as pa

    if kind["type"] == "array":
        element = arrow_of(kind["elementType"])
        return None if element is None else pa.list_(_field("element", element, nullable=kind["containsNull"]))
    if kind["type"] == "map":
        key, value = arrow_of(kind["keyType"]), arrow_of(kind["valueType"])
        if key is None or value is None or pa.types.is_null(key):
            return None
        return pa.map_(pa.field("key", key, False), _field("value", value, nullable=kind["valueContainsNull"]))
    if kind["type"] == "struct":
        parts = [(field, arrow_of(field["type"])) for field in kind["fields"]]
        if any(part is None for _, part in parts):
            return None
        return pa.struct([_field(field["name"], part, nullable=field["nullable"]) for field, part in parts])
    return None


def _field(name: str, kind: Any, *, nullable: bool) -> Any:
    """Return a pyarrow.Field.

    A null type is always nullable: Spark allows a non-null element in `array()`, Arrow does not.
    """
    import pyarrow as pa

    return pa.field(name, kind, nullable or pa.types.is_null(kind))


def arrow_schema_of(schema: Any) -> Any:
    """Return the pyarrow.Schema of a StructType; Arrow must have all of its types."""
    import pyarrow as pa

    return pa.schema([pa.field(one.name, arrow_of(one.dataType.jsonValue()), one.nullable) for one in schema.fields])


def _simple(kind: str) -> Any:
    import pyarrow as pa

    types = {
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return pa.string() if _TEXT.fullmatch(kind) else types.get(kind)
