"""Read records to append as columns, many at a time: NDJSON parsed by compiled kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafkalog_cli.actions.append.json_line import SMALL_BYTES, check_json_line
from kafkalog_cli.actions.append.reading import (
    NO_ORIGIN,
    LineTooLong,
    NewRecord,
    Piece,
    RecordOrigin,
    bad_line,
    check_line,
    parse_ndjson,
)
from kafkalog_cli.format.limits import MOST_INPUT_LINE_BYTES
from kafkalog_cli.storage.kernels import KernelChoice

_PLAIN_ROWS_A_LINE = 4
"""Python takes as long for a line of JSON as for this many rows of other kinds."""
_BYTES_OF_A_LINE = 256
_SPARE_BYTES = 64
"""The kernel reads and writes 8 bytes at once, past the end of the data."""
_BYTES_OF_A_RECORD = 64
"""Assumed bytes of text per record; smaller records take several runs."""
_NEWLINE = 0x0A
ROWS = 13


class RecordRun(NamedTuple):
    """Consecutive records.

    `matrix` has 13 rows: the 11 of RecordColumns, the size in bytes of all headers as stored, and the start of the
    record's bytes in `buffer`. The bytes are in the order of the records.

    The offsets are used only if offsets are kept. All records then share what `origin` says about leader epoch, append
    time (with one timestamp for all) and codec.
    """

    buffer: Any
    matrix: Any
    origin: RecordOrigin = NO_ORIGIN

    def __len__(self) -> int:
        return int(self.matrix.shape[1])


Arriving = Iterable["NewRecord | RecordRun | None"]
"""Records as they come, one by one or many at a time; None if none has come for a while."""


class NdjsonReader:
    """Reads records from NDJSON that comes in pieces. `now_ms` is the timestamp of records without one."""

    def __init__(self, kernels: KernelChoice, now_ms: int) -> None:
        self._kernels = kernels
        self._now_ms = now_ms
        self._text = bytearray()
        self._scratch: tuple[Any, Any] | None = None
        self._lines = self._rows = 0
        self._is_compiled = False

    def records(self, pieces: Iterable[Piece], path: str) -> Iterator[NewRecord | RecordRun | None]:
        """Yield the records of a stream named `path`, and None per empty piece.

        Raises BadInput with the line number.
        """
        self._lines = 0
        size = 0
        for piece in pieces:
            if not piece:
                yield None
                continue
            self._make_room(size, size + len(piece))
            memoryview(self._text)[size : size + len(piece)] = piece
            end = self._text.rfind(b"\n", size, size + len(piece)) + 1
            size += len(piece)
            if end:
                yield from self._whole_lines(end, path)
                rest = self._text[end:size]
                size = len(rest)
                self._text[:size] = rest
            try:
                check_line(size)
            except LineTooLong as error:
                raise bad_line(path, self._lines + 1, error) from error
        if size:
            self._make_room(size, size + 1)
            self._text[size] = _NEWLINE
            yield from self._whole_lines(size + 1, path)

    def _make_room(self, kept: int, wanted: int) -> None:
        """Make room for `wanted` bytes of text and some more; the first `kept` bytes stay."""
        if wanted + _SPARE_BYTES > len(self._text):
            most = max(wanted, MOST_INPUT_LINE_BYTES + _SPARE_BYTES)
            larger = bytearray(min(2 * wanted, most) + _SPARE_BYTES)
            larger[:kept] = self._text[:kept]
            self._text = larger

    def _whole_lines(self, end: int, path: str) -> Iterator[NewRecord | RecordRun]:
        """Yield the records of the whole lines in the text up to `end`."""
        if self._is_to_be_compiled(end):
            yield from self._compiled(end, path)
            return
        for line in bytes(memoryview(self._text)[: end - 1]).split(b"\n"):
            record = self._parsed(line, path)
            if record is not None:
                yield record

    def _is_to_be_compiled(self, end: int) -> bool:
        """Whether the compiled kernel reads this text; after its first use it reads all the rest."""
        if not self._is_compiled:
            rows = max(self._text.count(b"\n", 0, end), end // _BYTES_OF_A_LINE) * _PLAIN_ROWS_A_LINE
            expected, self._rows = max(rows, self._rows), self._rows + rows  # a pipe returns little at a time
            self._is_compiled = self._kernels.compiled(0, expected) is not None
            if not self._is_compiled:
                self._kernels.compiled(rows, 0)
        return self._is_compiled

    def _compiled(self, end: int, path: str) -> Iterator[NewRecord | RecordRun]:
        import numpy as np

        from kafkalog_cli.format.kernels import compiled, native

        read = native.function(compiled.READ_LINES)
        names = np.frombuffer(compiled.NDJSON_NAMES, np.uint8)
        text, (out, rows) = np.frombuffer(self._text, np.uint8), self._scratch_for(end)
        self._check_long_line(path)
        at = 0
        while at < end:
            at, filled, count, lines = read(text, at, end, names, out, rows, self._now_ms)
            self._lines += lines
            if count:
                yield RecordRun(out[:filled].copy(), rows[:, :count].copy())
            if at < end and count < rows.shape[1]:
                newline = self._text.index(b"\n", at)
                record = self._parsed(bytes(self._text[at:newline]), path)
                if record is not None:
                    yield record
                at = newline + 1

    def _check_long_line(self, path: str) -> None:
        """Check the first line as the plain parser does. Only that line can be long, since pieces are small."""
        newline = self._text.index(b"\n")
        if newline <= SMALL_BYTES:
            return
        try:
            check_json_line(bytes(memoryview(self._text)[:newline]))
        except ValueError as error:
            raise bad_line(path, self._lines + 1, error) from error

    def _scratch_for(self, size: int) -> tuple[Any, Any]:
        """Return the arrays for the kernel's output from `size` bytes of text.

        They are reused, so they stay in the processor's cache.
        """
        import numpy as np

        if self._scratch is None or len(self._scratch[0]) < size + _SPARE_BYTES:
            rows = np.empty((ROWS, size // _BYTES_OF_A_RECORD + 1), np.int64)
            self._scratch = np.empty(size + _SPARE_BYTES, np.uint8), rows
        return self._scratch

    def _parsed(self, line: bytes, path: str) -> NewRecord | None:
        self._lines += 1
        try:
            return parse_ndjson(line)
        except ValueError as error:
            raise bad_line(path, self._lines, error) from error


def moved(rows: Any) -> Any:
    """Return the rows, changed so that positions count from the start of the first record."""
    begin = int(rows[12, 0])
    if begin:
        for row in (3, 5, 7, 12):
            rows[row] -= begin
    return rows
