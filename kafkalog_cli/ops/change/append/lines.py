"""Split a stream into lines, and read the lines as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.limits import MOST_INPUT_LINE_BYTES
from kafkalog_cli.ops.change.append.reading import Parse, bad_line, check_json_line
from kafkalog_cli.ops.change.append.records import NewRecords, RecordMaker

_PIECE_BYTES = 1 << 20
"""Threads alternate once per piece; its data is then still in a processor's cache for the other thread."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEHIND_BYTES = bytes(8)
"""What the kernel may read after the last line."""

Piece = bytes | memoryview
"""A part of a stream, valid until the next part is requested."""


def file_pieces(file: ReadableFile) -> Iterator[Piece]:
    """Yield the bytes of a file, in order."""
    position, buffer = 0, memoryview(bytearray(_PIECE_BYTES))
    while got := file.read_into(position, buffer):
        yield buffer[:got]
        position += got


class LineTooLong(ValueError):
    """A line has more bytes than are held in memory."""


def whole_lines(pieces: Iterable[Piece]) -> Iterator[bytearray | None]:
    """Yield the lines of a stream, as many as each piece completes, each with its end; None for an empty piece.

    The stream may begin with a byte order mark, as Windows programs write it. Raises LineTooLong.
    """
    rest, is_begun = bytearray(), False
    for piece in pieces:
        if not piece:
            yield None
            continue
        before = len(rest)
        rest += piece
        if not is_begun and _BYTE_ORDER_MARK.startswith(rest[:3]):
            if len(rest) < len(_BYTE_ORDER_MARK):
                continue
            rest, before = rest[3:], 0
        is_begun = True
        end = rest.rfind(b"\n", before) + 1
        if end:
            lines, rest = rest[:end], rest[end:]
            yield lines
        if len(rest) > MOST_INPUT_LINE_BYTES:
            raise LineTooLong(f"it has more than {MOST_INPUT_LINE_BYTES} bytes, the most of a line that are read")
    if rest:
        yield rest + b"\n"


def each_line(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Yield the lines of a stream without their ends, which may have a carriage return. Raises LineTooLong."""
    for text in whole_lines(pieces):
        if text is not None:
            yield from (line.removesuffix(b"\r") for line in bytes(text).split(b"\n")[:-1])


def records_of_lines(
    pieces: Iterable[Piece], path: str, now_ms: int, parse: Parse, *, has_plain_ndjson: bool = False
) -> Iterator[NewRecords | None]:
    """Yield the records of a stream named `path`; None for an empty piece.

    `has_plain_ndjson`: the kernel may read lines in the place of `parse`, which is `parse_ndjson` without origins.
    Raises BadInput with the number of the line, after the records before it.
    """
    reader = _LineReader(path, now_ms, parse, has_plain_ndjson=has_plain_ndjson)
    try:
        for text in whole_lines(pieces):
            if text is None:
                yield None
            else:
                yield from reader.records(text)
    except LineTooLong as error:
        raise bad_line(path, reader.number + 1, error) from error


class _LineReader:
    """Reads the lines of one stream; `number` is that of the last line."""

    def __init__(self, path: str, now_ms: int, parse: Parse, *, has_plain_ndjson: bool) -> None:
        self.number = 0
        self._path, self._now_ms, self._parse, self._uses_kernel = path, now_ms, parse, has_plain_ndjson

    def records(self, text: bytearray) -> Iterator[NewRecords]:
        """Yield the records of whole lines."""
        at, end = 0, len(text)
        if self._uses_kernel:
            text += _BEHIND_BYTES
            self._check_first_line(text)
        while at < end:
            made, failure = RecordMaker(end - at, self._now_ms, text.count(b"\n", at, end)), None
            try:
                at = self._read(text, at, end, made)
            except ValueError as error:
                failure = error
            yield from made.records()
            if failure is not None:
                raise bad_line(self._path, self.number, failure) from failure

    def _check_first_line(self, text: bytearray) -> None:
        """Check the first line as `parse` does. Only that line can be long, since pieces are small. Raises BadInput."""
        try:
            check_json_line(bytes(text[: text.index(b"\n")]))
        except ValueError as error:
            raise bad_line(self._path, self.number + 1, error) from error

    def _read(self, text: bytearray, at: int, end: int, made: RecordMaker) -> int:
        """Add records, as many as there is room for, and return the position after their lines. Raises ValueError."""
        while at < end and not made.is_full:
            if self._uses_kernel:
                at, lines = made.read_lines(text, at)
                self.number += lines
                if at == end or made.is_full:
                    break
            newline = text.index(b"\n", at)
            self.number += 1
            record = self._parse(bytes(text[at:newline]).removesuffix(b"\r"))
            if record is not None:
                made.add(record)
            at = newline + 1
        return at
