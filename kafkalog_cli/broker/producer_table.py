"""The producers of a partition by id, packed: there may be millions, where each client begins as a new producer."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from kafkalog_cli.format.producer_snapshot import PRODUCER_ENTRY, ProducerEntry

_FACTOR = int.from_bytes(os.urandom(8), "little") | 1
"""Places are chosen by a random factor, so that nobody can write a log whose producers all get the same place."""
_MASK = (1 << 64) - 1
_FIRST_BITS = 4
_FREE = -1
_PIECE_ENTRIES = 16_384


class ProducerTable(Mapping[int, ProducerEntry]):
    """Producer entries by id, in order of arrival, in about 60 bytes each; entries cannot be removed one by one.

    The entries are stored one after the other, as in a snapshot. A hash table with open addressing
    maps an id to the number of its entry.
    """

    __slots__ = ("_bits", "_places", "_rows")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all entries."""
        self._rows = bytearray()
        self._bits = _FIRST_BITS
        self._places = array("i", [_FREE]) * (1 << _FIRST_BITS)

    def __len__(self) -> int:
        return len(self._rows) // _ENTRY_BYTES

    def __iter__(self) -> Iterator[int]:
        return (fields[0] for fields in _iter_unpack(self._rows))

    def __contains__(self, producer_id: object) -> bool:
        return isinstance(producer_id, int) and self._places[self._place(producer_id)] != _FREE

    def __getitem__(self, producer_id: int) -> ProducerEntry:
        row = self._places[self._place(producer_id)]
        if row == _FREE:
            raise KeyError(producer_id)
        return ProducerEntry._make(_unpack_from(self._rows, row * _ENTRY_BYTES))

    def __setitem__(self, producer_id: int, entry: ProducerEntry) -> None:
        place = self._place(producer_id)
        row = self._places[place]
        if row != _FREE:
            _pack_into(self._rows, row * _ENTRY_BYTES, *entry)
            return
        self._places[place] = len(self)
        self._rows += _pack(*entry)
        if 3 * len(self) > 2 * len(self._places):
            self._place_all()

    def entries(self) -> Iterator[ProducerEntry]:
        """Iterate over the entries."""
        return map(ProducerEntry._make, _iter_unpack(self._rows))

    def in_snapshot_order(self) -> Callable[[], Iterator[bytes]]:
        """Return a function that yields the packed entries, many at once, in the order in which a broker writes them.

        It is the order of a Java HashMap that was filled in the order of arrival.
        """
        capacity = 16
        while len(self) > capacity * 3 // 4:
            capacity *= 2
        return partial(self._pieces, self._order(capacity - 1))

    def _pieces(self, order: Any) -> Iterator[bytes]:
        rows = memoryview(self._rows)
        for first in range(0, len(order), _PIECE_ENTRIES):
            numbers = map(int, order[first : first + _PIECE_ENTRIES])
            yield b"".join(rows[row * _ENTRY_BYTES : (row + 1) * _ENTRY_BYTES] for row in numbers)

    def _order(self, mask: int) -> Any:
        """Return the numbers of the entries, sorted by their bucket in a Java HashMap of `mask + 1` buckets."""
        if len(self) <= _PIECE_ENTRIES:
            buckets = [_spread(producer_id) & mask for producer_id in self]
            return sorted(range(len(self)), key=buckets.__getitem__)
        import numpy as np

        buckets_of_all = np.fromiter((_spread(producer_id) & mask for producer_id in self), np.int32, len(self))
        order: Any = np.argsort(buckets_of_all, kind="stable").astype(np.int32)
        return order

    def _place(self, producer_id: int) -> int:
        """Return the place of a producer, or the free place where it belongs."""
        places, rows, mask = self._places, self._rows, len(self._places) - 1
        place = (producer_id * _FACTOR & _MASK) >> (64 - self._bits)
        while (row := places[place]) != _FREE and _id_at(rows, row * _ENTRY_BYTES)[0] != producer_id:
            place = (place + 1) & mask
        return place

    def _place_all(self) -> None:
        while 3 * len(self) > 2 << self._bits:
            self._bits += 1
        self._places = places = array("i", [_FREE]) * (1 << self._bits)
        mask, shift = len(places) - 1, 64 - self._bits
        for row, producer_id in enumerate(self):
            place = (producer_id * _FACTOR & _MASK) >> shift
            while places[place] != _FREE:
                place = (place + 1) & mask
            places[place] = row


_ENTRY_BYTES = PRODUCER_ENTRY.size
_pack, _pack_into = PRODUCER_ENTRY.struct.pack, PRODUCER_ENTRY.struct.pack_into
_unpack_from, _iter_unpack = PRODUCER_ENTRY.struct.unpack_from, PRODUCER_ENTRY.struct.iter_unpack
_id_at = PRODUCER_ENTRY.struct_of("producer_id").unpack_from


def _spread(producer_id: int) -> int:
    """Return a producer id's hash as a Java HashMap spreads it."""
    hashed = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
    return hashed ^ (hashed >> 16)
