"""A table of keys, compiled: which record has a key last, and which records have one that comes again.

The keys' bytes are kept in `arena`, one behind the other, and compared: nothing is left to a hash. A slot is 0, or the
upper half of the key's hash and the number of its entry, plus 1; `ids[entry]` is the place of its last record's mark,
`ends[entry]` where its bytes end. `state` is the number of entries and the bytes used of the arena.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import types

from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, NUMBERS, OUT, entry, inlined, kernel
from kafkalog_cli.format.kernels.machine import load_u64_le
from kafkalog_cli.format.kernels.memory import copy

DONE, NEEDS_SLOTS, NEEDS_ARENA, BROKER_FULL = 0, 1, 2, 3
_GONE = np.uint8(1)
_KEY_AT, _KEY_SIZE = 3, 4
_ENTRY_BITS = np.uint64(0xFFFFFFFF)
_SLICE_SHIFT = np.uint64(40)
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)


@inlined
def _mixed(value):
    value ^= value >> np.uint64(33)
    value *= _SECOND
    value ^= value >> np.uint64(29)
    return value


@kernel
def _hash(buffer, at, size):
    value = np.uint64(size) * _FIRST
    end = at + size
    while at + 8 <= end:
        value = _mixed(value ^ load_u64_le(buffer, at)) * _FIRST
        at += 8
    if at < end and size >= 8:
        return _mixed(_mixed(value ^ load_u64_le(buffer, end - 8)) * _FIRST)
    rest = np.uint64(0)
    while at < end:
        rest = (rest << np.uint64(8)) | np.uint64(buffer[at])
        at += 1
    return _mixed(_mixed(value ^ rest) * _FIRST)


@inlined
def _is_equal(buffer, at, arena, start, size):
    end = at + size
    while at + 8 <= end:
        if load_u64_le(buffer, at) != load_u64_le(arena, start):
            return False
        at += 8
        start += 8
    while at < end:
        if buffer[at] != arena[start]:
            return False
        at += 1
        start += 1
    return True


@inlined
def _find(buffer, at, size, value, slots, ends, arena):
    """(slot, entry or -1) of a key with this hash."""
    mask = np.uint64(len(slots) - 1)
    slot = value & mask
    upper = value & ~_ENTRY_BITS
    while True:
        found = np.uint64(slots[slot])
        if found == 0:
            return np.int64(slot), np.int64(-1)
        if found & ~_ENTRY_BITS == upper:
            number = np.int64(found & _ENTRY_BITS) - 1
            start = ends[number - 1] if number > 0 else np.int64(0)
            if ends[number] - start == size and _is_equal(buffer, at, arena, start, size):
                return np.int64(slot), number
        slot = (slot + np.uint64(1)) & mask


@entry(
    *(BYTES, COLUMNS, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64),
    *(NUMBERS, NUMBERS, NUMBERS, OUT, OUT, NUMBERS),
)
def put_keys(buffer, records, first, end, place, mask, part, most, slots, ids, ends, arena, flags, state):
    """Take in the keys of records `first` to `end`, and mark in `flags` those that had one before: (next row, why).

    `place` is that of the mark of row 0. Keys whose hash does not end with `part` under `mask` are passed over. It ends
    early where there is no room, or, with BROKER_FULL, at a key when there are `most` (none if below 0).
    """
    count, used = state[0], state[1]
    for row in range(first, end):
        size = records[_KEY_SIZE, row]
        if size < 0:
            continue
        at = records[_KEY_AT, row]
        if at < 0:
            at, size = np.int64(0), np.int64(0)
        value = _hash(buffer, at, size)
        if np.int64(value >> _SLICE_SHIFT) & mask != part:
            continue
        if most >= 0 and count >= most:
            state[0], state[1] = count, used
            return row, BROKER_FULL
        slot, number = _find(buffer, at, size, value, slots, ends, arena)
        if number >= 0:
            flags[ids[number]] |= _GONE
            ids[number] = place + row
            continue
        if count == len(ids) or used + size > len(arena):
            state[0], state[1] = count, used
            return row, NEEDS_SLOTS if count == len(ids) else NEEDS_ARENA
        if size > 0:
            copy(arena, used, buffer, at, size)
        used += size
        ids[count], ends[count] = place + row, used
        count += 1
        slots[slot] = np.int64((value & ~_ENTRY_BITS) | np.uint64(count))
    state[0], state[1] = count, used
    return end, DONE


@entry(
    *(BYTES, COLUMNS, types.int64, types.int64, types.int64, types.int64, types.int64),
    *(NUMBERS, NUMBERS, OUT, OUT),
)
def mark_keys(buffer, records, first, end, place, mask, part, slots, ends, arena, flags):
    """Mark those of the records `first` to `end` whose key is in the table; how many were."""
    marked = np.int64(0)
    for row in range(first, end):
        size = records[_KEY_SIZE, row]
        if size < 0:
            continue
        at = records[_KEY_AT, row]
        if at < 0:
            at, size = np.int64(0), np.int64(0)
        value = _hash(buffer, at, size)
        if np.int64(value >> _SLICE_SHIFT) & mask != part:
            continue
        _, number = _find(buffer, at, size, value, slots, ends, arena)
        if number >= 0:
            flags[place + row] |= _GONE
            marked += 1
    return marked


@entry(NUMBERS, NUMBERS, OUT, NUMBERS)
def fill_slots(slots, ends, arena, state):
    """Enter all keys into new slots, which are 0; how many there are."""
    mask = np.uint64(len(slots) - 1)
    start = np.int64(0)
    for number in range(state[0]):
        value = _hash(arena, start, ends[number] - start)
        slot = value & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = np.int64((value & ~_ENTRY_BITS) | np.uint64(number + 1))
        start = ends[number]
    return np.int64(state[0])
