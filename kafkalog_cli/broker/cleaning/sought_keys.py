"""Finds the records with given keys: exact, and many records at once if compiled kernels decoded them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog_cli.broker.cleaning.compiled_key_table import CompiledKeyTable
from kafkalog_cli.broker.cleaning.key_table import KeySlice
from kafkalog_cli.broker.cleaning.marks import Marks
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.records import RECORD_COLUMN_NAMES, RecordBlock, RecordColumns, field_bytes

_ANY_BYTES = 1 << 62
"""No memory limit: all given keys must be kept."""


class SoughtKeys:
    """Keys with their numbers: the position of each key in the given sequence, the first one of a repeated key."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._numbers = {key: number for number, key in reversed(list(enumerate(keys)))}

    def __len__(self) -> int:
        return len(self._numbers)

    def finder(self) -> KeyFinder:
        """Return a finder of the keys, for use in one thread."""
        return KeyFinder(self._numbers)


class KeyFinder:
    """Finds records by key; `numbers` has the number of each key. Threads must not share it."""

    def __init__(self, numbers: Mapping[bytes, int]) -> None:
        self._numbers = numbers
        self._table: CompiledKeyTable | None = None
        self._marks = Marks()

    def rows(self, block: RecordBlock) -> list[int]:
        """Return the rows of a block whose records have one of the keys."""
        if not block.is_compiled:
            return [row for row in range(block.record_count) if self._key(block, row) in self._numbers]
        import numpy as np

        if self._table is None:
            self._table = self._filled()
        count = block.record_count
        self._marks.reach(count)
        self._marks.flags[:count] = bytes(count)
        self._table.mark_older(block, 0, count, 0)
        found: list[int] = np.flatnonzero(np.frombuffer(self._marks.part(0, count), dtype=np.uint8)).tolist()
        return found

    def number_of(self, block: RecordBlock, row: int) -> int:
        """Return the key's number for a row that `rows` returned."""
        key = self._key(block, row)
        assert key is not None
        return self._numbers[key]

    def _key(self, block: RecordBlock, row: int) -> bytes | None:
        records = block.records
        return field_bytes(block.buffer, int(records.key_position[row]), int(records.key_size[row]))

    def _filled(self) -> CompiledKeyTable:
        import numpy as np

        sizes = np.array([len(key) for key in self._numbers], dtype=np.int64)
        matrix = np.zeros((len(RECORD_COLUMN_NAMES), len(sizes)), dtype=np.int64)
        matrix[RECORD_COLUMN_NAMES.index("key_position")] = np.cumsum(sizes) - sizes
        matrix[RECORD_COLUMN_NAMES.index("key_size")] = sizes
        keys = memoryview(b"".join(self._numbers))
        block = RecordBlock(keys, BatchColumns.from_rows([]), 0, 0, (), RecordColumns.from_matrix(matrix))
        table = CompiledKeyTable(self._marks, _ANY_BYTES, KeySlice())
        self._marks.reach(len(sizes))
        table.put(block, 0, len(sizes), 0)
        return table
