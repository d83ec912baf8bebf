"""Log directories as of an earlier time: a file system in which each log ends before the first batch after that time.

Logs do not record when a batch was appended. The largest timestamp of a batch is the nearest thing to it. It is of the
broker's clock for LogAppendTime, markers and committed offsets, and of the producer's clock otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile
from kafkalog_cli.disk.names import METADATA_TOPIC, SEGMENT_KINDS, FileKind, classify_file
from kafkalog_cli.errors import PathNotFound
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.partition import Segment, directory_name, open_partition
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from kafkalog_cli.ops.look.lookup_time import TimeSearch


class _Cut(NamedTuple):
    """The end of a log: the base offset of its last segment, and the size of that segment in bytes."""

    base_offset: int
    size_bytes: int


class CutFile(ReadableFile):
    """The first `size_bytes` of an open file. Threads share it: all reads have a position."""

    def __init__(self, file: ReadableFile, size_bytes: int) -> None:
        self.path = file.path
        self.size_bytes = size_bytes
        self._file = file

    def read_into(self, position: int, buffer: memoryview) -> int:
        """See ReadableFile. Later bytes, also bytes that were appended since the file was opened, are not read."""
        size = max(0, min(len(buffer), self.size_bytes - position))
        return self._file.read_into(position, buffer[:size]) if size else 0

    def send_to(self, descriptor: int, position: int, size_bytes: int) -> int:  # noqa: D102
        return self._file.send_to(descriptor, position, max(0, min(size_bytes, self.size_bytes - position)))

    def close(self) -> None:  # noqa: D102
        self._file.close()


class AsOfFilesystem:
    """Shows partition directories as of a time in epoch ms. Everything else is as it is now.

    The log of a partition ends before the first batch whose largest timestamp is after the time. Segments after that
    batch are not listed, nor are the indexes of the segment with the batch. The metadata log is not cut.
    """

    def __init__(self, below: Filesystem, time_ms: int) -> None:
        self._below = below
        self._time_ms = time_ms
        self._cuts: dict[str, _Cut | None] = {}

    def open_read(self, path: str) -> ReadableFile:
        """See Filesystem. Raises PathNotFound for a file that is not listed."""
        file = self._below.open_read(path)
        cut = self._cuts.get(path.rpartition("/")[0])
        if cut is None:
            return file
        size = _size_then(path, file.size_bytes, cut)
        if size is None:
            file.close()
            raise PathNotFound(path=path)
        return CutFile(file, size)

    def status(self, path: str) -> FileStatus | None:
        """See Filesystem."""
        status = self._below.status(path)
        cut = self._cuts.get(path.rpartition("/")[0])
        return status if status is None or cut is None else _entry_then(status, cut)

    def list_directory(self, path: str) -> list[FileStatus]:
        """See Filesystem. Raises as `open_read` too: the first listing of a partition searches its log."""
        entries = self._below.list_directory(path)
        if path not in self._cuts:
            has_log = any(entry.path.endswith(FileKind.LOG.value) for entry in entries if entry.is_file)
            self._cuts[path] = self._search(path) if has_log and directory_name(path).topic != METADATA_TOPIC else None
        cut = self._cuts[path]
        return entries if cut is None else [then for then in (_entry_then(entry, cut) for entry in entries) if then]

    def _search(self, path: str) -> _Cut | None:
        """Return the end of a log at the time; None if no batch is later. Closed segments are searched by indexes."""
        segments = [segment for segment in open_partition(self._below, path).segments if not segment.is_v07]
        search = TimeSearch(self._below, DEFAULT_LIMITS)
        for segment in segments:
            if segment is not segments[-1] and search.largest_timestamp(segment) <= self._time_ms:
                continue
            position = self._first_after(segment)
            if position is not None:
                return _Cut(segment.base_offset, position)
        return None

    def _first_after(self, segment: Segment) -> int | None:
        """Return the position of the first batch that is later than the time; damaged batches have no time."""
        with self._below.open_read(segment.log.path) as log:
            for batches in Scan(log, DamagePolicy.RESYNC).batches():
                rows = rows_where(
                    lambda time, valid: (time > self._time_ms) & (valid != 0), batches.max_timestamp, batches.valid
                )
                for row in rows:
                    return batches.position[row]
        return None


def _entry_then(entry: FileStatus, cut: _Cut) -> FileStatus | None:
    size = _size_then(entry.path, entry.size_bytes, cut)
    return None if size is None else entry._replace(size_bytes=size)


def _size_then(path: str, size_bytes: int, cut: _Cut) -> int | None:
    """Return the size of a partition's file before the cut, None if it was not there or is not right for the cut."""
    name = classify_file(path.rpartition("/")[2])
    if name.offset is None or name.kind not in SEGMENT_KINDS or name.offset < cut.base_offset:
        return size_bytes
    if name.offset > cut.base_offset or name.kind is not FileKind.LOG:
        return None
    return min(size_bytes, cut.size_bytes)
