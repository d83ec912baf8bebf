"""Tables: aligned plain text in a pipe, a table of rich on a terminal; times and names as text."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kafkalog_cli.errors import counted
from kafkalog_cli.ops import option_values
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import ResultStream, columns_of, has_styles, printable, terminal_columns

if TYPE_CHECKING:
    from kafkalog_cli.log.settings.topic_config import Setting

NOTHING = "-"
"""The cell of a missing value."""

_GAP = "  "
_LEAST_COLUMNS = 8
"""The columns of the terminal that a broken column has at least, if there are as many."""
_MOST_TERMINAL_ROWS = 5000
"""Rows of the largest table that rich lays out, with some kilobytes for each cell."""


class Column(NamedTuple):
    """A column of a table: its title, and what returns the value of a row.

    A terminal that is too narrow leaves out the highest `rank` first, and rank 0 never. `is_count`: a terminal shows
    the column only if a row has a count other than 0.
    """

    title: str
    of: Callable[[Any], object]
    rank: int = 0
    is_number: bool = False
    is_count: bool = False


NumberColumn = partial(Column, is_number=True)
CountColumn = partial(Column, is_number=True, is_count=True)


def write_table(out: ResultStream, columns: Sequence[Column], rows: Collection[Any]) -> None:
    """Write a table: all of it in a pipe, on a terminal only the columns that have values and fit.

    A last line on the terminal counts columns that do not fit. A very long table is written there as in a pipe.
    """
    if not out.is_terminal or len(rows) > _MOST_TERMINAL_ROWS:
        for line in table_lines(columns, rows):
            out.write(line)
        return
    width, cells = terminal_columns(), _cells(columns, rows)
    kept = _with_values(columns, cells)
    shown = _columns_that_fit(columns, kept, cells, width)
    out.write(_rich([columns[at] for at in shown], [[row[at] for at in shown] for row in cells], width))
    if len(shown) < len(kept):
        left_out = len(kept) - len(shown)
        verb = "does" if left_out == 1 else "do"
        out.write(f"{counted(left_out, 'column')} {verb} not fit: add `| cat` to print all\n")


def table_lines(columns: Sequence[Column], rows: Collection[Any]) -> Iterator[str]:
    """Return the lines of a table as in a pipe, with line ends."""
    cells = _cells(columns, rows)
    widths = _widths(columns, cells)
    for row in chain([[column.title for column in columns]], cells):
        padded = (
            _padded(text, width, at_left=column.is_number)
            for column, text, width in zip(columns, row, widths, strict=True)
        )
        yield _GAP.join(padded).rstrip() + "\n"


def _cells(columns: Sequence[Column], rows: Iterable[Any]) -> list[list[str]]:
    getters = [column.of for column in columns]
    return [[cell(of(row)) for of in getters] for row in rows]


def cell(value: object) -> str:
    """Return a value as a cell, None as `-`."""
    return NOTHING if value is None else printable(str(value))


def number_of(values: Sized | None) -> int | None:
    """Return the number of values; None if they are not known."""
    return None if values is None else len(values)


def iso_time(timestamp_ms: int | None) -> str:
    """Return epoch ms as ISO 8601 in UTC; the number itself before 1970 and after the year 9999; None as `-`."""
    if timestamp_ms is None:
        return NOTHING
    return option_values.iso_time(timestamp_ms)


def time_span(milliseconds: int) -> str:
    """Return a time span in the largest unit that it is a multiple of, such as 36 hours; 1 day is 24 hours."""
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("s", 1000)):
        if milliseconds % size == 0 and milliseconds // size > 1:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


_BARS = " ▁▂▃▄▅▆▇█"


def bars_text(counts: Sequence[int]) -> str:
    """Return a bar for each count; the highest is full, and 0 is a blank."""
    most = max(1, *counts)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in counts)


def setting_words(setting: Setting) -> str:
    """Return a setting and its source, with a time span in ms or a size in bytes also in a larger unit."""
    value, larger = setting.value, ""
    if isinstance(value, int) and setting.name.endswith(".ms") and value > _MS_PER_S:
        larger = time_span(value)
    elif isinstance(value, int) and setting.name.endswith(".bytes") and value > _BYTES_PER_KIB:
        larger = sized(value)
    words = printable(setting.explanation)
    return f"setting {words.replace(' (', f' ({larger}; ', 1) if larger else words}"


_MS_PER_S, _BYTES_PER_KIB = 1000, 1024


def _padded(text: str, width: int, *, at_left: bool) -> str:
    blanks = " " * (width - columns_of(text))
    return f"{blanks}{text}" if at_left else f"{text}{blanks}"


def _widths(columns: Sequence[Column], cells: Iterable[Sequence[str]]) -> list[int]:
    widths = [columns_of(column.title) for column in columns]
    for row in cells:
        widths = [max(width, columns_of(text)) for width, text in zip(widths, row, strict=True)]
    return widths


def _with_values(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns without those that are empty in every row; columns of rank 0 always stay."""
    kept = []
    for index, column in enumerate(columns):
        empty = (NOTHING, "0") if column.is_count else (NOTHING,)
        if not column.rank or any(row[index] not in empty for row in cells):
            kept.append(index)
    return kept


def _columns_that_fit(
    columns: Sequence[Column], kept: list[int], cells: Iterable[Sequence[str]], width: int
) -> list[int]:
    """Return the columns that fit; without a column that may be left out, more than fit."""
    widths, shown = _widths(columns, cells), [*kept]
    while len(shown) > 1 and sum(widths[i] + len(_GAP) for i in shown) - len(_GAP) > width:
        last = max(shown, key=lambda i: (columns[i].rank, i))
        if not columns[last].rank:
            break
        shown.remove(last)
    return shown


def _columns_to_break(widths: Sequence[int], width: int) -> set[int]:
    """Return the columns that are broken into lines: the widest column, and more if it alone would become too narrow.

    A table that is wider than the terminal would lose characters.
    """
    order = sorted(range(len(widths)), key=lambda at: -widths[at])
    for count in range(1, len(order)):
        whole = sum(widths[at] for at in order[count:])
        if whole + len(_GAP) * (len(order) - 1) + _LEAST_COLUMNS * count <= width:
            return set(order[:count])
    return set(order)


def _rich(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> str:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold cyan")
    widths = _widths(columns, cells)
    broken = _columns_to_break(widths, width)
    for at, column in enumerate(columns):
        is_whole = at not in broken
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        grid.add_column(
            Text(column.title), justify=justify, overflow="fold", min_width=widths[at] if is_whole else None,
            no_wrap=is_whole,
        )  # fmt: skip
    for row in cells:
        grid.add_row(*(Text(text, style="dim" if text == NOTHING else "") for text in row))
    text = io.StringIO()
    Console(file=text, force_terminal=has_styles(), width=width).print(grid)
    return text.getvalue()
