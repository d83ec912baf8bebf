"""Columns of integers: views of the matrices that the library of C kernels fills, and questions about many rows.

The library finds extremes, bits, order and gaps. Conditions on a few rows are asked in Python, because NumPy's import
takes longer than a dump of a small log, and those on many rows with NumPy, over the same memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kafkalog_cli.format import native

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

    Integers: TypeAlias = NDArray[np.int64]
    Flags: TypeAlias = NDArray[np.bool_]
    Octets: TypeAlias = NDArray[np.uint8]
    Checksums: TypeAlias = NDArray[np.uint32]
    Hashes: TypeAlias = NDArray[np.uint64]
    Rows: TypeAlias = NDArray[np.intp]
    IntColumn: TypeAlias = memoryview[int]
else:
    Integers = Flags = Octets = Checksums = Hashes = Rows = Any
    IntColumn = memoryview

_ROWS_AT_ONCE = 1024
"""Rows that become Python integers at once: few enough for the cache of the processor."""


def column_of(values: Iterable[int]) -> IntColumn:
    """Return a column with these 64-bit integers."""
    return memoryview(array("q", values))


class Column:
    """Gives a class of matrices the name of a column."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __get__(self, matrix: Matrix, owner: type[Matrix]) -> IntColumn:
        """Return the view of the column."""
        return matrix.column(self._number)


class Matrix:
    """Rows of 64-bit integers: column c of row r is at [c * stride + first + r] of `data`."""

    __slots__ = ("_first", "_rows", "_stride", "data")
    names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, data: bytearray | memoryview, stride: int, rows: int, first: int = 0) -> None:
        view = memoryview(data)
        self.data: IntColumn = view.cast("q") if view.itemsize == 1 else view
        self._stride = stride
        self._first = first
        self._rows = rows

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[int, ...]]) -> Self:
        """Return the matrix of `rows`, each in the order of `names`."""
        return cls.from_columns([*zip(*rows, strict=True)] or [()] * len(cls.names))

    @classmethod
    def from_columns(cls, columns: Sequence[Iterable[int]]) -> Self:
        """Return a copy of columns, in the order of `names`."""
        data = array("q")
        for column in columns:
            data.extend(column)
        rows = len(data) // len(cls.names)
        return cls(memoryview(data), rows, rows)

    @classmethod
    def from_array(cls, matrix: Integers) -> Self:
        """Return the matrix of an array with a row for each of `names`, over its memory if that is contiguous."""
        columns = matrix if matrix.flags.c_contiguous else matrix.copy()
        return cls(memoryview(columns.reshape(-1).data), columns.shape[1], columns.shape[1])

    def __len__(self) -> int:
        return self._rows

    @property
    def address_rows(self) -> tuple[int, int]:
        """The integers before the first row, and between the columns."""
        return self._first, self._stride

    def column(self, number: int) -> IntColumn:
        """Return the view of a column."""
        start = number * self._stride + self._first
        return self.data[start : start + self._rows]

    def columns(self) -> list[IntColumn]:
        """Return the views of all columns, in the order of `names`."""
        return [self.column(number) for number in range(len(self.names))]

    def values(self, row: int) -> Iterator[int]:
        """Return one row, counted from the end if it is negative."""
        row += self._first if row >= 0 else self._first + self._rows
        return iter(self.data[row :: self._stride]) if self._stride else iter(())

    def tuples(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, ...]]:
        """Iterate over the rows `first` to `end` (exclusive) as tuples of Python integers."""
        stop = self._rows if end is None else min(end, self._rows)
        for begin in range(first, stop, _ROWS_AT_ONCE):
            part = self.part(begin, min(begin + _ROWS_AT_ONCE, stop))
            yield from zip(*(column.tolist() for column in part.columns()), strict=True)

    def part(self, first: int, end: int) -> Self:
        """Return the view of the rows `first` to `end` (exclusive)."""
        first, end, _ = slice(first, end).indices(self._rows)
        if end - first == self._rows:
            return self
        return type(self)(self.data, self._stride, max(0, end - first), self._first + first)

    def select(self, rows: Sequence[int] | Integers) -> Self:
        """Return a copy of the given rows."""
        if not isinstance(rows, (list, tuple, range)) or is_many(len(rows)):
            return self.from_array(self.array()[:, rows])
        return self.from_columns([[column[row] for row in rows] for column in self.columns()])

    def replace(self, **columns: Iterable[int]) -> Self:
        """Return a copy with other values in some columns."""
        return self.from_columns([columns.get(name, old) for name, old in zip(self.names, self.columns(), strict=True)])

    def array(self) -> Integers:
        """Return all columns as an array over the same memory, with a row for each column."""
        import numpy as np

        whole = np.frombuffer(self.data, np.int64)[: len(self.names) * self._stride]
        return whole.reshape(len(self.names), self._stride)[:, self._first : self._first + self._rows]

    def arrays(self) -> Arrays:
        """Return the columns as arrays over the same memory."""
        return Arrays(self.names, self.array())


