"""A hash table of record keys, compiled: it finds each key's last record, and the records that a later one replaces.

The bytes of the keys are stored in `arena`, one key after another, and compared, so that equal hashes cause no errors.
A slot is 0, or the upper half of the key's hash combined with the number of its entry plus 1. An entry is two numbers:
the place of the mark of the key's last record, and the end of the key's bytes. `state` is the number of entries and the
number of bytes used in the arena.

The table can be larger than any cache, so that most of the time is spent on reading it, not on hashing. The kernels
therefore prefetch the table's data for several records ahead.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, NUMBERS, OUT, entry, inlined, kernel
from kafkalog_cli.format.kernels.machine import load_u64_le
from kafkalog_cli.format.kernels.memory import copy, prefetch

DONE, NEEDS_SLOTS, NEEDS_ARENA, BROKER_FULL = 0, 1, 2, 3
_GONE = np.uint8(1)
_KEY_AT, _KEY_SIZE = 3, 4
_ENTRY_BITS = np.uint64(0xFFFFFFFF)
_AHEAD = 16
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
def _find(buffer, at, size, value, slots, entries, arena):
    """Return (slot, entry or -1) of a key with the hash `value`."""
    mask = np.uint64(len(slots) - 1)
    slot = value & mask
    upper = value & ~_ENTRY_BITS
    while True:
        found = np.uint64(slots[slot])
        if found == 0:
            return np.int64(slot), np.int64(-1)
        if found & ~_ENTRY_BITS == upper:
            number = np.int64(found & _ENTRY_BITS) - 1
            start = _start(entries, number)
            if entries[2 * number + 1] - start == size and _is_equal(buffer, at, arena, start, size):
                return np.int64(slot), number
        slot = (slot + np.uint64(1)) & mask


@inlined
def _start(entries, number):
    return entries[2 * number - 1] if number > 0 else np.int64(0)


@inlined
def _field(records, row):
    """Return (position, size) of a key; the size is below 0 if there is no key."""
    at, size = records[_KEY_AT, row], records[_KEY_SIZE, row]
    if size >= 0 and at < 0:
        return np.int64(0), np.int64(0)
    return at, size


@kernel
def _look_ahead(buffer, records, first, end, slots, entries, arena, flags, hashes):
    """Hash the keys of records `first` to `end`, and prefetch the parts of the table that they need."""
    mask = np.uint64(len(slots) - 1)
    for row in range(first, end):
        at, size = _field(records, row)
        if size >= 0:
            value = _hash(buffer, at, size)
            hashes[row - first] = np.int64(value)
            prefetch(slots, np.int64(value & mask))
    for row in range(first, end):
        if records[_KEY_SIZE, row] >= 0:
            found = np.uint64(slots[np.uint64(hashes[row - first]) & mask])
            if found != 0:
                prefetch(entries, 2 * np.int64(found & _ENTRY_BITS) - 2)
    for row in range(first, end):
        if records[_KEY_SIZE, row] >= 0:
            found = np.uint64(slots[np.uint64(hashes[row - first]) & mask])
            if found != 0:
                number = np.int64(found & _ENTRY_BITS) - 1
                prefetch(arena, _start(entries, number))
                prefetch(flags, entries[2 * number])


@entry(
    *(BYTES, COLUMNS, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64),
    *(NUMBERS, NUMBERS, OUT, OUT, NUMBERS, NUMBERS),
)
def put_keys(buffer, records, first, end, place, mask, part, most, slots, entries, arena, flags, state, hashes):
    """Add the keys of records `first` to `end`; mark in `flags` earlier records with the same keys: (next row, reason).

    `place` is the place of row 0's mark in `flags`. Keys whose hash does not match `part` under `mask` are skipped. The
    function stops early if there is no room. It stops with BROKER_FULL at a new key if there are already `most` keys
    (no limit if below 0). `hashes` has room for `_AHEAD` hashes.
    """
    count, used = state[0], state[1]
    for row in range(first, end):
        ahead = (row - first) % _AHEAD
        if ahead == 0:
            _look_ahead(buffer, records, row, min(end, row + _AHEAD), slots, entries, arena, flags, hashes)
        at, size = _field(records, row)
        if size < 0:
            continue
        value = np.uint64(hashes[ahead])
        if np.int64(value >> _SLICE_SHIFT) & mask != part:
            continue
        if most >= 0 and count >= most:
            state[0], state[1] = count, used
            return row, BROKER_FULL
        slot, number = _find(buffer, at, size, value, slots, entries, arena)
        if number >= 0:
            flags[entries[2 * number]] |= _GONE
            entries[2 * number] = place + row
            continue
        if 2 * count == len(entries) or used + size > len(arena):
            state[0], state[1] = count, used
            return row, NEEDS_SLOTS if 2 * count == len(entries) else NEEDS_ARENA
        if size > 0:
            copy(arena, used, buffer, at, size)
        used += size
        entries[2 * count], entries[2 * count + 1] = place + row, used
        count += 1
        slots[slot] = np.int64((value & ~_ENTRY_BITS) | np.uint64(count))
    state[0], state[1] = count, used
    return end, DONE


@entry(
    *(BYTES, COLUMNS, types.int64, types.int64, types.int64, types.int64, types.int64),
    *(NUMBERS, NUMBERS, OUT, OUT, NUMBERS),
)
def mark_keys(buffer, records, first, end, place, mask, part, slots, entries, arena, flags, hashes):
    """Mark the records `first` to `end` whose key is in the table; return the number of marked records."""
    marked = np.int64(0)
    for row in range(first, end):
        ahead = (row - first) % _AHEAD
        if ahead == 0:
            _look_ahead(buffer, records, row, min(end, row + _AHEAD), slots, entries, arena, flags, hashes)
        at, size = _field(records, row)
        if size < 0:
            continue
        value = np.uint64(hashes[ahead])
        if np.int64(value >> _SLICE_SHIFT) & mask != part:
            continue
        _, number = _find(buffer, at, size, value, slots, entries, arena)
        if number >= 0:
            flags[place + row] |= _GONE
            marked += 1
    return marked


@entry(NUMBERS, NUMBERS, OUT, NUMBERS)
def fill_slots(slots, entries, arena, state):
    """Insert all keys into new slots, which must be 0; return the number of keys."""
    mask = np.uint64(len(slots) - 1)
    start = np.int64(0)
    for number in range(state[0]):
        end = entries[2 * number + 1]
        value = _hash(arena, start, end - start)
        slot = value & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = np.int64((value & ~_ENTRY_BITS) | np.uint64(number + 1))
        start = end
    return np.int64(state[0])
