"""Record and batch columns as Arrow, for the library, Spark and exports. The data is copied once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format import native
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
from kafkalog_cli.format.columns import Flags, IntColumn, Integers, Octets, as_array, column_of
from kafkalog_cli.format.records import (
    OUTSIDE,
    RecordBlock,
    RecordColumns,
)
from kafkalog_cli.log.reading.budget import LARGE_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray


RECORD_FIELDS = (
    "offset", "timestamp", "key", "value", "headers", "timestamp_type", "leader_epoch", "producer_id", "producer_epoch",
    "sequence", "transactional",
)  # fmt: skip
"""The default columns of records, in order."""

BATCH_FIELDS = ("batch_base_offset", "position", "codec", "control", "magic")
"""Optional columns about a record's batch. `position` is in bytes in the segment, `codec` is the codec id."""

SIZE_FIELDS = ("key_size", "value_size")
"""Optional columns with the sizes of key and value in bytes, null if the key or value is null."""

_KEY_ROW, _VALUE_ROW = 3, 5
_MOST_CLAIMED = 1 << 22
PART_BYTES = LARGE_BYTES
"""The most bytes of keys, and of values, of a RecordBatch of several records. No reader reuses a larger buffer."""


def record_schema(columns: Sequence[str] | None = None) -> Any:
    """Return the pyarrow.Schema of records with the given columns; None means RECORD_FIELDS.

    BATCH_FIELDS and SIZE_FIELDS are also valid columns. Raises UsageError for a column that does not exist.
    """
    pa = need_pyarrow()
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
    chosen_names = RECORD_FIELDS if columns is None else columns
    unknown = [name for name in chosen_names if name not in types]
    if unknown:
        raise UsageError(reason=f"records have no column {', '.join(unknown)}; they have {', '.join(RECORD_FIELDS)}")
    nullable = ("timestamp", "key", "value", *SIZE_FIELDS)
    return pa.schema([pa.field(name, types[name], nullable=name in nullable) for name in chosen_names])


def batch_schema() -> Any:
    """Return the pyarrow.Schema of batches: the columns of `Batch`, with `crc_valid` in place of `valid`."""
    pa = need_pyarrow()
    fields = [pa.field(name, pa.int64(), nullable=False) for name in Batch._fields if name != "valid"]
    return pa.schema([*fields, pa.field("crc_valid", pa.bool_(), nullable=False)])


def record_batches(block: RecordBlock, schema: Any) -> Iterator[Any]:
    """Yield the records of a block as pyarrow.RecordBatches. Take all of them before the next block.

    There is one RecordBatch, or several if the keys or values have more than PART_BYTES. A larger key or value is in a
    RecordBatch of its own. If it fills half of the block's buffer, it stays there and is not copied.
    """
    pa = need_pyarrow()
    records, counts = _records(block)
    ranges = [(0, records.shape[1])]
    while ranges:
        first, end = ranges.pop()
        if end - first > 1 and _largest(records[:, first:end]) > PART_BYTES:
            middle = (first + end) // 2
            ranges += [(middle, end), (first, middle)]
            continue
        columns = _Columns(block, records[:, first:end], counts[first:end])
        arrays = [getattr(columns, name)(field.type) for name, field in zip(schema.names, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def headers_tell(batches: BatchColumns) -> bool:
    """Whether the batch headers alone give the number of records and their offsets, because no record was removed.

    If the headers state very many records, the result is false: then the records must be read and counted, within the
    limits of reading.
    """
    columns = (batches.base_offset, batches.last_offset, batches.records_count)
    base, last, count = map(as_array, columns)
    dense = (base != NO_OFFSET) & (last - base + 1 == count) & (count >= 0) & (count <= _MOST_CLAIMED)
    return bool(dense.all()) and int(count.sum()) <= _MOST_CLAIMED


def rows_of_headers(batches: BatchColumns) -> RecordBlock:
    """Return a block with one row per record, from batches for which `headers_tell` is true.

    Only the columns HEADER_FIELDS of its rows are correct; the other columns have no meaning.
    """
    import numpy as np

    counts, bases = as_array(batches.records_count), as_array(batches.base_offset)
    ends = np.cumsum(counts)
    rows = np.zeros((len(RecordColumns.names), int(ends[-1]) if len(ends) else 0), dtype=np.int64)
    rows[0] = np.repeat(bases - (ends - counts), counts) + np.arange(rows.shape[1])
    return RecordBlock(
        memoryview(b""), batches, 0, len(batches), column_of(ends.tolist()), RecordColumns.from_array(rows)
    )


def arrow_of_batches(batches: BatchColumns) -> Any:
    """Return batches as one pyarrow.RecordBatch with `batch_schema`."""
    pa = need_pyarrow()
    columns = batches.array().copy()
    arrays = [pa.array(column) for column in columns[:-1]]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(columns[-1] != 0)], schema=batch_schema())


