"""Write one exported file, as Parquet or Arrow columns or as lines, into a file that is not published yet."""

from __future__ import annotations

from typing import Any, Protocol

from kafkalog_cli.disk.staged_file import StagedFile
from kafkalog_cli.ops.export.request import FileFormat

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
