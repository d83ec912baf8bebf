"""Segment files on their own, under any name, also compressed, as partitions of one segment.

Copies of segments have the names that object stores, browsers and backups give: x+0+12.log, 0012.log.gz, 0012 (1).log.
Readers take partitions, so `SingleFiles` lists each such file as the one segment of a directory.
"""

import io
import os
from collections.abc import Iterator, Sequence
from typing import IO, cast

from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile, WritableFilesystem, file_pieces
from kafkalog_cli.disk.names import (
    INDEX_SUFFIXES,
    DirectoryKind,
    FileKind,
    WorkState,
    classify_file,
    segment_file_name,
)
from kafkalog_cli.errors import NotKafkaLayout, PathNotFound, Unreadable, shell_word
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES, directory_name
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from kafkalog_cli.ops.selection import expand

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OF_RECORDS = (FileKind.LOG, FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT, FileKind.OTHER)
_PIECE_BYTES = 1 << 20
_ZSTD_BYTES = 1 << 11
"""Of compressed bytes: a block of 128 KiB has at least four."""
_NO_BATCH = "no batch is in it, so that it cannot be verified or read"


class _Unpacked(ReadableFile):
    """A compressed file, decompressed into a temporary file that goes with this object."""

    def __init__(self, file: ReadableFile, magic: bytes) -> None:
        import tempfile  # few runs need these
        import zlib

        import zstandard

        self.path = file.path
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as this object)
        self.size_bytes = 0
        packed = cast("IO[bytes]", io.BufferedReader(_Raw(file), _PIECE_BYTES))
        try:
            for piece in _decompressed(packed, magic):
                self.size_bytes += len(piece)
                if self.size_bytes > MAX_SEGMENT_BYTES:
                    raise Unreadable(path=file.path, reason=f"it unpacks to more than {MAX_SEGMENT_BYTES} bytes")
                self._file.write(piece)
            self._file.flush()
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            reason = f"it cannot be decompressed: {error}"
            raise Unreadable(path=file.path, reason=reason, next_step=_step_to_the_rest(file.path, magic)) from error

    def read_into(self, position: int, buffer: memoryview) -> int:
        return os.preadv(self._file.fileno(), [buffer], position)

    def close(self) -> None:
        """The temporary file is kept: it may be opened again."""


def _step_to_the_rest(path: str, magic: bytes) -> str:
    part = f"{path}.part"
    script = f"{'gzip' if magic == _GZIP else 'zstd'} -dc {shell_word(path)} > {shell_word(part)}"
    return (
        f"copy it again from its origin. If there is none, `sh -c {shell_word(script)}` writes the bytes before the"
        f" damage, and `kafkalog verify {shell_word(part)}` checks them"
    )


def _decompressed(packed: IO[bytes], magic: bytes) -> Iterator[bytes]:
    """Yield the bytes of a compressed file. Raises EOFError, OSError, zlib.error or ZstdError where it is damaged."""
    if magic == _GZIP:
        import gzip

        file = gzip.GzipFile(fileobj=packed)
        while data := file.read(_PIECE_BYTES):
            yield data
        return
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()
    while data := packed.read(_ZSTD_BYTES):
        while data:
            if frame.eof:  # of one frame: another may follow
                frame = zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(data)
            data = frame.unused_data
    if not frame.eof:  # the stream reader of zstandard does not report this
        raise EOFError("the last frame is incomplete")


class _Raw(io.RawIOBase):
    def __init__(self, file: ReadableFile) -> None:
        self._pieces = file_pieces(file)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._rest = self._rest or memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