class _Columns:
    """Some records of a block as Arrow arrays, with one method per column."""

    def __init__(self, block: RecordBlock, records: Integers, rows: Integers) -> None:
        self._block = block
        self._records = records
        self._rows = rows

    def offset(self, type: Any) -> Any:  # noqa: A002
        return need_pyarrow().array(self._records[0].copy(), type)

    def timestamp(self, type: Any) -> Any:  # noqa: A002
        pa = need_pyarrow()
        return pa.array(self._records[1].copy(), pa.int64(), mask=self._records[1] == NO_TIMESTAMP).cast(type)

    def sequence(self, type: Any) -> Any:  # noqa: A002
        return need_pyarrow().array(self._records[2].astype("int32"), type)

    def timestamp_type(self, type: Any) -> Any:  # noqa: A002
        """The ids of TimestampType: -1 none, 0 CreateTime, 1 LogAppendTime."""
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
        """The magic in the header. Messages of 0.7 have 0 or 1 too, with their own meaning."""
        return self._spread(self._of_batches("magic").astype("int8"), type)

    def position(self, type: Any) -> Any:  # noqa: A002
        return self._spread(self._of_batches("position"), type)

    def batch_base_offset(self, type: Any) -> Any:  # noqa: A002
        """The base offset in the header; -1 for a compressed message set v0 or v1, whose header has none."""
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

        pa = need_pyarrow()
        counts = self._records[8]
        if not counts.any():
            nothing = pa.array([], type.value_type)
            return pa.ListArray.from_arrays(pa.array(np.zeros(len(counts) + 1, dtype=np.int32)), nothing, type=type)
        begins = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts))).astype(np.int32)
        struct = pa.StructArray.from_arrays(self._header_fields(int(counts.sum())), fields=list(type.value_type))
        return pa.ListArray.from_arrays(pa.array(begins), struct, type=type)

    def _header_fields(self, count: int) -> list[Any]:
        import numpy as np

        buffer, at, counts = self._block.buffer, self._records[7].copy(), self._records[8].copy()
        sizes = native.header_bytes(buffer, at, counts)
        ends = np.empty(count + 1, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
        data = np.empty(sizes[0], dtype=np.uint8), np.empty(sizes[1], dtype=np.uint8)
        valid = np.empty(count, dtype=np.uint8)
        native.copy_headers(buffer, at, counts, ends, data, valid)
        return [_binary(ends[0], data[0], None), _binary(ends[1], data[1], valid != 0)]

    def _field(self, row: int, type: Any) -> Any:  # noqa: A002
        import numpy as np

        positions, sizes = self._records[row], self._records[row + 1]
        if len(sizes) == 1 and sizes[0] > max(PART_BYTES, len(self._block.buffer) // 2):
            return _borrow(self._block.buffer, int(positions[0]), int(sizes[0]), type)
        sizes = np.where((positions == OUTSIDE) & (sizes > 0), 0, sizes)  # the bytes are missing
        ends = np.empty(len(sizes) + 1, dtype=np.int64)
        room = need_pyarrow().allocate_buffer(int(np.maximum(sizes, 0).sum()))  # Arrow's pool has warm pages
        data = np.frombuffer(room, dtype=np.uint8)
        native.copy_fields(self._block.buffer, positions.copy(), sizes, ends, data)
        return _binary(ends, data, sizes >= 0)

    def _size(self, row: int, type: Any) -> Any:  # noqa: A002
        sizes = self._records[row]
        return need_pyarrow().array(sizes.astype("int32"), type, mask=sizes < 0)

    def _of_batches(self, name: str) -> Integers:
        """Return a column of the batches to which the block's records belong."""
        column: IntColumn = getattr(self._block.batches, name)
        return as_array(column[self._block.first_row : self._block.end_row])

    def _spread(self, values: NDArray[Any], type: Any) -> Any:  # noqa: A002
        """Expand values per batch to values per record. Most batches of a log have equal values."""
        import numpy as np

        if len(values) and (values == values[0]).all():
            return need_pyarrow().array(np.full(len(self._rows), values[0]), type)
        return need_pyarrow().array(values[self._rows], type)


def _records(block: RecordBlock) -> tuple[Integers, Integers]:
    """Return the record columns as one matrix, and for each record the index of its batch in the block."""
    import numpy as np

    ends = as_array(block.record_ends)
    counts = ends - np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
    return block.records.array(), np.repeat(np.arange(len(counts)), counts)


def _largest(records: Integers) -> int:
    """Return the total size in bytes of the keys or of the values, whichever is larger."""
    import numpy as np

    return max(int(np.maximum(records[row + 1], 0).sum()) for row in (_KEY_ROW, _VALUE_ROW))


def _borrow(buffer: memoryview, position: int, size: int, type: Any) -> Any:  # noqa: A002
    """Return a binary array with one value, which is a part of `buffer`."""
    import numpy as np

    pa = need_pyarrow()
    ends = pa.py_buffer(np.array([0, size], dtype=np.int32))
    return pa.Array.from_buffers(type, 1, [None, ends, pa.py_buffer(buffer[position : position + size])])


def _binary(ends: Integers, data: Octets, valid: Flags | None) -> Any:
    """Return a binary array. `valid` is None if no element is null."""
    import numpy as np

    pa = need_pyarrow()
    bits = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def need_pyarrow() -> Any:
    """Return the pyarrow module. Raises UsageError if it is not installed."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise UsageError(reason="Arrow needs pyarrow: pip install 'kafkalog-cli[arrow]'") from error
    return pa
