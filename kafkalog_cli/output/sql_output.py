"""The rows of a query as NDJSON, a table or a Parquet file: converted in Spark's tasks, written one part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kafkalog_cli.disk.durable import StagedFile
from kafkalog_cli.output.human import Column, write_table
from kafkalog_cli.output.ndjson import json_text
from kafkalog_cli.output.stream import ResultStream, printable
from kafkalog_cli.results import Schema, result

if TYPE_CHECKING:
    from kafkalog_cli.ops.scans.catalog import ResultColumn


@result("kafkalog.row/1")
class Row(NamedTuple):
    """A row of the result of a query (sql)."""

    row: Annotated[
        dict[str, Any],
        "a field per column, by its name. Bytes are {encoding, data}, times ISO 8601, and decimals text. A map is a "
        "list of pairs if a key is not a string",
    ]


NULL = "null"
LONGEST_CELL = 256
"""The most characters of a cell; a longer text ends in `…`, as the columns of a table must fit on a screen."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def row_lines(names: Sequence[str], batches: Iterator[Any]) -> Iterator[tuple[bytes, int]]:
    """Return for each batch its rows as lines of NDJSON, compressed (see `lines_of`), and their number."""
    import zstandard

    schema: Schema = Row.schema  # type: ignore[attr-defined]
    compressor = zstandard.ZstdCompressor(level=1)
    for batch in batches:
        columns = [values(column) for column in batch.columns]
        lines = [
            json_text({"schema": schema.name, "type": schema.type, "row": dict(zip(names, row, strict=True))}) + "\n"
            for row in zip(*columns, strict=True)
        ]
        yield compressor.compress("".join(lines).encode()), batch.num_rows


def lines_of(part: bytes) -> bytes:
    """Decompress a part of `row_lines`: compressed, because the driver holds the parts of a whole task."""
    import zstandard

    return zstandard.ZstdDecompressor().decompress(part)


def row_cells(batches: Iterator[Any]) -> Iterator[list[str]]:
    """Return for each row a text per column."""
    for batch in batches:
        columns = [[_cell(value) for value in values(column)] for column in batch.columns]
        yield from map(list, zip(*columns, strict=True))


def arrow_parts(batches: Iterator[Any]) -> Iterator[tuple[bytes, int]]:
    """Return for each batch a compressed Arrow stream with its schema, and its number of rows."""
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="zstd")
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes(), batch.num_rows


def values(array: Any) -> list[Any]:
    """Return an array's values for `json_text`: times in ISO 8601, decimals as text, structs and maps as objects.

    A map whose keys are not strings becomes a list of pairs.
    """
    import pyarrow as pa

    kind = array.type
    if pa.types.is_timestamp(kind):
        return [_time(item, is_utc=kind.tz is not None) for item in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(kind):
        return [_date(item) for item in array.cast(pa.int32()).to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if item is None else f"{item:f}" for item in array.to_pylist()]
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_list(kind):
        return _split(array, values(array.flatten()))
    if pa.types.is_struct(kind):
        columns = [values(column) for column in array.flatten()]
        names = [field.name for field in kind]
        rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
        is_there = array.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if item else None for item, row in zip(is_there, rows, strict=True)]
    return array.to_pylist()  # type: ignore[no-any-return]


def _split(array: Any, flat: list[Any]) -> list[Any]:
    import pyarrow.compute as pc

    lists, begin = [], 0
    for length in pc.list_value_length(array).to_pylist():
        lists.append(None if length is None else flat[begin : begin + length])
        begin += length or 0
    return lists


def _maps(array: Any) -> list[Any]:
    """Return the maps of an array one by one: keys and items of a sliced array are those of the whole array."""
    maps: list[Any] = []
    for at in range(len(array)):
        item = array[at]
        if not item.is_valid:
            maps.append(None)
            continue
        pairs = item.values
        keys, items = (values(part) for part in pairs.flatten())
        is_object = all(isinstance(key, str) for key in keys)
        maps.append(dict(zip(keys, items, strict=True)) if is_object else [*map(list, zip(keys, items, strict=True))])
    return maps


def _time(micros: int | None, *, is_utc: bool) -> str | None:
    """Return a time in ISO 8601, with milliseconds, or microseconds if needed.

    Outside of the years 1 to 9999, the result is the number of microseconds since 1970.
    """
    if micros is None:
        return None
    try:
        when = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros}us"
    text = when.replace(tzinfo=None).isoformat(timespec="microseconds" if micros % 1000 else "milliseconds")
    return text + "Z" if is_utc else text


def _date(days: int | None) -> str | None:
    if days is None:
        return None
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return f"{days}d"


def _cell(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, (bytes, bytearray)):
        text = _bytes(bytes(value))
    elif isinstance(value, str):
        text = value
    else:
        text = str(value) if isinstance(value, float) else json_text(value)
    shown = printable(text[: LONGEST_CELL + 1])
    return shown if len(shown) <= LONGEST_CELL else shown[: LONGEST_CELL - 1] + "…"


def _bytes(data: bytes) -> str:
    """Return text if the bytes are UTF-8, else a hexadecimal literal of SQL."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"X'{data[:LONGEST_CELL].hex()}'"


# ---- writing


GROUP_ROWS, GROUP_BYTES = 1 << 17, 64 << 20
"""The limits of a row group of a Parquet file: reaching either one ends it."""


class Written(NamedTuple):
    """The number of rows written; `more`: the result has further rows beyond the limit."""

    rows: int
    more: bool = False


def write_cells(out: ResultStream, headings: Sequence[ResultColumn], rows: Iterable[Any], most_rows: int) -> Written:
    """Write rows of text as a table; on a terminal that is too narrow the last columns are left out."""
    cells = list(rows)
    columns = [
        Column(printable(heading.name), itemgetter(at), at, is_number=heading.is_number)
        for at, heading in enumerate(headings)
    ]
    write_table(out, columns, cells[:most_rows])
    return Written(min(len(cells), most_rows), len(cells) > most_rows)


def write_lines(write: Callable[[bytes], None], parts: Iterable[Any], most_rows: int | None) -> Written:
    """Write the lines of `row_lines`' parts, at most `most_rows`."""
    done = 0
    for part, count in parts:
        lines = lines_of(part)
        if most_rows is not None and done + count > most_rows:
            write(b"".join(lines.splitlines(keepends=True)[: most_rows - done]))
            return Written(most_rows, more=True)
        write(lines)
        done += count
    return Written(done)


def write_parquet(
    file: StagedFile, names: Sequence[str], schema: Any, parts: Iterable[Any], most_rows: int | None
) -> Written:
    """Write `arrow_parts`' parts as a Parquet file with these column names, at most `most_rows` rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    done, more = 0, False
    named = pa.schema([pa.field(name, field.type) for name, field in zip(names, schema, strict=True)])
    tables: list[Any] = []
    with pq.ParquetWriter(file, named, compression="zstd") as writer:
        for data, count in parts:
            room = count if most_rows is None else most_rows - done
            with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
                tables.append(stream.read_all().slice(0, room).rename_columns(list(names)).cast(named))
            done, more = done + min(count, room), count > room
            if more:
                break
            if (
                sum(table.num_rows for table in tables) >= GROUP_ROWS
                or sum(table.nbytes for table in tables) >= GROUP_BYTES
            ):
                writer.write_table(pa.concat_tables(tables))
                tables = []
        if tables:
            writer.write_table(pa.concat_tables(tables))
    return Written(done, more)
