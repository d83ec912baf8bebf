"""The key table for large logs, in compiled kernels: it grows with the keys, up to its memory limit."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.broker.cleaning.key_table import KeySlice
from kafkalog_cli.broker.cleaning.marks import Marks
from kafkalog_cli.format.columns import Integers, Octets
from kafkalog_cli.format.records import RecordBlock

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
