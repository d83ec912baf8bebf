"""The mutants of a source file: each changes one comparison or drops one `+ 1` or `- 1`."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

OTHER = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
"""Per comparison: the operator, and the operator of the mutant, which differs only where both sides are equal."""


@dataclass(frozen=True)
class Mutant:
    """One change in one line. `column` counts characters from 0; the operator `was` stands there."""

    path: str
    line: int
    column: int
    was: str
    now: str
    runs_at_import: bool
    """It stands in the body of a module or of a class: Python runs it once, before any test."""
    key: str
    """The name of the mutant in equivalent.txt. It holds no line number: an edit elsewhere in the file moves lines."""
    content: str
    """A digest of the function around it, or of its statement, without comments and docstring."""
    place: int
    """Its number among the mutants with the same content, from 0. Content and place name it in tried.txt."""

    def apply(self, source: str) -> str:
        """Return the source of the whole file with the change."""
        lines = source.splitlines(keepends=True)
        text = lines[self.line - 1]
        assert text.startswith(self.was, self.column), (self, text)
        lines[self.line - 1] = text[: self.column] + self.now + text[self.column + len(self.was) :]
        return "".join(lines)


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of its lines."""
    lines = source.splitlines()
    places = []
    for function, owner, node in _nodes_with_places(ast.parse(source), "", None):
        for line, begin, end, was, now in _operators(node):
            # The parser counts bytes; text counts characters.
            at = lines[line - 1].encode().find(was.encode(), begin, end)
            if at >= 0:
                column = len(lines[line - 1].encode()[:at].decode())
                runs_at_import = not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef)
                places.append((line, column, was, now, function, runs_at_import, _content(owner, lines)))
    found = []
    seen: Counter[str] = Counter()
    for line, column, was, now, function, runs_at_import, content in sorted(places):
        key = f"{path}: {function or 'module'}: {lines[line - 1].strip()}: {was.strip()} becomes {now or 'nothing'}"
        seen[key] += 1
        number = f" ({seen[key]})" if seen[key] > 1 else ""
        found.append(Mutant(path, line, column, was, now, runs_at_import, key + number, content, seen[content]))
        seen[content] += 1
    return found


def _nodes_with_places(node, around, owner):
    """Yield (dotted name of the function or class around it, outermost function or statement, node) of each node below."""
    for child in ast.iter_child_nodes(node):
        name, outermost = around, owner
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{around}.{child.name}".lstrip(".")
        if isinstance(child, ast.stmt) and not isinstance(child, ast.ClassDef):
            outermost = owner or child
        yield name, outermost, child
        yield from _nodes_with_places(child, name, outermost)


def _content(owner, lines) -> str:
    """Return the digest of the lines of a function or of a statement that are neither comments nor its docstring."""
    kept = dict(enumerate(lines[owner.lineno - 1 : owner.end_lineno], owner.lineno))
    for node in ast.walk(owner):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            for line in range(node.body[0].lineno, node.body[0].end_lineno + 1):
                del kept[line]
    text = "\n".join(line for line in kept.values() if not line.lstrip().startswith("#"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _operators(node):
    """Yield (line, first byte, end byte, operator, operator of the mutant) of each operator of a node."""
    if isinstance(node, ast.Compare):
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if type(operator) in OTHER and left.end_lineno == right.lineno:
                yield right.lineno, left.end_col_offset, right.col_offset, *OTHER[type(operator)]
            left = right
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        right = node.right
        if isinstance(right, ast.Constant) and right.value == 1 and node.left.end_lineno == right.lineno:
            sign = " + 1" if isinstance(node.op, ast.Add) else " - 1"
            yield right.lineno, node.left.end_col_offset, right.end_col_offset, sign, ""


def equivalent(listed: Path) -> dict[str, str]:
    """Return the reason per key of a list: a line with a key, then an indented line with the reason."""
    reasons: dict[str, str] = {}
    key = ""
    for line in listed.read_text().splitlines():
        if line.startswith(" "):
            reasons[key] = f"{reasons[key]} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            key = line
            reasons[key] = ""
    return reasons
