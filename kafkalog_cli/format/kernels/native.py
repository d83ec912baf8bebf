"""Compiled kernels as machine code. llvmlite loads it without Numba, whose import takes longer than most dumps."""

from __future__ import annotations

import importlib
import sys
import warnings
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
_SETTINGS_FILE = "_config_fname"
"""The variable of Numba with the name of a file of settings in the working directory."""
_CALLED_BY_LLVM = ("memcpy", "memmove", "memset")
"""The only functions that a kernel may call. LLVM silently uses address 0 for a function that it cannot find."""


class MachineCode(NamedTuple):
    """The machine code of one kernel, `module:function`.

    `arguments` has one character per argument: a digit is an array with that number of dimensions, `i` an integer, `b`
    a boolean. `results` is the number of integers returned.
    """

    name: str
    symbol: str
    arguments: str
    results: int
    code: bytes


_machine_code: dict[str, MachineCode] = {}
_addresses: dict[str, int] = {}
_loading = Lock()
"""An engine accepts a symbol once, and threads may ask for a kernel at the same time."""


@cache
def function(name: str) -> Callable[..., Any]:
    """Return the kernel `module:function`: its machine code if available, else compiled by Numba.

    Raises ImportError if neither is available.
    """
    found = _machine_code.get(name)
    if found is not None:
        return _callable(found, _address(found))
    module, _, attribute = name.partition(":")
    with by_our_settings():
        compiled: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return compiled


@contextmanager
def by_our_settings() -> Iterator[None]:
    """Make Numba ignore the user's NUMBA_… variables: they are for other programs, and some disable compilation.

    Numba reads them when it is imported, and again before it compiles. The same holds for `.numba_config.yaml` in the
    working directory, which may be a log directory that belongs to another user.
    """
    is_loaded = "numba" in sys.modules
    keep = _KEPT | {"NUMBA_NUM_THREADS"} if is_loaded else _KEPT  # Numba cannot change it once its threads run
    try:
        with without_variables("NUMBA_", keep=keep), _without_file_of_settings(is_loaded=is_loaded):
            if is_loaded:
                _reload_settings()
            yield
    finally:
        if is_loaded:
            _reload_settings()


@contextmanager
def _without_file_of_settings(*, is_loaded: bool) -> Iterator[None]:
    """Make Numba ignore the file of settings in the working directory; Numba has no option for that.

    If Numba is imported inside the context, it ignores the file until the process ends.
    """
    if is_loaded:
        former = _name_file_of_settings("")
        try:
            yield
        finally:
            _name_file_of_settings(former)
        return
    missing = object()
    yaml: Any = sys.modules.get("yaml", missing)
    modules: dict[str, Any] = sys.modules
    modules["yaml"] = None  # Numba's import of yaml fails, and it only warns about the file
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="A Numba config file is found")
            yield
    finally:
        del modules["yaml"]
        if yaml is not missing:
            modules["yaml"] = yaml
        if "numba" in modules:
            _name_file_of_settings("")


def _name_file_of_settings(name: str) -> str:
    """Set the name of Numba's file of settings ("": none) and return the former name."""
    config: Any = importlib.import_module("numba.core.config")
    former: str = getattr(config, _SETTINGS_FILE, "")
    setattr(config, _SETTINGS_FILE, name)
    return former


def _reload_settings() -> None:
    from numba.core import config

    config.reload_config()  # type: ignore[no-untyped-call]


def use(kernels: list[MachineCode]) -> None:
    """Register these kernels. `function` returns them, except where it has already returned Numba's."""
    _machine_code.update((kernel.name, kernel) for kernel in kernels)


def processor() -> str:
    """Return this machine's triple, processor and features in LLVM's words: machine code fits only these."""
    import llvmlite.binding as llvm

    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def pack(kernels: list[MachineCode], made_for: list[str]) -> bytes:
    """Return the kernels as one file: a line of JSON, then the code.

    `made_for` describes the environment, which must be the same where the file is unpacked.
    """
    import json

    heads = [[*kernel[:-1], len(kernel.code)] for kernel in kernels]
    code = b"".join(kernel.code for kernel in kernels)
    return json.dumps([_HEAD, made_for, crc32(code), heads]).encode() + b"\n" + code


def unpack(data: bytes, made_for: list[str]) -> list[MachineCode]:
    """Return the kernels of a file that `pack` made; an empty list if it is damaged or made for another environment."""
    import json

    line, _, rest = data.partition(b"\n")
    try:
        head, same, checksum, heads = json.loads(line)
    except (ValueError, TypeError):
        return []
    # A file that a crash left incomplete must not be run.
    if head != _HEAD or same != made_for or crc32(rest) != checksum:
        return []
    found, here = [], 0
    for name, symbol, arguments, results, size in heads:
        found.append(MachineCode(name, symbol, arguments, results, rest[here : here + size]))
        here += size
    return found


def export() -> list[MachineCode]:
    """Return the machine code of every entry of the imported modules; empty if this version of Numba cannot give it."""
    from kafkalog_cli.format.kernels.compiling import ENTRIES

    try:
        return [_exported(name, dispatcher) for name, dispatcher in ENTRIES.items()]
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
        return []


def _exported(name: str, dispatcher: Any) -> MachineCode:
    """Compile an entry again, without the wrapper that unpacks Python objects and calls back into Numba."""
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
            yield from _codes(tuple(argument))  # TypeError if it is not a tuple


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
    """Return the engine, which owns the memory of the code and never frees it.

    There is one engine for all kernels, because each engine makes its own tables.
    """
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
    """Return a Python function for the code at `address`, which follows Numba's calling convention.

    The convention is status(results*, error*, arguments…); an array is passed as the parts of its structure.
    """
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
