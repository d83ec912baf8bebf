"""Compile kernels with Numba to machine code that `native` loads, without Numba's reference counting of arrays."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from numba import njit, types
from numba.core import compiler, config
from numba.core.options import DefaultOptions

from kafkalog_cli.format.kernels.native import BOOLEAN, CALLED_BY_LLVM, INTEGER, MachineCode

_OPTIONS: dict[str, Any] = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
if hasattr(DefaultOptions, "_nrt"):
    # Atomic reference counts of the arrays that kernels pass to each other would take two thirds of the time.
    _OPTIONS["_nrt"] = False

kernel: Any = njit(**_OPTIONS)
"""A function that allocates nothing and that other kernels call."""
inlined: Any = njit(**_OPTIONS, forceinline=True)
"""A function of a few instructions, which is inlined into its callers."""

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
"""Bytes that a kernel reads. The array may be writable."""
OUT = types.Array(types.uint8, 1, "C")
NUMBERS = types.Array(types.int64, 1, "C")
MATRIX = types.Array(types.int64, 2, "C")
COLUMNS = types.Array(types.int64, 2, "A")
"""A matrix, or some columns of a matrix."""


class Declared(NamedTuple):
    """A kernel that Python calls, and the types of its arguments."""

    dispatcher: Any
    arguments: tuple[types.Type, ...]


ENTRIES: dict[str, Declared] = {}
"""The kernels that Python calls, by `module:function`. Only imported modules are included."""


def entry(*arguments: types.Type) -> Any:
    """Declare a kernel that Python calls with arguments of these types. It is compiled when it is first needed."""

    def declared(function: Any) -> Any:
        dispatcher = kernel(function)
        ENTRIES[f"{function.__module__}:{function.__name__}"] = Declared(dispatcher, arguments)
        return dispatcher

    return declared


@contextmanager
def _less_inlining() -> Iterator[None]:
    """Use LLVM's level 2: with level 3, kernels are as fast, but up to twice as large and twice as slow to compile."""
    settings: Any = config
    former = settings.OPT
    settings.OPT = type(former)(2)
    try:
        yield
    finally:
        settings.OPT = former


def compile_entry(name: str) -> MachineCode:
    """Compile a kernel of an imported module."""
    dispatcher, arguments = ENTRIES[name]
    flags: Any = compiler.Flags()
    dispatcher.targetdescr.options.parse_as_flags(flags, dispatcher.targetoptions)
    with _less_inlining():
        compiled: Any = compiler.compile_extra(
            dispatcher.typingctx, dispatcher.targetctx, dispatcher.py_func, arguments, None, flags, {}
        )
    given = compiled.signature.return_type
    results = [given] if isinstance(given, (types.Number, types.Boolean)) else list(given)
    if not all(isinstance(result, (types.Integer, types.Boolean)) for result in results):
        raise TypeError(f"{name} gives {given}")
    symbol = compiled.fndesc.llvm_func_name
    module = llvm.parse_bitcode(compiled.library._final_module.as_bitcode())
    for function in module.functions:
        if not function.is_declaration:
            # Kernels that different processes compiled are loaded together: only their entries may share names.
            function.linkage = "external" if function.name == symbol else "internal"
        elif not (function.name in CALLED_BY_LLVM or function.name.startswith("llvm.")):
            raise ValueError(f"{name} needs {function.name}")
    code = compiled.library.codegen._tm.emit_object(module)
    return MachineCode(name, symbol, "".join(_codes(compiled.signature.args)), len(results), code)


def _codes(arguments: Any) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, types.Array):
            yield str(argument.ndim)
        elif isinstance(argument, types.Boolean):
            yield BOOLEAN
        elif isinstance(argument, types.Integer):
            yield INTEGER
        else:
            yield from _codes(tuple(argument))  # TypeError if it is not a tuple
