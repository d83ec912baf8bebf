"""Finds the texts of messages in the source: the calls that make them, and every text that an argument can have.

A value that is known only at run time stands in capitals: `f"{path}: no {what}"` is `PATH: no WHAT`. A part of a text
that is there in some cases only stands in square brackets.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_TEXTS = 4
"""Parts with more combinations than that are shown as alternatives in one text."""
DEEPEST = 4
"""How many names and functions are followed, one from the other."""
VALUES = frozenset({"shell_word", "as_typed", "iso_time", "spelled", "printable", "counted", "size_text", "quote"})
"""Functions that print a value: the value is named, not the function's text."""
SAME = frozenset({"str", "repr", "sorted", "max", "min", "strip", "rstrip", "removeprefix", "partition", "rpartition"})


class Module:
    """One source file."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.tree = ast.parse(source)
        self.functions: dict[str, list[Function]] = {}
        """The functions and methods by name."""
        self.calls: list[tuple[ast.Call, Function | None]] = []
        """The calls in the order of the source, each with the function that it stands in."""
        self._note(self.tree, None)
        self.calls.sort(key=lambda found: (found[0].lineno, found[0].col_offset))
        self.subject = (ast.get_docstring(self.tree) or name).partition("\n")[0].rstrip(".")

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """The values of names at the top level."""
        found = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                found[node.target.id] = node.value
        return found

    def _note(self, node: ast.AST, function: Function | None) -> None:
        """Note the calls and functions below a node of `function`, and tell each node its parent and place."""
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                child.parent, child.place = node, (id(node), field)  # type: ignore[attr-defined]
                if isinstance(child, ast.Call):
                    self.calls.append((child, function))
                is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
                if is_function:
                    self.functions.setdefault(child.name, []).append(child)
                self._note(child, child if is_function else function)


def called_name(call: ast.Call) -> str:
    """Return the last name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


class Texts:
    """The modules of a package, and the texts of their expressions."""

    def __init__(self, package: Path) -> None:
        names = sorted(package.rglob("*.py"))
        gc.disable()  # it would look at all nodes again and again, and none of them is garbage
        self.modules = [Module(str(path.relative_to(package)), path.read_text(encoding="utf-8")) for path in names]
        gc.enable()
        self._constants: dict[str, tuple[Module, ast.expr]] = {}
        self._functions: dict[str, tuple[Module, Function]] = {}
        several: set[str] = set()
        for module in self.modules:
            for name, value in module.constants.items():
                several.update({name} & self._constants.keys())
                self._constants[name] = module, value
            for name, functions in module.functions.items():
                several.update({name} & self._functions.keys() if len(functions) == 1 else {name})
                self._functions[name] = module, functions[0]
        for name in several:
            self._constants.pop(name, None)
            self._functions.pop(name, None)

    def of(self, value: ast.expr, module: Module, function: Function | None) -> list[str]:
        """Return the texts that `value`, an expression in `function`, can have."""
        return list(dict.fromkeys(self._of(value, module, function, DEEPEST)))

    def attributes(self, value: ast.expr, owner: str, function: Function | None) -> list[str]:
        """Return the members of the enumeration `owner` that `value` can be."""
        if isinstance(value, ast.Name) and function:
            found = _dominating([one for one in _assigned(value.id, function) if _reaches(one, value)], value)
            return [name for one in found for name in self.attributes(one.value, owner, None)]
        members = (one for one in ast.walk(value) if isinstance(one, ast.Attribute))
        return [one.attr for one in members if getattr(one.value, "id", "") == owner]

    def _of(self, value: ast.expr, module: Module, function: Function | None, depth: int) -> list[str]:
        match value:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.Constant(value=None):
                return []
            case ast.Name() if depth:
                return self._of_name(value, module, function, depth - 1) or [placeholder(value)]
            case ast.Call() if depth:
                return self._of_call(value, module, function, depth - 1) or [placeholder(value)]
        parts = _parts(value)
        texts = [self._of(part, module, function, depth) for part in parts or ()]
        if parts is None:
            return [placeholder(value)]
        if isinstance(value, (ast.JoinedStr, ast.BinOp)):
            return _joined(texts)
        return [text for found in texts for text in found]

    def _of_name(self, used: ast.Name, module: Module, function: Function | None, depth: int) -> list[str]:
        name = used.id
        if function:
            assigned = [one for one in _assigned(name, function) if _reaches(one, used)]
            known = _dominating(assigned, used)
            found = [
                text for one in known if _is_text(one.value) for text in self._of(one.value, module, function, depth)
            ]
            added = [text for one in _added(name, function, used) for text in self._of(one, module, function, depth)]
            if assigned:
                return [text + "".join(f"[{more}]" for more in dict.fromkeys(added) if more) for text in found]
            if name in {one.arg for one in [*function.args.args, *function.args.kwonlyargs]}:
                return []
        other, value = self._constants.get(name, (module, None))
        if name in module.constants:
            other, value = module, module.constants[name]
        return self._of(value, other, None, depth) if value is not None and _is_text(value) else []

    def _of_call(self, call: ast.Call, module: Module, function: Function | None, depth: int) -> list[str]:
        name = called_name(call)
        if name == "counted" and len(call.args) == 3:
            return [f"N {text}" for text in self._of(call.args[2], module, function, depth)]
        if name == "format" and isinstance(call.func, ast.Attribute):
            return self._of(call.func.value, module, function, depth)
        functions = module.functions.get(name, [])
        found = (module, functions[0]) if len(functions) == 1 else self._functions.get(name)
        if found is None or name in VALUES or not _returns_text(found[1]):
            return []
        returned = [one.value for one in ast.walk(found[1]) if isinstance(one, ast.Return) and one.value is not None]
        return [text for one in returned if _is_text(one) for text in self._of(one, *found, depth)]


