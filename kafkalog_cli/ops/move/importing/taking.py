"""Convert the columns of files to those of records, or refuse what cannot be converted; parse lines of files."""

from typing import Any

from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.compression import Codec
from kafkalog_cli.format.limits import MOST_INPUT_LINE_BYTES
from kafkalog_cli.log.reading.record_arrow import record_schema
from kafkalog_cli.ops.change.append.arrow import codec_number
from kafkalog_cli.ops.change.append.reading import (
    LINES_HINT,
    NotMeantAsRecord,
    Parse,
    is_kcat,
    parse_json_line,
    record_of_kcat,
    record_of_ndjson,
    utf8_of,
)
from kafkalog_cli.ops.change.append.records import UNKNOWN, NewRecord

MOST_OFFSET = (1 << 63) - 2
"""The largest offset of a record, since the log's end is one more."""
_INTEGERS = ("offset", "partition", "leader_epoch", "timestamp_type", "timestampType")
_BOOLEANS = ("transactional", "control")


def check_types(schema: Any) -> None:
    """Check the columns of a file.

    Raises UsageError for repeated column names, or for types that `taken` does not accept.
    """
    from pyarrow import types

    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise UsageError(reason=f"there are several columns {', '.join(twice)}: leave all but one out")
    for field in schema:
        name, kind = field.name, _plain(field.type)
        if types.is_null(kind):
            continue
        if name in _INTEGERS and not types.is_integer(kind):
            raise UsageError(reason=f"column {name} is {kind}, not of integers")
        if name in _BOOLEANS and not types.is_boolean(kind):
            raise UsageError(reason=f"column {name} is {kind}, not boolean")
        if name == "topic" and not _is_text(kind):
            raise UsageError(reason=f"column topic is {kind}, not string")
        if name == "codec" and not _is_text(kind) and not types.is_integer(kind):
            raise UsageError(reason=f"column codec is {kind}, not string")


def taken_schema(schema: Any) -> Any:
    """Return the schema of what `taken` makes, without metadata. Raises UsageError as `check_types` does."""
    import pyarrow as pa

    check_types(schema)
    return pa.schema([pa.field(field.name, _kind_of(field.name, field.type)) for field in schema])


def taken(part: Any, name: str) -> Any:
    """Return a RecordBatch (`name` in messages) with bytes and numbers as records have them.

    Raises UsageError for columns that cannot be converted, and BadInput for values that records cannot have.
    """
    import pyarrow as pa

    wanted = taken_schema(part.schema)
    try:
        arrays = [_cast(array, field.type) for array, field in zip(part.columns, wanted, strict=True)]
    except ValueError as error:  # pyarrow's errors are subclasses
        raise BadInput(path=name, reason=f"a value is not possible in a record: {error}") from error
    found = pa.RecordBatch.from_arrays(arrays, schema=wanted)
    for column, most in (("offset", MOST_OFFSET), ("codec", max(Codec))):
        if column in found.schema.names and pa.types.is_integer(found.schema.field(column).type):
            _check_most(found.column(column), column, int(most), name)
    return found


def _check_most(array: Any, column: str, most: int, name: str) -> None:
    import pyarrow.compute as pc

    largest = pc.max(array).as_py()
    if largest is not None and largest > most:
        raise BadInput(path=name, reason=f"{column} {largest} is not possible in a record: at most {most}")


def _plain(kind: Any) -> Any:
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _kind_of(name: str, given: Any) -> Any:
    """Return the type that a column is converted to; its own type if another check reports the problem."""
    import pyarrow as pa
    from pyarrow import types

    kind = _plain(given)
    if name in _INTEGERS:
        return pa.int64()
    if name in _BOOLEANS:
        return pa.bool_()
    if name == "timestamp" and types.is_null(kind):
        return pa.int64()
    if name == "headers" and types.is_null(kind):
        return record_schema(("headers",)).field(0).type
    if name == "topic" or (name == "codec" and not types.is_integer(kind)):
        return pa.string()
    if name in ("key", "value"):
        if types.is_large_string(kind) or types.is_large_binary(kind):
            return pa.large_binary()
        is_bytes = types.is_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind)
        if is_bytes or _is_text(kind) or types.is_null(kind):
            return pa.binary()
    return given


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


def line_parser_of_files(topics: list[str]) -> Parse:
    """Return the parser of the lines that read, export and kcat print; it adds names of topics to `topics`."""

    def parse(line: bytes) -> NewRecord | None:
        if not line.strip():
            return None
        if b'"payload":' in line:
            found = parse_json_line(line, keeps_bytes=True, most_bytes=MOST_INPUT_LINE_BYTES)
            if is_kcat(found):
                return _with_origin(record_of_kcat(found, with_origin=True), found, topics)
        try:
            found = parse_json_line(line, most_bytes=MOST_INPUT_LINE_BYTES)
            record = record_of_ndjson(found, with_origin=True)
        except ValueError as error:  # the hint is of an option that import does not have
            raise type(error)(str(error).removesuffix(f"; {LINES_HINT}")) from error
        return None if record is None else _with_origin(record, found, topics)

    return parse


def _with_origin(record: NewRecord, fields: dict[str, Any], topics: list[str]) -> NewRecord:
    """Return the record with what only export writes. Raises ValueError."""
    topic, codec, is_transactional = (fields.get(name) for name in ("topic", "codec", "transactional"))
    for name, text in (("topic", topic), ("codec", codec)):
        if not isinstance(text, str | None):
            raise NotMeantAsRecord(f"{name} must be a string")
        utf8_of(text or "")
    if not isinstance(is_transactional, bool | None):
        raise NotMeantAsRecord("transactional must be true, false or null")
    if topic is not None and topic not in topics:
        topics.append(topic)
    origin = record.origin._replace(
        topic=UNKNOWN if topic is None else topics.index(topic),
        codec=codec_number(codec or "none"),
        is_transactional=bool(is_transactional),
    )
    return record._replace(origin=origin, timestamp=NO_TIMESTAMP if record.timestamp is None else record.timestamp)
