"""Count the keys of a log, and find the most frequent keys, in bounded memory with bounds of the errors.

Keys are identified by 64-bit hashes. Up to MOST_KEYS of them are counted individually. With more keys, the smallest
are dropped. A dropped key that comes again has lost at most the sum of the largest counts of each drop. The number
of keys is then estimated from the smallest hashes (KMV, Bar-Yossef et al. 2002).
"""

import hashlib
import math
from typing import Annotated, NamedTuple

from kafkalog_cli.format.columns import Hashes, Integers, Octets, Rows
from kafkalog_cli.results import Count, Hidden, RawBytes

MOST_KEYS = 1 << 18
SMALLEST = 1 << 14
"""The number of smallest hashes that the estimate is made from."""
GATHERED_ROWS, GATHERED_BYTES = 1 << 18, 32 << 20
"""The number of records, or bytes of their keys, that are gathered before they are counted."""
SHOWN_BYTES = 1 << 10
"""The number of bytes of a key that are kept; longer keys are cut."""

_HASHES = 1 << 64


class KeyTotal(NamedTuple):
    """One of the most frequent keys."""

    key: Annotated[RawBytes, "the first 1024 bytes"]
    key_bytes: Count
    records: Count
    bytes: Annotated[Count, "of keys and values"]
    records_error: Annotated[Count, "the true number is at most so much higher"]
    bytes_error: Hidden[int]


class KeyCounts(NamedTuple):
    """The keys of a log.

    `relative_error` is the standard error of `keys`, 0 if all keys were counted. `most_frequent` are the top keys by
    records, in descending order. `null_keys` and `tombstones` are numbers of records.
    """

    keys: int
    relative_error: float
    null_keys: int
    tombstones: int
    most_frequent: tuple[KeyTotal, ...]


class StoredKeys(NamedTuple):
    """Keys that are not null: their bytes one after another, and the start and the size of each key."""

    data: Octets
    begins: Integers
    sizes: Integers


def stored_keys(buffer: memoryview, positions: Integers, sizes: Integers) -> StoredKeys:
    """Return a copy of the keys at these positions of a buffer."""
    import numpy as np

    begins = np.cumsum(sizes) - sizes
    ranges = zip(positions.tolist(), sizes.tolist(), strict=True)
    data = b"".join([buffer[at : at + size] for at, size in ranges])
    return StoredKeys(np.frombuffer(data, dtype=np.uint8), begins, sizes)


