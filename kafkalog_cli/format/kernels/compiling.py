"""Compile kernels with Numba: cached, and without Numba's reference counting of arrays."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.core.options import DefaultOptions

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
if hasattr(DefaultOptions, "_nrt"):
    # Atomic reference counts of the arrays that kernels pass to each other would take two thirds of the time.
    _OPTIONS["_nrt"] = False

kernel: Any = njit(**_OPTIONS)
"""Compile a function that allocates nothing."""
inlined: Any = njit(**_OPTIONS, forceinline=True)
"""Compile a function of a few instructions, which is inlined into its callers."""

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
"""Bytes that a kernel reads. The array may be writable."""
OUT = types.Array(types.uint8, 1, "C")
NUMBERS = types.Array(types.int64, 1, "C")
MATRIX = types.Array(types.int64, 2, "C")
COLUMNS = types.Array(types.int64, 2, "A")
"""A matrix, or some columns of a matrix."""


ENTRIES: dict[str, Any] = {}
"""The functions that Python calls, by `module:function`. Only imported modules are included."""


def entry(*arguments: types.Type) -> Any:
    """Compile a function that Python calls, on import, for these argument types.

    Without fixed types, Numba would compile it again for every new memory layout of an array.
    """

    def compiled(function: Any) -> Any:
        dispatcher = njit(arguments, **_OPTIONS)(function)
        ENTRIES[f"{function.__module__}:{function.__name__}"] = dispatcher
        return dispatcher

    return compiled
