"""Read records from NDJSON, as `read --format json` and `export --format json` print it, into columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.ops.append.reading import LINES_HINT, PieceLines, file_pieces, parse_ndjson, read_records

_ROWS, _BYTES = 1 << 13, 1 << 24
"""The most rows of a RecordBatch, and the bytes of its keys, values and headers with which it is full."""


def line_batches(path: str) -> Iterator[Any]:
    """Yield RecordBatches of the records of a file.

    Raises BadInput with the line number, OSError, and as `open_read` does.
    """
    rows: list[dict[str, Any]] = []
    size_bytes = 0
    with RealFilesystem().open_read(path) as file:
        for found in read_records(PieceLines(file_pieces(file)), path, _row):
            if found is not None:
                rows.append(found)
                size_bytes += _size_bytes(found)
            if len(rows) == _ROWS or size_bytes > _BYTES:
                yield _batch(rows)
                rows, size_bytes = [], 0
    if rows:
        yield _batch(rows)


def _size_bytes(row: dict[str, Any]) -> int:
    headers = (field for header in row["headers"] for field in header.values())
    return sum(len(field or b"") for field in (row["key"], row["value"], *headers))


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        record = parse_ndjson(line, with_origin=True)
    except ValueError as error:  # the hint is of an option that import does not have
        raise type(error)(str(error).removesuffix(f"; {LINES_HINT}")) from error
    if record is None:
        return None
    fields = json.loads(line)
    for name in ("topic", "codec"):
        if not isinstance(fields.get(name), str | None):
            raise ValueError(f"{name} must be a string")
    origin = record.origin
    return {
        "key": record.key,
        "value": record.value,
        "headers": [header._asdict() for header in record.headers],
        "timestamp": NO_TIMESTAMP if record.timestamp is None else record.timestamp,
        "topic": fields.get("topic"),
        "partition": origin.partition,
        "offset": origin.offset,
        "timestamp_type": int(origin.is_append_time),
        "leader_epoch": origin.leader_epoch,
        "codec": fields.get("codec"),
        "transactional": bool(fields.get("transactional")),
    }


def _batch(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])
    schema = pa.schema(
        {
            "key": pa.binary(),
            "value": pa.binary(),
            "headers": pa.list_(header),
            "timestamp": pa.int64(),
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp_type": pa.int8(),
            "leader_epoch": pa.int32(),
            "codec": pa.string(),
            "transactional": pa.bool_(),
        }
    )
    return pa.RecordBatch.from_pylist(rows, schema=schema)
