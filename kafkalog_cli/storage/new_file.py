"""A file that is written from front to back, and has its name only when all of it is on the disk."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkalog_cli.storage.changing.durable import TEMPORARY_SUFFIX, remove_if_there, sync, sync_directory, try_to_remove
from kafkalog_cli.storage.fs import WritableFile, WritableFilesystem


@contextmanager
def new_file(fs: WritableFilesystem, path: str) -> Iterator[io.RawIOBase]:
    """A file object to write into; after an error nothing is left of it. A file that has the name is replaced.

    Raises OSError, SyncFailed.
    """
    beside = path + TEMPORARY_SUFFIX
    remove_if_there(fs, beside)
    try:
        with fs.create(beside) as file:
            yield _Appended(file)
            sync(file)
        fs.rename(beside, path)
    except BaseException:
        try_to_remove(fs, beside)
        raise
    sync_directory(fs, path.rpartition("/")[0] or ".")


class _Appended(io.RawIOBase):
    """What libraries write into; closing it leaves the file to the context."""

    def __init__(self, file: WritableFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write(self._position, memoryview(data))
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position
