"""Write the files of one partition: one file, or one per day, as Parquet or Arrow columns or as lines.

Their names sort by offset. A file is not published before all are complete.
"""

import os
import re
from typing import Annotated, Any, NamedTuple

from kafkalog_cli.disk.durable import TEMPORARY_SUFFIX, StagedFile
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.columns import Integers, Rows
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.limits import MOST_FILE_FIELD_BYTES
from kafkalog_cli.log.reading.record_arrow import record_schema
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.move.export_request import FileFormat
from kafkalog_cli.ops.values import DECODED, DecodedColumns
from kafkalog_cli.results import Hidden, PathName, Positive, result

ROW_GROUP_BYTES = 64 << 20
"""The size in bytes of a row group's columns before compression."""

_SORTED = ("offset", "timestamp", "sequence", "batch_base_offset")
_FEW_VALUES = (
    "partition", "timestampType", "magic", "codec", "producer_id", "producer_epoch", "leader_epoch", "transactional",
    "control",
)  # fmt: skip
"""Columns that are the same for a whole batch, so that their values repeat."""
_MAY_REPEAT = ("key", "value", "headers.list.element.key", "headers.list.element.value")
"""Columns for which Parquet tries a dictionary, and drops it in a row group where it becomes large."""


class LinesWriter:
    """Writes lines as they come."""

    pending_bytes = 0

    def __init__(self, file: StagedFile) -> None:
        self.write = file.write

    def flush(self) -> None:
        """See TableWriter."""

    def close(self) -> None:
        """See TableWriter."""


class TableWriter:
    """Gathers parts in the order of offsets into large tables, which `out` of pyarrow writes: row groups of Parquet.

    `pending_bytes` are not written until `flush`, or until there are ROW_GROUP_BYTES.
    """

    def __init__(self, schema: Any, out: Any) -> None:
        self.pending_bytes = 0
        self._schema = schema
        self._out = out
        self._pending: list[Any] = []

    def write(self, part: Any) -> None:
        """Append a RecordBatch."""
        self._pending.append(part)
        self.pending_bytes += part.nbytes
        if self.pending_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the pending parts."""
        import pyarrow as pa

        if self._pending:
            pending, self._pending, self.pending_bytes = self._pending, [], 0
            table = pa.Table.from_batches([part.replace_schema_metadata(None) for part in pending])
            self._out.write_table(table.replace_schema_metadata(self._schema.metadata), table.num_rows)
            pa.default_memory_pool().release_unused()  # else it keeps the memory of the largest pages

    def close(self) -> None:
        """End the file; the stream stays open."""
        self.flush()
        self._out.close()


def writer(format: FileFormat, file: StagedFile, schema: Any, codec: str) -> LinesWriter | TableWriter:  # noqa: A002
    """Return the writer for a format; `schema` has the metadata of the file, None for lines."""
    if format is FileFormat.JSON:
        return LinesWriter(file)
    return TableWriter(schema, (_parquet if format is FileFormat.PARQUET else _arrow)(file, schema, codec))


def _parquet(file: StagedFile, schema: Any, codec: str) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        file,
        schema,
        compression=codec,
        use_dictionary=[*_FEW_VALUES, *_MAY_REPEAT],
        column_encoding=dict.fromkeys(_SORTED, "DELTA_BINARY_PACKED"),
        write_statistics=[*_SORTED, *_FEW_VALUES],
    )


def _arrow(file: StagedFile, schema: Any, codec: str) -> Any:
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec)
    return pa.ipc.new_file(file, schema, options=options)


VERSION = "1"
"""The version of the columns, kept in the metadata of each file."""

CORE = (
    "key", "value", "offset", "timestamp", "timestamp_type", "headers", "batch_base_offset", "magic", "codec",
    "producer_id", "producer_epoch", "sequence", "leader_epoch", "transactional", "control",
)  # fmt: skip
"""The columns of the core that exported columns are made from, in their order."""

_NAMES = {"timestamp_type": "timestampType"}
"""Names that differ from the core: those of Spark's Kafka source, if it has such a column."""
OF_FILES = (*_NAMES.values(), "partition", "topic", "day", *DECODED.values())
"""Columns of exported files that the core does not have; topic and day are in the names of directories."""
_CODECS = 8


def core_schema() -> Any:
    """Return the pyarrow.Schema of the batches that `exported` takes."""
    return record_schema(CORE)


def export_schema(decoding: Decoding | None = None) -> Any:
    """Return the pyarrow.Schema of exported records; the topic is in the directory's name and the file's metadata.

    `decoding` adds columns of decoded contents at the end. A null timestamp means that the record has none (-1).
    Header keys are bytes, since Kafka does not require text.
    """
    import pyarrow as pa

    fields = []
    for field in core_schema():
        kind = pa.string() if field.name == "codec" else field.type
        fields.append(pa.field(_NAMES.get(field.name, field.name), kind, field.nullable))
    fields.insert(2, pa.field("partition", pa.int32(), nullable=False))
    fields += [pa.field(DECODED[name], pa.string()) for name in (decoding.columns if decoding else ())]
    return pa.schema(fields)


