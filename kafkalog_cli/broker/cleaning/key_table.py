"""A table with the last record of each key; it marks a record as removed when a later record has the same key.

Kafka's SkimpyOffsetMap compares the MD5 of keys; this table compares the keys themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kafkalog_cli.broker.cleaning.marks import GONE, Marks
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.columns import Integers, Octets
from kafkalog_cli.format.records import RECORD_COLUMN_NAMES, RecordBlock, RecordColumns, field_bytes

ENTRY_BYTES = 230
"""Memory of a key in the plain table besides its own bytes: the object, its slot in the table, and a number."""


class KeySlice(NamedTuple):
    """The keys whose hash ends with the `bits` bits of `value`: a part of all keys, if the table cannot hold them."""

    bits: int = 0
    value: int = 0

    def split(self, more_bits: int = 1) -> list[KeySlice]:
        """Return the slices into which `more_bits` further bits split this slice."""
        return [KeySlice(self.bits + more_bits, self.value | at << self.bits) for at in range(1 << more_bits)]


class KeyTable(Protocol):
    """The last record of each key; `put` takes records in log order, then `mark_older` the records before them.

    Both take a block's records `first` to `end` (exclusive); `at` is the position of the block's first mark.
    """

    @property
    def is_full(self) -> bool:
        """Whether there was no room for a key; marks set until then are right."""

    def put(self, block: RecordBlock, first: int, end: int, at: int) -> int:
        """Add records, and mark the earlier records with the same keys; return the first row without room, or `end`."""

    def mark_older(self, block: RecordBlock, first: int, end: int, at: int) -> None:
        """Mark the records whose keys are in the table."""


def key_of(block: RecordBlock, row: int) -> bytes | None:
    """Return the key of a record, None if it has no key."""
    records = block.records
    return field_bytes(block.buffer, int(records.key_position[row]), int(records.key_size[row]))


class PlainKeyTable:
    """A key table in a dictionary; `most_keys` is the number of keys at which it is full, as a broker's table is."""

    def __init__(self, marks: Marks, memory_bytes: int, part: KeySlice, most_keys: int | None = None) -> None:
        self.is_full = False
        self._marks = marks
        self._room_bytes = memory_bytes
        self._mask = (1 << part.bits) - 1
        self._value = part.value
        self._most_keys = most_keys
        self._last: dict[bytes, int] = {}

    def put(self, block: RecordBlock, first: int, end: int, at: int) -> int:
        """See KeyTable."""
        last, flags = self._last, self._marks.flags
        for row in range(first, end):
            key = self._key(block, row)
            if key is None:
                continue
            if self._most_keys is not None and len(last) >= self._most_keys:
                self.is_full = True  # as in Kafka, even if the table has this key
                return row
            before = last.get(key)
            if before is not None:
                flags[before] |= GONE
            else:
                self._room_bytes -= len(key) + ENTRY_BYTES
                if self._room_bytes < 0:
                    self.is_full = True
                    return row
            last[key] = at + row
        return end

    def mark_older(self, block: RecordBlock, first: int, end: int, at: int) -> None:
        """See KeyTable."""
        flags = self._marks.flags
        for row in range(first, end):
            key = self._key(block, row)
            if key is not None and key in self._last:
                flags[at + row] |= GONE

    def _key(self, block: RecordBlock, row: int) -> bytes | None:
        """Return the key of a record, None if it has no key or its key is in another slice."""
        key = key_of(block, row)
        return key if key is None or hash(key) & self._mask == self._value else None


_ANY_BYTES = 1 << 62
"""No memory limit: all given keys must be kept."""


