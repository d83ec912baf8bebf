"""The input of an append: files and standard input in pieces, and their records, read a little ahead in a thread."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, BinaryIO, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.ops.call.interruptions import POLL_SECONDS, Interruptions
from kafkalog_cli.ops.call.observer import Observer
from kafkalog_cli.ops.change.append.lines import Piece, file_pieces
from kafkalog_cli.ops.change.append.records import NewRecords

STDIN = "-"
_READ_BYTES = 1 << 20


class InputCutOff(Exception):
    """Standard input was interrupted before its end; an incomplete line at the end of the data is not a record."""


def paths_and_files(fs: Filesystem, arguments: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide the arguments into directories, which are further partitions, and input files."""
    statuses = {name: None if name == STDIN else fs.status(name) for name in arguments}
    paths = tuple(name for name in arguments if (found := statuses[name]) is not None and found.is_directory)
    return paths, tuple(name for name in arguments if name not in paths) or (STDIN,)


class AppendInputs:
    """The inputs of one append; `observer` receives the number of bytes read. A file named "-" is `stdin`."""

    def __init__(
        self, fs: Filesystem, files: Sequence[str], stdin: BinaryIO, interruptions: Interruptions, observer: Observer
    ) -> None:
        self._fs = fs
        self._files = files
        self._stream = stdin
        self._interruptions = interruptions
        self._observer = observer

    @property
    def has_stdin(self) -> bool:
        """Whether standard input is read."""
        return STDIN in self._files

    def total_bytes(self) -> int | None:
        """Return the size of all files, None if it is not known, as for standard input."""
        statuses = [None if name == STDIN else self._fs.status(name) for name in self._files]
        sizes = [status.size_bytes for status in statuses if status is not None and status.is_file]
        return sum(sizes) if len(sizes) == len(self._files) else None

    def each(self, safe_point: Callable[[], None]) -> Iterator[tuple[str, Iterator[Piece]]]:
        """Yield the inputs in pieces, with their names for messages; `safe_point` is called before each piece.

        Raises InputCutOff if an interruption ends standard input.
        """
        for path in self._files:
            if path == STDIN:
                yield "standard input", self._watched("standard input", self._stdin(), safe_point)
            else:
                with self._fs.open_read(path) as file:
                    yield path, self._watched(path, file_pieces(file), safe_point)

    def _watched(self, name: str, pieces: Iterator[Piece], safe_point: Callable[[], None]) -> Iterator[Piece]:
        for piece in pieces:
            safe_point()
            self._observer.progress.advance(len(piece), name)
            yield piece

    def _stdin(self) -> Iterator[Piece]:
        stream = self._stream
        read: Any = getattr(stream, "read1", stream.read)
        while not self._interruptions.is_requested:
            if _has_descriptor(stream) and not select.select([stream], [], [], POLL_SECONDS)[0]:
                yield b""  # nothing yet, but earlier records may have to be written
                continue
            piece = read(_READ_BYTES)
            if not piece:
                return
            yield piece
        raise InputCutOff


def _has_descriptor(stream: Any) -> bool:
    try:
        return int(stream.fileno()) >= 0
    except (AttributeError, OSError, ValueError):
        return False


_ITEMS_AHEAD = 2
"""The number of items that are read ahead; each holds the records of one piece of the input."""
_LARGE_BYTES = 1 << 18
"""From so many bytes at a time on, a thread is worth its start."""
_END = object()

Records = Generator["NewRecords | None", None, None]


def read_ahead(records: Records) -> Records:
    """Yield or raise what `records` does, in its order. When this iterator is closed, the thread has ended.

    A thread starts only after the first records of many bytes; earlier records are read in the caller's thread.
    """
    with closing(records):
        for found in records:
            yield found
            if found is not None and found.size_bytes >= _LARGE_BYTES:
                break
        else:
            return
        thread = ThreadPoolExecutor(1, "kafkalog-append")
        try:
            following: deque[Future[Any]] = deque(thread.submit(next, records, _END) for _ in range(_ITEMS_AHEAD))
            while (item := following.popleft().result()) is not _END:
                following.append(thread.submit(next, records, _END))
                yield item
        finally:
            thread.shutdown(cancel_futures=True)


class SkippedRecords(NamedTuple):
    """The number of records to skip: for the only partition, or by number if there are several partitions."""

    of_only: int = 0
    by_partition: dict[int, int] = {}  # noqa: RUF012  never changed

    def of(self, partition: int) -> int:
        """Return the number of records to skip for a partition."""
        return self.by_partition.get(partition, self.of_only)

    def check(self, partitions: Sequence[int]) -> None:
        """Check the numbers against the partitions of the run.

        Raises UsageError for a number that is meant for another partition, or for no particular one of several.
        """
        unknown = sorted(self.by_partition.keys() - set(partitions))
        if unknown:
            raise UsageError(reason=f"--skip-records names partition {unknown[0]}, to which this append does not write")
        if self.of_only and len(partitions) > 1:
            raise UsageError(reason="--skip-records needs PARTITION:N where an append goes to several partitions")


def parse_skipped(words: Sequence[str]) -> SkippedRecords:
    """Parse the values of --skip-records: N, or PARTITION:N for each partition. Raises UsageError."""
    of_only, by_partition = 0, {}
    for word in words:
        name, colon, number = word.rpartition(":")
        if not (number.isdecimal() and number.isascii() and (not colon or (name.isdecimal() and name.isascii()))):
            raise UsageError(reason=f"--skip-records {word!r} is neither N nor PARTITION:N")
        if colon:
            by_partition[int(name)] = int(number)
        else:
            of_only = int(number)
    return SkippedRecords(of_only, by_partition)


def without_first(records: Records, count: int) -> Records:
    """Yield the records after the first `count`.

    Raises BadInput if there are fewer, since it is another input then.
    """
    left = count
    with closing(records):
        for found in records:
            if not left or found is None:
                yield found
            elif len(found) <= left:
                left -= len(found)
            else:
                yield found.part(left, len(found))
                left = 0
    if left:
        reason = f"the input has {count - left} records, and {count} are to be skipped: it is not the same input"
        raise BadInput(path="--skip-records", reason=reason)