class Arrays:
    """The columns of a matrix as NumPy arrays, by their names."""

    __slots__ = ("_names", "matrix")

    def __init__(self, names: tuple[str, ...], matrix: Integers) -> None:
        self._names = names
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[1])

    def __getattr__(self, name: str) -> Integers:
        column: Integers = self.matrix[self._names.index(name)]
        return column

    def select(self, rows: Rows | Flags) -> Arrays:
        """Return a copy of the given rows."""
        return Arrays(self._names, self.matrix[:, rows])


# ---- questions about columns

Condition = Callable[..., "Flags"]
"""A question about a row, asked of whole arrays or of one row's integers: one argument a column.

It combines comparisons by `&` and `|`, which mean the same for arrays and for single answers; `~`, `and`, `or` do not.
"""

_FEW_ROWS = 32
_ROWS_WITHOUT_NUMPY = 200_000
"""Rows that are asked in the time of NumPy's import."""
_rows_asked = 0


def is_many(rows: int) -> bool:
    """Whether a question about so many rows is asked with NumPy: few rows never are, nor the first without NumPy."""
    global _rows_asked  # noqa: PLW0603 - how much a process has asked
    _rows_asked += rows
    return rows > _FEW_ROWS and _rows_asked > _ROWS_WITHOUT_NUMPY


def rows_where(condition: Condition, *columns: IntColumn) -> list[int]:
    """Return the rows of columns for which the condition holds, in ascending order."""
    if is_many(len(columns[0])):
        rows: list[int] = condition(*map(as_array, columns)).nonzero()[0].tolist()
        return rows
    return [row for row, holds in enumerate(map(condition, *columns)) if holds]


def any_row(condition: Condition, *columns: IntColumn) -> bool:
    """Whether the condition holds for any row of the columns."""
    if is_many(len(columns[0])):
        return bool(condition(*map(as_array, columns)).any())
    return any(map(condition, *columns))


def as_array(column: IntColumn) -> Integers:
    """Return a column as an array over the same memory."""
    global _rows_asked  # noqa: PLW0603 - NumPy is imported from here on
    import numpy as np

    _rows_asked = max(_rows_asked, _ROWS_WITHOUT_NUMPY)
    return np.frombuffer(column, np.int64)


def all_set(column: IntColumn) -> bool:
    """Whether no integer of a column is 0."""
    if not len(column):
        return True
    least, largest, *_ = native.extremes(column)
    return least > 0 or largest < 0 or all(column)


def any_bit(mask: int, column: IntColumn) -> bool:
    """Whether an integer of a column has a bit of `mask`."""
    return len(column) > 0 and native.extremes(column)[3] & mask != 0


def rows_before_gaps(firsts: IntColumn, lasts: IntColumn) -> list[int]:
    """Return the rows whose last offset is not directly followed by the first offset of the next row."""
    return native.gaps(lasts[:-1], firsts[1:])


def least_and_largest(column: IntColumn) -> tuple[int, int]:
    """Return the extremes of a column that is not empty."""
    return native.extremes(column)[:2]


def rows_in_order(column: IntColumn) -> IntColumn:
    """Return the rows of a column by their integers; equal ones stay in their order."""
    if is_many(len(column)):
        return as_array(column).argsort(kind="stable").data
    return column_of(sorted(range(len(column)), key=column.__getitem__))


def ascends(column: IntColumn) -> bool:
    """Whether each integer of a column is larger than the integer before it."""
    return not len(column) or native.extremes(column)[2] > 0
