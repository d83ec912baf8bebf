"""Compiled kernels as machine code. llvmlite loads it without Numba, whose import takes longer than most dumps."""

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any, Protocol
from zlib import crc32

from kafkalog_cli.format.kernels.assembling import BOOLEAN, INTEGER, KernelCode
from kafkalog_cli.format.surroundings import without_variables

_HEAD = "kafkalog machine code 3"
_MOST_DIMENSIONS = 2
_SETTINGS_FILE = "_config_fname"
"""The variable of Numba with the name of a file of settings in the working directory."""

DECODE_BATCHES = "kafkalog_cli.format.kernels.compiled_records:decode_batches"
DECODE_PART = "kafkalog_cli.format.kernels.compiled_records:decode_part"
ENCODE_BATCHES = "kafkalog_cli.format.kernels.compiled_encode:encode_batches"
FINISH_BATCHES = "kafkalog_cli.format.kernels.compiled_encode:finish_batches"
READ_LINES = "kafkalog_cli.format.kernels.compiled_ndjson:read_lines"
JOIN_COLUMNS = "kafkalog_cli.format.kernels.fields:join_columns"
PUT_KEYS = "kafkalog_cli.format.kernels.compiled_keys:put_keys"
MARK_KEYS = "kafkalog_cli.format.kernels.compiled_keys:mark_keys"
FILL_SLOTS = "kafkalog_cli.format.kernels.compiled_keys:fill_slots"
COPY_FIELDS = "kafkalog_cli.format.kernels.fields:copy_fields"
HEADER_BYTES = "kafkalog_cli.format.kernels.fields:header_bytes"
COPY_HEADERS = "kafkalog_cli.format.kernels.fields:copy_headers"


class CodeStore(Protocol):
    """Keeps machine code from one process to the next."""

    def load(self, name: str) -> bytes | None:
        """Return what was saved for the kernel `name`; None if there is nothing."""

    def save(self, name: str, data: bytes) -> None:
        """Keep the data for the kernel `name` if possible."""


class _Nowhere:
    """Keeps nothing."""

    def load(self, name: str) -> bytes | None:
        del name
        return None

    def save(self, name: str, data: bytes) -> None:
        del name, data


_store: CodeStore = _Nowhere()
_functions: dict[str, Callable[..., Any]] = {}
_loading = RLock()
"""An engine accepts a symbol once, and threads may ask for a kernel at the same time."""


def keep_in(store: CodeStore) -> None:
    """Load machine code from this store, and save there what is compiled."""
    global _store  # noqa: PLW0603  (a process has one store)
    _store = store


def function(name: str) -> Callable[..., Any]:
    """Return the kernel `module:function`, from the store or compiled now, which takes 1 to 10 seconds.

    Raises ImportError if it is not in the store and Numba is not installed.
    """
    found = _functions.get(name)
    if found is None:
        with _loading:
            found = _functions.get(name)
            if found is None:
                code = machine_code(name)
                found = _functions[name] = _callable(code, _address(code))
    return found


def is_loaded(name: str) -> bool:
    """Whether this process has loaded the kernel."""
    return name in _functions


def names_in(modules: Iterable[str]) -> list[str]:
    """Return the names of the kernels in these modules, which are imported, with Numba."""
    with by_our_settings():
        for module in modules:
            importlib.import_module(module)
    from kafkalog_cli.format.kernels.compiling import ENTRIES

    return list(ENTRIES)


def machine_code(name: str) -> KernelCode:
    """Return the machine code of a kernel, from the store or made now. Raises as `function` does."""
    found = unpack(_store.load(name), name)
    if found is not None:
        return found
    from kafkalog_cli.format.kernels.assembling import UnusableBitcode, assembled

    bitcode = bitcode_of(name)
    try:
        code = assembled(bitcode.code)
    except UnusableBitcode:
        bitcode = bitcode_of(name)
        code = assembled(bitcode.code)
    found = bitcode._replace(code=code)
    _store.save(name, pack(found))
    return found


def bitcode_of(name: str) -> KernelCode:
    """Compile a kernel with Numba. Raises as `function` does."""
    with by_our_settings():
        importlib.import_module(name.partition(":")[0])
        from kafkalog_cli.format.kernels import compiling

        return compiling.bitcode_of(name)


@contextmanager
def by_our_settings() -> Iterator[None]:
    """Make Numba ignore the user's NUMBA_… variables: they are for other programs, and some disable compilation.

    Numba reads them when it is imported, and again before it compiles. The same holds for `.numba_config.yaml` in the
    working directory, which may be a log directory that belongs to another user.
    """
    is_loaded = "numba" in sys.modules
    # Numba cannot change the number of threads once they run.
    keep = frozenset({"NUMBA_NUM_THREADS"}) if is_loaded else frozenset()
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


def processor() -> str:
    """Return this machine's triple, processor and features in LLVM's words: machine code fits only these."""
    import llvmlite.binding as llvm

    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def pack(kernel: KernelCode) -> bytes:
    """Return the kernel as a file: a line of JSON, then the code."""
    import json

    return json.dumps([_HEAD, crc32(kernel.code), *kernel[:-1]]).encode() + b"\n" + kernel.code


def unpack(data: bytes | None, name: str) -> KernelCode | None:
    """Return the kernel of a file that `pack` made; None if it is damaged, as a crash may leave it, or another."""
    if data is None:
        return None
    import json

    line, _, code = data.partition(b"\n")
    try:
        head, checksum, named, symbol, arguments, results = json.loads(line)
    except (ValueError, TypeError):
        return None
    if (head, checksum, named) != (_HEAD, crc32(code), name):
        return None
    return KernelCode(name, symbol, arguments, results, code)


def _address(kernel: KernelCode) -> int:
    import llvmlite.binding as llvm

    engine = _engine()
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(kernel.code))
    engine.finalize_object()
    return int(engine.get_function_address(kernel.symbol))


@cache
def _engine() -> Any:
    """Return the engine, which owns the memory of the code and never frees it.

    There is one engine for all kernels, because each engine makes its own tables.
    """
    import ctypes

    import llvmlite.binding as llvm

    from kafkalog_cli.format.kernels.assembling import CALLED_BY_LLVM

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    process = ctypes.CDLL(None)
    for name in CALLED_BY_LLVM:
        llvm.add_symbol(name, ctypes.cast(getattr(process, name), ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _callable(kernel: KernelCode, address: int) -> Callable[..., Any]:
    """Return a Python function for the code at `address`, which follows Numba's calling convention.

    The convention is status(results*, error*, arguments…); an array is passed as the parts of its structure.
    """
    import ctypes

    pointer, word = ctypes.c_void_p, ctypes.c_int64
    parts: dict[str, list[Any]] = {INTEGER: [word], BOOLEAN: [ctypes.c_uint8]}
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
