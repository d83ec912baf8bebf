"""Write one exported file, as Parquet or Arrow columns or as lines, into a file that is not published yet."""

from __future__ import annotations

from typing import Any, Protocol

from kafkalog_cli.disk.staged_file import StagedFile
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.log.reading.record_arrow import record_schema
from kafkalog_cli.ops.export.request import FileFormat
from kafkalog_cli.ops.values.decoded_columns import DECODED, DecodedColumns, Decoding

ROW_GROUP_BYTES = 64 << 20
"""The size in bytes of a row group's columns before compression."""

_SORTED = ("offset", "timestamp", "sequence", "batch_base_offset")
_FEW_VALUES = (
    "partition", "timestampType", "magic", "codec", "producer_id", "producer_epoch", "leader_epoch", "transactional",
    "control",
)  # fmt: skip
"""Columns that are the same for a whole batch, so that their values repeat."""
_MAY_REPEAT = ("key", "value", "headers.list.element.key", "headers.list.element.value")
"""Columns for which Parquet tries a dictionary, and drops it in a row group where it becomes large."""


class ExportWriter(Protocol):
    """Takes parts in the order of offsets; `held_bytes` are not written until `flush`, or until there are enough."""

    held_bytes: int

    def write(self, part: Any) -> None:
        """Append a part: a RecordBatch, or bytes."""

    def flush(self) -> None:
        """Write the parts that are held."""

    def close(self) -> None:
        """End the file; the stream stays open."""


def writer(format: FileFormat, file: StagedFile, schema: Any, codec: str) -> ExportWriter:  # noqa: A002
    """Return the writer for a format; `schema` has the metadata of the file, None for lines."""
    if format is FileFormat.JSON:
        return LinesWriter(file)
    return (ParquetWriter if format is FileFormat.PARQUET else ArrowWriter)(file, schema, codec)


class LinesWriter:
    """Writes lines as they come."""

    def __init__(self, file: StagedFile) -> None:
        self.held_bytes = 0
        self._file = file

    def write(self, part: bytes) -> None:
        """See ExportWriter."""
        self._file.write(part)

    def flush(self) -> None:
        """See ExportWriter."""

    def close(self) -> None:
        """See ExportWriter."""


class _Gathering:
    """Gathers parts into large tables."""

    def __init__(self, schema: Any) -> None:
        self.held_bytes = 0
        self._schema = schema
        self._held: list[Any] = []

    def write(self, part: Any) -> None:
        """See ExportWriter."""
        self._held.append(part)
        self.held_bytes += part.nbytes
        if self.held_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """See ExportWriter."""
        import pyarrow as pa

        if self._held:
            held, self._held, self.held_bytes = self._held, [], 0
            self._write(pa.Table.from_batches([part.replace_schema_metadata(None) for part in held]))
            pa.default_memory_pool().release_unused()  # else it keeps the memory of the largest pages

    def _write(self, table: Any) -> None:
        raise NotImplementedError


class ParquetWriter(_Gathering):
    """Writes a Parquet file, with one row group per gathered table."""

    def __init__(self, file: StagedFile, schema: Any, codec: str) -> None:
        import pyarrow.parquet as pq

        super().__init__(schema)
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression=codec,
            use_dictionary=[*_FEW_VALUES, *_MAY_REPEAT],
            column_encoding=dict.fromkeys(_SORTED, "DELTA_BINARY_PACKED"),
            write_statistics=[*_SORTED, *_FEW_VALUES],
        )

    def _write(self, table: Any) -> None:
        self._writer.write_table(table.replace_schema_metadata(self._schema.metadata), row_group_size=table.num_rows)

    def close(self) -> None:
        """See ExportWriter."""
        self.flush()
        self._writer.close()


class ArrowWriter(_Gathering):
    """Writes a file in the Arrow IPC file format."""

    def __init__(self, file: StagedFile, schema: Any, codec: str) -> None:
        import pyarrow as pa

        super().__init__(schema)
        options = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec)
        self._writer = pa.ipc.new_file(file, schema, options=options)

    def _write(self, table: Any) -> None:
        self._writer.write_table(table.replace_schema_metadata(self._schema.metadata))

    def close(self) -> None:
        """See ExportWriter."""
        self.flush()
        self._writer.close()


VERSION = "1"
"""The version of the columns, kept in the metadata of each file."""

CORE = (
    "key", "value", "offset", "timestamp", "timestamp_type", "headers", "batch_base_offset", "magic", "codec",
    "producer_id", "producer_epoch", "sequence", "leader_epoch", "transactional", "control",
)  # fmt: skip
"""The columns of the core that exported columns are made from, in their order."""

_NAMES = {"timestamp_type": "timestampType"}
"""Names that differ from the core: those of Spark's Kafka source, if it has such a column."""
OF_FILES = (*_NAMES.values(), "partition", "topic", "day", *DECODED.values())
"""Columns of exported files that the core does not have; topic and day are in the names of directories."""
_CODECS = 8


def core_schema() -> Any:
    """Return the pyarrow.Schema of the batches that `exported` takes."""
    return record_schema(CORE)


def export_schema(decoding: Decoding | None = None) -> Any:
    """Return the pyarrow.Schema of exported records; the topic is in the directory's name and the file's metadata.

    `decoding` adds columns of decoded contents at the end. A null timestamp means that the record has none (-1).
    Header keys are bytes, since Kafka does not require text.
    """
    import pyarrow as pa

    fields = []
    for field in core_schema():
        kind = pa.string() if field.name == "codec" else field.type
        fields.append(pa.field(_NAMES.get(field.name, field.name), kind, field.nullable))
    fields.insert(2, pa.field("partition", pa.int32(), nullable=False))
    fields += [pa.field(DECODED[name], pa.string()) for name in (decoding.columns if decoding else ())]
    return pa.schema(fields)


def exported(batch: Any, partition: int, schema: Any, decoded: DecodedColumns | None = None) -> Any:
    """Return a RecordBatch of `core_schema` as one of `export_schema`, whose decoded contents come from `decoded`."""
    import pyarrow as pa

    arrays, contents = [], {column: name for name, column in DECODED.items()}
    for name in schema.names:
        if name in contents:
            assert decoded is not None
            arrays.append(decoded.texts(batch, contents[name]))
            continue
        if name == "partition":
            arrays.append(pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows))
        elif name == "codec":
            arrays.append(_codec_names().take(batch.column("codec")))
        else:
            arrays.append(batch.column("timestamp_type" if name == "timestampType" else name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _codec_names() -> Any:
    import pyarrow as pa

    return pa.array([codec_name(number) for number in range(_CODECS)], pa.string())
