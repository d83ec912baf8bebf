"""Write the files of one partition: one file, or one per day, with names that sort by offset."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from kafkalog_cli.disk.durable import TEMPORARY_SUFFIX
from kafkalog_cli.disk.fs import FileAttributes, WritableFilesystem
from kafkalog_cli.disk.staged_file import StagedFile
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.columns import Integers, Rows
from kafkalog_cli.format.limits import MEBIBYTE, MOST_FILE_FIELD_BYTES
from kafkalog_cli.ops.export.request import FileFormat
from kafkalog_cli.ops.export.writers import VERSION, ExportWriter, export_schema, writer
from kafkalog_cli.ops.values.decoded_columns import Decoding

MOST_OPEN = 64
"""The most files of days open at a time; beyond it, the file not written to for the longest time is ended."""
MOST_HELD_BYTES = 256 << 20

NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for null: no timestamp, or one outside the years 0 to 9999."""
_DAY_MS = 86_400_000
_FIRST_DAY, _BEHIND_DAYS = -719_528, 2_932_897
_PLAIN = re.compile(rb"[A-Za-z0-9._-]")


class Target(NamedTuple):
    """Where and how the files of a task are written; `prefix` makes their names in `staging` unique."""

    staging: str
    attributes: FileAttributes
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


class MadeFile(NamedTuple):
    """A complete file in the staging directory.

    `path` is its place in the output. `last_offset` is inclusive.
    """

    staged: str
    path: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    size_bytes: int

    @property
    def facts(self) -> dict[str, Any]:
        """All fields except the file names, as values for JSON."""
        return {name: value for name, value in self._asdict().items() if name not in ("staged", "path")}


class _Open:
    """A file that is being written."""

    def __init__(self, file: StagedFile, out: ExportWriter, path: str, first_offset: int) -> None:
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
        self._open: dict[str, _Open] = {}
        self._made: list[MadeFile] = []
        self._schema = None if target.format is FileFormat.JSON else _with_metadata(source, target.decoding)

    def add(self, batch: Any) -> None:
        """Append a RecordBatch of `export_schema`. Raises KafkalogError for a key or value too large for Parquet."""
        if not batch.num_rows:
            return
        if self._target.format is FileFormat.PARQUET:
            self._check_sizes(batch)
        offsets = batch.column("offset").to_numpy()
        if not self._target.by_day:
            self._write("", batch, offsets)
            return
        import pyarrow as pa

        millis = batch.column("timestamp").cast(pa.int64()).fill_null(NO_TIMESTAMP).to_numpy(zero_copy_only=False)
        for day, rows in by_day(millis):
            self._write(day, batch if rows is None else batch.take(pa.array(rows)), offsets, rows)

    def _check_sizes(self, batch: Any) -> None:
        found = too_large_field(batch)
        if found is not None:
            name, row, size = found
            source, most = self._source, MOST_FILE_FIELD_BYTES
            raise KafkalogError(
                reason=f"{source.topic}-{source.partition}: the {name} at offset {batch.column('offset')[row]} has"
                f" {size} bytes. Parquet files here take at most {most} ({most // MEBIBYTE} MiB), because PyArrow needs"
                " several times as much memory. --format arrow or json exports it"
            )

    def add_lines(self, lines: bytes, offsets: Integers, millis: Integers) -> None:
        """Append lines, one per record, with the offsets and timestamps of the records."""
        if not len(offsets):
            return
        if not self._target.by_day:
            self._write("", lines, offsets)
            return
        for day, rows in by_day(millis):
            part = lines
            if rows is not None:
                each = lines.split(b"\n")
                part = b"".join(each[row] + b"\n" for row in rows.tolist())
            self._write(day, part, offsets, rows)

    def finish(self) -> list[MadeFile]:
        """End all files, write them to the disk, and return them. Raises OSError, SyncFailed."""
        for day in list(self._open):
            self._end(day)
        return self._made

    def drop(self) -> None:
        """Discard the open files."""
        for one in self._open.values():
            one.file.drop()
        self._open.clear()

    def _write(self, day: str, part: Any, offsets: Integers, rows: Rows | None = None) -> None:
        own = offsets if rows is None else offsets[rows]
        found = self._open.pop(day, None) or self._begin(day, int(own[0]))
        self._open[day] = found  # the last entry is the file written to last
        found.writer.write(part)
        found.last_offset = int(own[-1])
        found.records += len(own)
        if len(self._open) > 1 and sum(one.writer.held_bytes for one in self._open.values()) > MOST_HELD_BYTES:
            max(self._open.values(), key=lambda one: one.writer.held_bytes).writer.flush()

    def _begin(self, day: str, first_offset: int) -> _Open:
        if len(self._open) >= MOST_OPEN:
            self._end(next(iter(self._open)))
        target, source = self._target, self._source
        name = f"{target.prefix}-{source.partition}-{first_offset}-{len(self._made)}-{len(self._open)}"
        directories = f"topic={escaped(source.topic)}/" + (f"day={day}/" if target.by_day else "")
        path = f"{directories}{source.partition:05d}-{first_offset:020d}.{target.format.suffix}"
        file = StagedFile(self._fs, f"{target.staging}/{name}{TEMPORARY_SUFFIX}", target.attributes)
        return _Open(file, writer(target.format, file, self._schema, target.codec), path, first_offset)

    def _end(self, day: str) -> None:
        one = self._open.pop(day)
        one.writer.close()
        size_bytes = one.file.finish()
        staged = one.file.path.rpartition("/")[2]
        place = (one.path, self._source.topic, self._source.partition)
        self._made.append(MadeFile(staged, *place, one.first_offset, one.last_offset, one.records, size_bytes))


def too_large_field(batch: Any) -> tuple[str, int, int] | None:
    """Return name, row and bytes of the first key or value that is too large for a file of records; None if all fit."""
    import pyarrow.compute as pc

    if batch.nbytes <= MOST_FILE_FIELD_BYTES:
        return None
    for name in ("key", "value"):
        if name in batch.schema.names:
            sizes = pc.binary_length(batch.column(name))
            row = pc.index(pc.greater(sizes, MOST_FILE_FIELD_BYTES), value=True).as_py()
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
