"""The files of a log that nobody sees before it is whole: without a journal, as a failed one goes altogether."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.storage.changing.durable import replace_file, sync
from kafkalog_cli.storage.fs import FileAttributes, WritableFile, WritableFilesystem


class UnseenGrowth:
    """A Growth in `directory`, whose new files have these attributes. All of it is on the disk after `close`."""

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
        """See Growth: there is nothing to be taken back."""

    def put(self, name: str, data: bytes) -> None:
        """See Growth. Raises OSError, SyncFailed."""
        replace_file(self._fs, f"{self._directory}/{name}", data, self._attributes)

    def sync(self, file: WritableFile) -> None:
        """See Growth. Raises SyncFailed."""
        sync(file)

    def close(self) -> None:
        """Give up the descriptors."""
        for file in self._files:
            file.close()
        self._files.clear()
