"""A file system whose segment files stay open: other programs may remove or replace them, and reads go on."""

from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile
from kafkalog_cli.errors import PathNotFound
from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, RECORD_BATCH
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.move.serve.as_of import CutFile

_MARK_BYTES = RECORD_BATCH.size


class OpenFile(CutFile):
    """A file that stays open when a reader closes it, with the bytes that it had when it was opened."""

    def __init__(self, file: ReadableFile) -> None:
        super().__init__(file, file.size_bytes)

    def reaches(self, end: int) -> bool:
        """Whether the file still has its byte before `end`. Raises as `read_into`."""
        return not end or bool(self.read_into(end - 1, memoryview(bytearray(1))))

    def batch_mark(self, position: int | None) -> bytes:
        """Return bytes by which a batch is known: the start of its header, with its CRC, and its last byte.

        It is shorter if the file ends before the batch does, and empty for `position` None. Raises as `read_into`.
        """
        if position is None:
            return b""
        buffer = memoryview(bytearray(_MARK_BYTES))
        header = bytes(buffer[: self.read_into(position, buffer)])
        size_bytes = LOG_OVERHEAD_BYTES + int.from_bytes(header[8:LOG_OVERHEAD_BYTES], "big")
        last = memoryview(bytearray(1))
        return header[:size_bytes] + bytes(last[: self.read_into(position + size_bytes - 1, last)])

    def close(self) -> None:
        """Keep the file open."""

    def close_for_good(self) -> None:
        """Close the file."""
        super().close()


class OpenFilesystem:
    """Reads the logs of partitions from the files that were opened at the start.

    An index that has been replaced since does not belong to that log: it counts as missing.
    """

    def __init__(self, below: Filesystem) -> None:
        self._below = below
        self.status, self.list_directory = below.status, below.list_directory
        self._open: dict[str, OpenFile] = {}
        self._sidecars: dict[str, FileStatus] = {}

    def keep_open(self, partition: Partition) -> None:
        """Open the logs of a partition. Raises as `open_read`; then none of them stays open."""
        opened: dict[str, OpenFile] = {}
        try:
            for segment in partition.segments:
                opened[segment.log.path] = OpenFile(self._below.open_read(segment.log.path))
        except BaseException:
            for file in opened.values():
                file.close_for_good()
            raise
        self._open |= opened
        for segment in partition.segments:
            for sidecar in (segment.offset_index, segment.time_index, segment.txn_index):
                if sidecar is not None:
                    self._sidecars[sidecar.path] = sidecar

    def open_file(self, path: str) -> OpenFile:
        """Return a log that is kept open. Raises KeyError."""
        return self._open[path]

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close_for_good()
        self._open.clear()

    def open_read(self, path: str) -> ReadableFile:
        """See Filesystem."""
        file = self._open.get(path)
        if file is not None:
            return file
        known = self._sidecars.get(path)
        if known is not None:
            now = self._below.status(path)
            if now is None or (now.inode, now.size_bytes, now.mtime_ms) != (
                known.inode, known.size_bytes, known.mtime_ms,
            ):  # fmt: skip
                raise PathNotFound(path=path)
        return self._below.open_read(path)
