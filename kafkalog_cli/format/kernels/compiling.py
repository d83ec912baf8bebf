"""Compile kernels with Numba to LLVM's bitcode, without Numba's reference counting of arrays."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from numba import types
from numba.core import codegen, compiler
from numba.core.options import DefaultOptions
from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target

from kafkalog_cli.format.kernels.assembling import BOOLEAN, INTEGER, KernelCode, native_machine

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

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile a function once for all numbers of a type: Numba would do it again for each constant."""
        return super().get_call_template([types.unliteral(each) for each in args], kws)


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


def bitcode_of(name: str) -> KernelCode:
    """Compile a kernel of an imported module, with all that it calls."""
    dispatcher, arguments = ENTRIES[name]
    flags: Any = compiler.Flags()
    dispatcher.targetdescr.options.parse_as_flags(flags, dispatcher.targetoptions)
    compiled: Any = compiler.compile_extra(
        dispatcher.typingctx, dispatcher.targetctx, dispatcher.py_func, arguments, None, flags, {}
    )
    given = compiled.signature.return_type
    results = [given] if isinstance(given, (types.Number, types.Boolean)) else list(given)
    if not all(isinstance(result, (types.Integer, types.Boolean)) for result in results):
        raise TypeError(f"{name} gives {given}")
    symbol = compiled.fndesc.llvm_func_name
    module = compiled.library.linked()
    for function in module.functions:
        if not function.is_declaration:
            # Kernels that different processes compiled are loaded together: only their entries may share names.
            function.linkage = "external" if function.name == symbol else "internal"
    _simplify(module)
    return KernelCode(name, symbol, "".join(_codes(compiled.signature.args)), len(results), module.as_bitcode())


def _simplify(module: Any) -> None:
    """Remove what no processor needs, such as variables in memory: the module has a third of the size then."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(native_machine(), llvm.create_pipeline_tuning_options(0)))


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
