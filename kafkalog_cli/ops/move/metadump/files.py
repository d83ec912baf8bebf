"""Copies the files of a log directory: logs without contents, checkpoints with hashed names, others as they are."""

from __future__ import annotations

import re
import struct
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, NamedTuple

from kafkalog_cli.disk.durable import sync, write_with_holes
from kafkalog_cli.disk.fs import ReadableFile, WritableFilesystem, file_pieces, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.format.batch import CODEC_MASK, LOG_OVERHEAD_BYTES, RECORD_BATCH, Batch
from kafkalog_cli.format.compression import decompress
from kafkalog_cli.format.compression.exact_size import compress_to
from kafkalog_cli.format.crc import crc32c
from kafkalog_cli.format.decode import decode_batch
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY
from kafkalog_cli.format.internal_topics.records import API_MESSAGE_TOPICS, CLUSTER_METADATA, COORDINATOR_TOPICS
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import field_bytes, header_views
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from kafkalog_cli.ops.move.metadump.internal_records import FILLER, InternalRecords, Pseudonyms, filler
from kafkalog_cli.results import Count

LOG_KINDS = frozenset({FileKind.LOG, FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT})
NAMED_KINDS = frozenset({
    FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT, FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
})  # fmt: skip
"""Checkpoints with a topic in each line."""

COPIED_KINDS = LOG_KINDS | NAMED_KINDS | {
    FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.PRODUCER_SNAPSHOT,
    FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA, FileKind.META_PROPERTIES, FileKind.CLEAN_SHUTDOWN,
    FileKind.HELD_CLEAN_SHUTDOWN, FileKind.QUORUM_STATE,
}  # fmt: skip

_GATHERED_BYTES = 1 << 20
_LINE = re.compile(rb"(?P<topic>\S+) (?P<rest>-?\d+ -?\d+)\s*")
_NOT_ZERO = bytes((0, *([FILLER] * 255)))
_HEAD_BYTES = {0: 18, 1: 26, 2: RECORD_BATCH.size}
_UP_TO_MAGIC, _NEAR = 17, 1 << 31


@dataclass(slots=True)
class Counts:
    """The counts of a copy."""

    files: Count = 0
    size_bytes: Annotated[Count, "of all files"] = 0
    batches: Count = 0
    records: Annotated[Count, "whose contents were replaced"] = 0
    opaque_batches: Annotated[Count, "batches whose records cannot be read, in the log or in the copy only"] = 0
    opaque_records: Annotated[Count, "records of internal topics that have lost their structure"] = 0
    damaged_bytes: Annotated[Count, "bytes of logs outside of batches"] = 0


class Moves(NamedTuple):
    """By how many bytes a log's bytes move in its copy, from each of these positions on."""

    starts: array[int]
    moved_by: array[int]

    def moved(self, position: int) -> int:
        """Return the position in the copy; unchanged if it does not fit into an index."""
        row = bisect_right(self.starts, position) - 1
        moved = position if row < 0 else position + self.moved_by[row]
        return moved if 0 <= moved < 1 << 31 else position


