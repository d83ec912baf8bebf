"""Numba intrinsics for rendering: copy blocks of bytes, and mark the bytes of a block that are in a range."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from functools import reduce
from itertools import starmap
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kafkalog_cli.format.kernels.compiling import inlined
from kafkalog_cli.format.kernels.memory import copy, pointer_to

BLOCK_BYTES = 64
"""The step of the widest vector units (with a bit per byte, it fills a word); a narrower unit takes several steps."""


def _block(context, builder, array_type, array, index):
    """Return a pointer to BLOCK_BYTES of an array."""
    pointer = pointer_to(context, builder, array_type, array, index)
    return builder.bitcast(pointer, ir.VectorType(ir.IntType(8), BLOCK_BYTES).as_pointer())


def _copy_block(typing, out, at, source, start):
    signature = types.void(out, types.int64, source, types.int64)

    def generate(context, builder, sig, args):
        block = builder.load(_block(context, builder, sig.args[2], args[2], args[3]))
        block.align = 1
        store = builder.store(block, _block(context, builder, sig.args[0], args[0], args[1]))
        store.align = 1
        return context.get_dummy_value()

    return signature, generate


def _store_u64_le(typing, out, at, value):
    signature = types.void(out, types.int64, types.uint64)

    def generate(context, builder, sig, args):
        pointer = pointer_to(context, builder, sig.args[0], args[0], args[1])
        store = builder.store(args[2], builder.bitcast(pointer, ir.IntType(64).as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return signature, generate


def _marks(typing, buffer, start, bounds):
    signature = types.uint64(buffer, types.int64, bounds)

    def generate(context, builder, sig, args):
        block = builder.load(_block(context, builder, sig.args[0], args[0], args[1]))
        block.align = 1

        def every(value):
            vector = ir.Constant(block.type, None)
            byte = builder.trunc(value, ir.IntType(8))
            vector = builder.insert_element(vector, byte, ir.Constant(ir.IntType(32), 0))
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK_BYTES), None)
            return builder.shuffle_vector(vector, vector, lanes)

        def between(low, high):
            # As unsigned numbers, values below `low` wrap around to the top.
            above_low = builder.sub(block, every(low))
            return builder.icmp_unsigned("<=", above_low, every(builder.sub(high, low)))

        ends = cgutils.unpack_tuple(builder, args[2], len(sig.args[2]))
        # Combined as vectors: converting a vector to a word costs more than a comparison.
        found = reduce(builder.or_, starmap(between, zip(ends[::2], ends[1::2], strict=True)))
        return builder.bitcast(found, ir.IntType(BLOCK_BYTES))

    return signature, generate


def _first_mark(typing, marks):
    signature = types.int64(types.uint64)

    def generate(context, builder, sig, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return signature, generate


copy_block: Any = intrinsic(_copy_block)
"""Copy BLOCK_BYTES from one uint8 array to another; no bounds check. It is cheaper than `copy` with a variable size."""
store_u64_le: Any = intrinsic(_store_u64_le)
"""Store eight bytes at an index of a uint8 array, lowest byte first (all machines that Numba supports do this)."""
marks: Any = intrinsic(_marks)
"""Mark the bytes of a block that are in one of the ranges: a bit per byte, the lowest bit for the first byte.

The block has BLOCK_BYTES from `start` on; `bounds` has the first and last number of each range, one range after
another.
"""
first_mark: Any = intrinsic(_first_mark)
"""Return the index of the lowest bit that is set; the marks must not be 0."""


@inlined
def put_blocks(out, at, source, begin, end):
    """Append source[begin:end] in blocks; return the next position. Loads and stores up to a block after the end."""
    for here in range(begin, end, BLOCK_BYTES):
        copy_block(out, at + here - begin, source, here)
    return at + end - begin


@inlined
def put(out, at, text):
    """Append a constant; return the next position."""
    copy(out, at, text, 0, len(text))
    return at + len(text)
