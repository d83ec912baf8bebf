"""Variable-length integers as Kafka writes them (ByteUtils): unsigned, and zigzag of 32 and 64 bits."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.batch import wrap_int32, wrap_int64

CUT_OFF = "null"
"""Java's BufferUnderflowException has no message: it reads "null"."""

_MASK_32 = (1 << 32) - 1
_MASK_64 = (1 << 64) - 1


class BadVarint(NamedTuple):
    """No number stands there; `message` is that of Java's exception: CUT_OFF, or that it is too long."""

    message: str


def decode_unsigned(data: bytes | memoryview, position: int) -> tuple[int, int] | BadVarint:
    """(value, next position) of an unsigned varint of at most 5 bytes, as Java's int holds it: it can be negative.

    Of the fifth byte the lowest four bits count (ByteUtils.readUnsignedVarint).
    """
    value = shift = 0
    for byte in data[position : position + 5]:
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return wrap_int32(value), position
        shift += 7
    if shift < 35:
        return BadVarint(CUT_OFF)
    bits = value & _MASK_32
    return BadVarint(f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {bits:x}")


def decode_zigzag_32(data: bytes | memoryview, position: int) -> tuple[int, int] | BadVarint:
    """(value, next position) of a zigzag varint of at most 5 bytes (ByteUtils.readVarint)."""
    found = decode_unsigned(data, position)
    if isinstance(found, BadVarint):
        return found
    return _unzigzag(found[0] & _MASK_32), found[1]


def decode_zigzag_64(data: bytes | memoryview, position: int) -> tuple[int, int] | BadVarint:
    """(value, next position) of a zigzag varint of at most 10 bytes (ByteUtils.readVarlong)."""
    value = shift = 0
    for byte in data[position : position + 10]:
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return _unzigzag(value & _MASK_64), position
        shift += 7
    if shift < 70:
        return BadVarint(CUT_OFF)
    bits = value & _MASK_64
    return BadVarint(f"Varlong is too long, most significant bit in the 10th byte is set, converted value: {bits:x}")


def encode_unsigned(value: int) -> bytes:
    """An unsigned varint; `value` is taken modulo 2^32, as Java's int is."""
    return _encode(value & _MASK_32)


def encode_zigzag(value: int) -> bytes:
    """A zigzag varint of a signed number of up to 64 bits (writeVarint, writeVarlong), taken modulo 2^64."""
    value = wrap_int64(value)
    return _encode((value << 1) ^ (value >> 63))


def _unzigzag(bits: int) -> int:
    return (bits >> 1) ^ -(bits & 1)


def _encode(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
