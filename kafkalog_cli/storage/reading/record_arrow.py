"""Record and batch columns as Arrow: what a library, Spark and an export take. The data is copied once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    NO_OFFSET,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.records import RECORD_COLUMN_NAMES, RecordBlock, RecordColumns, field_bytes, read_headers

COPY_FIELDS = "kafkalog_cli.format.kernels.fields:copy_fields"
HEADER_BYTES = "kafkalog_cli.format.kernels.fields:header_bytes"
COPY_HEADERS = "kafkalog_cli.format.kernels.fields:copy_headers"

RECORD_FIELDS = (
    "offset", "timestamp", "key", "value", "headers", "timestamp_type", "leader_epoch", "producer_id", "producer_epoch",
    "sequence", "transactional",
)  # fmt: skip
"""Columns of records, in their order."""

BATCH_FIELDS = ("batch_base_offset", "position", "codec", "control", "magic")
"""Columns of a record's batch, for those who ask: `position` in bytes in the segment, `codec` by its number."""

SIZE_FIELDS = ("key_size", "value_size")
"""Bytes of key and value, for those who do not want these themselves; null where they are null."""

_KEY_ROW, _VALUE_ROW = 3, 5
_MAX_INT32 = (1 << 31) - 1
_MOST_CLAIMED = 1 << 22


def record_schema(columns: Sequence[str] | None = None) -> Any:
    """The pyarrow.Schema of records with these columns, None: RECORD_FIELDS.

    BATCH_FIELDS and SIZE_FIELDS are there too. Raises UsageError for a column that does not exist.
    """
    pa = _pyarrow()
    header = pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])
    types = {
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(header),
        "timestamp_type": pa.int8(),
        "leader_epoch": pa.int32(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "sequence": pa.int32(),
        "transactional": pa.bool_(),
        "batch_base_offset": pa.int64(),
        "position": pa.int64(),
        "codec": pa.int8(),
        "control": pa.bool_(),
        "magic": pa.int8(),
        "key_size": pa.int32(),
        "value_size": pa.int32(),
    }
    wanted = RECORD_FIELDS if columns is None else columns
    unknown = [name for name in wanted if name not in types]
    if unknown:
        raise UsageError(reason=f"records have no column {', '.join(unknown)}; they have {', '.join(RECORD_FIELDS)}")
    nullable = ("timestamp", "key", "value", *SIZE_FIELDS)
    return pa.schema([pa.field(name, types[name], nullable=name in nullable) for name in wanted])


def batch_schema() -> Any:
    """The pyarrow.Schema of batches: the columns of `Batch`, and whether the CRC holds."""
    pa = _pyarrow()
    fields = [pa.field(name, pa.int64(), nullable=False) for name in Batch._fields if name != "valid"]
    return pa.schema([*fields, pa.field("crc_valid", pa.bool_(), nullable=False)])


def record_batches(block: RecordBlock, schema: Any) -> list[Any]:
    """The records of a block as pyarrow.RecordBatches; several only where offsets of 32 bits do not do."""
    pa = _pyarrow()
    records, counts = _records(block)
    parts = [(0, records.shape[1])]
    found = []
    while parts:
        first, end = parts.pop()
        if end - first > 1 and _largest(records[:, first:end]) > _MAX_INT32:
            middle = (first + end) // 2
            parts += [(middle, end), (first, middle)]
            continue
        columns = _Columns(block, records[:, first:end], counts[first:end])
        arrays = [getattr(columns, name)(field.type) for name, field in zip(schema.names, schema, strict=True)]
        found.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return found


HEADER_FIELDS = frozenset(
    {"offset", "timestamp_type", "leader_epoch", "producer_id", "producer_epoch", "transactional", *BATCH_FIELDS}
)
"""Columns that need no record to be read where `rows_of_headers` has the rows."""


def headers_tell(batches: BatchColumns) -> bool:
    """Whether the headers tell how many records there are and which offsets they have: no record of theirs is gone.

    Where they claim very many, their records are to be counted, which the limits of reading watch over.
    """
    import numpy as np

    columns = (batches.base_offset, batches.last_offset, batches.records_count)
    base, last, count = (np.asarray(column, dtype=np.int64) for column in columns)
    dense = (base != NO_OFFSET) & (last - base + 1 == count) & (count >= 0) & (count <= _MOST_CLAIMED)
    return bool(dense.all()) and int(count.sum()) <= _MOST_CLAIMED


def rows_of_headers(batches: BatchColumns) -> RecordBlock:
    """A row for each record of batches of which `headers_tell`: HEADER_FIELDS of them are right, the others nothing."""
    import numpy as np

    counts = np.asarray(batches.records_count, dtype=np.int64)
    bases = np.asarray(batches.base_offset, dtype=np.int64)
    ends: Any = np.cumsum(counts)
    rows: Any = np.zeros((len(RECORD_COLUMN_NAMES), int(ends[-1]) if len(ends) else 0), dtype=np.int64)
    rows[0] = np.repeat(bases - (ends - counts), counts) + np.arange(rows.shape[1])
    return RecordBlock(memoryview(b""), batches, 0, len(batches), ends, RecordColumns.from_matrix(rows))


def arrow_of_batches(batches: BatchColumns) -> Any:
    """Batches as one pyarrow.RecordBatch of `batch_schema`."""
    import numpy as np

    pa = _pyarrow()
    columns = [np.array(column, dtype=np.int64) for column in batches.columns()]
    arrays = [pa.array(column) for column in columns[:-1]]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(columns[-1] != 0)], schema=batch_schema())


