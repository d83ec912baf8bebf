"""Compiled kernels as machine code that llvmlite loads without Numba, whose import takes longer than most dumps."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, NamedTuple
from zlib import crc32

from kafkalog_cli.format.surroundings import without_variables

_HEAD = "kafkalog machine code 2"
_BOOLEAN, _INTEGER = "b", "i"
_MOST_DIMENSIONS = 2
_KEPT = frozenset({"NUMBA_CACHE_DIR"})
_CALLED_BY_LLVM = ("memcpy", "memmove", "memset")
"""All that a kernel may call; what LLVM finds no address for it takes to be at 0."""


class MachineCode(NamedTuple):
    """One kernel, `module:function`.

    `arguments`: a digit is an array of so many dimensions, `i` an integer, `b` a boolean; `results`: how many integers.
    """

    name: str
    symbol: str
    arguments: str
    results: int
    code: bytes


_machine_code: dict[str, MachineCode] = {}
_addresses: dict[str, int] = {}
_loading = Lock()
"""An engine takes a symbol once, and threads may ask for a kernel at the same time."""


@cache
def function(name: str) -> Callable[..., Any]:
    """The kernel `module:function`: machine code if there is any, else Numba's. Raises ImportError without both."""
    found = _machine_code.get(name)
    if found is not None:
        return _callable(found, _address(found))
    module, _, attribute = name.partition(":")
    with by_our_settings():
        compiled: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return compiled


@contextmanager
def by_our_settings() -> Iterator[None]:
    """Have Numba compile without the variables NUMBA_…: they are for other programs, and some switch it off.

    Numba reads them when it is imported, and again before it compiles.
    """
    is_loaded = "numba" in sys.modules
    keep = _KEPT | {"NUMBA_NUM_THREADS"} if is_loaded else _KEPT  # once its threads run, it refuses another number
    try:
        with without_variables("NUMBA_", keep=keep):
            if is_loaded:
                _reload_settings()
            yield
    finally:
        if is_loaded:
            _reload_settings()


def _reload_settings() -> None:
    from numba.core import config

    config.reload_config()  # type: ignore[no-untyped-call]


def use(kernels: list[MachineCode]) -> None:
    """Take these kernels wherever `function` has not given Numba's already."""
    _machine_code.update((kernel.name, kernel) for kernel in kernels)


def processor() -> str:
    """What machine code is good for: this processor, by LLVM's names."""
    import llvmlite.binding as llvm

    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def pack(kernels: list[MachineCode], made_for: list[str]) -> bytes:
    """One file: a line of JSON, then the code. `made_for`: what must be the same where it is unpacked."""
    import json

    heads = [[*kernel[:-1], len(kernel.code)] for kernel in kernels]
    code = b"".join(kernel.code for kernel in kernels)
    return json.dumps([_HEAD, made_for, crc32(code), heads]).encode() + b"\n" + code


def unpack(data: bytes, made_for: list[str]) -> list[MachineCode]:
    """What `pack` packed; nothing if it was made for something else, or is not whole."""
    import json

    line, _, rest = data.partition(b"\n")
    try:
        head, same, checksum, heads = json.loads(line)
    except (ValueError, TypeError):
        return []
    # What a crash left of the file must not be run.
    if head != _HEAD or same != made_for or crc32(rest) != checksum:
        return []
    found, here = [], 0
    for name, symbol, arguments, results, size in heads:
        found.append(MachineCode(name, symbol, arguments, results, rest[here : here + size]))
        here += size
    return found


def export() -> list[MachineCode]:
    """The machine code of every entry whose module is imported; empty if this version of Numba does not give it."""
    from kafkalog_cli.format.kernels.compiling import ENTRIES

    try:
        return [_exported(name, dispatcher) for name, dispatcher in ENTRIES.items()]
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
        return []


def _exported(name: str, dispatcher: Any) -> MachineCode:
    """Compile an entry once more, without the part that takes apart Python objects and calls back into Numba."""
    from numba import types
    from numba.core import compiler

    (known,) = dispatcher.overloads.values()
    flags: Any = compiler.Flags()  # type: ignore[no-untyped-call]
    dispatcher.targetdescr.options.parse_as_flags(flags, dispatcher.targetoptions)
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    compiled: Any = compiler.compile_extra(  # type: ignore[no-untyped-call]
        dispatcher.typingctx, dispatcher.targetctx, dispatcher.py_func, known.signature.args, None, flags, {}
    )
    library = compiled.library
    named = {function.name for function in library._final_module.functions if function.is_declaration}
    if not all(symbol in _CALLED_BY_LLVM or symbol.startswith("llvm.") for symbol in named):
        raise ValueError(f"{name} needs {named}")
    given = compiled.signature.return_type
    results = [given] if isinstance(given, (types.Number, types.Boolean)) else list(given)
    if not all(isinstance(result, (types.Integer, types.Boolean)) for result in results):
        raise TypeError(f"{name} gives {given}")
    code = bytes(library._get_compiled_object())
    arguments = "".join(_codes(compiled.signature.args))
    return MachineCode(name, compiled.fndesc.llvm_func_name, arguments, len(results), code)


def _codes(arguments: Any) -> Iterator[str]:
    from numba import types

    for argument in arguments:
        if isinstance(argument, types.Array):
            yield str(argument.ndim)
        elif isinstance(argument, types.Boolean):
            yield _BOOLEAN
        elif isinstance(argument, types.Integer):
            yield _INTEGER
        else:
            yield from _codes(tuple(argument))  # TypeError if it is no tuple


def _address(kernel: MachineCode) -> int:
    import llvmlite.binding as llvm

    with _loading:
        if kernel.symbol not in _addresses:
            engine = _engine()
            engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(kernel.code))
            engine.finalize_object()
            _addresses[kernel.symbol] = int(engine.get_function_address(kernel.symbol))
        return _addresses[kernel.symbol]


@cache
def _engine() -> Any:
    """What owns the memory of the code, which is never given back: one for all, as each makes tables of its own."""
    import ctypes

    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    process = ctypes.CDLL(None)
    for name in _CALLED_BY_LLVM:
        llvm.add_symbol(name, ctypes.cast(getattr(process, name), ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _callable(kernel: MachineCode, address: int) -> Callable[..., Any]:
    """By Numba's own convention: status(results*, error*, arguments…), an array as the parts of its structure."""
    import ctypes

    pointer, word = ctypes.c_void_p, ctypes.c_int64
    parts: dict[str, list[Any]] = {_INTEGER: [word], _BOOLEAN: [ctypes.c_uint8]}
    for dimensions in range(1, _MOST_DIMENSIONS + 1):
        parts[str(dimensions)] = [pointer, pointer, word, word, pointer, *[word] * (2 * dimensions)]
    types = [part for code in kernel.arguments for part in parts[code]]
    compiled = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *types)(address)
    result_type = word * kernel.results

    def call(*arguments: Any) -> Any:
        results, error = result_type(), pointer()
        flat: list[int | None] = []
        _flatten(arguments, flat)
        status = compiled(ctypes.addressof(results), ctypes.addressof(error), *flat)
        if status:
            raise RuntimeError(f"{kernel.name} failed with status {status}")
        return results[0] if kernel.results == 1 else tuple(results)

    return call


def _flatten(arguments: Any, flat: list[int | None]) -> None:
    for argument in arguments:
        if hasattr(argument, "strides"):
            address = argument.__array_interface__["data"][0]
            flat += (None, None, argument.size, argument.itemsize, address, *argument.shape, *argument.strides)
        elif isinstance(argument, tuple):
            _flatten(argument, flat)
        else:
            flat.append(int(argument))
