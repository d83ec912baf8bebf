"""The rows of a task: the records of its pieces as RecordBatches of the source's schema, and its damage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, OffsetOutOfRange
from kafkalog_cli.format.batch import NO_OFFSET, BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.values.decoder import ValueDecoder
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.record_arrow import headers_tell, record_batches, record_schema, rows_of_headers
from kafkalog_cli.log.reading.scan import Chunk
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.choices import Mode
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.look.read.log_read import LogRead, SegmentRead
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.ops.look.read.visible import VisibleChunk
from kafkalog_cli.ops.move.export_files import codec_names
from kafkalog_cli.ops.scans.options import SourceOptions
from kafkalog_cli.ops.scans.schema import (
    FAULT,
    JSON_COLUMNS,
    MOST_MS,
    RECORDS,
    SourceColumn,
    arrow_of,
    arrow_schema,
    headers_tell_all,
)
from kafkalog_cli.ops.scans.splits import Piece, Task
from kafkalog_cli.ops.values import NEEDED, DecodedColumns, Failures, UndecodedCounts

if TYPE_CHECKING:
    from kafkalog_cli.ops.scans.structs.columns import StructColumn

MOST_ROWS = 1 << 16
MOST_BYTES = 32 << 20
"""The most bytes of one RecordBatch: Spark does not split the RecordBatches that it gets."""
ALONE_BYTES = 1 << 20
"""A RecordBatch of this size or more is not combined with others."""


PieceStart = tuple[str, int]
"""The path and the first offset of a piece."""
_undecoded: dict[PieceStart, list[Failures]] = {}
"""What the tasks of this process have not decoded, and nobody has taken yet."""


def take_undecoded() -> dict[PieceStart, list[Failures]]:
    """Return what the tasks of this process did not decode since the last call."""
    taken = dict(_undecoded)
    _undecoded.clear()
    return taken


def undecoded_notes(undecoded: Mapping[PieceStart, list[Failures]]) -> list[Note]:
    """Return what was not decoded, by partition and reason."""
    counts: dict[str, UndecodedCounts] = {}
    for (path, _), failures in sorted(undecoded.items()):
        of_partition = counts.setdefault(path, UndecodedCounts())
        for failure in failures:
            of_partition.add(failure.what, failure.reason, failure.first_offset, failure.records)
    return [Note("undecoded", failure.message, path) for path, count in counts.items() for failure in count.failures()]


def warn_of_undecoded() -> None:
    """Print what the tasks of this process did not decode: where Spark plans a read, no other way leads out of them."""
    for (path, _), failures in take_undecoded().items():
        for failure in failures:
            sys.stderr.write(f"kafkalog: {path}: {failure.message}\n")
    sys.stderr.flush()


def rows_of(fs: Filesystem, task: Task, options: SourceOptions) -> Iterator[Any]:
    """Iterate over the RecordBatches of a task, in the order of its pieces.

    Raises DamagedLog at the first damage (mode failfast), OffsetOutOfRange if offsets were deleted since the task was
    planned (with failOnDataLoss), and the exceptions of `open_read`.
    """
    log_dirs = LogDirs(fs)
    decoder = None
    if any(column in JSON_COLUMNS or column.is_struct for column in options.columns):
        decoder, _ = options.decoding.decoder(fs, [piece.path for piece in task])
    parts = (part for piece in task for part in _PieceRows(fs, piece, options, log_dirs, decoder).batches())
    return limit_batches(parts, arrow_schema(options.columns))


def limit_batches(parts: Iterator[Any], schema: Any) -> Iterator[Any]:
    """Split or combine RecordBatches to at most MOST_ROWS and MOST_BYTES; a single larger record is not split.

    RecordBatches of ALONE_BYTES and more are not combined: a copy would cost more than it saves.
    """
    import pyarrow as pa

    pending: list[Any] = []
    rows = size = 0
    for whole in parts:
        for part in _cut(whole):
            is_large = part.nbytes >= ALONE_BYTES
            if pending and (is_large or rows + part.num_rows > MOST_ROWS or size + part.nbytes > MOST_BYTES):
                yield from pa.Table.from_batches(pending, schema).combine_chunks().to_batches()
                pending, rows, size = [], 0, 0
            if is_large:
                yield part
                continue
            pending.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if pending:
        yield from pa.Table.from_batches(pending, schema).combine_chunks().to_batches()


def _cut(part: Any) -> Iterator[Any]:
    """Halve a RecordBatch repeatedly until its parts are small enough."""
    waiting = [part]
    while waiting:
        batch = waiting.pop()
        if batch.num_rows > 1 and (batch.num_rows > MOST_ROWS or batch.nbytes > MOST_BYTES):
            half = min(batch.num_rows // 2, MOST_ROWS)
            waiting += [batch.slice(half), batch.slice(0, half)]
        else:
            yield batch


class _PieceRows:
    """Reads one piece."""

    def __init__(
        self, fs: Filesystem, piece: Piece, options: SourceOptions, log_dirs: LogDirs,
        decoder: ValueDecoder | None,
    ) -> None:  # fmt: skip
        self._fs = fs
        self._piece = piece
        self._options = options
        self._log_dirs = log_dirs
        self._constants: dict[str, tuple[str | int, Any]] = {}
        self._decoded = None if decoder is None else DecodedColumns(decoder, piece.topic)
        self._structs = {} if decoder is None else _structs(decoder, piece.topic, options.columns)
        needed = () if decoder is None else NEEDED
        names = list(dict.fromkeys((*(column.core for column in options.columns if column.core), *needed)))
        self._core = record_schema(names) if names else None
        self._is_dense = headers_tell_all(options.columns)

    def batches(self) -> Iterator[Any]:
        try:
            yield from self._batches()
        finally:  # also where Spark needs no more rows
            structs = (one.undecoded for one in self._structs.values())
            counts = [*structs, *([] if self._decoded is None else [self._decoded.undecoded])]
            failures = [one for count in counts for one in count.failures()]
            if failures:
                _undecoded[self._piece.path, self._piece.first] = failures

    def _batches(self) -> Iterator[Any]:
        for segment in self._log().segments():
            for is_fault, group in groupby(self._found(segment), lambda item: isinstance(item, Fault)):
                if is_fault:
                    for fault in group:
                        yield from self._of_fault(segment, fault)
                else:  # combined before anything else: small logs come one Kafka batch at a time
                    for part in limit_batches(group, self._core or _only_rows()):
                        yield self._made(segment, part)

    def _found(self, segment: SegmentRead) -> Iterator[Any]:
        """Iterate over RecordBatches of the core's columns, and Faults."""
        import pyarrow as pa

        for chunk in segment.chunks_or_blocks(_headers_are_enough) if self._is_dense else segment.blocks():
            if isinstance(chunk, Fault):
                yield chunk
                continue
            if self._core is None:
                count = _count(chunk.batches) if isinstance(chunk, VisibleChunk) else len(chunk.records)
                if count:
                    yield pa.RecordBatch.from_arrays([pa.nulls(count)], schema=_only_rows())
                continue
            block = rows_of_headers(chunk.batches) if isinstance(chunk, VisibleChunk) else chunk
            if len(block.records):
                yield from record_batches(block, self._core)

    def _log(self) -> LogRead:
        try:
            return self._log_from(self._piece.first)
        except OffsetOutOfRange:  # retention deleted segments since the task was planned
            if self._options.fail_on_data_loss:
                raise
            bounds = open_partition(self._fs, self._piece.path).bounds
            return self._log_from(min(max(self._piece.first, bounds.start), bounds.end))

    def _log_from(self, first: int) -> LogRead:
        piece, options = self._piece, self._options
        request = ReadRequest(
            first, to_offset=piece.end, until_ms=options.records.until_ms, isolation=options.isolation,
            since_ms=options.records.since_ms, with_control=options.include_control,
        )  # fmt: skip
        return LogRead(self._fs, open_partition(self._fs, piece.path, self._log_dirs), request)

    def _made(self, segment: SegmentRead, part: Any) -> Any:
        import pyarrow as pa

        if self._options.columns == (RECORDS,):
            return pa.RecordBatch.from_pydict({RECORDS.name: [part.num_rows]}, schema=arrow_schema((RECORDS,)))
        late, mode = _late(part), self._options.mode
        if late is not None and mode is Mode.FAILFAST:
            raise KafkalogError(
                reason=f"{segment.segment.log.path}: a timestamp is beyond the year 294247, and has no microseconds;"
                " a read without the column timestamp, or with mode permissive, reads the record"
            )
        if late is not None and mode is Mode.DROPMALFORMED:
            import pyarrow.compute as pc

            part, late = part.filter(pc.invert(late)), None
        columns = [column for column in self._options.columns if column != RECORDS]
        arrays = [self._array(column, segment, part, late) for column in columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
        return _counted(made, arrow_schema(self._options.columns)) if RECORDS in self._options.columns else made

    def _array(self, column: SourceColumn, segment: SegmentRead, part: Any, late: Any) -> Any:
        import pyarrow as pa

        kind = arrow_of(column.spark)
        if column in JSON_COLUMNS:
            assert self._decoded is not None
            return self._decoded.texts(part, column.core)
        if column.is_struct:
            return self._structs[column.name].values(part)
        if column.core:
            return _CONVERTED.get(column.name, _cast)(part.column(column.core), kind)
        if column == FAULT and late is not None:
            fault = "a timestamp beyond the year 294247: it has no microseconds"
            return pa.array([fault if is_late else None for is_late in late.to_pylist()], kind)
        constants: dict[str, str | int] = {
            "topic": self._piece.topic,
            "partition": self._piece.partition,
            "segment": segment.segment.log.path.rpartition("/")[2],
        }
        value = constants.get(column.name)
        return (
            pa.nulls(part.num_rows, kind) if value is None else self._repeated(column.name, value, kind, part.num_rows)
        )

    def _repeated(self, name: str, value: str | int, kind: Any, rows: int) -> Any:
        """Return a column of one value: a slice of the last array with it, since making it costs 2 ns for each row."""
        import pyarrow as pa

        known, array = self._constants.get(name, (None, None))
        if array is None or known != value or len(array) < rows:
            array = pa.repeat(pa.scalar(value, kind), rows)
            self._constants[name] = value, array
        return array.slice(0, rows)

    def _of_fault(self, segment: SegmentRead, fault: Fault) -> Iterator[Any]:
        piece = self._piece
        if not piece.reports((segment.segment.base_offset, fault.position)):
            return
        damage = damaged_log(segment.segment.log.path, fault)
        if self._options.mode is Mode.FAILFAST:
            raise damage
        if self._options.mode is Mode.DROPMALFORMED:
            return
        import pyarrow as pa

        row = {
            "topic": piece.topic, "partition": piece.partition, FAULT.name: str(damage),
            "offset": None if fault.base_offset == NO_OFFSET else fault.base_offset,
            "segment": segment.segment.log.path.rpartition("/")[2], "position": fault.position,
        }  # fmt: skip
        names = [column.name for column in self._options.columns]
        known = [{name: row.get(name) for name in names}]
        yield pa.RecordBatch.from_pylist(known, schema=arrow_schema(self._options.columns))


def _structs(decoder: ValueDecoder, topic: str, columns: Sequence[SourceColumn]) -> dict[str, StructColumn]:
    from kafkalog_cli.ops.scans.structs.columns import StructColumn

    return {column.name: StructColumn(decoder, topic, column) for column in columns if column.is_struct}


def _counted(batch: Any, schema: Any) -> Any:
    """Return each different row of a RecordBatch once, with the number of rows like it in the column RECORDS."""
    import pyarrow as pa

    names = batch.schema.names
    counted = pa.Table.from_batches([batch]).group_by(names, use_threads=False).aggregate([([], "count_all")])
    arrays = [counted.column("count_all" if name == RECORDS.name else name).combine_chunks() for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _count(batches: BatchColumns) -> int:
    """Return the number of records in the batches' headers."""
    import numpy as np

    return int(np.asarray(batches.records_count, dtype=np.int64).sum())


def _only_rows() -> Any:
    """Return a schema without data columns, for reads with constant columns only: just the number of rows matters."""
    import pyarrow as pa

    return pa.schema([pa.field("rows", pa.null())])


def _headers_are_enough(chunk: Chunk) -> bool:
    return headers_tell(chunk.batches)


def _late(part: Any) -> Any:
    """Return a mask of timestamps outside Spark's range of microseconds; None if all fit or none are read."""
    if "timestamp" not in part.schema.names:
        return None
    import pyarrow as pa

    millis = part.column("timestamp").cast(pa.int64())
    return None if _fits(millis) else _beyond(millis).fill_null(fill_value=False)


def _beyond(millis: Any) -> Any:
    import pyarrow.compute as pc

    return pc.or_(pc.greater(millis, MOST_MS), pc.less(millis, -MOST_MS))


def _fits(millis: Any) -> bool:
    """Whether all times are in Spark's range of microseconds: two numbers, where a mask is a column."""
    import pyarrow.compute as pc

    bounds = pc.min_max(millis).as_py()
    return bounds["min"] is None or (bounds["min"] >= -MOST_MS and bounds["max"] <= MOST_MS)


def _cast(array: Any, kind: Any) -> Any:
    return array.cast(kind)


def _timestamps(array: Any, kind: Any) -> Any:
    """Convert to microseconds. A record without a timestamp gets -1 ms, as Spark's Kafka source gives for Kafka's -1.

    Timestamps beyond Spark's microseconds become null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    millis = array.cast(pa.int64()).fill_null(-1)
    if not _fits(millis):
        millis = pc.if_else(_beyond(millis), pa.scalar(None, pa.int64()), millis)
    return pc.multiply(millis, 1000).cast(kind)


def _codecs(array: Any, _: Any) -> Any:
    return codec_names().take(array)


def _headers(array: Any, kind: Any) -> Any:
    """Convert headers as Spark's Kafka source does: keys as text, null for a record without headers."""
    import pyarrow as pa

    values = array.values
    struct = kind.value_type
    if not len(values):
        return pa.nulls(len(array), kind)
    keys, offsets = _text(values.field("key")), array.offsets
    made = pa.StructArray.from_arrays([keys, values.field("value")], fields=list(struct))
    import numpy as np

    bounds = np.asarray(offsets)
    empty = pa.array(bounds[1:] == bounds[:-1])
    return pa.ListArray.from_arrays(offsets, made, type=kind, mask=empty)


def _text(array: Any, _: Any = None) -> Any:
    """Decode UTF-8: bytes that are none become U+FFFD in the way that Unicode recommends, and null stays null."""
    import pyarrow as pa

    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        values = (None if text is None else text.decode("utf-8", "replace") for text in array.to_pylist())
        return pa.array(values, pa.string())


_CONVERTED: dict[str, Callable[[Any, Any], Any]] = {
    "timestamp": _timestamps, "codec": _codecs, "headers": _headers, "key_text": _text, "value_text": _text,
}  # fmt: skip