def _returns_text(function: Function) -> bool:
    return function.returns is not None and ast.unparse(function.returns) in ("str", "str | None")


def _is_text(value: ast.expr) -> bool:
    """Return whether the value has words of its own, or is a name or a call that may have them."""
    literal = any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(value))
    return isinstance(value, (ast.Name, ast.Call)) or (
        literal and isinstance(value, (ast.Constant, ast.JoinedStr, ast.IfExp, ast.BinOp, ast.BoolOp))
    )


class Assignment(NamedTuple):
    """A value of a local name, and the statement that assigns it."""

    value: ast.expr
    statement: ast.AST


def _assigned(name: str, function: Function) -> list[Assignment]:
    """Return the values of a local name; of several names, assigned from a tuple, the value at the same place."""
    if not hasattr(function, "assigned"):
        function.assigned = _assignments(function)  # type: ignore[attr-defined]
    return function.assigned.get(name, [])


def _assignments(function: Function) -> dict[str, list[Assignment]]:
    """Return what `_assigned` does of all names, each in the order of the lines."""
    found: dict[str, list[Assignment]] = {}
    for node in ast.walk(function):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, (ast.NamedExpr, ast.AnnAssign)) and node.value is not None:
            pairs = [(node.target, node.value)]
        for target, value in pairs:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(Assignment(value, node))
            elif isinstance(target, ast.Tuple):
                names = [getattr(one, "id", "") for one in target.elts]
                for name in dict.fromkeys(names):
                    values = _at(value, names.index(name))
                    found.setdefault(name, []).extend(Assignment(one, node) for one in values)
    for assignments in found.values():
        assignments.sort(key=lambda one: one.statement.lineno)
    return found


def _at(value: ast.expr, place: int) -> list[ast.expr]:
    if isinstance(value, ast.IfExp):
        return [*_at(value.body, place), *_at(value.orelse, place)]
    return [value.elts[place] if isinstance(value, ast.Tuple) else value]


def _above(node: ast.AST) -> list[ast.AST]:
    found = [node]
    while hasattr(found[-1], "parent"):
        found.append(found[-1].parent)
    return found


