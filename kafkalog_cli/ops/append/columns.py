"""Read records to append as columns, many at a time: NDJSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import NO_SEQUENCE
from kafkalog_cli.format.columns import IntColumn, Integers, Octets, column_of
from kafkalog_cli.format.limits import MOST_INPUT_LINE_BYTES
from kafkalog_cli.format.records import RecordColumns
from kafkalog_cli.format.varint import encode_zigzag
from kafkalog_cli.ops.append.reading import (
    NO_ORIGIN,
    LineTooLong,
    NewRecord,
    Piece,
    RecordOrigin,
    bad_line,
    check_json_line,
    check_line,
    parse_ndjson,
    without_byte_order_mark,
)

_MANY_BYTES = 1 << 20
"""From so much text on, arrays pay for the import of NumPy."""
_SPARE_BYTES = 64
"""The kernel reads and writes 8 bytes at once, past the end of the data."""
_BYTES_OF_A_RECORD = 64
"""Assumed bytes of text per record; smaller records take several runs."""
_NEWLINE = 0x0A
ROWS = 13
_RECORD_ROWS, _KEY_BYTES, _VALUE_BYTES, _HEADERS_AT, _HEADER_BYTES, _BEGIN = 11, 4, 6, 7, 11, 12
_POSITIONS = [3, 5, 7, _BEGIN]
RECORD_OVERHEAD_BYTES = 21
"""The largest size of a record apart from key, value and headers (DefaultRecord.MAX_RECORD_OVERHEAD)."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordRun:
    """Consecutive records, as arrays.

    `matrix` has 13 rows: the 11 of RecordColumns, the size in bytes of all headers as stored, and the start of the
    record's bytes in `buffer`. The bytes are in the order of the records.

    The offsets are used only if offsets are kept. All records then share what `origin` says about leader epoch, append
    time (with one timestamp for all) and codec.
    """

    buffer: Octets
    matrix: Integers
    origin: RecordOrigin = NO_ORIGIN

    def __len__(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def view(self) -> memoryview:
        """The bytes of the records."""
        return self.buffer.data

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return int(self.matrix[0, 0])

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return int(self.matrix[0, -1])

    @property
    def timestamp(self) -> int:
        """The timestamp of the first record."""
        return int(self.matrix[1, 0])

    def records(self, first: int, end: int) -> RecordColumns:
        """Return the records `first` to `end` (exclusive)."""
        return RecordColumns.from_array(self.matrix[:_RECORD_ROWS, first:end])

    def sizes(self, first: int, end: int) -> IntColumn:
        """Return the largest size in bytes that the records from `first` up to each before `end` may have together."""
        import numpy as np

        part = self.matrix[:, first:end]
        sizes = np.maximum(part[_KEY_BYTES], 0) + np.maximum(part[_VALUE_BYTES], 0) + part[_HEADER_BYTES]
        return column_of(np.cumsum(sizes + RECORD_OVERHEAD_BYTES).tolist())

    def part(self, first: int, end: int) -> RecordRun:
        """Return the records `first` to `end` (exclusive) with their own bytes."""
        begin = int(self.matrix[_BEGIN, first])
        behind = int(self.matrix[_BEGIN, end]) if end < len(self) else None
        matrix = self.matrix[:, first:end].copy()
        matrix[_POSITIONS, :] -= begin
        return RecordRun(self.buffer[begin:behind], matrix, self.origin)

    def rest(self, first: int) -> RecordRun:
        """Return the records from `first` on."""
        return self.part(first, len(self))


class PlainRun:
    """Consecutive records that came one by one, as rows of RecordColumns; `buffer` contains their bytes, in order."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self._rows: list[tuple[int, ...]] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def view(self) -> memoryview:
        """See RecordRun; afterwards no record can be added."""
        return memoryview(self.buffer)

    @property
    def first_offset(self) -> int:
        """See RecordRun."""
        return self._rows[0][0]

    def add(self, record: NewRecord, now_ms: int) -> int:
        """Add a record, and return the size of its bytes. `now_ms` is its timestamp if it has none."""
        buffer, begin, places = self.buffer, len(self.buffer), list[int]()
        for field in (record.key, record.value):
            places += (len(buffer), -1 if field is None else len(field))
            buffer += field or b""
        headers_at = len(buffer)
        for key, value in record.headers:
            buffer += encode_zigzag(len(key))
            buffer += key
            buffer += encode_zigzag(-1 if value is None else len(value))
            buffer += value or b""
        timestamp = now_ms if record.timestamp is None else record.timestamp
        place = (*places, headers_at, len(record.headers))
        self._rows.append((record.origin.offset or 0, timestamp, NO_SEQUENCE, *place, -1, 1))
        self._ends.append(len(buffer))
        return len(buffer) - begin

    def records(self, first: int, end: int) -> RecordColumns:
        """See RecordRun."""
        return RecordColumns.from_rows(self._rows[first:end])

    def sizes(self, first: int, end: int) -> IntColumn:
        """See RecordRun."""
        before = self._end_before(first)
        ends = enumerate(self._ends[first:end], 1)
        return column_of(at - before + RECORD_OVERHEAD_BYTES * count for count, at in ends)

    def rest(self, first: int) -> PlainRun:
        """See RecordRun."""
        begin, rest = self._end_before(first), PlainRun()
        rest.buffer += memoryview(self.buffer)[begin:]
        for row in self._rows[first:]:
            places = (row[3] - begin, row[4], row[5] - begin, row[6], row[7] - begin)
            rest._rows.append((*row[:3], *places, *row[8:]))
        rest._ends += [end - begin for end in self._ends[first:]]
        return rest

    def arrays(self) -> RecordRun:
        """Return the same records as arrays."""
        import numpy as np

        ends, rows = np.array(self._ends, np.int64), np.array(self._rows, np.int64).T
        begins = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        matrix = np.concatenate((rows, [ends - rows[_HEADERS_AT]], [begins]))
        return RecordRun(np.frombuffer(bytes(self.buffer), np.uint8), matrix)

    def _end_before(self, row: int) -> int:
        return self._ends[row - 1] if row else 0


def joined(runs: list[RecordRun | PlainRun]) -> RecordRun | PlainRun:
    """Return the records of all runs as one run."""
    if len(runs) == 1:
        return runs[0]
    import numpy as np

    parts = [run.arrays() if isinstance(run, PlainRun) else run for run in runs]
    matrix = np.concatenate([part.matrix for part in parts], axis=1)
    first = at = 0
    for part in parts:
        matrix[_POSITIONS, first : first + len(part)] += at
        first += len(part)
        at += len(part.buffer)
    return RecordRun(np.concatenate([part.buffer for part in parts]), matrix)


Arriving = Iterable["NewRecord | RecordRun | None"]
"""Records as they come, one by one or many at a time; None if none has come for a while."""


class NdjsonReader:
    """Reads records from NDJSON that comes in pieces. `now_ms` is the timestamp of records without one."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._text = bytearray()
        self._scratch: tuple[Octets, Integers] | None = None
        self._lines = self._bytes = 0

    def records(self, pieces: Iterable[Piece], path: str) -> Iterator[NewRecord | RecordRun | None]:
        """Yield the records of a stream named `path`, and None per empty piece.

        Raises BadInput with the line number.
        """
        self._lines = 0
        size = 0
        for piece in without_byte_order_mark(pieces):
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
        self._bytes += end
        if self._bytes >= _MANY_BYTES:
            yield from self._columns(end, path)
            return
        for line in bytes(memoryview(self._text)[: end - 1]).split(b"\n"):
            record = self._parsed(line, path)
            if record is not None:
                yield record

    def _columns(self, end: int, path: str) -> Iterator[NewRecord | RecordRun]:
        out, rows = self._scratch_for(end)
        self._check_long_line(path)
        at, most = 0, rows.shape[1]
        while at < end:
            at, filled, count, lines = native.read_lines(self._text, end + 8, at, self._now_ms, out, rows)
            self._lines += lines
            if count:
                yield RecordRun(out[:filled].copy(), rows[:, :count].copy())
            if at < end and count < most:
                newline = self._text.index(b"\n", at)
                record = self._parsed(bytes(memoryview(self._text)[at:newline]), path)
                if record is not None:
                    yield record
                at = newline + 1

    def _check_long_line(self, path: str) -> None:
        """Check the first line as the plain parser does. Only that line can be long, since pieces are small."""
        newline = self._text.index(b"\n")
        try:
            check_json_line(bytes(memoryview(self._text)[:newline]))
        except ValueError as error:
            raise bad_line(path, self._lines + 1, error) from error

    def _scratch_for(self, size: int) -> tuple[Octets, Integers]:
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