class SingleFiles:
    """A file system in which single files are partitions; all else is as in `fs`."""

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._listings: dict[str, list[FileStatus]] = {}
        self._unpacked: dict[str, _Unpacked] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._fs, name)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the paths of the files: a task of Spark opens them again."""
        given = [file.given_path for listing in self._listings.values() for file in listing if file.given_path]
        return _with_files, (self._fs, given)

    def add(self, path: str, status: FileStatus) -> str:
        """Return the directory in which the file is a segment. Raises NotKafkaLayout, Unreadable.

        The directory is that of the file if it is named like a partition, which gives the topic, or if the file has a
        broker's name. Else the file itself counts as a directory.
        """
        parsed = classify_file(status.name.removesuffix(".gz").removesuffix(".zst"))
        with self._open(path) as file:
            size_bytes = file.size_bytes
            is_brokers = is_segment_of_broker(status.name) and path not in self._unpacked
            base = parsed.offset if is_brokers else _first_offset(file)
        if base is None and parsed.kind is FileKind.LOG and not size_bytes:
            base = parsed.offset  # a segment that was copied before its first batch was written
        if base is None:
            not_of_kafka = "" if parsed.kind is FileKind.LOG else "its name is not that of a Kafka file, and "
            raise NotKafkaLayout(path=path, reason=f"{not_of_kafka}{_NO_BATCH}")
        parent = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
        is_partition = directory_name(parent).kind is not DirectoryKind.OTHER
        directory = parent if is_brokers or is_partition else path
        name = status.name if is_brokers else segment_file_name(base, FileKind.LOG)
        listing = self._listings.setdefault(directory, [])
        if any(entry.name == name for entry in listing):
            raise NotKafkaLayout(path=path, reason=f"another file was given that begins at offset {base} too")
        shown = f"{directory.rstrip('/')}/{name}"
        listing.append(status._replace(path=shown, size_bytes=size_bytes, is_symlink=False, given_path=path))
        if is_brokers:
            stem = path.removesuffix(FileKind.LOG.value)
            indexes = (self._fs.status(stem + suffix) for suffix in INDEX_SUFFIXES)
            listing += (entry for entry in indexes if entry is not None and entry.is_file)
        return directory

    def open_read(self, path: str) -> ReadableFile:
        """See Filesystem."""
        return self._open(path)

    def _open(self, path: str) -> ReadableFile:
        if path in self._unpacked:
            return self._unpacked[path]
        file = self._fs.open_read(path)
        magic = bytearray(4)
        file.read_into(0, memoryview(magic))
        for start in (_GZIP, _ZSTD):
            if magic.startswith(start):  # a batch begins with its offset, which is never so large
                with file:
                    self._unpacked[path] = _Unpacked(file, start)
                return self._unpacked[path]
        return file

    def status(self, path: str) -> FileStatus | None:
        """See Filesystem."""
        directory = path.rpartition("/")[0] or "."
        if directory in self._listings:
            return next((file for file in self._listings[directory] if file.path == path), None)
        status = self._fs.status(path)
        is_listed = status is not None and path.rstrip("/") in self._listings
        return status._replace(is_file=False, is_directory=True) if status is not None and is_listed else status

    def list_directory(self, path: str) -> list[FileStatus]:
        """See Filesystem."""
        listing = self._listings.get(path.rstrip("/"))
        return self._fs.list_directory(path) if listing is None else sorted(listing)


def is_segment_of_broker(name: str) -> bool:
    """Whether a file has the name of a segment in its place."""
    parsed = classify_file(name)
    return parsed.kind is FileKind.LOG and parsed.state is WorkState.IN_PLACE and parsed.offset is not None


def _first_offset(file: ReadableFile) -> int | None:
    """Return the first offset of a segment, after damage too; None if there is no batch."""
    for batches in Scan(file, DamagePolicy.RESYNC).batches():
        first = batches.base_offset[0]
        if first >= 0:
            return int(first)
        block = next(Scan(file, DamagePolicy.RESYNC).blocks(), None)
        return None if block is None else int(block.records.offset[0])  # a compressed set of v0 or v1
    return None


def _with_files(fs: Filesystem, paths: Sequence[str]) -> SingleFiles:
    view = SingleFiles(fs)
    for path in paths:
        status = fs.status(path)
        if status is None:
            raise PathNotFound(path=path)
        view.add(path, status)
    return view


def directories_of(fs: WritableFilesystem, paths: Sequence[str]) -> tuple[WritableFilesystem, list[str]]:
    """Return the file system, and the paths of directories, in which the segment files in `paths` are partitions.

    Files of other kinds stay as they are. Raises as `expand`, NotKafkaLayout for a file without a batch, Unreadable.
    """
    view = SingleFiles(fs)
    directories: dict[str, None] = {}
    for path in expand(fs, list(paths)):
        status = fs.status(path)
        is_segment = status is not None and status.is_file and classify_file(status.name).kind in _OF_RECORDS
        directories[view.add(path, status) if status is not None and is_segment else path] = None
    return cast(WritableFilesystem, view), [*directories]
