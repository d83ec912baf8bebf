"""Read records on their way into a log from Arrow columns."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.format import native
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.columns import Integers, Octets, as_array
from kafkalog_cli.format.compression import Codec, codec_name
from kafkalog_cli.log.reading.record_arrow import BATCH_FIELDS, RECORD_FIELDS
from kafkalog_cli.ops.change.append.records import UNKNOWN, NewRecordColumns, NewRecords
from kafkalog_cli.ops.move.export_files import OF_FILES

_SLICE_ROWS = (1 << 14) + 64
"""With a power of two, all columns of a matrix would share a part of the cache."""
_SLICE_BYTES = 1 << 24
"""Slices are copied several times on their way into batches."""
_TAKEN = frozenset({*RECORD_FIELDS, *BATCH_FIELDS, *OF_FILES})
_HEADER_SIZE_BYTES = 10
"""The largest size of the two lengths of a header's key and value."""


class _Fields(NamedTuple):
    """A column of bytes values: all of the bytes, the start of each value and the end of the last, and 0 per null."""

    data: Octets
    ends: Integers
    valid: Octets


class ArrowReader:
    """Reads records from RecordBatches with the columns key, value, headers and timestamp; each column may be missing.

    `now_ms` is the timestamp if there is no timestamp column; a null in that column means no timestamp. Other columns
    of `record_schema` and of exported files are accepted. They are ignored without `with_origin`, since the append
    assigns new offsets. Control records are left out, since markers are not data. The column topic of a record has the
    index of its name in `topics`.
    """

    def __init__(self, now_ms: int, *, with_origin: bool = False, topics: list[str] | None = None) -> None:
        self._topics = [] if topics is None else topics
        self._now_ms = now_ms
        self._with_origin = with_origin
        self._records = 0

    def records(self, parts: Iterable[Any]) -> Iterator[NewRecords]:
        """Yield all records, in order. Raises UsageError for columns that records do not have, BadInput for bad values.

        At most one part and some thousand records are in memory.
        """
        for given in parts:
            check_columns(given.schema)
            part = _without_control(given)
            for first in range(0, part.num_rows, _SLICE_ROWS):
                for few in _small_slices(part.slice(first, _SLICE_ROWS)):
                    yield self._slice(few)

    def _slice(self, part: Any) -> NewRecords:
        columns = {name: part.column(name) for name in part.schema.names}
        timestamps, headers = self._timestamps(columns.get("timestamp"), part.num_rows), columns.get("headers")
        if headers is not None:
            self._check_headers(headers)
        records = _joined_columns(columns, timestamps)
        if self._with_origin:
            self._put_origins(records.columns, columns)
        self._records += part.num_rows
        return records

    def _put_origins(self, found: NewRecordColumns, columns: dict[str, Any]) -> None:
        kind = columns.get("timestamp_type", columns.get("timestampType"))
        origins = (
            (found.offset, columns.get("offset")),
            (found.leader_epoch, columns.get("leader_epoch")),
            (found.is_append_time, kind),
            (found.codec, _codec_numbers(columns.get("codec"))),
            (found.partition, columns.get("partition")),
            (found.topic, self._topic_numbers(columns.get("topic"))),
            (found.is_transactional, columns.get("transactional")),
        )
        for target, column in origins:
            if column is not None:
                as_array(target)[:] = _numbers(column)
        epochs = as_array(found.leader_epoch)
        epochs[epochs < 0] = UNKNOWN

    def _topic_numbers(self, column: Any) -> Any:
        """Return the indexes of names in `topics`, which gets those that it does not have."""
        if column is None:
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        self._topics += [name for name in pc.unique(column).to_pylist() if name not in (None, *self._topics)]
        return pc.index_in(column, pa.array(self._topics, column.type))

    def _timestamps(self, column: Any, rows: int) -> Integers:
        import numpy as np

        if column is None:
            return np.full(rows, self._now_ms, np.int64)
        column = _milliseconds(column).fill_null(NO_TIMESTAMP)
        found = np.array(column.to_numpy(zero_copy_only=False), np.int64)
        wrong = np.flatnonzero(found < NO_TIMESTAMP)
        if len(wrong):
            reason = f"timestamp {found[wrong[0]]} is not possible in a record"
            raise BadInput(path=f"record {self._records + int(wrong[0]) + 1}", reason=reason)
        return found

    def _check_headers(self, column: Any) -> None:
        keys = column.flatten().flatten()[0]
        if keys.null_count:
            raise BadInput(path=f"records from {self._records + 1} on", reason="a header's key is null")


