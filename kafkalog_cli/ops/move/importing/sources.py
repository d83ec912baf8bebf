"""The request of an import, the files that it reads, and what names, schemas and metadata say about the records."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import split
from typing import Any, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, RealFilesystem
from kafkalog_cli.errors import BadInput, NothingSelected, PathNotFound, UsageError
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.java_text import canonical_uuid
from kafkalog_cli.format.limits import MEBIBYTE, MOST_IMPORTED_FIELD_BYTES
from kafkalog_cli.ops.change.append.arrow import ArrowReader, record_columns, types_of_records
from kafkalog_cli.ops.change.append.batching import Writing
from kafkalog_cli.ops.change.append.lines import file_pieces, records_of_lines
from kafkalog_cli.ops.change.append.making import is_topic_id
from kafkalog_cli.ops.change.append.reading import line_parser_of_files
from kafkalog_cli.ops.change.append.records import NewRecords
from kafkalog_cli.ops.choices import Hashing
from kafkalog_cli.ops.move.export_files import LARGE_SUFFIX, too_large_field
from kafkalog_cli.ops.move.export_request import FileFormat

_MOST_PARTITIONS = 1 << 20


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The options of an import.

    `topic` None: the input names the topics. `topic_ids` are by topic, "" for the only topic. `partitions` is a number
    of partitions, to which rows go by their keys; None: the input names them. `codec` None: a batch keeps the codec of
    the batch that its records come from, if the input names it. `new_offsets`: offsets start at 0, else the input's
    offsets are kept, if it has any. `prove`: read back what was built, and compare.
    """

    topic: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    new_offsets: bool = False
    codec: str | None = None
    compression_level: int | None = None
    batch_bytes: int = 16_384
    prove: bool = False
    replace_empty: bool = False
    single_replica: bool = False
    hashing: Hashing = Hashing.MURMUR2_RANDOM

    def check(self) -> None:
        """Raise UsageError if options contradict each other."""
        self.writing(keep_offsets=False).check(lambda name: f"--{name.replace('_', '-')}")
        if self.compression_level is not None and self.codec is None:
            raise UsageError(reason="--compression-level needs a --codec")
        if self.partitions is not None and not 0 < self.partitions <= _MOST_PARTITIONS:
            raise UsageError(reason=f"--partitions {self.partitions} is not from 1 to {_MOST_PARTITIONS}")
        if self.partitions is None and self.hashing is not Hashing.MURMUR2_RANDOM:
            raise UsageError(reason="--partitioner needs --partitions: without it the input names the partitions")
        if "" in self.topic_ids and len(self.topic_ids) > 1:
            raise UsageError(reason="--topic-id: give one ID, or TOPIC=ID for each topic")

    def writing(self, *, keep_offsets: bool) -> Writing:
        """Return how batches are made."""
        return Writing(
            codec=self.codec or "none",
            compression_level=self.compression_level,
            batch_bytes=self.batch_bytes,
            keep_offsets=keep_offsets,
        )

    def keeps_offsets(self, files: Sequence[InputFile]) -> bool:
        """Whether offsets are kept. Raises UsageError if only some of the files have them."""
        if self.new_offsets or self.partitions is not None:
            return False
        having = [file for file in files if file.has_offsets]
        if having and len(having) < len(files):
            other = next(file for file in files if not file.has_offsets)
            raise UsageError(
                reason=(
                    f"{having[0].path} has offsets, {other.path} has none: --new-offsets gives all records new offsets"
                )
            )
        return bool(having)


def command_of(inputs: Sequence[str], request: ImportRequest, config: Sequence[str]) -> list[str]:
    """Return words that identify an import into a log directory; `inputs` are full paths."""
    return [*inputs, str(request), str(tuple(config))]


def inputs_of(command: Sequence[str]) -> Sequence[str]:
    """Return the inputs from the words of `command_of`; none for a DataFrame, which has no such words."""
    return command[:-2]


_OPTIONS = frozenset((
    "--log-dir", "--topic", "--topic-id", "--partitions", "--codec", "--compression-level", "--batch-bytes", "--config",
    "--broker-config", "--metadata", "--now", "--wait", "--format", "--input", "--partitioner",
))  # fmt: skip
_FLAGS = frozenset(("--new-offsets", "--prove", "--replace-empty", "--single-replica", "--quiet"))


