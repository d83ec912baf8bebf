"""The hash with which Kafka's producers choose a key's partition (org.apache.kafka.common.utils.Utils.murmur2)."""

from __future__ import annotations

import struct

_words = struct.Struct("<I").iter_unpack
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash of `data` as an unsigned 32-bit number. Java's result is the signed one."""
    size = len(data)
    found = _SEED ^ size
    whole = size & ~3
    for (word,) in _words(data[:whole]):
        mixed = (word * _MULTIPLIER) & _MASK
        mixed ^= mixed >> 24
        found = ((found * _MULTIPLIER) & _MASK) ^ ((mixed * _MULTIPLIER) & _MASK)
    if whole < size:
        found ^= int.from_bytes(data[whole:], "little")
        found = (found * _MULTIPLIER) & _MASK
    found ^= found >> 13
    found = (found * _MULTIPLIER) & _MASK
    return found ^ (found >> 15)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic with `partitions` partitions (BuiltInPartitioner.partitionForKey)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