def _milliseconds(column: Any) -> Any:
    """Return a column of timestamps, or of numbers in milliseconds, as milliseconds; null for no timestamp."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        kind = pa.timestamp("ms", tz=column.type.tz)
        try:  # finer units are truncated to milliseconds
            column = column.cast(kind, safe=column.type.unit == "s")
        except pa.ArrowInvalid as error:
            raise BadInput(path="column timestamp", reason=f"a time that no record can have: {error}") from error
    column = column.cast(pa.int64())
    return pc.if_else(pc.equal(column, NO_TIMESTAMP), pa.scalar(None, pa.int64()), column)


def _numbers(column: Any) -> Integers:
    """Return a column of integers or booleans as an array, with UNKNOWN for nulls."""
    import numpy as np
    import pyarrow as pa

    found = column.cast(pa.int64()).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(found, np.int64)


def _codec_numbers(column: Any) -> Any:
    """Return the codec numbers of a column with numbers, or with names as in files; null is Codec.NONE.

    Raises BadInput for an unknown name.
    """
    import pyarrow as pa

    if column is None or pa.types.is_integer(column.type):
        return column if column is None else column.fill_null(Codec.NONE)
    names = column.fill_null("none").dictionary_encode()
    try:
        numbers = pa.array([codec_number(name) for name in names.dictionary.to_pylist()], pa.int64())
    except ValueError as error:
        raise BadInput(path="column codec", reason=str(error)) from error
    return numbers.take(names.indices)


def codec_number(name: str) -> int:
    """Return the number of a codec. Raises ValueError for an unknown name."""
    for codec in Codec:
        if codec_name(codec) == name:
            return codec
    raise ValueError(f"{name!r} is not a codec of Kafka")


def check_columns(schema: Any) -> None:
    """Check the columns of records.

    Raises UsageError for unknown or repeated columns, or for one of another type.
    """
    import pyarrow as pa

    unknown = [name for name in schema.names if name not in _TAKEN]
    if unknown or len(set(schema.names)) < len(schema.names):
        names = ", ".join(unknown or schema.names)
        raise UsageError(reason=f"records have no columns {names}; each of {', '.join(RECORD_FIELDS)} once")
    for name, field in zip(schema.names, schema, strict=True):
        if name in ("key", "value") and not _is_bytes(field.type):
            raise UsageError(reason=f"column {name} is {field.type}, not binary or string")
        if name == "headers" and not _is_headers(field.type):
            raise UsageError(reason=f"column headers is {field.type}, not a list of structs of key and value")
        if name == "control" and not pa.types.is_boolean(field.type):
            raise UsageError(reason=f"column control is {field.type}, not boolean")
        if name == "timestamp" and not (pa.types.is_timestamp(field.type) or pa.types.is_int64(field.type)):
            raise UsageError(reason=f"column timestamp is {field.type}, not a timestamp or int64 of milliseconds")


def _without_control(part: Any) -> Any:
    """Return the part without control records, if a column marks them."""
    if "control" not in part.schema.names:
        return part
    import pyarrow.compute as pc

    control = part.column("control").fill_null(fill_value=False)
    return part.filter(pc.invert(control)) if pc.any(control).as_py() else part


def _small_slices(part: Any) -> Iterator[Any]:
    """Yield the rows of a part in order, in slices of few bytes or of one row."""
    if part.nbytes <= _SLICE_BYTES or part.num_rows < 2:
        yield part
        return
    half = part.num_rows // 2
    yield from _small_slices(part.slice(0, half))
    yield from _small_slices(part.slice(half))


def _is_bytes(kind: Any) -> bool:
    from pyarrow import types

    known = types.is_binary, types.is_large_binary, types.is_string, types.is_large_string, types.is_null
    return any(is_one(kind) for is_one in known)


def _is_headers(kind: Any) -> bool:
    from pyarrow import types

    if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
        return False
    names = [field.name for field in kind.value_type]
    return names == ["key", "value"] and all(_is_bytes(field.type) for field in kind.value_type)


# ---- for the kernel


def _joined_columns(columns: dict[str, Any], timestamps: Integers) -> NewRecords:
    import numpy as np

    rows = len(timestamps)
    key, value = (_fields(columns.get(name), rows) for name in ("key", "value"))
    ends, header_keys, header_values = _headers(columns.get("headers"), rows)
    count = len(header_values.valid)
    size = sum(int(one.ends[-1] - one.ends[0]) for one in (key, value, header_keys, header_values))
    out, matrix = (
        np.empty(size_bytes, np.uint8)  # not cleared, as a bytearray is
        for size_bytes in (size + _HEADER_SIZE_BYTES * count, 8 * native.NEW_COLUMNS * rows)
    )
    fields = native.FieldColumn(*key), native.FieldColumn(*value)
    headers = native.FieldColumn(*header_keys[:2], None), native.FieldColumn(*header_values)
    native.join_columns(fields, ends, headers, timestamps, out, matrix)
    return NewRecords(out.data, NewRecordColumns(matrix.data, rows, rows))


def _fields(column: Any, rows: int) -> _Fields:
    """Return a column of bytes values for the kernel; all values are null if there is no column."""
    import numpy as np
    import pyarrow as pa

    if column is None or pa.types.is_null(column.type):
        return _Fields(np.empty(0, np.uint8), np.zeros(rows + 1, np.int64), np.zeros(rows, np.uint8))
    large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, ends, data = column.buffers()
    kind: Any = np.int64 if large else np.int32
    found = np.frombuffer(ends, kind)[column.offset : column.offset + rows + 1].astype(np.int64)
    valid = np.ones(rows, np.uint8)
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    return _Fields(np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), found, valid)


def _headers(column: Any, rows: int) -> tuple[Integers, _Fields, _Fields]:
    """Return the end of each record's headers, and the keys and values of all headers."""
    import numpy as np

    if column is None:
        return np.zeros(rows + 1, np.int64), _fields(None, 0), _fields(None, 0)
    found = column.flatten()  # leaves out headers of null lists
    sizes = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    keys, values = found.flatten()
    return ends, _fields(keys, len(found)), _fields(values, len(found))