class KeyStatistics:
    """Counts the keys of records, to report `top` of them."""

    def __init__(self, top: int, most_keys: int = MOST_KEYS, smallest: int = SMALLEST) -> None:
        import numpy as np

        self._top = top
        self._most_keys = most_keys
        self._most_smallest = smallest
        self._null_keys = self._tombstones = 0
        self._waiting: list[tuple[StoredKeys, Integers]] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._hashes: Hashes = np.zeros(0, dtype=np.uint64)
        self._totals: Integers = np.zeros((4, 0), dtype=np.int64)  # records, bytes, and the errors of both
        self._smallest: Hashes = np.zeros(0, dtype=np.uint64)
        self._most_dropped: Integers = np.zeros(2, dtype=np.int64)  # the most records and bytes of a dropped key
        self._has_dropped = False
        self._names: dict[int, tuple[bytes, int]] = {}

    def add_stored(self, keys: StoredKeys | None, value_sizes: Integers, null_keys: int) -> None:
        """Add records: their keys that are not null (None: no such key), the sizes of these records' values, null keys.

        The size of a null value is below 0.
        """
        import numpy as np

        self._null_keys += null_keys
        if keys is None:
            return
        self._tombstones += int((value_sizes < 0).sum())
        if len(keys.data) >= GATHERED_BYTES:  # such keys are not copied once more, to be joined with others
            self._count_waiting()
        self._waiting.append((keys, np.maximum(value_sizes, 0)))
        self._waiting_rows += len(keys.sizes)
        self._waiting_bytes += len(keys.data) + 3 * keys.sizes.nbytes
        if self._waiting_rows >= GATHERED_ROWS or self._waiting_bytes >= GATHERED_BYTES:
            self._count_waiting()

    def counts(self) -> KeyCounts:
        """Return the totals of all records so far."""
        self._count_waiting()
        count, error = self._estimate() if self._has_dropped else (len(self._hashes), 0.0)
        most_frequent = tuple(self._total(row) for row in self._top_rows())
        return KeyCounts(count, error, self._null_keys, self._tombstones, most_frequent)

    def _count_waiting(self) -> None:
        import numpy as np

        if not self._waiting:
            return
        keys = _join([keys for keys, _ in self._waiting])
        sizes = keys.sizes
        value_sizes = np.concatenate([sizes for _, sizes in self._waiting])
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        hashes, first, inverse = np.unique(hash_keys(*keys), return_index=True, return_inverse=True)
        records = np.bincount(inverse, minlength=len(hashes))
        size_bytes = np.bincount(inverse, weights=sizes + value_sizes, minlength=len(hashes)).astype(np.int64)
        self._smallest = np.union1d(self._smallest, hashes[: self._most_smallest])[: self._most_smallest]
        self._merge(hashes, records, size_bytes)
        self._name(hashes, first, keys)
        if len(self._hashes) > self._most_keys:
            self._drop_half()

    def _merge(self, hashes: Hashes, records: Rows, size_bytes: Integers) -> None:
        import numpy as np

        at = np.searchsorted(self._hashes, hashes)
        known = np.zeros(len(hashes), dtype=bool)
        inside = np.flatnonzero(at < len(self._hashes))
        known[inside] = self._hashes[at[inside]] == hashes[inside]
        self._totals[0, at[known]] += records[known]
        self._totals[1, at[known]] += size_bytes[known]
        new = ~known
        count = int(new.sum())
        errors = np.repeat(self._most_dropped[:, None], count, axis=1)
        totals = np.vstack((records[new], size_bytes[new], errors))
        self._hashes = np.insert(self._hashes, at[new], hashes[new])
        self._totals = np.insert(self._totals, at[new], totals, axis=1)

    def _name(self, hashes: Hashes, first: Rows, keys: StoredKeys) -> None:
        """Keep the names of the top keys.

        A key rises to the top only with new records, so its name is already kept or among `keys`.
        """
        import numpy as np

        names = {}
        for row in self._top_rows():
            value = int(self._hashes[row])
            name = self._names.get(value)
            if name is None:
                at = int(first[np.searchsorted(hashes, self._hashes[row])])
                begin, size = int(keys.begins[at]), int(keys.sizes[at])
                name = keys.data[begin : begin + min(size, SHOWN_BYTES)].tobytes(), size
            names[value] = name
        self._names = names

    def _top_rows(self) -> list[int]:
        """Return the rows of the most frequent keys."""
        import numpy as np

        totals = self._totals[0]
        rows = np.arange(len(totals))
        if len(totals) > self._top:
            least = np.partition(totals, len(totals) - self._top)[len(totals) - self._top]
            rows = np.flatnonzero(totals >= least)
        top_rows: list[int] = rows[np.lexsort((self._hashes[rows], -totals[rows]))][: self._top].tolist()
        return top_rows

    def _total(self, row: int) -> KeyTotal:
        records, size_bytes, *errors = map(int, self._totals[:, row])
        return KeyTotal(*self._names[int(self._hashes[row])], records, size_bytes, *errors)

    def _drop_half(self) -> None:
        """Drop about half of the keys, and keep the keys with the most bytes and the keys with the most records."""
        import numpy as np

        kept = np.zeros(len(self._hashes), dtype=bool)
        for measure in (0, 1):
            most = min(max(self._most_keys // 4, self._top), len(self._hashes))
            kept[np.lexsort((self._hashes, -self._totals[measure]))[:most]] = True
        self._has_dropped = True
        dropped = self._totals[:2, ~kept]
        if dropped.shape[1]:
            self._most_dropped = self._most_dropped + dropped.max(axis=1)
        self._hashes, self._totals = self._hashes[kept], self._totals[:, kept]

    def _estimate(self) -> tuple[int, float]:
        """Estimate the number of keys and its standard error.

        As hashes are evenly distributed, the largest of the smallest hashes shows their density.
        """
        count = len(self._smallest)
        if count < self._most_smallest:
            return count, 0.0
        return round((count - 1) * _HASHES / int(self._smallest[-1])), 1 / math.sqrt(count - 2)


def _join(several: list[StoredKeys]) -> StoredKeys:
    """Join keys of several blocks."""
    import numpy as np

    if len(several) == 1:
        return several[0]
    ends = np.cumsum([len(keys.data) for keys in several])
    begins = [keys.begins + (end - len(keys.data)) for keys, end in zip(several, ends.tolist(), strict=True)]
    return StoredKeys(
        np.concatenate([keys.data for keys in several]), np.concatenate(begins),
        np.concatenate([keys.sizes for keys in several]),
    )  # fmt: skip


_FIRST, _SECOND, _THIRD = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD_BYTES = 8
_LONG_BYTES = 1 << 10
"""Strings from this size in bytes on are hashed one by one, because hashing them word by word takes longer."""


def hash_keys(data: Octets, begins: Integers, sizes: Integers) -> Hashes:
    """Return the hashes (uint64) of the strings of `sizes` bytes that begin at `begins` in `data`, an array of bytes.

    They are evenly distributed, as a sketch needs them, but not cryptographic: finding two keys with the same hash is
    easy.
    """
    import numpy as np

    padded = data if len(data) >= _WORD_BYTES else np.concatenate((data, np.zeros(_WORD_BYTES, dtype=np.uint8)))
    last = len(padded) - _WORD_BYTES
    words: Hashes = np.ndarray((last + 1,), dtype="<u8", buffer=padded, strides=(1,))
    with np.errstate(over="ignore"):
        hashes = _mix(np.asarray(sizes, dtype=np.uint64) * np.uint64(_FIRST))
        rows = np.flatnonzero((sizes > 0) & (sizes < _LONG_BYTES))
        done = 0
        while len(rows):
            left = sizes[rows] - done
            at = begins[rows] + done
            behind = np.maximum(at - last, 0)
            word = words[at - behind] >> (behind.astype(np.uint64) * np.uint64(8))
            bits = np.uint64(64) - np.minimum(left, _WORD_BYTES).astype(np.uint64) * np.uint64(8)
            word = (word << bits) >> bits  # without the bytes after the string
            hashes[rows] = _mix(hashes[rows] ^ word) + np.uint64(_FIRST)
            done += _WORD_BYTES
            rows = rows[left > _WORD_BYTES]
        hashes = _mix(hashes)
    for row in np.flatnonzero(sizes >= _LONG_BYTES).tolist():
        begin = int(begins[row])
        string = data[begin : begin + int(sizes[row])]
        hashes[row] = int.from_bytes(hashlib.blake2b(string.data, digest_size=_WORD_BYTES).digest(), "little")
    return hashes


def _mix(values: Hashes) -> Hashes:
    """Apply the finalizer of SplitMix64, which spreads each bit of a value over all bits."""
    import numpy as np

    values = (values ^ (values >> np.uint64(30))) * np.uint64(_SECOND)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_THIRD)
    spread: Hashes = values ^ (values >> np.uint64(31))
    return spread
