"""Temporary files: only where TMPDIR or the system has a directory for them, and in memory where there is none."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from errno import ENOENT
from typing import IO


def temporary_directory() -> str:
    """Return the directory for temporary files. Raises OSError if none is writable, as in a read-only container.

    Python's own choice ends with the working directory, which may be a log directory.
    """
    named = (os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    for directory in (*filter(os.path.isabs, named), "/tmp", "/var/tmp"):
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    raise OSError(ENOENT, "no directory for temporary files is writable: set TMPDIR to one")


def temporary_file() -> IO[bytes]:
    """Open an unnamed temporary file. Raises OSError."""
    import tempfile  # takes 2 ms, which a small dump need not spend

    return tempfile.TemporaryFile(dir=temporary_directory())


class SpooledFile:
    """Bytes in memory, and in a temporary file beyond `held_bytes`; without such a file all stay in memory."""

    def __init__(self, held_bytes: int) -> None:
        self._held_bytes: int | None = held_bytes
        self._memory = io.BytesIO()
        self._file: IO[bytes] = self._memory

    def write(self, data: bytes | memoryview) -> None:
        """Write at the position. Raises OSError if the disk of a temporary file is full."""
        if self._held_bytes is not None and self._memory.tell() + len(data) > self._held_bytes:
            self._move_out()
        self._file.write(data)

    def seek(self, position: int) -> None:
        """Go to a position."""
        self._file.seek(position)

    def read(self, size_bytes: int) -> bytes:
        """Read from the position; fewer bytes at the end."""
        return self._file.read(size_bytes)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()

    def _move_out(self) -> None:
        self._held_bytes = None
        with suppress(OSError):
            file = temporary_file()
            file.write(self._memory.getbuffer())
            file.seek(self._memory.tell())
            self._file, self._memory = file, io.BytesIO()
