"""Writes docs/schemas from the declarations of JSON objects; `--check` only prints old files. The site shows a page.

The declarations are the TypedDicts in kafkalog_cli/output; see `kafkalog_cli/output/ndjson.py`.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from kafkalog_cli import output
from kafkalog_cli.output.ndjson import MAY_BE_ABSENT, BytesObject, Keywords, ObjectKind, PathText

ROOT = Path(__file__).resolve().parent.parent
BASE64 = {"type": "string", "contentEncoding": "base64", "description": "the bytes; only if they are not UTF-8"}
TYPES = {
    str: "string",
    PathText: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
}
LINE, MOST_WORDS = 120, 12

HEADER = """\
# JSON output

Written by `docs/generate_schemas.py` from the declarations in `kafkalog_cli/output`: change the
declarations, not this page.

With `--format json`, each line on stdout is one object, and the last line is a [summary](#kafkalogsummary1). Warnings,
errors and progress are objects on stderr. `schema` is the name of an object's schema with its version, and `type` is
the same name without the version. JSON Schemas (2020-12) are in docs/schemas of the repository.

Fields named `…_ms` are milliseconds, and times are counted from 1970. Some paths, topics and file names are not UTF-8.
They have replacement characters, and a further field `…_b64` has their bytes in base64.

"""


def kinds() -> list[ObjectKind[Any]]:
    """Return all kinds of objects, by name."""
    found = {}
    for path in sorted(Path(output.__path__[0]).glob("*.py")):
        if "ObjectKind(" in path.read_text(encoding="utf-8"):
            module = importlib.import_module(f"kafkalog_cli.output.{path.stem}")
            found.update({kind.name: kind for kind in vars(module).values() if isinstance(kind, ObjectKind)})
    return [found[name] for name in sorted(found)]


def schema(kind: ObjectKind[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a kind."""
    body = of_object(kind.record)
    constants = {"schema": {"const": kind.name}, "type": {"const": kind.type}}
    more: dict[str, Any] = {"additionalProperties": True} if kind.is_open else {}
    if kind.other is not None:
        other = of_object(kind.other)
        body["properties"] |= other["properties"]
        more["oneOf"] = [{"required": part["required"]} for part in (body, other)]
        body["required"] = []
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": kind.name,
        "title": body["description"],
        "type": "object",
        "required": [*constants, *body["required"]],
        "properties": constants | body["properties"],
        **more,
    }


def of_object(record: type) -> dict[str, Any]:
    """Return the schema of a TypedDict."""
    properties, required = {}, []
    for name, hint in get_type_hints(record, include_extras=True).items():
        properties[name] = of_type(hint)
        if MAY_BE_ABSENT not in notes_of(hint):
            required.append(name)
        if PathText in plain_types(hint):
            properties[f"{name}_b64"] = BASE64
    return {"type": "object", "description": sentence(record), "required": required, "properties": properties}


def of_type(hint: Any) -> dict[str, Any]:
    """Return the schema of a field's type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        found = of_type(parts[0])
        for note in parts[1:]:
            found |= of_note(note)
        return found
    if origin in (Union, UnionType):
        return of_union([of_type(part) for part in parts if part is not type(None)], has_null=type(None) in parts)
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": [*parts]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hint is bytes or is_typeddict(hint):
        return of_object(BytesObject if hint is bytes else hint)
    if hint is Any:
        return {}
    found = {"type": TYPES[origin or hint]}
    if origin in (list, tuple):
        found["items"] = of_type(parts[0])
    if origin is dict and parts[1] is not Any:
        found["additionalProperties"] = of_type(parts[1])
    return found


def of_note(note: Any) -> dict[str, Any]:
    """Return the keywords of a note in a field's `Annotated`: its meaning, or others that narrow the type."""
    if isinstance(note, Keywords):
        return dict(map(keyword, note.items))
    return {"description": note} if isinstance(note, str) else {}


def of_union(found: list[dict[str, Any]], *, has_null: bool) -> dict[str, Any]:
    """Return the schema of a value that has one of the schemas `found`, or is null."""
    if {"type"} == set().union(*found):
        return {"type": [*(one["type"] for one in found), *(["null"] if has_null else [])]}
    if len(found) > 1 or not has_null:
        return {"oneOf": [*([{"type": "null"}] if has_null else []), *found]}
    if "enum" in found[0]:
        found[0]["enum"] = [*found[0]["enum"], None]
    if "type" in found[0]:
        found[0]["type"] = [found[0]["type"], "null"]
    return found[0]


def keyword(item: tuple[str, Any]) -> tuple[str, Any]:
    """Return a keyword of JSON Schema with its value; an enum stands for the schema of its words."""
    name, value = item
    if isinstance(value, type) and issubclass(value, Enum):
        return name, of_type(value)
    return name, [*value] if isinstance(value, tuple) else value


