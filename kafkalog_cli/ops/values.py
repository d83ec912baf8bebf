"""Decoded keys and values as columns of Arrow: JSON texts, by schemas of a topic or of files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.disk.directory_contents import looks_like_partition
from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.errors import KafkalogError, PathNotFound, counted
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded, ValueDecoder
from kafkalog_cli.format.values.schema_set import AVRO, JSON, PROTOBUF, Reference, SchemaSet, StoredSchema
from kafkalog_cli.log.partition import directory_name, open_partition
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.look.read.log_read import LogRead
from kafkalog_cli.ops.look.read.request import ReadRequest

if TYPE_CHECKING:
    from kafkalog_cli.format.values.value_format import ValueFormat

DECODED = {"key": "key_json", "value": "value_json"}
"""The column of decoded contents, by the column of contents."""
NEEDED = ("offset", "headers")
"""Columns that decoding needs beside keys and values: a framing may be in a header."""


class DecodedColumns:
    """Decodes the records of one topic, batch of Arrow by batch, and counts what is not decoded."""

    def __init__(self, decoder: ValueDecoder, topic: str) -> None:
        self.decoder = decoder
        self.undecoded = UndecodedCounts()
        self._topic = topic
        self._decode = {"key": decoder.key, "value": decoder.value}

    def texts(self, batch: Any, what: str) -> Any:
        """Return the decoded contents of the column `what` as an array of JSON texts.

        Null is a null key or value, one that is not decoded, or one without a framing in the format AUTO. The batch has
        the columns `what`, `headers` and `offset`.
        """
        import pyarrow as pa

        texts = (
            json_of(contents) if isinstance(contents, DecodedContents) else None
            for contents in self.decoded(batch, what)
        )
        return pa.array(list(texts), pa.string())

    def decoded(self, batch: Any, what: str) -> Iterator[DecodedContents | Undecoded | None]:
        """Iterate over the decoded contents of the column `what`; None for a null, and as `ValueDecoder`."""
        contents, headers, offsets = (batch.column(name) for name in (what, "headers", "offset"))
        decode = self._decode[what]
        for row, data in enumerate(contents):
            if not data.is_valid:
                yield None
                continue
            decoded = decode(self._topic, memoryview(data.as_buffer()), partial(_headers, headers, row))
            if isinstance(decoded, Undecoded):
                self.undecoded.add(what, decoded.reason, offsets[row].as_py())
            yield decoded


def json_of(decoded: DecodedContents) -> str:
    """Return decoded contents as JSON in one line."""
    text = json.dumps(decoded.value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can only have as an escape
        text = json.dumps(decoded.value, separators=(",", ":"))
    return text


def _headers(headers: Any, row: int) -> list[tuple[bytes, bytes | None]]:
    return [(header["key"], header["value"]) for header in headers[row].as_py() or ()]


SCHEMAS_TOPIC = "_schemas"
"""The default of kafkastore.topic, in which a registry keeps its schemas."""

_KINDS = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON}
_MOST_FILE_BYTES = 1 << 20
_MOST_FILES = 20_000
_MOST_DEPTH = 20
_IMPORT = re.compile(r'^\s*import\s+(?:public\s+|weak\s+)?"([^"\n]{1,1000})"\s*;', re.MULTILINE)
_GUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME_IN_AVRO = re.compile(r'"([A-Za-z_][A-Za-z0-9_.]{0,500})"')


def value_decoder(
    fs: Filesystem,
    key_format: ValueFormat | None,
    value_format: ValueFormat | None,
    schemas: str | None,
    partitions: Iterable[str],
) -> tuple[ValueDecoder, list[Note]]:
    """Return the decoder, and what was wrong with the schemas.

    `partitions` are the directories of the partitions that are read: without `schemas`, the topic `_schemas`
    beside them is read. Raises PathNotFound if `schemas` is not a directory, OSError.
    """
    schema_set, notes = SchemaSet(), list[Note]()
    if any(form.needs_schemas for form in (key_format, value_format) if form is not None):
        if schemas is not None:
            _read_given(fs, schemas, schema_set, notes)
        else:
            for log_dir in dict.fromkeys(os.path.dirname(os.path.abspath(path)) for path in partitions):  # noqa: PTH100, PTH120
                _read_log_dir(fs, log_dir, schema_set, notes)
        if schema_set.is_full:
            notes.append(Note("schemas", "there are more schemas than fit into memory", schema_set.places[-1]))
    return ValueDecoder(schema_set, key_format, value_format), notes


def _read_given(fs: Filesystem, path: str, schemas: SchemaSet, notes: list[Note]) -> None:
    status = fs.status(path)
    if status is None or not status.is_directory:
        raise PathNotFound(path=path)
    entries = fs.list_directory(path)
    if looks_like_partition(entries) or directory_name(path).topic == SCHEMAS_TOPIC:
        _read_partition(fs, path, schemas, notes)
    elif not _read_log_dir(fs, path, schemas, notes):
        schemas.places[:] = [path]
        _SchemaFiles(fs, path, schemas, notes).read()


def _read_log_dir(fs: Filesystem, log_dir: str, schemas: SchemaSet, notes: list[Note]) -> bool:
    """Read the partitions of `_schemas` in a log directory; return whether there are any."""
    paths = sorted(entry.path for entry in fs.list_directory(log_dir) if entry.is_directory)
    read = False
    for path in paths:
        name = directory_name(path)
        if name.topic == SCHEMAS_TOPIC and name.partition is not None and path.endswith(f"-{name.partition}"):
            _read_partition(fs, path, schemas, notes)
            read = True
    if not read:
        schemas.places.append(f"{log_dir}, which has no {SCHEMAS_TOPIC}-0 (--schemas DIR names another place)")
    return read


def _read_partition(fs: Filesystem, path: str, schemas: SchemaSet, notes: list[Note]) -> None:
    """Apply the records of a partition in their order. Damage and foreign records become notes."""
    schemas.places.append(path)
    problems: list[str] = []
    try:
        log = LogRead(fs, open_partition(fs, path), ReadRequest(read_ahead=False))
        for segment in log.segments():
            for block in segment.blocks():
                if isinstance(block, Fault):
                    problems.append(block.message)
                    continue
                for record in block.rows():
                    key = None if record.key is None else bytes(record.key)
                    why = schemas.apply(key, None if record.value is None else bytes(record.value))
                    if why:
                        problems.append(f"offset {record.offset}: {why}")
                del problems[100:]
    except KafkalogError as error:
        problems.append(str(error))
    if problems:
        more = "; so are others" if len(problems) > 1 else ""
        notes.append(Note("schemas", f"schemas may be missing: {problems[0]}{more}", path))


class _SchemaFiles:
    """The files of a directory: ID.avsc, GUID.proto or SUBJECT.json, and files that others import by their path."""

    def __init__(self, fs: Filesystem, root: str, schemas: SchemaSet, notes: list[Note]) -> None:
        self._fs = fs
        self._root = root
        self._found = schemas
        self._notes = notes
        self._kinds: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def read(self) -> None:
        """Add the schemas of all files. A file is named after the id, the GUID or the subject of its schema."""
        self._collect(self._root, "", 0)
        avro: dict[str, list[str]] = {}
        for name in (name for name, kind in self._kinds.items() if kind == AVRO):
            avro.setdefault(name.rpartition(".")[0].rpartition(".")[2], []).append(name)
        for number, (name, text) in enumerate(self._texts.items()):
            stem, kind = name.rpartition(".")[0], self._kinds[name]
            uses: list[str] = []
            if kind == PROTOBUF:
                uses = [use for use in _IMPORT.findall(text) if use in self._texts]
            elif kind == AVRO:
                words = {word.rpartition(".")[2] for word in _NAME_IN_AVRO.findall(text)}
                uses = [file for word in words for file in avro.get(word, ())]
            references = tuple(Reference(use, use, 1) for use in dict.fromkeys(uses) if use != name)
            schema_id = int(stem) if stem.isascii() and stem.isdigit() and len(stem) < 11 else None
            guid = stem if _GUID.fullmatch(stem) else None
            # Each file is a subject under its name, which references use, and under its name without the ending.
            self._found.add(StoredSchema(kind, text, references, schema_id, guid, name, 1))
            if schema_id is None and guid is None:
                self._found.add(StoredSchema(kind, text, references, None, None, stem, number + 1))

    def _collect(self, directory: str, prefix: str, depth: int) -> None:
        for entry in sorted(self._fs.list_directory(directory), key=lambda file: file.path):
            name = f"{prefix}{entry.path.rpartition('/')[2]}"
            if entry.is_directory and depth < _MOST_DEPTH:
                self._collect(entry.path, f"{name}/", depth + 1)
            kind = _KINDS.get(f".{name.rpartition('.')[2]}")
            if not entry.is_file or kind is None:
                continue
            if len(self._texts) >= _MOST_FILES or entry.size_bytes > _MOST_FILE_BYTES:
                limit = f"{_MOST_FILE_BYTES} bytes" if entry.size_bytes > _MOST_FILE_BYTES else f"{_MOST_FILES} files"
                self._notes.append(Note("schemas", f"left out: the limit is {limit}", entry.path))
                continue
            try:
                self._texts[name] = read_all(self._fs, entry.path, _MOST_FILE_BYTES).decode()
                self._kinds[name] = kind
            except UnicodeDecodeError:
                self._notes.append(Note("schemas", "left out: it is not UTF-8", entry.path))


_MOST_REASONS = 20
"""The most reasons that are kept for each partition; further reasons are counted."""


class Failures(NamedTuple):
    """Keys or values that were not decoded for one reason: how many, and the first offset."""

    what: str
    reason: str
    first_offset: int
    records: int

    @property
    def message(self) -> str:
        """The warning about them."""
        if self.first_offset < 0:
            return f"{counted(self.records, 'key or value is', 'keys or values are')} not decoded for other reasons"
        first = "" if self.records == 1 else f" and {self.records - 1} more"
        verb = "is" if self.records == 1 else "are"
        return f"the {self.what} of offset {self.first_offset}{first} {verb} not decoded: {self.reason}"


@dataclass(slots=True)
class UndecodedCounts:
    """Counts contents that were not decoded."""

    _counts: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _others: int = 0

    def add(self, what: str, reason: str, offset: int, records: int = 1) -> None:
        """Count keys or values (`what`) that were not decoded; `offset` is the offset of the first record."""
        place = (what, reason)
        if place in self._counts:
            self._counts[place][1] += records
        elif len(self._counts) < _MOST_REASONS and offset >= 0:
            self._counts[place] = [offset, records]
        else:
            self._others += records

    def failures(self) -> list[Failures]:
        """Return the counts so far, by reason, and forget them."""
        failures = [Failures(what, reason, *numbers) for (what, reason), numbers in self._counts.items()]
        if self._others:
            failures.append(Failures("contents", "other reasons", -1, self._others))
        self._counts, self._others = {}, 0
        return failures