def exported(batch: Any, partition: int, schema: Any, decoded: DecodedColumns | None = None) -> Any:
    """Return a RecordBatch of `core_schema` as one of `export_schema`, whose decoded contents come from `decoded`."""
    import numpy as np
    import pyarrow as pa

    arrays, contents = [], {column: name for name, column in DECODED.items()}
    for name in schema.names:
        if name in contents:
            assert decoded is not None
            arrays.append(decoded.texts(batch, contents[name]))
            continue
        if name == "partition":
            arrays.append(pa.array(np.full(batch.num_rows, partition, np.int32)))  # pa.repeat takes 2 ns for each
        elif name == "codec":
            arrays.append(codec_names().take(batch.column("codec")))
        else:
            arrays.append(batch.column("timestamp_type" if name == "timestampType" else name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def codec_names() -> Any:
    """Return an array with the name of each codec at its number."""
    import pyarrow as pa

    return pa.array([codec_name(number) for number in range(_CODECS)], pa.string())


MOST_OPEN = 64
"""The most files of days open at a time; beyond it, the file not written to for the longest time is ended."""
MOST_PENDING_BYTES = 256 << 20

NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for null: no timestamp, or one outside the years 0 to 9999."""
_DAY_MS = 86_400_000
_FIRST_DAY, _BEHIND_DAYS = -719_528, 2_932_897
_PLAIN = re.compile(rb"[A-Za-z0-9._-]")


class Target(NamedTuple):
    """Where and how the files of a task are written; `prefix` makes their names in `staging` unique."""

    staging: str
    format: FileFormat
    codec: str
    by_day: bool
    prefix: str
    decoding: Decoding = Decoding()


class Source(NamedTuple):
    """The partition that the records come from; `topic_id` is None if it has none."""

    topic: str
    partition: int
    topic_id: str | None = None


@result("kafkalog.exported/1")
class MadeFile(NamedTuple):
    """A file that export made.

    `staged` is its name in the staging directory, and `path` its place in the output.
    """

    staged: Hidden[str]
    path: Annotated[PathName, "below --output: topic=NAME/, and day=DATE/ with --by-day"]
    topic: str
    partition: int
    first_offset: Annotated[int, "of its first record; in 0.7 a position in bytes"]
    last_offset: Annotated[int, "of its last record"]
    records: Positive
    size_bytes: Annotated[Positive, "of the file"]
    of_earlier_run: Annotated[bool, "an earlier run made it, which was interrupted after its commit"] = False

    @property
    def facts(self) -> dict[str, Any]:
        """The fields that the manifest of a run keeps, as values for JSON."""
        return {name: getattr(self, name) for name in self._fields[2:-1]}


LARGE_SUFFIX = ".large.arrow"
"""The end of the names of files with the records that are too large for Parquet or for a line."""
_Kind = tuple[str, bool]
"""The day of the records of a file, and whether they are too large for Parquet or for a line."""


class _Open:
    """A file that is being written."""

    def __init__(self, file: StagedFile, out: LinesWriter | TableWriter, path: str, first_offset: int) -> None:
        self.file = file
        self.writer = out
        self.path = path
        self.first_offset = self.last_offset = first_offset
        self.records = 0


class PartitionFiles:
    """Writes the records of a partition, in the order of offsets, until `finish` returns the files."""

    def __init__(self, fs: WritableFilesystem, target: Target, source: Source) -> None:
        self._fs = fs
        self._target = target
        self._source = source
        self._open: dict[_Kind, _Open] = {}
        self._made: list[MadeFile] = []

    def add(self, batch: Any) -> None:
        """Append a RecordBatch of `export_schema`.

        PyArrow's Parquet needs several times the memory of a value. Records with very large ones go to an Arrow file
        beside, whose name begins with `_`, so that readers of Parquet files skip it. So do all rows that are not lines
        in an export of lines.
        """
        if self._target.format is FileFormat.PARQUET and too_large_field(batch) is not None:
            import pyarrow.compute as pc

            sizes = [pc.fill_null(pc.binary_length(batch.column(name)), 0) for name in ("key", "value")]
            is_large = pc.greater(pc.max_element_wise(*sizes), MOST_FILE_FIELD_BYTES)
            self._add(batch.filter(is_large), is_large=True)
            batch = batch.filter(pc.invert(is_large))
        self._add(batch, is_large=self._target.format is FileFormat.JSON)

    def _add(self, batch: Any, *, is_large: bool) -> None:
        if not batch.num_rows:
            return
        offsets = batch.column("offset").to_numpy()
        if not self._target.by_day:
            self._write(("", is_large), batch, offsets)
            return
        import pyarrow as pa

        millis = batch.column("timestamp").cast(pa.int64()).fill_null(NO_TIMESTAMP).to_numpy(zero_copy_only=False)
        for day, rows in by_day(millis):
            self._write((day, is_large), batch if rows is None else batch.take(pa.array(rows)), offsets, rows)

    @property
    def large_files(self) -> list[MadeFile]:
        """The files of `finish` that are Arrow files beside Parquet files or lines."""
        return [one for one in self._made if one.path.endswith(LARGE_SUFFIX)]

    def add_lines(self, lines: bytes, offsets: Integers, millis: Integers) -> None:
        """Append lines, one per record, with the offsets and timestamps of the records."""
        if not len(offsets):
            return
        if not self._target.by_day:
            self._write(("", False), lines, offsets)
            return
        for day, rows in by_day(millis):
            part = lines
            if rows is not None:
                each = lines.split(b"\n")
                part = b"".join(each[row] + b"\n" for row in rows.tolist())
            self._write((day, False), part, offsets, rows)

    def finish(self) -> list[MadeFile]:
        """End all files, write them to the disk, and return them. Raises OSError, SyncFailed."""
        for kind in list(self._open):
            self._end(kind)
        return self._made

    def drop(self) -> None:
        """Discard the open files."""
        for one in self._open.values():
            one.file.drop()
        self._open.clear()

    def _write(self, kind: _Kind, part: Any, offsets: Integers, rows: Rows | None = None) -> None:
        own = offsets if rows is None else offsets[rows]
        found = self._open.pop(kind, None) or self._begin(kind, int(own[0]))
        self._open[kind] = found  # the last entry is the file written to last
        found.writer.write(part)
        found.last_offset = int(own[-1])
        found.records += len(own)
        if len(self._open) > 1 and sum(one.writer.pending_bytes for one in self._open.values()) > MOST_PENDING_BYTES:
            max(self._open.values(), key=lambda one: one.writer.pending_bytes).writer.flush()

    def _begin(self, kind: _Kind, first_offset: int) -> _Open:
        if len(self._open) >= MOST_OPEN:
            self._end(next(iter(self._open)))
        target, source = self._target, self._source
        day, is_large = kind
        name = f"{target.prefix}-{source.partition}-{first_offset}-{len(self._made)}-{len(self._open)}"
        directories = f"topic={escaped(source.topic)}/" + (f"day={day}/" if target.by_day else "")
        path = f"{directories}{'_' if is_large else ''}{source.partition:05d}-{first_offset:020d}"
        file = StagedFile(self._fs, f"{target.staging}/{name}{TEMPORARY_SUFFIX}")
        is_json = target.format is FileFormat.JSON
        if is_large:
            schema = _with_metadata(source, Decoding() if is_json else target.decoding)
            out = writer(FileFormat.ARROW, file, schema, "none")
            return _Open(file, out, f"{path}{LARGE_SUFFIX}", first_offset)
        schema = None if is_json else _with_metadata(source, target.decoding)
        out = writer(target.format, file, schema, target.codec)
        return _Open(file, out, f"{path}.{target.format.suffix}", first_offset)

    def _end(self, kind: _Kind) -> None:
        one = self._open.pop(kind)
        one.writer.close()
        size_bytes = one.file.finish()
        staged = one.file.path.rpartition("/")[2]
        target = (one.path, self._source.topic, self._source.partition)
        self._made.append(MadeFile(staged, *target, one.first_offset, one.last_offset, one.records, size_bytes))


def too_large_field(batch: Any, most_bytes: int | None = None) -> tuple[str, int, int] | None:
    """Return name, row and bytes of the first key or value with more bytes, if any; None: than a Parquet file takes."""
    import pyarrow.compute as pc

    most = MOST_FILE_FIELD_BYTES if most_bytes is None else most_bytes
    if batch.nbytes <= most:
        return None
    for name in ("key", "value"):
        if name in batch.schema.names:
            sizes = pc.binary_length(batch.column(name))
            row = pc.index(pc.greater(sizes, most), value=True).as_py()
            if row >= 0:
                return name, row, sizes[row].as_py()
    return None


def by_day(millis: Integers) -> list[tuple[str, Rows | None]]:
    """Return the days of timestamps (epoch ms, -1 for none) in order, each with its rows; None for all rows."""
    import numpy as np

    millis = np.asarray(millis, dtype=np.int64)
    days = np.where(millis == NO_TIMESTAMP, _BEHIND_DAYS, millis // _DAY_MS)
    days = np.where((days < _FIRST_DAY) | (days > _BEHIND_DAYS), _BEHIND_DAYS, days)
    if (days == days[0]).all():
        return [(_day(int(days[0])), None)]
    return [(_day(int(day)), np.flatnonzero(days == day)) for day in np.unique(days)]


def _day(number: int) -> str:
    import numpy as np

    return NO_DAY if number >= _BEHIND_DAYS else str(np.datetime64(number, "D"))


def escaped(topic: str) -> str:
    """Return a topic as part of a directory's name, as Hive does: characters not allowed there become %XX."""
    raw = os.fsencode(topic)
    return "".join(
        chr(byte) if _PLAIN.match(raw, position) else f"%{byte:02X}" for position, byte in enumerate(raw)
    )  # fmt: skip


def _with_metadata(source: Source, decoding: Decoding) -> Any:
    facts = {"kafkalog.export": VERSION, "kafkalog.topic": os.fsencode(source.topic)}
    facts["kafkalog.partition"] = str(source.partition)
    if source.topic_id is not None:
        facts["kafkalog.topic_id"] = source.topic_id
    return export_schema(decoding).with_metadata(facts)
