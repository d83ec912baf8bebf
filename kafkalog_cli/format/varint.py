"""Variable-length integers as Kafka writes them (ByteUtils): unsigned, and zigzag of 32 and 64 bits."""

from __future__ import annotations


def encode_unsigned(value: int) -> bytes:
    """An unsigned varint; `value` is taken modulo 2^32, as Java's int is."""
    value &= 0xFFFFFFFF
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def encode_zigzag(value: int) -> bytes:
    """A zigzag varint of a signed number of up to 64 bits (writeVarint, writeVarlong)."""
    value = (value << 1) ^ (value >> 63)
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
