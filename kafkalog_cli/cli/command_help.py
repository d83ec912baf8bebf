"""The help of kafkalog and of its commands: plain text of at most 80 columns, of what typer knows of a command.

Typer's own help would break `--dry-run` at its hyphen, and read `[a-z]` as markup.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from kafkalog_cli.errors import ExitCode

_COLUMNS = 80
_ARGUMENTS, _OPTIONS = "Arguments", "Options"
_LAST_PANELS = ("Selection", "Output", "Safety", "Settings", "Time and load", "Limits", "Spark")
"""The panels of options that several commands have. The options of daily use stand before them."""


def panels(params: Iterable[Any]) -> dict[str, list[tuple[str, str]]]:
    """Return the names and texts of parameters by the titles of their panels, in the order of the help."""
    rows: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], _OPTIONS: []}
    for param in params:
        title = _ARGUMENTS if param.param_type_name == "argument" else param.rich_help_panel or _OPTIONS
        rows.setdefault(title, []).append(_row(param))
    titles = sorted(rows, key=lambda title: _LAST_PANELS.index(title) + 1 if title in _LAST_PANELS else 0)
    return {title: rows[title] for title in titles if rows[title]}


def _row(param: Any) -> tuple[str, str]:
    if param.param_type_name == "argument":
        return param.metavar.strip("[]"), param.help
    names = ", ".join((*sorted(param.opts, key=len), *param.secondary_opts))
    if param.is_flag:
        return names, param.help
    default = param.default.value if isinstance(param.default, Enum) else param.default
    default_text = f" [default: {default}]" if default and param.show_default else ""
    return f"{names} {param.metavar}", f"{param.help}{default_text}"


def help_text(  # noqa: PLR0913, PLR0917
    usage: str,
    description: str,
    rows: Mapping[str, Sequence[tuple[str, str]]],
    examples: Mapping[str, str],
    exit_codes: Mapping[ExitCode, str],
    widest_names: int = 24,
) -> str:
    """Return the help. `rows` has names and texts below their titles; longer names have a line of their own."""
    width = min(shutil.get_terminal_size().columns or _COLUMNS, _COLUMNS)
    summary, *paragraphs = paragraphs_of(description)
    blocks = [_fill(summary, width), _fill(f"Usage: {usage}", width, "       ")]
    blocks += [_fill(paragraph, width) for paragraph in paragraphs]
    blocks.append("\n".join(["Examples:", *(line for item in examples.items() for line in _example(*item, width))]))
    if exit_codes:
        rows = {**rows, "Exit codes": [(str(int(code)), f"{meaning}.") for code, meaning in exit_codes.items()]}
    names = [name for group in rows.values() for name, _ in group]
    column = max(len(name) for name in names if len(name) <= widest_names) + 4
    for title, group in rows.items():
        blocks.append("\n".join([f"{title}:", *(_entry(name, text, column, width) for name, text in group)]))
    return "\n\n".join(blocks)


def paragraphs_of(docstring: str) -> list[str]:
    """Return the paragraphs of a docstring without its line breaks."""
    return [" ".join(paragraph.split()) for paragraph in docstring.split("\n\n")]


def _fill(text: str, width: int, indent: str = "", first: str = "") -> str:
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _entry(name: str, text: str, column: int, width: int) -> str:
    indent = " " * column
    if len(name) + 4 > column:
        return f"  {name}\n{_fill(text, width, indent, indent)}"
    return _fill(text, width, indent, f"  {name}".ljust(column))


def _example(purpose: str, command: str, width: int) -> Iterator[str]:
    """Yield the lines of an example, which can be pasted: a line that goes on ends with a backslash."""
    yield _fill(f"{purpose}:", width, "    ", "  ")
    line = "   "
    for word in re.split(r" (?=--|\| )", command):
        if len(line) + len(word) + 3 > width:
            yield f"{line} \\"
            line = "     "
        line += f" {word}"
    yield line
