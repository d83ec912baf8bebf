"""Compute 64-bit hashes of many byte strings, on whole columns."""

from __future__ import annotations

import hashlib

from kafkalog_cli.format.columns import Hashes, Integers, Octets

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

    padded = np.concatenate((data, np.zeros(_WORD_BYTES, dtype=np.uint8)))
    words: Hashes = np.ndarray((len(padded) - _WORD_BYTES + 1,), dtype="<u8", buffer=padded, strides=(1,))
    with np.errstate(over="ignore"):
        found = _mixed(np.asarray(sizes, dtype=np.uint64) * np.uint64(_FIRST))
        rows = np.flatnonzero((sizes > 0) & (sizes < _LONG_BYTES))
        done = 0
        while len(rows):
            left = sizes[rows] - done
            word = words[begins[rows] + done]
            bits = np.uint64(64) - np.minimum(left, _WORD_BYTES).astype(np.uint64) * np.uint64(8)
            word = (word << bits) >> bits  # without the bytes after the string
            found[rows] = _mixed(found[rows] ^ word) + np.uint64(_FIRST)
            done += _WORD_BYTES
            rows = rows[left > _WORD_BYTES]
        found = _mixed(found)
    for row in np.flatnonzero(sizes >= _LONG_BYTES).tolist():
        begin = int(begins[row])
        string = data[begin : begin + int(sizes[row])]
        found[row] = int.from_bytes(hashlib.blake2b(string.data, digest_size=_WORD_BYTES).digest(), "little")
    return found


def _mixed(values: Hashes) -> Hashes:
    """Apply the finalizer of SplitMix64, which spreads each bit of a value over all bits."""
    import numpy as np

    values = (values ^ (values >> np.uint64(30))) * np.uint64(_SECOND)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_THIRD)
    spread: Hashes = values ^ (values >> np.uint64(31))
    return spread
