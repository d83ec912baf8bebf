"""Tables: aligned plain text in a pipe, a table of rich on a terminal; times and names as text."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

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


class TextColumn(NamedTuple):
    """A column; a terminal that is too narrow leaves out the highest `rank` first, and rank 0 never.

    `is_count`: a terminal shows the column only if a row has a count other than 0.
    """

    title: str
    is_number: bool = False
    rank: int = 0
    is_count: bool = False


class TextTable(NamedTuple):
    """Rows of cells; cells have no raw control characters (see `printable`)."""

    columns: Sequence[TextColumn]
    rows: Collection[Sequence[str]]


def write_table(out: ResultStream, table: TextTable) -> None:
    """Write a table: all of it in a pipe, on a terminal only the columns that have values and fit.

    A last line on the terminal counts columns that do not fit. A very long table is written there as in a pipe.
    """
    if not out.is_terminal or len(table.rows) > _MOST_TERMINAL_ROWS:
        for line in plain_lines(table):
            out.write(line)
        return
    width = terminal_columns()
    shown, left_out = _fitting(_with_values(table), width)
    out.write(_rich(shown, width))
    if left_out:
        verb = "does" if len(left_out) == 1 else "do"
        out.write(f"{counted(len(left_out), 'column')} {verb} not fit: add `| cat` to print all\n")


def cell(value: object) -> str:
    """Return a value as a cell, None as `-`."""
    return NOTHING if value is None else printable(str(value))


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


def plain_lines(table: TextTable) -> Iterator[str]:
    """Return the lines of a table as in a pipe, with line ends."""
    widths = _widths(table)
    for row in chain([[column.title for column in table.columns]], table.rows):
        cells = (
            _padded(text, width, at_left=column.is_number)
            for column, text, width in zip(table.columns, row, widths, strict=True)
        )
        yield _GAP.join(cells).rstrip() + "\n"


def _padded(text: str, width: int, *, at_left: bool) -> str:
    blanks = " " * (width - columns_of(text))
    return f"{blanks}{text}" if at_left else f"{text}{blanks}"


def _widths(table: TextTable) -> list[int]:
    widths = [columns_of(column.title) for column in table.columns]
    for row in table.rows:
        widths = [max(width, columns_of(text)) for width, text in zip(widths, row, strict=True)]
    return widths


def _with_values(table: TextTable) -> TextTable:
    """Return the table without the columns that are empty in every row; columns of rank 0 always stay."""
    kept = []
    for index, column in enumerate(table.columns):
        empty = (NOTHING, "0") if column.is_count else (NOTHING,)
        if not column.rank or any(row[index] not in empty for row in table.rows):
            kept.append(index)
    return _only(table, kept)


def _fitting(table: TextTable, width: int) -> tuple[TextTable, list[str]]:
    widths = _widths(table)
    kept = list(range(len(table.columns)))
    left_out: list[int] = []
    while len(kept) > 1 and sum(widths[i] + len(_GAP) for i in kept) - len(_GAP) > width:
        last = max(kept, key=lambda i: (table.columns[i].rank, i))
        if not table.columns[last].rank:
            break
        kept.remove(last)
        left_out.append(last)
    return _only(table, kept), [table.columns[i].title for i in sorted(left_out)]


def _broken(widths: Sequence[int], width: int) -> set[int]:
    """Return the columns that are broken into lines: the widest column, and more if it alone would become too narrow.

    A table that is wider than the terminal would lose characters.
    """
    order = sorted(range(len(widths)), key=lambda at: -widths[at])
    for count in range(1, len(order)):
        whole = sum(widths[at] for at in order[count:])
        if whole + len(_GAP) * (len(order) - 1) + _LEAST_COLUMNS * count <= width:
            return set(order[:count])
    return set(order)


def _only(table: TextTable, kept: Sequence[int]) -> TextTable:
    return TextTable([table.columns[i] for i in kept], [[row[i] for i in kept] for row in table.rows])


def _rich(table: TextTable, width: int) -> str:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold cyan")
    widths = _widths(table)
    broken = _broken(widths, width)
    for at, column in enumerate(table.columns):
        is_whole = at not in broken
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        grid.add_column(
            Text(column.title), justify=justify, overflow="fold", min_width=widths[at] if is_whole else None,
            no_wrap=is_whole,
        )  # fmt: skip
    for row in table.rows:
        grid.add_row(*(Text(text, style="dim" if text == NOTHING else "") for text in row))
    text = io.StringIO()
    Console(file=text, force_terminal=has_styles(), width=width).print(grid)
    return text.getvalue()
