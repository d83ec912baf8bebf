"""Machine instructions for the compiled kernels, as Numba intrinsics: loads, trailing zeros, CRC-32C steps."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from kafkalog_cli.format.kernels.assembling import CRC_BYTE, CRC_WORD, crc_functions
from kafkalog_cli.format.kernels.compiling import kernel

_CRC32C_POLYNOMIAL = 0x82F63B78
_CRC32_POLYNOMIAL = 0xEDB88320


def _load(width: int, *, swap: bool):
    @intrinsic
    def load(typing, array, index):
        signature = types.uint64(array, types.int64)

        def generate(context, builder, sig, args):
            data = make_array(sig.args[0])(context, builder, args[0]).data
            pointer = builder.gep(data, [args[1]])
            word = ir.IntType(width)
            value = builder.load(builder.bitcast(pointer, word.as_pointer()))
            value.align = 1
            if swap:
                value = builder.bswap(value)
            return builder.zext(value, ir.IntType(64)) if width < 64 else value

        return signature, generate

    return load


load_u64_le = _load(64, swap=False)
"""Load eight bytes at an index of a uint8 array in the machine's byte order; no bounds check."""
load_u64_be = _load(64, swap=True)
"""Load eight bytes at an index, big-endian, unsigned; no bounds check."""
load_u32_be = _load(32, swap=True)
"""Load four bytes at an index, big-endian, unsigned; no bounds check."""


def _count_trailing_zeros(typing, word):
    def generate(context, builder, sig, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


trailing_zeros: Any = intrinsic(_count_trailing_zeros)
"""Return the number of zero bits below the lowest set bit; 64 if no bit is set."""


def _crc_step(name: str):
    @intrinsic
    def step(typing, crc, data):
        signature = types.uint64(types.uint64, types.uint64)

        def generate(context, builder, sig, args):
            word = ir.IntType(64)
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, [word, word]), name)
            return builder.call(function, args)

        return signature, generate

    return step


def _table(polynomial: int) -> np.ndarray:
    """Return the slicing-by-8 tables of a reflected CRC-32."""
    table = np.zeros((8, 256), dtype=np.uint64)
    value = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        value = (value >> np.uint64(1)) ^ (value & np.uint64(1)) * np.uint64(polynomial)
    table[0] = value
    for row in range(1, 8):
        value = (value >> np.uint64(8)) ^ table[0, value & np.uint64(0xFF)]
        table[row] = value
    return table


def _zeros_table(table: np.ndarray, size: int) -> np.ndarray:
    """Return a table (4 x 256) that advances a CRC by `size` zero bytes (a power of two), per byte of the CRC."""
    shift: np.ndarray = np.zeros((4, 256), dtype=np.uint64)
    for row in range(4):
        shift[row] = np.arange(256, dtype=np.uint64) << np.uint64(8 * row)
    shift = (shift >> np.uint64(8)) ^ table[0, shift & np.uint64(0xFF)]
    for _ in range(size.bit_length() - 1):
        shift = (
            shift[0, shift & np.uint64(0xFF)]
            ^ shift[1, (shift >> np.uint64(8)) & np.uint64(0xFF)]
            ^ shift[2, (shift >> np.uint64(16)) & np.uint64(0xFF)]
            ^ shift[3, shift >> np.uint64(24)]
        )
    return shift


_CRC32_TABLE = _table(_CRC32_POLYNOMIAL)
_CRC32C_TABLE = _table(_CRC32C_POLYNOMIAL)


def _sliced(table):
    @kernel
    def checksum(buffer, start, end):
        crc = np.uint64(0xFFFFFFFF)
        here = start
        while here + 8 <= end:
            word = load_u64_le(buffer, here) ^ crc
            crc = (
                table[7, word & 0xFF]
                ^ table[6, (word >> 8) & 0xFF]
                ^ table[5, (word >> 16) & 0xFF]
                ^ table[4, (word >> 24) & 0xFF]
                ^ table[3, (word >> 32) & 0xFF]
                ^ table[2, (word >> 40) & 0xFF]
                ^ table[1, (word >> 48) & 0xFF]
                ^ table[0, (word >> 56) & 0xFF]
            )
            here += 8
        while here < end:
            crc = (crc >> np.uint64(8)) ^ table[0, (crc ^ np.uint64(buffer[here])) & np.uint64(0xFF)]
            here += 1
        return np.int64(crc ^ np.uint64(0xFFFFFFFF))

    return checksum


crc32 = _sliced(_CRC32_TABLE)
"""Return the CRC-32 (IEEE) of buffer[start:end]."""


if crc_functions() is None:
    crc32c = _sliced(_CRC32C_TABLE)
else:
    _crc_word, _crc_byte = _crc_step(CRC_WORD), _crc_step(CRC_BYTE)

    LANE_BYTES = 512
    """Size of a lane. The instruction takes three cycles and can start each cycle, so three lanes run in parallel."""
    _LANE_ZEROS = _zeros_table(_CRC32C_TABLE, LANE_BYTES)

    @kernel
    def _behind_lane(crc):
        return (
            _LANE_ZEROS[0, crc & np.uint64(0xFF)]
            ^ _LANE_ZEROS[1, (crc >> np.uint64(8)) & np.uint64(0xFF)]
            ^ _LANE_ZEROS[2, (crc >> np.uint64(16)) & np.uint64(0xFF)]
            ^ _LANE_ZEROS[3, crc >> np.uint64(24)]
        )

    @kernel
    def crc32c(buffer, start, end):
        """Return the CRC-32C of buffer[start:end], computed with the processor's instruction."""
        crc = np.uint64(0xFFFFFFFF)
        here = start
        while here + 3 * LANE_BYTES <= end:
            second = np.uint64(0)
            third = np.uint64(0)
            for at in range(here, here + LANE_BYTES, 8):
                crc = _crc_word(crc, load_u64_le(buffer, at))
                second = _crc_word(second, load_u64_le(buffer, at + LANE_BYTES))
                third = _crc_word(third, load_u64_le(buffer, at + 2 * LANE_BYTES))
            crc = _behind_lane(_behind_lane(crc) ^ second) ^ third
            here += 3 * LANE_BYTES
        while here + 8 <= end:
            crc = _crc_word(crc, load_u64_le(buffer, here))
            here += 8
        while here < end:
            crc = _crc_byte(crc, np.uint64(buffer[here]))
            here += 1
        return np.int64(crc ^ np.uint64(0xFFFFFFFF))
