"""Variable-length integers as Kafka writes them (ByteUtils): unsigned, and zigzag of 32 and 64 bits."""

from typing import NamedTuple

from kafkalog_cli.format.batch import wrap_int32, wrap_int64

CUT_OFF = "null"
"""The reason for data that ends too early: Java's BufferUnderflowException has no message, which prints as "null"."""

_MASK_32 = (1 << 32) - 1
_MASK_64 = (1 << 64) - 1


class BadVarint(NamedTuple):
    """Bytes that are not a varint.

    `message` is the message of Java's exception: CUT_OFF, or that the varint is too long.
    """

    message: str


def decode_unsigned(data: bytes | memoryview, position: int) -> tuple[int, int] | BadVarint:
    """Decode an unsigned varint of at most 5 bytes (ByteUtils.readUnsignedVarint): (value, next position).

    The value is a Java int, so it can be negative. Of the fifth byte only the lowest four bits count.
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
    """Decode a zigzag varint of at most 5 bytes (ByteUtils.readVarint): (value, next position)."""
    decoded = decode_unsigned(data, position)
    if isinstance(decoded, BadVarint):
        return decoded
    return _unzigzag(decoded[0] & _MASK_32), decoded[1]


def decode_zigzag_64(data: bytes | memoryview, position: int) -> tuple[int, int] | BadVarint:
    """Decode a zigzag varint of at most 10 bytes (ByteUtils.readVarlong): (value, next position)."""
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
    """Encode an unsigned varint. `value` is taken modulo 2^32, like a Java int."""
    return _encode(value & _MASK_32)


def encode_zigzag(value: int) -> bytes:
    """Encode a signed number as a zigzag varint (writeVarint, writeVarlong). `value` is taken modulo 2^64."""
    value = wrap_int64(value)
    return _encode((value << 1) ^ (value >> 63))


def _unzigzag(bits: int) -> int:
    return (bits >> 1) ^ -(bits & 1)


def _encode(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
