"""How kernels are compiled: by Numba, kept in its cache, without its counting of references to arrays."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.core.options import DefaultOptions

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
if hasattr(DefaultOptions, "_nrt"):
    # Numba would count references to the arrays that functions hand each other, atomically: two thirds of the time.
    _OPTIONS["_nrt"] = False

kernel: Any = njit(**_OPTIONS)
"""Compiles a function that allocates nothing."""
inlined: Any = njit(**_OPTIONS, forceinline=True)
"""The same for a function of a few instructions."""

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
"""Bytes that a kernel reads, writable or not."""
OUT = types.Array(types.uint8, 1, "C")
NUMBERS = types.Array(types.int64, 1, "C")
MATRIX = types.Array(types.int64, 2, "C")
COLUMNS = types.Array(types.int64, 2, "A")
"""A matrix, or columns of one."""


ENTRIES: dict[str, Any] = {}
"""What Python calls, by `module:function`, of the modules that are imported."""


def entry(*arguments: types.Type) -> Any:
    """Compiles, on import, what Python calls, for these types of arguments.

    Else every way in which arrays can lie in memory would be compiled anew when it first occurs.
    """

    def compiled(function: Any) -> Any:
        dispatcher = njit(arguments, **_OPTIONS)(function)
        ENTRIES[f"{function.__module__}:{function.__name__}"] = dispatcher
        return dispatcher

    return compiled
