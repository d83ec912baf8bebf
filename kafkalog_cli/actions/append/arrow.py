"""Records that are to be appended as Arrow columns: runs by a compiled kernel, or single records where few come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafkalog_cli.actions.append.columns import ROWS, RecordRun
from kafkalog_cli.actions.append.reading import NewRecord
from kafkalog_cli.actions.export.columns import OF_FILES
from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.records import Header
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.reading.record_arrow import BATCH_FIELDS, RECORD_FIELDS

_SLICE_ROWS = 1 << 14
_TAKEN = frozenset({*RECORD_FIELDS, *BATCH_FIELDS, *OF_FILES})
_HEADER_SIZE_BYTES = 10
"""Of a header the lengths of its key and value, at most."""


class _Fields(NamedTuple):
    """A column of bytes: all of them, where each begins and the last ends, and 0 for a null."""

    data: Any
    ends: Any
    valid: Any


class ArrowReader:
    """Records of RecordBatches with the columns key, value, headers and timestamp, each of which may be missing.

    `now_ms` is for those without a timestamp column; a null there is none. What else `record_schema` and the files of
    an export have is taken and left out: offsets are new ones. So are control records: markers are not data.
    """

    def __init__(self, kernels: KernelChoice, now_ms: int) -> None:
        self._kernels = kernels
        self._now_ms = now_ms
        self._records = 0

    def records(self, parts: Iterable[Any]) -> Iterator[NewRecord | RecordRun]:
        """All of them, in order. Raises UsageError for other columns than records have, BadInput for impossible values.

        Memory is that of a part, and of some thousand records.
        """
        for given in parts:
            _check_columns(given.schema)
            part = _without_control(given)
            for first in range(0, part.num_rows, _SLICE_ROWS):
                yield from self._slice(part.slice(first, _SLICE_ROWS), part.num_rows - first)

    def _slice(self, part: Any, rows_to_come: int) -> Iterator[NewRecord | RecordRun]:
        columns = {name: part.column(name) for name in part.schema.names}
        timestamps, headers = self._timestamps(columns.get("timestamp"), part.num_rows), columns.get("headers")
        if headers is not None:
            self._check_headers(headers)
        if self._kernels.compiled(0, rows_to_come) is not None:
            yield _run(columns, timestamps)
        else:
            self._kernels.compiled(part.num_rows, 0)
            fields = [columns[name].to_pylist() if name in columns else None for name in ("key", "value", "headers")]
            for row, timestamp in enumerate(timestamps.tolist()):
                key, value, found = (None if field is None else field[row] for field in fields)
                pairs = tuple(Header(_bytes(one["key"]), _bytes(one["value"])) for one in found or ())
                yield NewRecord(_bytes(key), _bytes(value), pairs, timestamp)
        self._records += part.num_rows

    def _timestamps(self, column: Any, rows: int) -> Any:
        import numpy as np
        import pyarrow as pa

        if column is None:
            return np.full(rows, self._now_ms, np.int64)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False)
        found = np.array(column.cast(pa.int64()).fill_null(NO_TIMESTAMP).to_numpy(zero_copy_only=False), np.int64)
        wrong = np.flatnonzero(found < NO_TIMESTAMP)
        if len(wrong):
            reason = f"timestamp {found[wrong[0]]} is none that a record can have"
            raise BadInput(path=f"record {self._records + int(wrong[0]) + 1}", reason=reason)
        return found

    def _check_headers(self, column: Any) -> None:
        keys = column.flatten().flatten()[0]
        if keys.null_count:
            raise BadInput(path=f"records from {self._records + 1} on", reason="a header's key is null")


def _check_columns(schema: Any) -> None:
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
    """The part without control records, where a column tells them."""
    if "control" not in part.schema.names:
        return part
    import pyarrow.compute as pc

    control = part.column("control").fill_null(fill_value=False)
    return part.filter(pc.invert(control)) if pc.any(control).as_py() else part


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


def _bytes(found: Any) -> Any:
    return found.encode() if isinstance(found, str) else found


# -- for the kernel


def _run(columns: dict[str, Any], timestamps: Any) -> RecordRun:
    import numpy as np

    from kafkalog_cli.format.kernels import compiled, native

    rows = len(timestamps)
    key, value = (_fields(columns.get(name), rows) for name in ("key", "value"))
    ends, header_keys, header_values = _headers(columns.get("headers"), rows)
    count = len(header_values.valid)
    size = sum(int(one.ends[-1] - one.ends[0]) for one in (key, value, header_keys, header_values))
    out, matrix = np.empty(size + _HEADER_SIZE_BYTES * count, np.uint8), np.empty((ROWS, rows), np.int64)
    join = native.function(compiled.JOIN_COLUMNS)
    filled = join(*key, *value, ends, *header_keys[:2], *header_values, timestamps, out, matrix)
    return RecordRun(out[:filled], matrix)


def _fields(column: Any, rows: int) -> _Fields:
    """Of a column of bytes, or none: all null."""
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


def _headers(column: Any, rows: int) -> tuple[Any, _Fields, _Fields]:
    """Which headers each record has, and their keys and values."""
    import numpy as np

    if column is None:
        return np.zeros(rows + 1, np.int64), _fields(None, 0), _fields(None, 0)
    found = column.flatten()  # without what null lists may hold
    sizes = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    keys, values = found.flatten()
    return ends, _fields(keys, len(found)), _fields(values, len(found))
