"""A file that is written from its start to its end where nobody looks, as a stream for those who write to one."""

from __future__ import annotations

from kafkalog_cli.storage.changing.durable import sync, try_to_remove
from kafkalog_cli.storage.fs import FileAttributes, WritableFilesystem

_GATHERED_BYTES = 128 << 10


class StagedFile:
    """`write` gathers into large pieces. `finish` has all of it on the disk, but for its name; `drop` removes it."""

    def __init__(self, fs: WritableFilesystem, path: str, attributes: FileAttributes | None = None) -> None:
        self.path = path
        self.closed = False
        self._fs = fs
        self._file = fs.create(path, attributes)
        self._gathered = bytearray()
        self._position = 0

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append; the number of bytes. Raises OSError."""
        size = len(data)
        if size >= _GATHERED_BYTES:
            self._drain()
            self._file.write(self._position, memoryview(data))
            self._position += size
            return size
        self._gathered += data
        if len(self._gathered) >= _GATHERED_BYTES:
            self._drain()
        return size

    def tell(self) -> int:
        """How many bytes were written."""
        return self._position + len(self._gathered)

    def flush(self) -> None:
        """What is gathered waits for more: nobody reads it before `finish`."""

    def isatty(self) -> bool:
        """Never."""
        return False

    def finish(self) -> int:
        """All that was written is on the disk; the number of bytes. Raises OSError, SyncFailed."""
        self._drain()
        sync(self._file)
        self.close()
        return self._position

    def drop(self) -> None:
        """It is not wanted any more."""
        self.close()
        try_to_remove(self._fs, self.path)

    def close(self) -> None:
        """Give up the descriptor."""
        if not self.closed:
            self.closed = True
            self._file.close()

    def _drain(self) -> None:
        if self._gathered:
            with memoryview(self._gathered) as gathered:
                self._file.write(self._position, gathered)
            self._position += len(self._gathered)
            self._gathered.clear()