class SoughtKeys:
    """Keys with their numbers: the position of each key in the given sequence, the first one of a repeated key."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._numbers = {key: number for number, key in reversed(list(enumerate(keys)))}

    def __len__(self) -> int:
        return len(self._numbers)

    def items(self) -> Iterable[tuple[bytes, int]]:
        """Return the keys with their numbers."""
        return self._numbers.items()

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
            return [row for row in range(block.record_count) if key_of(block, row) in self._numbers]
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
        key = key_of(block, row)
        assert key is not None
        return self._numbers[key]

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


_FIRST_SLOTS = 1 << 12
_SLOT_BYTES, _ENTRY_BYTES = 8, 16
_BYTES_A_KEY = 16
"""Assumed size of a key, for the size of the first arena."""


class CompiledKeyTable:
    """See KeyTable; `most_keys` as in PlainKeyTable. Exact: keys are compared byte by byte."""

    def __init__(self, marks: Marks, memory_bytes: int, part: KeySlice, most_keys: int | None = None) -> None:
        import numpy as np

        from kafkalog_cli.format.kernels.compiled import KEYS_AHEAD

        self.is_full = False
        self._marks = marks
        self._memory_bytes = memory_bytes
        self._mask = (1 << part.bits) - 1
        self._value = part.value
        self._most = -1 if most_keys is None else most_keys
        self._slots = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        entries = _entries_for(_FIRST_SLOTS)
        self._entries = np.empty(2 * entries, dtype=np.int64)
        self._arena = np.empty(entries * _BYTES_A_KEY, dtype=np.uint8)
        self._state = np.zeros(2, dtype=np.int64)
        self._hashes = np.empty(KEYS_AHEAD, dtype=np.int64)

    def put(self, block: RecordBlock, first: int, end: int, at: int) -> int:
        """See KeyTable."""
        if first >= end:
            return end
        arrays = _arrays(block)
        for begin, stop in self._marks.parts(first, end):
            row = self._put(block, arrays, begin, stop, at)
            if row < stop:
                return row
        return end

    def _put(self, block: RecordBlock, arrays: tuple[Any, Any], first: int, end: int, at: int) -> int:
        from kafkalog_cli.format.kernels import compiled, native

        kernel = native.function(native.PUT_KEYS)
        buffer, records = arrays
        while True:
            row, why = kernel(
                *(buffer, records, first, end, at, self._mask, self._value, self._most),
                *(self._slots, self._entries, self._arena, _flags(self._marks), self._state, self._hashes),
            )
            if why == compiled.KEYS_DONE:
                return end
            if why == compiled.KEYS_BROKER_FULL or not self._grow(
                slots=why == compiled.KEYS_NEED_SLOTS, size_bytes=int(block.records.key_size[row])
            ):
                self.is_full = True
                return int(row)
            first = int(row)

    def mark_older(self, block: RecordBlock, first: int, end: int, at: int) -> None:
        """See KeyTable."""
        from kafkalog_cli.format.kernels import native

        if first < end:
            buffer, records = _arrays(block)
            native.function(native.MARK_KEYS)(
                *(buffer, records, first, end, at, self._mask, self._value),
                *(self._slots, self._entries, self._arena, _flags(self._marks), self._hashes),
            )

    def _grow(self, *, slots: bool, size_bytes: int) -> bool:
        """Make room for more keys (`slots`), or for more bytes of keys; return False if the memory limit forbids it."""
        import numpy as np

        from kafkalog_cli.format.kernels import native

        now = self._slots.nbytes + self._entries.nbytes + self._arena.nbytes
        if not slots:
            larger = max(2 * len(self._arena), len(self._arena) + size_bytes)
            if now + larger > self._memory_bytes:  # the old and the new arena exist while one is copied
                larger = self._memory_bytes - now
                if larger < len(self._arena) + max(size_bytes, len(self._arena) // 8):
                    return False
            arena = np.empty(larger, dtype=np.uint8)
            arena[: int(self._state[1])] = self._arena[: int(self._state[1])]
            self._arena = arena
            return True
        count = 2 * len(self._slots)
        entries = _entries_for(count)
        if now + count * _SLOT_BYTES + entries * _ENTRY_BYTES - self._slots.nbytes > self._memory_bytes:
            return False
        self._slots = np.zeros(count, dtype=np.int64)
        self._entries = _longer(self._entries, 2 * entries)
        native.function(native.FILL_SLOTS)(self._slots, self._entries, self._arena, self._state)
        return True


def _entries_for(slots: int) -> int:
    return slots * 5 // 8


def _longer(array: Integers, size: int) -> Integers:
    import numpy as np

    longer = np.empty(size, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _flags(marks: Marks) -> Any:
    """Return a view of the marks; the marks cannot grow while the view exists."""
    import numpy as np

    return np.frombuffer(marks.flags, dtype=np.uint8)


def _arrays(block: RecordBlock) -> tuple[Octets, Integers]:
    """Return the bytes and the columns of a block as arrays, also if the plain kernels decoded it."""
    import numpy as np

    data = np.frombuffer(block.buffer, dtype=np.uint8) if len(block.buffer) else np.zeros(0, np.uint8)
    return data, block.records.arrays().matrix
