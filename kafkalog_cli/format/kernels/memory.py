"""Machine instructions for writing, as Numba intrinsics: copies, and big-endian numbers."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


def pointer_to(context, builder, array_type, array, index):
    """Return the address of an array element, for use in an intrinsic."""
    data = make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _copy(typing, out, at, source, start, size):
    signature = types.void(out, types.int64, source, types.int64, types.int64)

    def generate(context, builder, sig, args):
        to = pointer_to(context, builder, sig.args[0], args[0], args[1])
        origin = pointer_to(context, builder, sig.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, to, origin, args[4], 1)
        return context.get_dummy_value()

    return signature, generate


def _store_be(width: int):
    def store(typing, out, at, value):
        signature = types.void(out, types.int64, types.int64)

        def generate(context, builder, sig, args):
            word = ir.IntType(width)
            value = args[2] if width == 64 else builder.trunc(args[2], word)
            pointer = builder.bitcast(pointer_to(context, builder, sig.args[0], args[0], args[1]), word.as_pointer())
            stored = builder.store(builder.bswap(value), pointer)
            stored.align = 1
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(store)


def _prefetch(typing, array, index):
    signature = types.void(array, types.int64)

    def generate(context, builder, sig, args):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        pointer = builder.bitcast(pointer_to(context, builder, sig.args[0], args[0], args[1]), byte)
        declared = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(declared, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return signature, generate


copy: Any = intrinsic(_copy)
"""Copy `size` bytes of one uint8 array to another that does not overlap it; no bounds check."""
prefetch: Any = intrinsic(_prefetch)
"""Prefetch the element at an index into the cache. It has no other effect, so any index is allowed."""
store_i64_be: Any = _store_be(64)
"""Store eight bytes at an index of a uint8 array, big-endian; no bounds check."""
store_i32_be: Any = _store_be(32)
"""Store the lowest four bytes of a number, big-endian; no bounds check."""
store_i16_be: Any = _store_be(16)
"""Store the lowest two bytes of a number, big-endian; no bounds check."""
