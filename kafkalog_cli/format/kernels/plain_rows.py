"""Rows of RecordColumns as the plain kernels find them: tuples while they are few, packed when there are many."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkalog_cli.format.batch import wrap_int64
from kafkalog_cli.format.records import RECORD_COLUMN_NAMES, RecordColumns

Row = tuple[int, ...]

MOST_RECORDS = 1_000_000
"""Records that one batch may have: 7 bytes make one, so that a small bomb would make many millions of them."""

TOO_MANY = f"the batch has more than {MOST_RECORDS} records"

SETTLE_ROWS = 4096
"""Rows after which `RecordRows.settle` wants to be called: a tuple of integers takes some 400 bytes, packed 88."""

_WIDTH = len(RECORD_COLUMN_NAMES)
_ROW = struct.Struct(f"{_WIDTH}q")


class RecordRows:
    """Rows in the order of RecordColumns. Hot loops append to `recent` and call `settle` every SETTLE_ROWS."""

    __slots__ = ("_packed", "recent")

    def __init__(self) -> None:
        self.recent: list[Row] = []
        self._packed = bytearray()

    def __len__(self) -> int:
        return len(self._packed) // _ROW.size + len(self.recent)

    def __iter__(self) -> Iterator[Row]:
        yield from _ROW.iter_unpack(self._packed)
        yield from self.recent

    def settle(self) -> None:
        """Pack all rows but the last, which may yet be taken back."""
        self._packed += b"".join(_ROW.pack(*row) for row in self.recent[:-1])
        del self.recent[:-1]

    def shift_offsets(self, base: int) -> None:
        """Add `base` to every offset, in Java's long."""
        if not base:
            return
        with memoryview(self._packed).cast("q") as cells:
            for at in range(0, len(cells), _WIDTH):
                cells[at] = wrap_int64(cells[at] + base)
        self.recent[:] = [(wrap_int64(base + row[0]), *row[1:]) for row in self.recent]

    def truncate(self, count: int) -> None:
        """Keep the first `count` rows."""
        del self.recent[max(count - len(self._packed) // _ROW.size, 0) :]
        del self._packed[count * _ROW.size :]

    def columns(self) -> RecordColumns:
        """The rows as columns; none may be added after it."""
        if not self._packed:
            return RecordColumns.from_rows(self.recent)
        self._packed += b"".join(_ROW.pack(*row) for row in self.recent)
        self.recent.clear()
        cells = memoryview(self._packed).cast("q")
        return RecordColumns(*(cells[column::_WIDTH] for column in range(_WIDTH)))
