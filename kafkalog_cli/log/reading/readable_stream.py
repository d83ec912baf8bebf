"""A file of the file system as a stream, for libraries that would open its path without checks."""

from __future__ import annotations

import io
import os
from typing import Any

from kafkalog_cli.disk.fs import ReadableFile


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