class _Columns:
    """Some of the records of a block as Arrow arrays, a method for each column."""

    def __init__(self, block: RecordBlock, records: Any, rows: Any) -> None:
        self._block = block
        self._records = records
        self._rows = rows
        self._is_compiled = block.records.matrix is not None

    def offset(self, type: Any) -> Any:  # noqa: A002
        return _pyarrow().array(self._records[0].copy(), type)

    def timestamp(self, type: Any) -> Any:  # noqa: A002
        pa = _pyarrow()
        return pa.array(self._records[1].copy(), pa.int64(), mask=self._records[1] == NO_TIMESTAMP).cast(type)

    def sequence(self, type: Any) -> Any:  # noqa: A002
        return _pyarrow().array(self._records[2].astype("int32"), type)

    def timestamp_type(self, type: Any) -> Any:  # noqa: A002
        """-1 none, 0 CreateTime, 1 LogAppendTime, as TimestampType has them."""
        import numpy as np

        append_time = (self._of_batches("attributes") & TIMESTAMP_TYPE_MASK) != 0
        return self._spread(np.where(self._of_batches("magic") == 0, -1, append_time).astype("int8"), type)

    def leader_epoch(self, type: Any) -> Any:  # noqa: A002
        return self._spread(self._of_batches("leader_epoch").astype("int32"), type)

    def producer_id(self, type: Any) -> Any:  # noqa: A002
        return self._spread(self._of_batches("producer_id"), type)

    def producer_epoch(self, type: Any) -> Any:  # noqa: A002
        return self._spread(self._of_batches("producer_epoch").astype("int16"), type)

    def transactional(self, type: Any) -> Any:  # noqa: A002
        bits = self._of_batches("attributes") & TRANSACTIONAL_MASK
        return self._spread((bits != 0) & (self._of_batches("magic") >= 2), type)

    def control(self, type: Any) -> Any:  # noqa: A002
        bits = self._of_batches("attributes") & CONTROL_MASK
        return self._spread((bits != 0) & (self._of_batches("magic") >= 2), type)

    def codec(self, type: Any) -> Any:  # noqa: A002
        return self._spread((self._of_batches("attributes") & CODEC_MASK).astype("int8"), type)

    def magic(self, type: Any) -> Any:  # noqa: A002
        """As the header has it; 0.7 counts its two kinds of messages by itself."""
        return self._spread(self._of_batches("magic").astype("int8"), type)

    def position(self, type: Any) -> Any:  # noqa: A002
        return self._spread(self._of_batches("position"), type)

    def batch_base_offset(self, type: Any) -> Any:  # noqa: A002
        """That of the header; of a compressed message set v0 or v1, whose header has none, -1."""
        return self._spread(self._of_batches("base_offset"), type)

    def key(self, type: Any) -> Any:  # noqa: A002
        return self._field(_KEY_ROW, type)

    def value(self, type: Any) -> Any:  # noqa: A002
        return self._field(_VALUE_ROW, type)

    def key_size(self, type: Any) -> Any:  # noqa: A002
        return self._size(_KEY_ROW + 1, type)

    def value_size(self, type: Any) -> Any:  # noqa: A002
        return self._size(_VALUE_ROW + 1, type)

    def headers(self, type: Any) -> Any:  # noqa: A002
        import numpy as np

        pa = _pyarrow()
        counts = self._records[8]
        if not counts.any():
            nothing = pa.array([], type.value_type)
            return pa.ListArray.from_arrays(pa.array(np.zeros(len(counts) + 1, dtype=np.int32)), nothing, type=type)
        if not self._is_compiled:
            places = zip(self._records[7].tolist(), counts.tolist(), strict=True)
            lists = [[header._asdict() for header in read_headers(self._block.buffer, *place)] for place in places]
            return pa.array(lists, type)
        begins = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts))).astype(np.int32)
        struct = pa.StructArray.from_arrays(self._header_fields(int(counts.sum())), fields=list(type.value_type))
        return pa.ListArray.from_arrays(pa.array(begins), struct, type=type)

    def _header_fields(self, count: int) -> list[Any]:
        import numpy as np

        buffer = np.frombuffer(self._block.buffer, dtype=np.uint8)
        sizes = native.function(HEADER_BYTES)(buffer, self._records)
        ends: list[Any] = [np.empty(count + 1, dtype=np.int64) for _ in sizes]
        data: list[Any] = [np.empty(size, dtype=np.uint8) for size in sizes]
        valid: Any = np.empty(count, dtype=np.uint8)
        native.function(COPY_HEADERS)(buffer, self._records, ends[0], data[0], ends[1], data[1], valid)
        return [_binary(ends[0], data[0], None), _binary(ends[1], data[1], valid != 0)]

    def _field(self, row: int, type: Any) -> Any:  # noqa: A002
        import numpy as np

        positions, sizes = self._records[row], self._records[row + 1]
        if not self._is_compiled:
            places = zip(positions.tolist(), sizes.tolist(), strict=True)
            return _pyarrow().array([field_bytes(self._block.buffer, *place) for place in places], type)
        buffer = np.frombuffer(self._block.buffer, dtype=np.uint8)
        ends: Any = np.empty(len(sizes) + 1, dtype=np.int64)
        room = _pyarrow().allocate_buffer(int(np.maximum(sizes, 0).sum()))  # Arrow's pool has warm pages
        data: Any = np.frombuffer(room, dtype=np.uint8)
        native.function(COPY_FIELDS)(buffer, self._records, row, ends, data)
        return _binary(ends, data, sizes >= 0)

    def _size(self, row: int, type: Any) -> Any:  # noqa: A002
        sizes = self._records[row]
        return _pyarrow().array(sizes.astype("int32"), type, mask=sizes < 0)

    def _of_batches(self, name: str) -> Any:
        """A column of the batches that the block's records are in."""
        import numpy as np

        return np.asarray(getattr(self._block.batches, name), dtype=np.int64)[
            self._block.first_row : self._block.end_row
        ]

    def _spread(self, values: Any, type: Any) -> Any:  # noqa: A002
        """What `_of_batches` made, for each record; most batches of a log are alike."""
        import numpy as np

        if len(values) and (values == values[0]).all():
            return _pyarrow().array(np.full(len(self._rows), values[0]), type)
        return _pyarrow().array(values[self._rows], type)


def _records(block: RecordBlock) -> tuple[Any, Any]:
    """The record columns as one matrix, and for each record the place of its batch among those of the block."""
    import numpy as np

    records = block.records.matrix
    if records is None:
        rows: list[tuple[int, ...]] = list(block.records.rows())
        records = np.array(rows, dtype=np.int64).reshape(len(rows), 11).T
    ends = np.asarray(block.record_ends, dtype=np.int64)
    counts: Any = np.diff(np.concatenate((np.zeros(1, dtype=np.int64), ends)))
    return records, np.repeat(np.arange(len(counts)), counts)


def _largest(records: Any) -> int:
    """Bytes of the larger one of the keys and the values."""
    import numpy as np

    return max(int(np.maximum(records[row + 1], 0).sum()) for row in (_KEY_ROW, _VALUE_ROW))


def _binary(ends: Any, data: Any, valid: Any) -> Any:
    """A binary array; `valid` None: nothing is null."""
    import numpy as np

    pa = _pyarrow()
    bits = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def _pyarrow() -> Any:
    """The library. Raises UsageError without it."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise UsageError(reason="Arrow needs pyarrow: pip install 'kafkalog-cli[arrow]'") from error
    return pa
