"""Read records on their way into a log from Arrow columns, which may have any type that converts to their own."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.format import native
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.columns import Integers, Octets, as_array
from kafkalog_cli.format.compression import Codec
from kafkalog_cli.log.reading.record_arrow import BATCH_FIELDS, RECORD_FIELDS, record_schema
from kafkalog_cli.ops.change.append.reading import codec_number
from kafkalog_cli.ops.change.append.records import UNKNOWN, NewRecordColumns, NewRecords
from kafkalog_cli.ops.move.export_files import OF_FILES

MOST_OFFSET = (1 << 63) - 2
"""The largest offset of a record, since the log's end is one more."""
_SLICE_ROWS = (1 << 14) + 64
"""With a power of two, all columns of a matrix would share a part of the cache."""
_SLICE_BYTES = 1 << 24
"""Slices are copied several times on their way into batches."""
_KNOWN = frozenset({*RECORD_FIELDS, *BATCH_FIELDS, *OF_FILES})
_OF_CONTENTS = frozenset(("key", "value", "headers", "timestamp", "control"))
_INTEGERS = ("offset", "partition", "leader_epoch", "timestamp_type", "timestampType")
_HEADER_SIZE_BYTES = 10
"""The largest size of the two lengths of a header's key and value."""


# ---- types


def record_columns(part: Any, name: str, used: Collection[str] | None = None) -> Any:
    """Return a RecordBatch (`name` in messages) with the types that records have, of the columns `used` (None: all).

    Raises UsageError as `types_of_records`, and BadInput for values that records cannot have.
    """
    import pyarrow as pa

    schema = types_of_records(part.schema, used)
    try:
        arrays = [_cast(part.column(field.name), field.type) for field in schema]
    except ValueError as error:  # pyarrow's errors are subclasses
        raise BadInput(path=name, reason=f"a value is not possible in a record: {error}") from error
    found = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else part.select([])
    for column, most in (("offset", MOST_OFFSET), ("codec", int(max(Codec)))):
        if column in schema.names and pa.types.is_integer(schema.field(column).type):
            _check_most(found.column(column), column, most, name)
    return found


def types_of_records(schema: Any, used: Collection[str] | None = None) -> Any:
    """Return the schema of what `record_columns` makes, without metadata.

    Raises UsageError for repeated columns, and for types that no such column can have.
    """
    import pyarrow as pa

    fields = [field for field in schema if used is None or field.name in used]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(reason=f"there are several columns {', '.join(twice)}: leave all but one out")
    return pa.schema([pa.field(field.name, _type_of(field.name, field.type)) for field in fields])


def _type_of(name: str, given: Any) -> Any:
    """Return the type to which a column is converted; its own type if records have no such column."""
    import pyarrow as pa
    from pyarrow import types

    kind = given.value_type if types.is_dictionary(given) else given
    is_null, is_text = types.is_null(kind), _is_text(kind)
    if name in ("key", "value"):
        if types.is_large_string(kind) or types.is_large_binary(kind):
            return pa.large_binary()
        is_bytes = types.is_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind)
        found, expected = pa.binary() if is_null or is_text or is_bytes else None, "binary or string"
    elif name == "headers":
        found, expected = given if _is_headers(given) else None, "a list of structs of key and value"
        found = record_schema(("headers",)).field(0).type if is_null else found
    elif name == "timestamp":
        is_time = types.is_timestamp(given) or types.is_int64(given)
        found, expected = given if is_time else None, "a timestamp or int64 of milliseconds"
        found = pa.int64() if is_null else found
    elif name in _INTEGERS or (name == "codec" and types.is_integer(kind)):
        found, expected = pa.int64() if is_null or types.is_integer(kind) else None, "of integers"
    elif name in ("transactional", "control"):
        found, expected = pa.bool_() if is_null or types.is_boolean(kind) else None, "boolean"
    elif name in ("topic", "codec"):
        found, expected = pa.string() if is_null or is_text else None, "string"
    else:
        return given
    if found is None:
        raise UsageError(reason=f"column {name} is {kind}, not {expected}")
    return found


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_headers(kind: Any) -> bool:
    from pyarrow import types

    if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
        return False
    known = (types.is_binary, types.is_large_binary, types.is_string, types.is_large_string, types.is_null)
    fields = list(kind.value_type)
    return [field.name for field in fields] == ["key", "value"] and all(
        any(is_known(field.type) for is_known in known) for field in fields
    )


def _cast(array: Any, kind: Any) -> Any:
    """Convert an array to the type. Raises ValueError for values outside its range."""
    import pyarrow as pa

    if array.type.equals(kind):
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    return array.cast(kind)


def _check_most(array: Any, column: str, most: int, name: str) -> None:
    import pyarrow.compute as pc

    largest = pc.max(array).as_py()
    if largest is not None and largest > most:
        raise BadInput(path=name, reason=f"{column} {largest} is not possible in a record: at most {most}")


# ---- records


class ArrowReader:
    """Reads records from RecordBatches with the columns key, value, headers and timestamp; each column may be missing.

    `now_ms` is the timestamp if there is no timestamp column; a null in that column means no timestamp. Other columns
    of `record_schema` and of exported files are accepted. They are ignored without `with_origin`, since the append
    assigns new offsets. Control records are skipped, since markers are not data. The column topic of a record has the
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
            _check_known(given.schema)
            used = None if self._with_origin else _OF_CONTENTS
            part = _without_control(record_columns(given, "the records", used))
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
        found = np.array(_milliseconds(column).fill_null(NO_TIMESTAMP).to_numpy(zero_copy_only=False), np.int64)
        impossible = np.flatnonzero(found < NO_TIMESTAMP)
        if len(impossible):
            reason = f"timestamp {found[impossible[0]]} is not possible in a record"
            raise BadInput(path=f"record {self._records + int(impossible[0]) + 1}", reason=reason)
        return found

    def _check_headers(self, column: Any) -> None:
        keys = column.flatten().flatten()[0]
        if keys.null_count:
            raise BadInput(path=f"records from {self._records + 1} on", reason="a header's key is null")


def _milliseconds(column: Any) -> Any:
    """Return a column of timestamps, or of numbers in milliseconds, as milliseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        try:  # finer units are truncated to milliseconds
            column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=column.type.unit == "s")
        except pa.ArrowInvalid as error:
            raise BadInput(path="column timestamp", reason=f"a time that no record can have: {error}") from error
    return column.cast(pa.int64())


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


def _check_known(schema: Any) -> None:
    """Raise UsageError for columns that records do not have."""
    unknown = [name for name in schema.names if name not in _KNOWN]
    if unknown:
        reason = f"records have no columns {', '.join(unknown)}; each of {', '.join(RECORD_FIELDS)} once"
        raise UsageError(reason=reason)


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


# ---- for the kernel


class _Fields(NamedTuple):
    """A column of bytes values: all of the bytes, the start of each value and the end of the last, and 0 per null."""

    data: Octets
    ends: Integers
    valid: Octets


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