@dataclass(slots=True)
class FileCopier:
    """Copies files. `report` gets the number of bytes and the path of each piece."""

    fs: WritableFilesystem
    pseudonyms: Pseudonyms
    internal: InternalRecords
    limits: Limits
    report: Callable[[int, str], None]
    counts: Counts = field(default_factory=Counts)
    _moved: dict[str, Moves] = field(default_factory=dict)
    """Where the batches of a log are in its copy, if their sizes have changed; by the path without its suffix."""

    def copy(self, path: str, new_path: str, kind: FileKind, topic: str | None) -> None:
        """Copy one file, and sync it; a log before its index. Raises OSError, SyncFailed, and as `open_read`."""
        with self.fs.open_read(path) as source, self.fs.create(new_path) as target:
            if kind in LOG_KINDS:
                pieces = self._log(source, topic if kind is FileKind.LOG else CLUSTER_METADATA)
            elif kind is FileKind.OFFSET_INDEX and path.removesuffix(kind.value) in self._moved:
                pieces = iter((self._index(path),))
            elif kind in NAMED_KINDS:
                pieces = iter((self._checkpoint(path),))
            else:
                pieces = file_pieces(source)
            size = write_with_holes(target, 0, self._reported(_gathered(pieces), path))
            sync(target)
        self.counts.files += 1
        self.counts.size_bytes += size
        mtime_ns = self.fs.attributes(path).mtime_ns
        self.fs.set_attributes(new_path, self.fs.attributes(new_path)._replace(mtime_ns=mtime_ns))

    def _reported(self, pieces: Iterable[bytes], path: str) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self.report(len(piece), path)

    def _log(self, file: ReadableFile, topic: str | None) -> Iterator[bytes]:
        redactor = BatchRedactor(self.internal, self.pseudonyms, self.limits, topic, self.counts)
        at, moved_by, last_offset = 0, 0, None
        moves = Moves(array("q"), array("q"))
        for batch in _batches(file, self.limits):
            yield from self._damage(file, at, batch.position, last_offset)
            made = redactor.redacted(_read(file, batch.position, batch.size_bytes), batch)
            yield made
            at = batch.position + batch.size_bytes
            last_offset = batch.last_offset
            if len(made) != batch.size_bytes:
                moved_by += len(made) - batch.size_bytes
                moves.starts.append(at)
                moves.moved_by.append(moved_by)
                self._moved[file.path.removesuffix(FileKind.LOG.value)] = moves
        yield from self._damage(file, at, file.size_bytes, last_offset)
        self.counts.opaque_records = self.internal.opaque

    def _damage(self, file: ReadableFile, start: int, end: int, last_offset: int | None) -> Iterator[bytes]:
        """Yield bytes that are not batches: zeros stay, and the header of an incomplete batch; the rest is filler."""
        at = start
        while at < end:
            piece = _read(file, at, min(end - at, _GATHERED_BYTES))
            head = _head_bytes(piece, last_offset) if at == start else 0
            self.counts.damaged_bytes += len(piece)
            yield piece[:head] + piece[head:].translate(_NOT_ZERO)
            at += len(piece)

    def _index(self, path: str) -> bytes:
        """Return an offset index whose entries point at the same batches of the copy."""
        moves = self._moved.pop(path.removesuffix(FileKind.OFFSET_INDEX.value))
        data = bytearray(read_all(self.fs, path))
        for at in range(4, len(data) - 3, OFFSET_INDEX_ENTRY.size):
            (position,) = _POSITION.unpack_from(data, at)
            _POSITION.pack_into(data, at, moves.moved(position))
        return bytes(data)

    def _checkpoint(self, path: str) -> bytes:
        """Return a checkpoint with other names of topics. A line that is not one of a checkpoint is hidden."""
        data = read_all(self.fs, path)
        if not self.pseudonyms.hashes_names:
            return data
        lines = data.splitlines(keepends=True)
        heads = [at for at, line in enumerate(lines[:2]) if line.strip().isdigit()]
        return b"".join(line if at in heads else self._line(line) for at, line in enumerate(lines))

    def _line(self, line: bytes) -> bytes:
        match = _LINE.fullmatch(line)
        if match is None:
            return bytes(byte if chr(byte).isspace() else ord("x") for byte in line)
        topic = self.internal.topic_name(match["topic"].decode("utf-8", "surrogateescape"))
        return topic.encode("utf-8", "surrogateescape") + line[match.end("topic") :]


def _batches(file: ReadableFile, limits: Limits) -> Iterator[Batch]:
    """Yield the batches of a file in order. Batches with wrong checksums count if the chain through them holds."""
    held: list[Batch] = []
    for columns in Scan(file, DamagePolicy.RESYNC, limits=limits).batches():
        for batch in columns.rows():
            if held and batch.position < held[-1].position + held[-1].size_bytes:
                held = []  # the chain went astray in them
            held.append(batch)
            if batch.valid:
                yield from held
                held = []
    yield from held


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= _GATHERED_BYTES:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _read(file: ReadableFile, position: int, size_bytes: int) -> bytes:
    data = bytearray(size_bytes)
    got = file.read_into(position, memoryview(data))
    if got < size_bytes:
        raise EOFError(f"{file.path} is shorter than when it was opened")
    return bytes(data)


def _head_bytes(piece: bytes, last_offset: int | None) -> int:
    """Return how many bytes at the start of damage are the header of a batch, by its offset and its magic or size."""
    if len(piece) < _UP_TO_MAGIC:
        return min(len(piece), LOG_OVERHEAD_BYTES)
    offset = int.from_bytes(piece[:8], "big", signed=True)
    if last_offset is not None and not last_offset < offset < last_offset + _NEAR:
        return 0
    if last_offset is None and offset < 0:
        return 0
    size = int.from_bytes(piece[8:LOG_OVERHEAD_BYTES], "big", signed=True)
    known = _HEAD_BYTES.get(piece[16])
    if known is not None:
        return known
    return _UP_TO_MAGIC if 0 < size < 1 << 27 else 0


_POSITION = struct.Struct(">i")

_SIZE_AT, _CRC_AT, _ATTRIBUTES_AT = 8, 17, 21
_OLD_CRC_AT, _OLD_MAGIC_AT = 12, 16


class _Unparsable(Exception):
    """Bytes that are not records; their contents are replaced as a whole."""


