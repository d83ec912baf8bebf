"""One exported file: columns as Parquet or Arrow, or lines, into a stream that is not seen yet."""

from __future__ import annotations

from typing import Any, Protocol

from kafkalog_cli.actions.export.request import FileFormat
from kafkalog_cli.storage.publishing.staged_file import StagedFile

ROW_GROUP_BYTES = 64 << 20
"""Of columns, before they are packed."""

_SORTED = ("offset", "timestamp", "sequence", "batch_base_offset")
_FEW_VALUES = (
    "partition", "timestampType", "magic", "codec", "producer_id", "producer_epoch", "leader_epoch", "transactional",
    "control",
)  # fmt: skip
"""Columns of batches, whose values repeat."""
_MAY_REPEAT = ("key", "value", "headers.list.element.key", "headers.list.element.value")
"""A dictionary is tried, and given up in a row group where it gets large."""


class Writer(Protocol):
    """Takes parts in the order of offsets; `held_bytes` wait until `flush`, or until they are enough."""

    held_bytes: int

    def write(self, part: Any) -> None:
        """Append a part: a RecordBatch, or bytes."""

    def flush(self) -> None:
        """Hand over what waits."""

    def close(self) -> None:
        """The end of the file; the stream stays open."""


def writer(format: FileFormat, file: StagedFile, schema: Any, codec: str) -> Writer:  # noqa: A002
    """What writes a file of this format; `schema` with the metadata of the file, None for lines."""
    if format is FileFormat.JSON:
        return LinesWriter(file)
    return (ParquetWriter if format is FileFormat.PARQUET else ArrowWriter)(file, schema, codec)


class LinesWriter:
    """Lines as they come."""

    def __init__(self, file: StagedFile) -> None:
        self.held_bytes = 0
        self._file = file

    def write(self, part: bytes) -> None:
        """See Writer."""
        self._file.write(part)

    def flush(self) -> None:
        """See Writer."""

    def close(self) -> None:
        """See Writer."""


class _Gathering:
    """Parts gathered to large ones."""

    def __init__(self, schema: Any) -> None:
        self.held_bytes = 0
        self._schema = schema
        self._held: list[Any] = []

    def write(self, part: Any) -> None:
        """See Writer."""
        self._held.append(part)
        self.held_bytes += part.nbytes
        if self.held_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """See Writer."""
        import pyarrow as pa

        if self._held:
            held, self._held, self.held_bytes = self._held, [], 0
            self._write(pa.Table.from_batches([part.replace_schema_metadata(None) for part in held]))

    def _write(self, table: Any) -> None:
        raise NotImplementedError


class ParquetWriter(_Gathering):
    """A row group for what was gathered."""

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
        """See Writer."""
        self.flush()
        self._writer.close()


class ArrowWriter(_Gathering):
    """The file format of Arrow IPC."""

    def __init__(self, file: StagedFile, schema: Any, codec: str) -> None:
        import pyarrow as pa

        super().__init__(schema)
        options = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec)
        self._writer = pa.ipc.new_file(file, schema, options=options)

    def _write(self, table: Any) -> None:
        self._writer.write_table(table.replace_schema_metadata(self._schema.metadata))

    def close(self) -> None:
        """See Writer."""
        self.flush()
        self._writer.close()
