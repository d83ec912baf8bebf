"""Compile kernels with Numba to machine code that `native` loads, without Numba's reference counting of arrays."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, NamedTuple

from numba import types
from numba.core import codegen, compiler, config
from numba.core.options import DefaultOptions
from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target

from kafkalog_cli.format.kernels.native import BOOLEAN, CALLED_BY_LLVM, INTEGER, MachineCode

_OPTIONS: dict[str, Any] = {"nopython": True, "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
if hasattr(DefaultOptions, "_nrt"):
    # Atomic reference counts of the arrays that kernels pass to each other would take two thirds of the time.
    _OPTIONS["_nrt"] = False


class _Library(codegen.JITCodeLibrary):
    """The code of a function as LLVM's assembly, neither optimized nor made into machine code.

    Numba would link, optimize and compile each function that a kernel calls, though only other kernels call it. Here
    the module of a kernel is linked from all of them, and optimized once.
    """

    def finalize(self) -> None:
        self._finalized = True

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def get_pointer_to_function(self, name: str) -> int:
        del name
        return 0

    def linked(self) -> Any:
        """Return a module with this function and all that it calls, directly or not."""
        module, waiting, seen = self._final_module.clone(), [*self._linking_libraries], set()
        while waiting:
            library = waiting.pop()
            if library not in seen:
                seen.add(library)
                module.link_in(library._get_module_for_linking(), preserve=True)
                waiting += library._linking_libraries if isinstance(library, _Library) else ()
        return module


class _Codegen(codegen.JITCPUCodegen):
    _library_class = _Library

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing: kernels have no Python objects, which an environment holds."""


class _Target(CPUTarget):
    """Numba's target for this processor, with code that `_Library` makes."""

    typing_context = cpu_target.typing_context

    @cached_property
    def target_context(self) -> Any:
        return cpu_target.target_context.subtarget(_internal_codegen=_Codegen("kafkalog"))


class _Dispatcher(CPUDispatcher):
    targetdescr = _Target("cpu")


def kernel(function: Any, **options: Any) -> Any:
    """Declare a function that allocates nothing and that other kernels call."""
    return _Dispatcher(py_func=function, targetoptions=_OPTIONS | options)


inlined: Any = partial(kernel, forceinline=True)
"""Declare a function of a few instructions, which is inlined into its callers."""

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
        code = _code(name, compiled.library, compiled.fndesc.llvm_func_name)
    given = compiled.signature.return_type
    results = [given] if isinstance(given, (types.Number, types.Boolean)) else list(given)
    if not all(isinstance(result, (types.Integer, types.Boolean)) for result in results):
        raise TypeError(f"{name} gives {given}")
    symbol = compiled.fndesc.llvm_func_name
    return MachineCode(name, symbol, "".join(_codes(compiled.signature.args)), len(results), code)


def _code(name: str, library: Any, symbol: str) -> bytes:
    """Return the machine code of the function `symbol` and of all that it calls."""
    module = library.linked()
    for function in module.functions:
        if not function.is_declaration:
            # Kernels that different processes compiled are loaded together: only their entries may share names.
            function.linkage = "external" if function.name == symbol else "internal"
    passes, builder = library.codegen._module_pass_manager()
    passes.run(module, builder)
    for function in module.functions:
        if function.is_declaration and not (function.name in CALLED_BY_LLVM or function.name.startswith("llvm.")):
            raise ValueError(f"{name} needs {function.name}")
    return bytes(library.codegen._tm.emit_object(module))


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
