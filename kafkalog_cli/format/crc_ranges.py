"""Checksums of many ranges of a byte stream, computed in one pass even if the ranges overlap."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kafkalog_cli.format.columns import Checksums, Integers, Octets

if TYPE_CHECKING:
    from collections.abc import Callable

CRC32_POLYNOMIAL = 0xEDB88320
CRC32C_POLYNOMIAL = 0x82F63B78

_LENGTH_BITS = 31
_LANE_BYTES = 256
_INVERTED = 0xFFFFFFFF


def crc_of_ranges(crc_before: Checksums, crc_after: Checksums, sizes: Integers, polynomial: int) -> Checksums:
    """Return the CRCs of ranges of a stream.

    `crc_before` is the CRC of all bytes before each range, and `crc_after` the CRC of all bytes up to its end. `sizes`
    is the size of each range in bytes, below 2^31. All are numpy arrays of equal length. Both polynomials are
    reflected, with the usual inversions, as in zlib and crc32c.

    The reason: crc(A + B) is crc(B) xor crc(A) advanced by size(B) zero bytes. The advance is linear in crc(A), so one
    table per bit of the size is enough.
    """
    import numpy as np

    moved = crc_before.astype(np.uint32)
    for bit, table in enumerate(_zero_bytes_tables(polynomial)):
        rows = np.flatnonzero(sizes >> bit & 1)
        moved[rows] = _apply(table, moved[rows])
    return moved ^ crc_after.astype(np.uint32)


def crc_after_every_byte(data: Octets, before: int, checksum: Callable[[Any, int], int], polynomial: int) -> Checksums:
    """Return the CRC of `data[: i + 1]` for every i, each continued from the CRC `before`.

    `data` is a numpy array of bytes. `checksum` computes the CRC of a whole piece: it gives the start values of many
    lanes, which are then computed side by side.
    """
    import numpy as np

    lanes = -(-len(data) // _LANE_BYTES)
    padded = np.concatenate((data, np.zeros(lanes * _LANE_BYTES - len(data), dtype=np.uint8)))
    begins = [before]
    for lane in range(lanes - 1):
        begins.append(checksum(padded[lane * _LANE_BYTES : (lane + 1) * _LANE_BYTES], begins[-1]))
    registers = np.array(begins, dtype=np.uint32) ^ _INVERTED
    table = _zero_bytes_tables(polynomial)[0][0]
    after = np.empty((_LANE_BYTES, lanes), dtype=np.uint32)
    for at, column in enumerate(np.ascontiguousarray(padded.reshape(lanes, _LANE_BYTES).T)):
        registers = table[(registers & 0xFF) ^ column] ^ registers >> 8
        after[at] = registers
    found: Checksums = (after ^ _INVERTED).T.reshape(-1)[: len(data)]
    return found


@cache
def _zero_bytes_tables(polynomial: int) -> list[Checksums]:
    """Return tables that advance a CRC register by 2^bit zero bytes: per bit, 256 values for each of its four bytes."""
    import numpy as np

    one = np.zeros((4, 256), dtype=np.uint32)
    for value in range(256):
        register = value
        for _ in range(8):
            register = register >> 1 ^ (polynomial if register & 1 else 0)
        one[0, value] = register
    for byte in range(1, 4):  # bytes above the lowest are only shifted down
        one[byte] = np.arange(256, dtype=np.uint32) << (8 * (byte - 1))
    tables = [one]
    while len(tables) < _LENGTH_BITS:
        tables.append(_apply(tables[-1], tables[-1]))
    return tables


def _apply(table: Checksums, registers: Checksums) -> Checksums:
    moved: Checksums = table[0][registers & 0xFF] ^ table[1][registers >> 8 & 0xFF]
    moved ^= table[2][registers >> 16 & 0xFF] ^ table[3][registers >> 24]
    return moved
