"""A staged file that is written from start to end, as a stream for libraries that write to streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog_cli.disk.durable import check_replaceable, sync, sync_directory, temporary_of, try_to_remove
from kafkalog_cli.disk.fs import FileAttributes, WritableFilesystem

_GATHERED_BYTES = 128 << 10


class StagedFile:
    """A file that is written in large pieces; `finish` syncs its bytes, but not its name, and `drop` removes it."""

    def __init__(self, fs: WritableFilesystem, path: str, attributes: FileAttributes | None = None) -> None:
        self.path = path
        self.closed = False
        self._fs = fs
        self._file = fs.create(path, attributes)
        self._gathered = bytearray()
        self._position = 0

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append `data` and return its number of bytes. Raises OSError."""
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
        """Return the number of bytes written so far."""
        return self._position + len(self._gathered)

    def flush(self) -> None:
        """Do nothing: nobody reads the file before `finish`, so pending bytes wait for more."""

    def isatty(self) -> bool:
        """Return False."""
        return False

    def finish(self) -> int:
        """Sync all written bytes to the disk, close the file, and return its size. Raises OSError, SyncFailed."""
        self._drain()
        sync(self._file)
        self.close()
        return self._position

    def drop(self) -> None:
        """Close and remove the file."""
        self.close()
        try_to_remove(self._fs, self.path)

    def close(self) -> None:
        """Close the file descriptor."""
        if not self.closed:
            self.closed = True
            self._file.close()

    def _drain(self) -> None:
        if self._gathered:
            with memoryview(self._gathered) as gathered:
                self._file.write(self._position, gathered)
            self._position += len(self._gathered)
            self._gathered.clear()


@contextmanager
def new_file(fs: WritableFilesystem, path: str) -> Iterator[StagedFile]:
    """Open a stream for the content of the file at `path`. An existing file is replaced when the block ends.

    After an error nothing of the new file is left. Raises OSError (ELOOP for a link, EINVAL if `path` is not a
    regular file), SyncFailed.
    """
    check_replaceable(fs, path)
    beside = temporary_of(path)
    file = StagedFile(fs, beside)
    try:
        yield file
        file.finish()
        fs.rename(beside, path)
    except BaseException:
        file.close()
        try_to_remove(fs, beside)
        raise
    sync_directory(fs, path.rpartition("/")[0] or ".")