def repeated_command(what: Mapping[str, Any], log_dir: str) -> tuple[str, ...]:
    """Return the command that continues a committed import, by the record of the import in `log_dir`; () for none.

    Anybody who may write there may have written the record, and somebody with more rights pastes the command. So it is
    an import into this directory, and has no option that runs programs, such as --conf.
    """
    try:
        words = split(what.get("repeat", ""))
    except ValueError:
        return ()
    target, rest = None, iter(words[2:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _OPTIONS:
            value = value if equals else next(rest, "")
            target = value if name == "--log-dir" else target
        elif word.startswith("-") and word not in _FLAGS:
            return ()
    if words[:2] != ["kafkalog", "import"] or target is None or os.path.realpath(target) != os.path.realpath(log_dir):
        return ()
    return tuple(words)


def topic_ids(given: Sequence[str]) -> dict[str, str]:
    """Parse `TOPIC=ID` or `ID` (for which the topic is "") into ids by topic, as Kafka writes them.

    Raises UsageError.
    """
    found = {}
    for one in given:
        topic, _, text = one.rpartition("=") if not is_topic_id(one) else ("", "", one)
        if not is_topic_id(text):
            raise UsageError(reason=f"--topic-id {one}: {text} is not a topic id")
        if topic in found:
            raise UsageError(reason=f"--topic-id {one}: the topic already has an id")
        canonical = canonical_uuid(text)
        assert canonical is not None
        found[topic] = canonical
    return found


RECORD_COLUMNS = ("key", "value", "headers", "timestamp")
ORIGIN_COLUMNS = ("offset", "timestampType", "timestamp_type", "leader_epoch", "codec", "control", "transactional")
PLACE_COLUMNS = ("topic", "partition")
KNOWN_COLUMNS = frozenset((*RECORD_COLUMNS, *ORIGIN_COLUMNS, *PLACE_COLUMNS))
"""The columns of an input that are used; all others are left out."""

_LEFT_OUT_UNTOLD = frozenset(
    ("day", "batch_base_offset", "magic", "producer_id", "producer_epoch", "sequence", "position", "segment", "_fault")
)
"""Columns of exported files that are left out without a note, because records of a new log do not have them."""
NO_OFFSET = "a row has no offset, where others may have one: --new-offsets gives all records new offsets"
_SUFFIXES = {
    ".parquet": FileFormat.PARQUET,
    ".arrow": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
    ".ndjson": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".json": FileFormat.JSON,
}
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_ROWS = 1 << 15
_PART_BYTES = 4 << 20
_BUFFER_BYTES = 1 << 20
_MOST_DEPTH = 16
_MOST_DIGITS = 10


class InputFile(NamedTuple):
    """A file of records.

    `topic` comes from its metadata or directory, `partition` and `topic_id` from its metadata; None if unknown. `rows`
    is -1 if only reading the file shows the number. `columns` are the columns used, `left_out` the others.
    """

    path: str
    format: FileFormat
    size_bytes: int
    rows: int = -1
    topic: str | None = None
    partition: int | None = None
    topic_id: str | None = None
    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def has_offsets(self) -> bool:
        """Whether records have offsets."""
        return "offset" in self.columns

    def offset_range(self) -> tuple[int, int] | None:
        """Return the smallest and the largest offset in a Parquet or Arrow file, None if it has no rows.

        Raises BadInput.
        """
        import pyarrow.compute as pc

        found: list[int] = []
        for part in batches(self, ("offset",)):
            if part.num_rows:
                ends = pc.min_max(part.column(0)).as_py()
                if ends["min"] is None:
                    raise BadInput(path=self.path, reason=NO_OFFSET)
                found += ends.values()
        return (min(found), max(found)) if found else None

    def records(self, now_ms: int, topics: list[str] | None = None) -> Iterator[NewRecords]:
        """Yield the records of the file, in order; `topics` gets the names whose indexes the records have.

        `now_ms` is the timestamp of all records if the file has no such column. Raises BadInput, UsageError.
        """
        names = [] if topics is None else topics
        if self.format is not FileFormat.JSON:
            reader = ArrowReader(now_ms, with_origin=True, topics=names)
            for part in batches(self, KNOWN_COLUMNS):
                try:
                    yield from reader.records([part])
                except BadInput as error:
                    raise BadInput(path=self.path, reason=str(error)) from error
            return
        with RealFilesystem().open_read(self.path) as file:
            parse = line_parser_of_files(names)
            for records in records_of_lines(file_pieces(file), self.path, NO_TIMESTAMP, parse):
                if records is not None:
                    yield records


def input_files(fs: Filesystem, paths: Sequence[str], *, are_lines: bool = False) -> list[InputFile]:
    """Return the files under the paths, by name; in directories, only files whose suffix is one of records.

    `are_lines`: files that are named have lines of JSON, whatever their suffix.

    Names that begin with `.` or `_` are skipped, as Spark does. Raises PathNotFound, NothingSelected, Unreadable.
    Raises UsageError for a file of another kind, and BadInput for a file that does not match its suffix.
    """
    found: dict[str, FileFormat] = {}
    for path in paths:
        full = os.path.abspath(path)  # noqa: PTH100 - workers may have another directory of their own
        status = fs.status(full)
        if status is None:
            raise PathNotFound(path=path)
        if status.is_directory:
            found.update(_below(fs, full))
        elif (kind := FileFormat.JSON if are_lines else _format_of(full)) is not None:
            found[full] = kind
        else:
            names = f"import reads files whose name ends in one of {', '.join(_SUFFIXES)}"
            raise UsageError(reason=f"{path}: {names}; --input kcat reads lines of kcat -J under any name")
    if not found:
        raise NothingSelected(reason=f"no files of records ({', '.join(_SUFFIXES)}) under {', '.join(paths)}")
    return [_described(fs, path, kind) for path, kind in found.items()]


def _below(fs: Filesystem, directory: str) -> Iterator[tuple[str, FileFormat]]:
    waiting = [(directory, 0)]
    while waiting:
        path, depth = waiting.pop()
        if depth > _MOST_DEPTH:
            reason = f"directories in it are nested more than {_MOST_DEPTH} deep, or a link in it leads back into it"
            raise BadInput(path=directory, reason=reason)
        below = []
        for entry in fs.list_directory(path):
            name = entry.path.rpartition("/")[2]
            if name.startswith((".", "_")) and not name.endswith(LARGE_SUFFIX):
                continue
            if entry.is_directory:
                below.append((entry.path, depth + 1))
            elif (kind := _format_of(name)) is not None:
                yield entry.path, kind
        waiting += reversed(below)


def _format_of(path: str) -> FileFormat | None:
    return _SUFFIXES.get(os.path.splitext(path)[1].lower())  # noqa: PTH122


def _described(fs: Filesystem, path: str, kind: FileFormat) -> InputFile:
    status = fs.status(path)
    file = InputFile(path, kind, 0 if status is None else status.size_bytes, topic=_topic_of_directory(path))
    if kind is FileFormat.JSON:
        of_origin = ("offset", "timestampType", "leader_epoch", "codec", "transactional", "control")
        return file._replace(columns=(*RECORD_COLUMNS, *PLACE_COLUMNS, *of_origin))

    try:
        rows, schema = _opened(fs, file)
        names = schema.names
    except (OSError, ValueError) as error:  # pyarrow's errors are subclasses, and a name may not be UTF-8
        raise BadInput(path=path, reason=f"it cannot be read as {kind.value}: {error}") from error
    facts = schema.metadata or {}
    topic, number, topic_id = (facts.get(b"kafkalog." + name) for name in (b"topic", b"partition", b"topic_id"))
    columns = tuple(name for name in names if name in KNOWN_COLUMNS)
    if "key" not in columns and "value" not in columns:
        raise UsageError(reason=f"{path} has neither a column key nor a column value: {', '.join(names)}")
    try:
        types_of_records(schema, KNOWN_COLUMNS)
    except UsageError as error:
        raise UsageError(reason=f"{path}: {error}") from error
    return file._replace(
        rows=rows,
        topic=file.topic if topic is None else os.fsdecode(topic),
        partition=None if number is None else _partition_of(path, number),
        topic_id=None if topic_id is None else topic_id.decode(errors="replace"),
        columns=columns,
        left_out=tuple(name for name in names if name not in (*columns, *_LEFT_OUT_UNTOLD)),
    )


def _partition_of(path: str, number: bytes) -> int:
    """Return the number of a partition in a file's metadata. Raises BadInput."""
    if not number.isdigit() or len(number) > _MOST_DIGITS:
        raise BadInput(path=path, reason="its metadata has a kafkalog.partition that is not the number of a partition")
    return int(number)


def _topic_of_directory(path: str) -> str | None:
    """Return the topic from the last directory named `topic=NAME`, as Hive writes it; None if there is none."""
    for part in reversed(path.split("/")[:-1]):
        name, _, value = part.partition("=")
        if name == "topic" and value:
            return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(value)))
    return None


