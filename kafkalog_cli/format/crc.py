"""Checksums: CRC-32C of record batches (hardware only) and CRC-32 of the older messages."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.columns import Checksums, Integers, Octets
from kafkalog_cli.format.surroundings import without_variables

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined, unused-ignore]

    Checksum = Callable[[Buffer], int]

_PACKAGE_VARIABLES = "CRC32C_"


@cache
def crc32c_function() -> Checksum:
    """Return the CRC-32C function of the `crc32c` package; its results are unsigned 32-bit integers.

    Raises KafkalogError if the package would fall back to software: an error is better than a silent tenfold slowdown
    (dpkp/kafka-python#1389). Only the extension module is loaded: the package itself imports importlib.metadata, which
    costs a third of the start-up of a small dump. The variable CRC32C_SW_MODE, with which a user can select software
    for other programs, is ignored.
    """
    with without_variables(_PACKAGE_VARIABLES):
        module = _loaded()
    if not module.hardware_based:
        raise KafkalogError(
            reason="this processor has no instruction for CRC-32C (SSE 4.2, or the CRC extension of ARMv8),"
            " which kafkalog needs: run it on another machine"
        )
    return cast("Checksum", module.crc32c)


def _loaded() -> Any:
    """Load the extension module. It reads the environment once, when it is loaded."""
    package = importlib.util.find_spec("crc32c")
    locations = package.submodule_search_locations if package else None
    extension = importlib.machinery.PathFinder.find_spec("_crc32c", locations) if locations else None
    if extension is not None and extension.loader is not None:
        module = importlib.util.module_from_spec(extension)
        extension.loader.exec_module(module)
    else:
        import crc32c as module  # type: ignore[no-redef, unused-ignore]
    return module


def crc32c(data: Buffer, before: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of `data`, unsigned. Record batches v2 and producer snapshots use it.

    `before` is the CRC of the bytes before `data`.
    """
    add: Any = crc32c_function()
    return int(add(data, before))


def crc32(data: Buffer) -> int:
    """Return the CRC-32 (IEEE) of `data`, unsigned. Messages of Kafka 0.7, v0 and v1 use it."""
    import zlib

    return zlib.crc32(data)


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
