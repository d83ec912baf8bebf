"""The columns key_struct and value_struct of a topic: their types, and the values of its records."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.format.values.avro_value import AvroNode
from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded, ValueDecoder
from kafkalog_cli.format.values.schema_set import StoredSchema
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.scans.schema import SourceColumn, arrow_of
from kafkalog_cli.ops.scans.structs.avro import AvroShape
from kafkalog_cli.ops.scans.structs.protobuf import ProtobufShape
from kafkalog_cli.ops.values import DecodedColumns, UndecodedCounts

_MOST_CELLS = 1 << 21
"""The most fields of all rows that are converted at a time."""


class StructTypes:
    """The types of columns of structs in the records of some partitions; the schemas are read once, when needed."""

    def __init__(self, fs: Filesystem, decoding: Decoding, partitions: Iterable[Partition]) -> None:
        self._fs = fs
        self._decoding = decoding
        self._partitions = list(partitions)

    @cached_property
    def _decoder(self) -> ValueDecoder | None:
        return self._decoding.decoder(self._fs, [partition.path for partition in self._partitions])[0]

    def typed(self, column: SourceColumn) -> SourceColumn:
        """Return a column of structs with the type of the newest schema of the partitions' topics; others unchanged.

        Raises UsageError if a topic has no such schema, or if the types of topics differ.
        """
        if not column.is_struct:
            return column
        types = {
            topic: self._type(column, topic) for topic in sorted({partition.topic for partition in self._partitions})
        }
        first = next(iter(types.values()))
        if any(kind != first for kind in types.values()):
            raise UsageError(
                reason=f"the column {column.name} has other fields in each topic: read one topic at a time"
            )
        return column._replace(spark=first)

    def _type(self, column: SourceColumn, topic: str) -> Any:
        subject, decoder = _subject(column, topic), self._decoder
        newest = None if decoder is None or not _is_read(column, decoder) else decoder.schemas.latest(subject)
        if decoder is None or newest is None:
            places = "" if decoder is None else f" in {' or '.join(decoder.schemas.places) or 'any place'}"
            raise UsageError(reason=f"{topic} has no column {column.name}: there is no schema {subject}{places}")
        try:
            return _shape(decoder, newest).type
        except ValueError as error:
            raise UsageError(
                reason=f"{topic} has no column {column.name}: {error}. {column.core}_json has the values as JSON"
            ) from error


class StructColumn:
    """The values of a column of structs of one topic. Raises KafkalogError if no schema has the type of the column."""

    def __init__(self, decoder: ValueDecoder, topic: str, column: SourceColumn) -> None:
        self._column = column
        for schema in decoder.schemas.versions(_subject(column, topic)):
            try:
                shape = _shape(decoder, schema)
            except ValueError:
                continue
            if shape.type == column.spark:
                self._rows = max(1, _MOST_CELLS // shape.size)
                self._decoded = DecodedColumns(decoder.in_shape(shape), topic)
                return
        raise KafkalogError(reason=f"no schema of {_subject(column, topic)} has the type of the column {column.name}")

    @property
    def undecoded(self) -> UndecodedCounts:
        """What was not decoded."""
        return self._decoded.undecoded

    def values(self, batch: Any) -> Any:
        """Return the structs of a RecordBatch; null: a null key or value, or one that is not decoded."""
        import pyarrow as pa

        kind = arrow_of(self._column.spark)
        parts = [
            pa.array([_value(contents) for contents in self._decoded.decoded(part, self._column.core)], kind)
            for part in (batch.slice(at, self._rows) for at in range(0, batch.num_rows, self._rows))
        ]
        return pa.concat_arrays(parts) if parts else pa.nulls(0, kind)


def _value(decoded: DecodedContents | Undecoded | None) -> Any:
    return decoded.value if isinstance(decoded, DecodedContents) else None


def _subject(column: SourceColumn, topic: str) -> str:
    return f"{topic}-{column.core}"


def _is_read(column: SourceColumn, decoder: ValueDecoder) -> bool:
    form = decoder.key_format if column.core == "key" else decoder.value_format
    return form is not None and form.needs_schemas and not form.is_windowed


def _shape(decoder: ValueDecoder, schema: StoredSchema) -> AvroShape | ProtobufShape:
    """Return the type of a schema. Raises ValueError if Spark has none, or if the schema cannot be used."""
    reader = decoder.reader(schema)
    if isinstance(reader, Undecoded):
        raise ValueError(reader.reason)
    return AvroShape(reader) if isinstance(reader, AvroNode) else ProtobufShape(reader)