@dataclass(slots=True)
class BatchRedactor:
    """Replaces the contents of batches of a topic, and counts what it does.

    The contents of batches whose records cannot be read become filler bytes, which do not decompress. Other compressed
    batches may get another size.
    """

    internal: InternalRecords
    pseudonyms: Pseudonyms
    limits: Limits
    topic: str | None
    counts: Counts

    def redacted(self, data: bytes, batch: Batch) -> bytes:
        """Return a whole batch or entry of a message set with other contents."""
        self.counts.batches += 1
        if batch.magic < 2:
            return self._message(data)
        head, body = data[: RECORD_BATCH.size], data[RECORD_BATCH.size :]
        made = bytearray(head + self._contents(body, batch.codec, 2, partial(self._records, batch=batch)))
        struct.pack_into(">i", made, _SIZE_AT, len(made) - LOG_OVERHEAD_BYTES)
        wrong_by = int.from_bytes(data[_CRC_AT:_ATTRIBUTES_AT], "big") ^ crc32c(data[_ATTRIBUTES_AT:])
        struct.pack_into(">I", made, _CRC_AT, crc32c(made[_ATTRIBUTES_AT:]) ^ wrong_by)
        return bytes(made)

    def _contents(self, body: bytes, codec: int, magic: int, change: Callable[[bytes], bytes]) -> bytes:
        """Return the new contents of a batch; `change` replaces contents that are not compressed. Never raises."""
        try:
            if not codec:
                return change(body)
            data = decompress(codec, body, magic=magic, limits=self.limits)
            if not isinstance(data, bytes):
                raise _Unparsable
            return compress_to(codec, change(data), len(body), magic=magic)
        except _Unparsable:
            self.counts.opaque_batches += 1
            return filler(len(body))

    def _records(self, data: bytes, batch: Batch) -> bytes:
        if data and not batch.records_count:
            raise _Unparsable
        out = memoryview(bytearray(data))
        for records, fault in decode_batch(out, 0, len(data), batch):
            if fault is not None:
                raise _Unparsable
            for row in records.rows():
                key_at, key_size, value_at, value_size, headers_at, headers = row[3:9]
                old = field_bytes(out, key_at, key_size), field_bytes(out, value_at, value_size)
                new_key, new_value = self._rewritten(*old, is_control=batch.is_control)
                _put(out, key_at, new_key)
                _put(out, value_at, new_value)
                for name, content in header_views(out, headers_at, headers):
                    name[:] = self.pseudonyms.header_name(bytes(name))
                    if content is not None:
                        content[:] = filler(len(content))
        self.counts.records += batch.records_count
        return bytes(out)

    def _rewritten(
        self, key: bytes | None, value: bytes | None, *, is_control: bool
    ) -> tuple[bytes | None, bytes | None]:
        """Return the new key and value of a record, of the same sizes."""
        if is_control:
            return self.internal.control(key, value)
        if self.topic in COORDINATOR_TOPICS:
            return self.internal.coordinator(self.topic, key, value)
        if self.topic in API_MESSAGE_TOPICS:
            return self.internal.api_message(self.topic, key, value)
        return None if key is None else self.pseudonyms.key(key), None if value is None else filler(len(value))

    def _message(self, message: bytes) -> bytes:
        """Return a message of v0 or v1; a compressed one holds a message set."""
        magic, codec = message[_OLD_MAGIC_AT], message[_OLD_MAGIC_AT + 1] & CODEC_MASK
        at = _OLD_MAGIC_AT + (2 if magic == 0 else 10)
        out = bytearray(message)
        try:
            key, key_at, at = _old_field(message, at)
            value, value_at, at = _old_field(message, at)
            if at != len(message):
                raise _Unparsable
            if codec and value is not None:
                _put(out, key_at, None if key is None else filler(len(key)))
                contents = self._contents(value, codec, magic, self._message_set)
                out[value_at - 4 :] = len(contents).to_bytes(4, "big") + contents
                struct.pack_into(">i", out, _SIZE_AT, len(out) - LOG_OVERHEAD_BYTES)
            else:
                new_key, new_value = self._rewritten(key, value, is_control=False)
                _put(out, key_at, new_key)
                _put(out, value_at, new_value)
                self.counts.records += 1
        except _Unparsable:
            self.counts.opaque_batches += 1
            out = bytearray(message)
            start = min(_OLD_MAGIC_AT + (2 if magic == 0 else 10), len(out))
            out[start:] = filler(len(out) - start)
        wrong_by = int.from_bytes(message[_OLD_CRC_AT:_OLD_MAGIC_AT], "big") ^ zlib.crc32(message[_OLD_MAGIC_AT:])
        struct.pack_into(">I", out, _OLD_CRC_AT, zlib.crc32(bytes(out[_OLD_MAGIC_AT:])) ^ wrong_by)
        return bytes(out)

    def _message_set(self, data: bytes) -> bytes:
        out, at = bytearray(), 0
        while at < len(data):
            size = int.from_bytes(data[at + 8 : at + LOG_OVERHEAD_BYTES], "big", signed=True)
            end = at + LOG_OVERHEAD_BYTES + size
            if size < 14 or end > len(data) or data[at + _OLD_MAGIC_AT] > 1 or data[at + 17] & CODEC_MASK:
                raise _Unparsable
            opaque = self.counts.opaque_batches
            out += self._message(data[at:end])
            if self.counts.opaque_batches != opaque:
                self.counts.opaque_batches = opaque
                raise _Unparsable
            at = end
        return bytes(out)


def _old_field(data: bytes, at: int) -> tuple[bytes | None, int, int]:
    size = int.from_bytes(data[at : at + 4], "big", signed=True)
    at += 4
    if at > len(data) or at + size > len(data):
        raise _Unparsable
    return (None, at, at) if size < 0 else (data[at : at + size], at, at + size)


def _put(out: bytearray | memoryview, at: int, data: bytes | None) -> None:
    if data is not None:
        out[at : at + len(data)] = data
