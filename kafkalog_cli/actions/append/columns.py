"""Records that are to be appended as columns, many at a time: NDJSON that compiled kernels take apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafkalog_cli.actions.append.reading import NewRecord, parse_ndjson
from kafkalog_cli.errors import BadInput
from kafkalog_cli.storage.kernels import KernelChoice

_PLAIN_ROWS_A_LINE = 4
"""A line of JSON takes Python as long as so many rows of other kinds."""
_BYTES_OF_A_LINE = 256
_SPARE_BYTES = 64
ROWS = 13


class RecordRun(NamedTuple):
    """Records one behind the other. `matrix` has 13 rows: those of RecordColumns with offsets that do not count, the
    bytes of all headers as they are stored, and where in `buffer` what a record has begins (in the order of records).
    """

    buffer: Any
    matrix: Any

    def __len__(self) -> int:
        return int(self.matrix.shape[1])


Arriving = Iterable["NewRecord | RecordRun | None"]
"""Records as they come, one by one or many; None where none has come for a while."""


class NdjsonReader:
    """Records of NDJSON that comes in pieces. `now_ms` is for records without a timestamp."""

    def __init__(self, kernels: KernelChoice, now_ms: int) -> None:
        self._kernels = kernels
        self._now_ms = now_ms
        self._lines = self._rows = 0

    def records(self, pieces: Iterable[bytes], path: str) -> Iterator[NewRecord | RecordRun | None]:
        """What a stream, which `path` names, holds; None for an empty piece. Raises BadInput with the line's number."""
        self._lines = 0
        rest = b""
        for piece in pieces:
            if not piece:
                yield None
                continue
            whole, newline, end = piece.rpartition(b"\n")
            if newline:
                yield from self._text(rest + whole + newline, path)
                rest = b""
            rest += end
        if rest:
            yield from self._text(rest + b"\n", path)

    def _text(self, text: bytes, path: str) -> Iterator[NewRecord | RecordRun]:
        """Of whole lines."""
        lines = text.count(b"\n")
        rows = max(lines, len(text) // _BYTES_OF_A_LINE) * _PLAIN_ROWS_A_LINE
        expected, self._rows = max(rows, self._rows), self._rows + rows  # a pipe gives little at a time
        if self._kernels.compiled(0, expected) is not None:
            yield from self._compiled(text, lines, path)
        else:
            self._kernels.compiled(rows, 0)
            for at, line in enumerate(text.split(b"\n")[:-1]):
                record = self._parsed(line, self._lines + at + 1, path)
                if record is not None:
                    yield record
        self._lines += lines

    def _compiled(self, text: bytes, lines: int, path: str) -> Iterator[NewRecord | RecordRun]:
        import numpy as np

        from kafkalog_cli.format.kernels import compiled, native

        read = native.function(compiled.READ_LINES)
        names = np.frombuffer(compiled.NDJSON_NAMES, np.uint8)
        source = np.frombuffer(text, np.uint8)
        out, rows = np.empty(len(text) + _SPARE_BYTES, np.uint8), np.empty((ROWS, lines), np.int64)
        at = to = row = first = 0
        while True:
            at, to, row = read(source, at, len(text), names, out, to, rows, row, self._now_ms)
            if row > first:
                yield RecordRun(out[int(rows[12, first]) : to], moved(rows[:, first:row]))
            if at == len(text):
                return
            first, end = row, text.index(b"\n", at)
            record = self._parsed(text[at:end], self._lines + text.count(b"\n", 0, at) + 1, path)
            if record is not None:
                yield record
            at = end + 1

    def _parsed(self, line: bytes, number: int, path: str) -> NewRecord | None:
        try:
            return parse_ndjson(line)
        except ValueError as error:
            raise BadInput(path=path, reason=f"line {number}: {error}") from error


def moved(rows: Any) -> Any:
    """Positions from the first record's beginning on."""
    begin = int(rows[12, 0])
    if begin:
        for row in (3, 5, 7, 12):
            rows[row] -= begin
    return rows
