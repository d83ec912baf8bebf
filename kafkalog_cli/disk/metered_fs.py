"""A file system that reports the bytes read and written through it, for progress and for a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any, cast

from kafkalog_cli.disk.fs import FileAttributes, ReadableFile, WritableFile, WritableFilesystem

Meter = Callable[[str, int], None]
"""Called with a path and the number of bytes that were just read from it or written to it, from any thread. It may
block, and an exception that it raises ends the read or write."""


class _MeteredFile(ReadableFile):
    """An open file whose reads and writes are reported; the rest is done by `file` itself."""

    def __init__(self, file: Any, meter: Meter, piece_bytes: int | None) -> None:
        self.path = file.path
        self.size_bytes = getattr(file, "size_bytes", 0)
        self._file = file
        self._meter = meter
        self._piece_bytes = piece_bytes

    def data_from(self, position: int) -> int:
        return int(self._file.data_from(position))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read_into(self, position: int, buffer: memoryview) -> int:
        piece, done = self._piece_bytes or max(1, len(buffer)), 0
        for start in range(0, len(buffer), piece):
            part = buffer[start : start + piece]
            got = self._file.read_into(position + start, part)
            self._meter(self._file.path, got)
            done += got
            if got < len(part):
                break
        return done

    def write(self, position: int, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        piece = self._piece_bytes or max(1, len(view))
        for start in range(0, len(view), piece):
            part = view[start : start + piece]
            self._file.write(position + start, part)
            self._meter(self._file.path, len(part))

    def close(self) -> None:
        self._file.close()


class MeteredFilesystem(WritableFilesystem):
    """Reports to `meter` what is read from files of `below` and written to them; all else is done by `below` itself.

    `piece_bytes` is the most that is read or written between two reports; None: one report per call.
    """

    def __init__(self, below: WritableFilesystem, meter: Meter, piece_bytes: int | None = None) -> None:
        self._fs = below
        self._metered = partial(_MeteredFile, meter=meter, piece_bytes=piece_bytes)
        for name in vars(WritableFilesystem).keys() - vars(MeteredFilesystem).keys():
            if not name.startswith("_"):
                setattr(self, name, getattr(below, name))

    def open_read(self, path: str) -> ReadableFile:
        return cast("ReadableFile", self._metered(self._fs.open_read(path)))

    def create(self, path: str, attributes: FileAttributes | None = None) -> WritableFile:
        return cast("WritableFile", self._metered(self._fs.create(path, attributes)))

    def open_write(self, path: str, *, most_links: int = 1) -> WritableFile:
        return cast("WritableFile", self._metered(self._fs.open_write(path, most_links=most_links)))


LEAST_PIECE_BYTES = 64 << 10
PIECE_SECONDS = 0.1


class IoRate:
    """Limits I/O to `bytes_per_second` in total: a thread that has moved bytes waits until they were due.

    Unused bandwidth is not saved up. `piece_bytes` is the number of bytes to move at once for short, even pauses.
    """

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.piece_bytes = max(LEAST_PIECE_BYTES, int(bytes_per_second * PIECE_SECONDS))
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._free_at = clock()

    def take(self, size_bytes: int) -> None:
        """Count `size_bytes` as moved, and wait until the next bytes may be moved."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
            left = self._free_at - now
        if left > 0:
            self._sleep(left)