def notes_of(hint: Any) -> tuple[Any, ...]:
    """Return the notes in a field's `Annotated`."""
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def plain_types(hint: Any) -> set[Any]:
    """Return the types that a field may have, without notes; not those of items in lists."""
    if get_origin(hint) is Annotated:
        return plain_types(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return set().union(*map(plain_types, get_args(hint)))
    return {hint}


def sentence(record: type) -> str:
    """Return the docstring of a TypedDict in one line, without the last full stop."""
    return " ".join((record.__doc__ or "").split()).removesuffix(".")


def pretty(value: Any, indent: int = 0) -> str:
    """Return JSON in which a value is on one line if it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent < LINE or not isinstance(value, (dict, list)):
        return line
    space = " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{space}{json.dumps(name)}: {pretty(item, indent + 2)}" for name, item in value.items()]
    else:
        items = [space + pretty(item, indent + 2) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(items) + f"\n{' ' * indent}{closing}"


def page(found: list[ObjectKind[Any]]) -> str:
    """Return the page of the site: each object with its fields, then the parts of objects."""
    parts: dict[str, type] = {}
    sections = []
    for kind in found:
        tables = [table(kind.record, parts)]
        if kind.other is not None:
            tables.append(f"Or: {sentence(kind.other)}.\n\n{table(kind.other, parts)}")
        further = "\nMore fields, with counts, depend on the command.\n" if kind.is_open else ""
        sections.append(f"## {kind.name}\n\n{sentence(kind.record)}.\n\n" + "\n".join(tables) + further)
    described: dict[str, str] = {}
    while waiting := parts.keys() - described.keys():
        described |= {
            name: f"### {name}\n\n{sentence(parts[name])}.\n\n{table(parts[name], parts)}" for name in sorted(waiting)
        }
    of_parts = [described[name] for name in sorted(described)]
    return HEADER + "\n".join([*sections, "## Parts of objects\n", *of_parts])


def table(record: type, parts: dict[str, type]) -> str:
    """Return the fields of a TypedDict as a table; records inside it are added to `parts`."""
    rows = ["| Field | Type | Meaning |\n|---|---|---|\n"]
    for name, hint in get_type_hints(record, include_extras=True).items():
        texts = [note for note in notes_of(hint) if isinstance(note, str)]
        meaning = texts[-1] if texts else ""
        if MAY_BE_ABSENT in notes_of(hint):
            meaning = f"{meaning} (not always present)".strip()
        rows.append(f"| `{name}` | {joined(words(hint, parts))} | {meaning} |\n")
    return "".join(rows)


def words(hint: Any, parts: dict[str, type]) -> Iterator[str]:
    """Yield the types of a field in words."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        enum = next((dict(note.items)["enum"] for note in args[1:] if is_enum(note)), None)
        yield from words(args[0], parts) if enum is None else quoted(enum)
    elif origin in (Union, UnionType):
        for arg in args:
            yield from words(arg, parts)
    elif origin is Literal:
        yield from quoted(args)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        yield from quoted([member.value for member in hint])
    elif is_typeddict(hint):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", hint.__name__.removesuffix("Object")).capitalize()
        parts[name] = hint
        yield f"[{name.lower()}](#{name.lower().replace(' ', '-')})"
    elif origin in (list, tuple):
        yield f"array of {joined(words(args[0], parts))}"
    elif hint in (bytes, type(None)):
        yield "bytes" if hint is bytes else "null"
    else:
        yield TYPES[origin or hint]


def joined(types: Iterator[str]) -> str:
    """Return types as `a, b or c`."""
    *first, last = types
    return f"{', '.join(first)} or {last}" if first else last


def is_enum(note: Any) -> bool:
    """Whether a note has the values of a field."""
    return isinstance(note, Keywords) and "enum" in dict(note.items)


def quoted(values: Any) -> list[str]:
    """Return each value as code; long lists are in the schema."""
    return [f"`{json.dumps(value)}`" for value in values] if len(values) <= MOST_WORDS else ["string"]


def files() -> Mapping[Path, str]:
    """Return every generated file and its text."""
    return {Path(f"docs/schemas/{kind.name.replace('/', '-')}.json"): pretty(schema(kind)) + "\n" for kind in kinds()}


def main() -> int:
    """Write the files, or with --check compare them; 1 if one is out of date."""
    made = files()
    stale = [
        str(path) for path, text in made.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text
    ]
    old = [path for path in sorted((ROOT / "docs/schemas").iterdir()) if path.relative_to(ROOT) not in made]
    print(*stale, *old, sep="\n")
    if "--check" in sys.argv:
        return 1 if stale or old else 0
    for path in old:
        path.unlink()
    for path, text in made.items():
        (ROOT / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
