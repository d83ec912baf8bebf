"""Writes the files of a log that is not visible before it is complete.

This needs no journal, because a failed log is removed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.change.changes import Content
from kafkalog_cli.disk.durable import replace_file, sync
from kafkalog_cli.disk.fs import FileAttributes, WritableFile, WritableFilesystem


class UnseenGrowth:
    """A Growth in `directory`, whose new files get `attributes`. All files are on the disk after AppendedLog.close."""

    def __init__(self, fs: WritableFilesystem, directory: str, attributes: FileAttributes) -> None:
        self._fs = fs
        self._directory = directory
        self._attributes = attributes
        self._files: list[WritableFile] = []

    def growing(self, name: str) -> WritableFile:
        """See Growth."""
        path = f"{self._directory}/{name}"
        is_there = self._fs.status(path) is not None
        file = self._fs.open_write(path) if is_there else self._fs.create(path, self._attributes)
        self._files.append(file)
        return file

    def announce(self, names: Iterable[str]) -> None:
        """See Growth; does nothing, because there is nothing to undo."""

    def put(self, name: str, data: bytes | Content) -> None:
        """See Growth. Raises OSError, SyncFailed."""
        replace_file(self._fs, f"{self._directory}/{name}", data, self._attributes)

    def sync(self, file: WritableFile) -> None:
        """See Growth. Raises SyncFailed."""
        sync(file)

    def close(self) -> None:
        """Close the file descriptors."""
        for file in self._files:
            file.close()
        self._files.clear()
