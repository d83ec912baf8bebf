"""Makes the page of the site on on-disk layouts: a table for every Layout constant in kafkalog_cli.format."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
from pathlib import Path
from typing import NamedTuple

import kafkalog_cli.format as format_package
from kafkalog_cli.format.layout import Layout

HEADER = """\
# On-disk layouts

The fixed structures in Kafka's files, from the tables in `kafkalog_cli/format` that the readers and writers
use. Everything is big-endian; offsets and sizes are in bytes. Under each heading stands the class of Apache
Kafka that the table mirrors.
"""

TYPES = {
    "b": "int8",
    "B": "uint8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "q": "int64",
    "Q": "uint64",
}


class Section(NamedTuple):
    """A module that defines layouts: its name, the first line of its docstring, its Layout constants in order."""

    module: str
    summary: str
    layouts: tuple[Layout, ...]


def sections() -> list[Section]:
    """Every module of the package with Layout constants, by name. Imports no module without one."""
    found = []
    for info in pkgutil.walk_packages(format_package.__path__, format_package.__name__ + "."):
        spec = importlib.util.find_spec(info.name)
        names = layout_names(Path(spec.origin).read_text(encoding="utf-8")) if spec and spec.origin else []
        if names:
            module = importlib.import_module(info.name)
            layouts = tuple(getattr(module, name) for name in names)
            module_name = info.name.removeprefix(format_package.__name__ + ".")
            found.append(Section(module_name, (module.__doc__ or "").strip().splitlines()[0], layouts))
    return sorted(found)


def layout_names(source: str) -> list[str]:
    """The names that a module binds to `Layout(...)` itself, not those that it imports."""
    names = []
    for statement in ast.parse(source).body:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Layout":
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def table(layout: Layout) -> str:
    """One structure as a heading and a table."""
    lines = [f"### {layout.name}", "", f"`{layout.kafka_class}`, {layout.size} bytes", ""]
    lines += ["| Offset | Bytes | Type | Field | Meaning |", "|---|---|---|---|---|"]
    for (offset, size, name, meaning), field in zip(layout.rows(), layout.fields, strict=True):
        lines.append(f"| {offset} | {size} | {TYPES[field.code]} | {name} | {escaped(meaning)} |")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """`text` for a cell of a table."""
    return text.replace("|", "\\|")


def render() -> str:
    """The whole page."""
    parts = [HEADER]
    for section in sections():
        parts.append(f"## `{section.module}`\n\n{section.summary}\n")
        parts.extend(table(layout) + "\n" for layout in section.layouts)
    return "\n".join(parts)