def _reaches(assigned: Assignment, used: ast.AST) -> bool:
    """Return whether the assignment comes first, and no other branch or end of a block lies between."""
    if assigned.statement.lineno > used.lineno or any(one is assigned.value for one in _above(used)):
        return False
    mine = {id(one): one for one in _above(used)}
    below = assigned.statement
    for above in _above(assigned.statement)[1:]:
        if id(above) in mine:
            other = next(one for one in mine.values() if getattr(one, "parent", None) is above)
            is_branch = isinstance(above, (ast.If, ast.Try, ast.Match)) and below.place[1] in (
                "body",
                "orelse",
                "cases",
            )
            return not is_branch or other.place == below.place or other.place[1] not in ("body", "orelse", "cases")
        block = getattr(above, below.place[1], None) if hasattr(below, "place") else None
        if isinstance(block, list) and isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue)):
            return False
        below = above
    return True


def _dominating(assigned: Sequence[Assignment], used: ast.AST) -> list[Assignment]:
    """Return the last assignment that is always made before `used`, and the conditional assignments after it."""
    places = {one.place for one in _above(used) if hasattr(one, "place")}
    always = [
        number
        for number, one in enumerate(assigned)
        if any(above.place in places for above in _above(one.statement)[:2] if isinstance(above, ast.stmt))
    ]
    same = [number for number in always if assigned[number].statement is assigned[always[-1]].statement]
    return list(assigned[same[0] :]) if same else list(assigned)


def _added(name: str, function: Function, used: ast.AST) -> list[ast.expr]:
    found = (one for one in ast.walk(function) if isinstance(one, ast.AugAssign))
    return [one.value for one in found if getattr(one.target, "id", "") == name and one.lineno < used.lineno]


def _parts(value: ast.expr) -> list[ast.expr] | None:
    """Return the expressions that a text is made of, or that it is one of; None for a value."""
    match value:
        case ast.JoinedStr(values=parts):
            return parts
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [left, right]
        case ast.FormattedValue(value=part):
            return [part]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.BoolOp(op=ast.And(), values=parts):
            return [ast.Constant(""), parts[-1]]
        case ast.BoolOp(values=parts):
            return parts
    return None


def _joined(parts: Sequence[Sequence[str]]) -> list[str]:
    count = 1
    for texts in parts:
        count *= max(len(texts), 1)
    if count > MOST_TEXTS:  # what varies most is shown as alternatives in one text
        parts = [[_alternatives(texts)] for texts in parts]
    return ["".join(choice) for choice in product(*(texts or [""] for texts in parts))]


def _alternatives(texts: Sequence[str]) -> str:
    real = [text for text in dict.fromkeys(texts) if text]
    joined = real[0] if len(real) == 1 else f"({'|'.join(real)})" if real else ""
    return f"[{joined}]" if real and len(real) < len(set(texts)) else joined


def placeholder(value: ast.expr) -> str:
    """Return the word in capitals that stands for a value which is known at run time only."""
    match value:
        case ast.Name(id=name):
            return _capitals(name)
        case ast.Attribute(value=ast.Name(id=owner), attr="name" | "message" | "words" | "text" as attr):
            return _capitals(attr if owner in ("self", "error", "fault") else owner)
        case ast.Attribute(attr=attr):
            return _capitals(attr)
        case ast.Subscript(value=inner) | ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
            return placeholder(inner)
        case ast.Call():
            return _of_called(value)
        case ast.BinOp():
            return "N"
    return "…"


def _of_called(call: ast.Call) -> str:
    """Return the word for the result of a call: of its argument or object, if the function only changes its form."""
    match call:
        case ast.Call(func=ast.Name(id="len" | "sum")):
            return "N"
        case ast.Call(func=ast.Name(id=name), args=[one, *_]) if name in SAME | VALUES:
            return placeholder(one)
        case ast.Call(func=ast.Attribute(attr="join"), args=[one]):
            return placeholder(one)
        case ast.Call(func=ast.Name(id="map"), args=[_, one]):
            return placeholder(one)
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in SAME:
            return placeholder(inner)
    return _capitals(called_name(call))


def _capitals(name: str) -> str:
    return name.strip("_").upper().replace("_", "-") or "…"