def _opened(fs: Filesystem, file: InputFile) -> tuple[int, Any]:
    """Return the number of rows of a file, and its schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.format is FileFormat.PARQUET:
        with _stream(fs, file.path) as stream, pq.ParquetFile(stream) as opened:
            return opened.metadata.num_rows, opened.schema_arrow
    with _stream(fs, file.path) as stream, pa.ipc.open_file(stream) as reader:
        rows = sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))
        return rows, reader.schema


def _stream(fs: Filesystem, path: str) -> Any:
    """Open a file for pyarrow, which would follow any link, wait for a pipe, and end by SIGBUS if a file is cut off."""
    import pyarrow as pa

    return pa.PythonFile(ReadableStream(fs.open_read(path)), mode="r")


# ---- rows


def batches(file: InputFile, columns: Collection[str]) -> Iterator[Any]:
    """Yield the rows of a Parquet or Arrow file, as RecordBatches of the `columns` that it has. Raises BadInput."""
    names = [name for name in file.columns if name in columns]
    parts: Iterator[Any]
    try:
        parts = (_parquet if file.format is FileFormat.PARQUET else _arrow)(file.path, names)
        yield from (_checked(record_columns(part, file.path), file.path) for part in parts)
    except (OSError, ValueError) as error:
        raise BadInput(path=file.path, reason=f"it cannot be read: {error}") from error


def _checked(part: Any, name: str) -> Any:
    """Return the part. Raises BadInput for a key or value that is too large."""
    found = too_large_field(part, MOST_IMPORTED_FIELD_BYTES)
    if found is None:
        return part
    column, _, size = found
    most = f"{MOST_IMPORTED_FIELD_BYTES} ({MOST_IMPORTED_FIELD_BYTES // MEBIBYTE} MiB)"
    raise BadInput(path=name, reason=f"a {column} has {size} bytes: a file of records may have {most} for it")


def _parquet(path: str, columns: list[str]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with (
        _stream(RealFilesystem(), path) as stream,
        pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES, pre_buffer=False) as opened,  # else whole columns are read
    ):
        for part in opened.iter_batches(_rows_at_a_time(opened.metadata), columns=columns):
            yield part.select(columns)


def _rows_at_a_time(metadata: Any) -> int:
    """Return a number of rows of a Parquet file that take about _PART_BYTES."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size // group.num_rows for group in groups if group.num_rows), default=0)
    return min(max(_PART_BYTES // max(row_bytes, 1), 1), _ROWS)


def _arrow(path: str, columns: list[str]) -> Iterator[Any]:
    import pyarrow as pa

    with _stream(RealFilesystem(), path) as stream, pa.ipc.open_file(stream) as reader:
        for number in range(reader.num_record_batches):
            part = reader.get_batch(number).select(columns)
            for first in range(0, part.num_rows, _ROWS):
                yield part.slice(first, _ROWS)


class ReadableStream(io.RawIOBase):
    """Reads an open file from any position; its size is that at opening. Closing the stream closes the file."""

    def __init__(self, file: ReadableFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read into `buffer`; return the number of bytes. Raises OSError."""
        with memoryview(buffer) as view, view.cast("B") as octets:
            size = min(len(octets), max(self._file.size_bytes - self._position, 0))
            count = self._file.read_into(self._position, octets[:size])
        self._position += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position and return it."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size_bytes}[whence]
        self._position = max(start + offset, 0)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()
