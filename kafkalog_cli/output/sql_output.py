"""Writes the rows of a query as a table, as NDJSON or as a Parquet file, one part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kafkalog_cli.disk.staged_file import StagedFile
from kafkalog_cli.output.human import TextColumn, TextTable, write_table
from kafkalog_cli.output.sql_rows import lines_of
from kafkalog_cli.output.stream import ResultStream, printable

GROUP_ROWS, GROUP_BYTES = 1 << 17, 64 << 20
"""The limits of a row group of a Parquet file: reaching either one ends it."""


class Heading(NamedTuple):
    """A column of a result."""

    name: str
    is_number: bool


class Written(NamedTuple):
    """The number of rows written; `more`: the result has further rows beyond the limit."""

    rows: int
    more: bool = False


def write_cells(out: ResultStream, headings: Sequence[Heading], rows: Iterable[Any], most_rows: int) -> Written:
    """Write rows of text as a table; on a terminal that is too narrow the last columns are left out."""
    cells = list(rows)
    columns = [TextColumn(printable(one.name), one.is_number, rank) for rank, one in enumerate(headings)]
    write_table(out, TextTable(columns, cells[:most_rows]))
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
    held: list[Any] = []
    with pq.ParquetWriter(file, named, compression="zstd") as writer:
        for data, count in parts:
            room = count if most_rows is None else most_rows - done
            with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
                held.append(stream.read_all().slice(0, room).rename_columns(list(names)).cast(named))
            done, more = done + min(count, room), count > room
            if more:
                break
            if sum(one.num_rows for one in held) >= GROUP_ROWS or sum(one.nbytes for one in held) >= GROUP_BYTES:
                writer.write_table(pa.concat_tables(held))
                held = []
        if held:
            writer.write_table(pa.concat_tables(held))
    return Written(done, more)
