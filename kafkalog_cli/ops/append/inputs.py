"""The input files and standard input of an append: their bytes in pieces, counted for the progress."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.ops.append.reading import Piece, file_pieces
from kafkalog_cli.ops.session.interruptions import POLL_SECONDS, Interruptions
from kafkalog_cli.ops.session.observer import Observer

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
            self._observer.advance(len(piece), name)
            yield piece

    def _stdin(self) -> Iterator[Piece]:
        stream = self._stream
        read: Any = getattr(stream, "read1", stream.read)
        while not self._interruptions.are_asked_for:
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
