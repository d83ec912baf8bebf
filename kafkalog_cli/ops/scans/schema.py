"""The columns of the source: one table, from which Spark's and Arrow's schemas are made; and conversions of types."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.values import DECODED

_HEADERS = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
    "containsNull": True,
}


MOST_MS = ((1 << 63) - 1) // 1000
"""The latest timestamp that fits into the microseconds of Spark and DuckDB."""


class SourceColumn(NamedTuple):
    """A column. `spark` is its type in Spark's JSON, `core` is its source column in `record_schema`.

    `core` is empty for a value that is constant per segment. `needs_records`: batch headers do not contain the value.
    """

    name: str
    spark: Any
    core: str = ""
    needs_records: bool = False

    @property
    def is_struct(self) -> bool:
        """Whether the column is one of STRUCT_COLUMNS, whose type depends on the topic."""
        return self.name in STRUCTS


KAFKA_COLUMNS = (
    SourceColumn("key", "binary", "key", needs_records=True),
    SourceColumn("value", "binary", "value", needs_records=True),
    SourceColumn("topic", "string"),
    SourceColumn("partition", "integer"),
    SourceColumn("offset", "long", "offset"),
    SourceColumn("timestamp", "timestamp", "timestamp", needs_records=True),
    SourceColumn("timestampType", "integer", "timestamp_type"),
)
"""The columns of Spark's own Kafka source, in its order."""

HEADERS = SourceColumn("headers", _HEADERS, "headers", needs_records=True)

BATCH_COLUMNS = (
    SourceColumn("segment", "string"),
    SourceColumn("position", "long", "position"),
    SourceColumn("batch_base_offset", "long", "batch_base_offset"),
    SourceColumn("codec", "string", "codec"),
    SourceColumn("producer_id", "long", "producer_id"),
    SourceColumn("producer_epoch", "integer", "producer_epoch"),
    SourceColumn("sequence", "integer", "sequence", needs_records=True),
    SourceColumn("leader_epoch", "integer", "leader_epoch"),
    SourceColumn("transactional", "boolean", "transactional"),
    SourceColumn("control", "boolean", "control"),
)
"""The columns that includeBatchMetadata adds: a record's batch and that batch's place."""

SIZE_COLUMNS = (
    SourceColumn("key_size", "integer", "key_size", needs_records=True),
    SourceColumn("value_size", "integer", "value_size", needs_records=True),
)
"""The sizes of key and value in bytes, null for a null key or value; selected by name only."""

JSON_COLUMNS = tuple(SourceColumn(column, "string", name, needs_records=True) for name, column in DECODED.items())
"""Key and value decoded by the options keyFormat and valueFormat (auto without them), as JSON; null: not decoded."""

STRUCTS = {"key_struct": "key", "value_struct": "value"}
STRUCT_COLUMNS = tuple(SourceColumn(column, None, name, needs_records=True) for column, name in STRUCTS.items())
"""Key and value decoded with schemas, in the type that the newest schema of the topic has; selected by name only."""

TEXT_COLUMNS = (
    SourceColumn("key_text", "string", "key", needs_records=True),
    SourceColumn("value_text", "string", "value", needs_records=True),
    *JSON_COLUMNS,
)
"""Key and value decoded as UTF-8, invalid bytes as U+FFFD, null for a null key or value; and JSON_COLUMNS.

They are selected by name only.
"""

RECORDS = SourceColumn("_records", "long")
"""The number of records that a row stands for: those of a RecordBatch that have the same other columns."""

FAULT = SourceColumn("_fault", "string")
"""The column that mode permissive adds: the damage, in a row of its own; null in the rows of records."""

BY_NAME = {
    column.name: column for column in (*KAFKA_COLUMNS, HEADERS, *BATCH_COLUMNS, *SIZE_COLUMNS, *TEXT_COLUMNS, FAULT)
}


def default_columns(*, headers: bool, batch_metadata: bool, faults: bool) -> tuple[SourceColumn, ...]:
    """Return the columns of a source with these options."""
    columns = [*KAFKA_COLUMNS]
    if headers:
        columns.append(HEADERS)
    if batch_metadata:
        columns += BATCH_COLUMNS
    return (*columns, FAULT) if faults else tuple(columns)


def columns_named(names: Sequence[str]) -> tuple[SourceColumn, ...]:
    """Return columns by name, in this order. Raises UsageError for an unknown or repeated name."""
    known = BY_NAME | {column.name: column for column in STRUCT_COLUMNS}
    unknown = [name for name in names if name not in known and name != RECORDS.name]
    if unknown:
        raise UsageError(reason=f"there is no column {', '.join(unknown)}; there are {', '.join(known)}")
    if len(set(names)) != len(names) or not names:
        raise UsageError(reason=f"each column once, at least one; not {', '.join(names) or 'none'}")
    columns = tuple(known.get(name, RECORDS) for name in names)
    if RECORDS in columns and not all(isinstance(one.spark, str) for one in columns):
        raise UsageError(reason=f"the column {RECORDS.name} is not beside headers or structs")
    return columns


def columns_of(schema: Any) -> tuple[SourceColumn, ...]:
    """Return the columns of a StructType that a user gave. Raises UsageError for other columns than the source's."""
    kinds = {field.name: field.dataType.jsonValue() for field in schema.fields}
    named = columns_named([field.name for field in schema.fields])
    columns = tuple(column._replace(spark=kinds[column.name]) if column.is_struct else column for column in named)
    for column, field in zip(columns, schema.fields, strict=True):
        if field.dataType.jsonValue() != column.spark or not field.nullable:
            kind = field.dataType.simpleString() + ("" if field.nullable else " not null")
            raise UsageError(reason=f"column {column.name} is {_simple(column)}, which may be null; not {kind}")
    return columns


def headers_tell_all(columns: Iterable[SourceColumn]) -> bool:
    """Whether the headers of batches contain all values of these columns."""
    return not any(column.needs_records for column in columns)


def arrow_schema(columns: Iterable[SourceColumn]) -> Any:
    """Return the columns as the pyarrow.Schema that Spark expects of batches."""
    import pyarrow as pa

    return pa.schema([pa.field(column.name, arrow_of(column.spark)) for column in columns])


def _simple(column: SourceColumn) -> str:
    names = {"integer": "int", "long": "bigint"}
    if isinstance(column.spark, str):
        return names.get(column.spark, column.spark)
    return "array<struct<key:string,value:binary>>"


_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_TEXT = re.compile(r"(string|char|varchar)\b.*")


def arrow_of(kind: Any) -> Any:
    """Return the pyarrow.DataType of a type in Spark's JSON; None if Arrow lacks the type or defines it differently."""
    if isinstance(kind, str):
        return _simple_arrow(kind)
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


def _simple_arrow(kind: str) -> Any:
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
