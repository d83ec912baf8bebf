"""Columns of integers, and questions about them that have the same answer for both bodies of a column.

A column is a sequence of plain Python integers if a plain kernel made it, and an array if a compiled kernel did.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import lt
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Integers: TypeAlias = NDArray[np.int64]
    Flags: TypeAlias = NDArray[np.bool_]
    Octets: TypeAlias = NDArray[np.uint8]
    Checksums: TypeAlias = NDArray[np.uint32]
    Hashes: TypeAlias = NDArray[np.uint64]
    Rows: TypeAlias = NDArray[np.intp]
else:  # importing NumPy takes longer than a dump of a small file
    Integers = Flags = Octets = Checksums = Hashes = Rows = Any


class IntColumn(Protocol):
    """A column of integers: a tuple, an array.array, a memoryview of 64-bit integers or a numpy array."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, row: int, /) -> int: ...
    @overload
    def __getitem__(self, rows: slice, /) -> IntColumn: ...
    def __iter__(self) -> Iterator[int]: ...


Condition = Callable[..., "Flags"]
"""A question about a row, asked of whole arrays or of one row's integers: one argument a column.

It combines comparisons by `&` and `|`, which mean the same for arrays and for single answers; `~`, `and`, `or` do not.
"""


def is_array(column: IntColumn) -> bool:
    """Whether the column is a numpy array."""
    return hasattr(column, "dtype")


def integers(column: IntColumn) -> Sequence[int]:
    """Return a column as plain Python integers."""
    return cast("Integers", column).tolist() if hasattr(column, "tolist") else cast("Sequence[int]", column)


MANY_ROWS = 50_000
"""Length of a column from which arrays pay off. The log of such an index needs NumPy anyway."""


def as_array(column: array[int]) -> IntColumn:
    """Return a long column of 64-bit integers as a numpy array of the same memory, and a short column as it is."""
    if len(column) < MANY_ROWS:
        return column
    import numpy as np

    return np.frombuffer(column, np.int64)


def rows_where(condition: Condition, *columns: IntColumn) -> list[int]:
    """Return the rows of columns for which the condition holds, in ascending order."""
    if is_array(columns[0]):
        rows: list[int] = condition(*columns).nonzero()[0].tolist()
        return rows
    return [row for row, values in enumerate(zip(*columns, strict=True)) if condition(*values)]


def any_row(condition: Condition, *columns: IntColumn) -> bool:
    """Whether the condition holds for any row of the columns."""
    if is_array(columns[0]):
        return bool(condition(*columns).any())
    return any(condition(*values) for values in zip(*columns, strict=True))


def all_set(column: IntColumn) -> bool:
    """Whether no integer of a column is 0."""
    return bool(cast("Integers", column).all()) if is_array(column) else all(column)


def least_and_largest(column: IntColumn) -> tuple[int, int]:
    """Return the extremes of a column that is not empty."""
    if is_array(column):
        array = cast("Integers", column)
        return int(array.min()), int(array.max())
    return min(column), max(column)


def first_row_from(value: int, column: IntColumn) -> int:
    """Return the first row with at least `value` in a column that ascends; the number of rows if there is none."""
    if is_array(column):
        return int(cast("Integers", column).searchsorted(value))
    return bisect_left(column, value)


def ascends(column: IntColumn) -> bool:
    """Whether each integer of a column is larger than the integer before it."""
    if is_array(column):
        array = cast("Integers", column)
        return bool((array[1:] > array[:-1]).all())
    values = cast("Sequence[int]", column)
    return all(map(lt, values, values[1:]))


def reduced(column: IntColumn, by: int) -> IntColumn:
    """Return a column with `by` subtracted from each integer."""
    return cast("Integers", column) - by if is_array(column) else tuple(value - by for value in column)
