"""Writes docs/schemas from the declarations of results; `--check` only prints old files. The site shows a page.

The declarations are on the classes of the results; see `kafkalog_cli/results.py`.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import kafkalog_cli
from kafkalog_cli.output.ndjson import BytesObject
from kafkalog_cli.results import OPEN, RESULTS, Keywords, Mark, fields_of, is_result, split

ROOT = Path(__file__).resolve().parent.parent
BASE64 = {"type": "string", "contentEncoding": "base64", "description": "the bytes; only if they are not UTF-8"}
TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}
LINE, MOST_WORDS = 120, 12

HEADER = """\
# JSON output

Written by `docs/generate_schemas.py` from the declarations of results: change the declarations, not
this page.

With `--format json`, each line on stdout is one object, and the last line is a [summary](#kafkalogsummary1). Warnings,
errors and progress are objects on stderr. `schema` is the name of an object's schema with its version, and `type` is
the same name without the version. JSON Schemas (2020-12) are in docs/schemas of the repository.

Fields named `…_ms` are milliseconds, and times are counted from 1970. Some paths, topics and file names are not UTF-8.
They have replacement characters, and a further field `…_b64` has their bytes in base64.

"""


def kinds() -> dict[str, list[Any]]:
    """Return the results of each schema, by name."""
    for module in pkgutil.walk_packages(kafkalog_cli.__path__, "kafkalog_cli."):
        if module.name.startswith(("kafkalog_cli.ops", "kafkalog_cli.output")):
            importlib.import_module(module.name)
    return {name: RESULTS[name] for name in sorted(RESULTS)}


def schema(results: list[Any]) -> dict[str, Any]:
    """Return the JSON Schema of lines that are one of these results."""
    name = results[0].schema
    bodies = [of_object(result) for result in results]
    constants = {"schema": {"const": name.name}, "type": {"const": name.type}}
    more: dict[str, Any] = {"additionalProperties": True} if name.is_open else {}
    if len(bodies) > 1:
        more["oneOf"] = [{"required": body["required"]} for body in bodies]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": name.name,
        "title": bodies[0]["description"],
        "type": "object",
        "required": [*constants, *(bodies[0]["required"] if len(bodies) == 1 else ())],
        "properties": constants | {name: field for body in bodies for name, field in body["properties"].items()},
        **more,
    }


def of_object(record: type) -> dict[str, Any]:
    """Return the schema of a result."""
    properties, required = {}, []
    for field in fields_of(record):
        properties[field.name] = noted(of_type(field.type), field.notes)
        if not field.may_be_absent:
            required.append(field.name)
        if is_path(field.type, field.notes):
            properties[f"{field.name}_b64"] = BASE64
    return {"type": "object", "description": sentence(record), "required": required, "properties": properties}


def is_path(type_: Any, notes: Sequence[Any]) -> bool:
    """Whether a field is a path, or null."""
    parts = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    return Mark.PATH in notes or any(Mark.PATH in split(part)[1] for part in parts)


def noted(found: dict[str, Any], notes: Sequence[Any]) -> dict[str, Any]:
    """Return a schema with what the notes of a field add; one that has a type replaces the schema."""
    if any(isinstance(note, Keywords) and "type" in dict(note.items) for note in notes):
        found = {}
    for note in notes:
        found |= of_note(note)
    return found


def of_type(hint: Any) -> dict[str, Any]:
    """Return the schema of a field's type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return noted(of_type(parts[0]), parts[1:])
    if origin in (Union, UnionType):
        return of_union([of_type(part) for part in parts if part is not type(None)], has_null=type(None) in parts)
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": [*parts]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hint is bytes or is_result(hint):
        return of_object(BytesObject if hint is bytes else hint)
    if hint is Any:
        return {}
    if is_array(hint):
        return {"type": "array", "items": of_type(parts[0])}
    if origin is not None:
        return {"type": "object"} | ({} if parts[1] is Any else {"additionalProperties": of_type(parts[1])})
    return {"type": TYPES[hint]}


def is_array(hint: Any) -> bool:
    """Whether values of a type are arrays."""
    origin = get_origin(hint)
    return isinstance(origin, type) and not issubclass(origin, Mapping) and issubclass(origin, Collection)


def of_note(note: Any) -> dict[str, Any]:
    """Return the keywords of a note in a field's `Annotated`: its meaning, or others that narrow the type."""
    if note is OPEN:
        return {"additionalProperties": True}
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


def sentence(record: type) -> str:
    """Return the first paragraph of a docstring in one line, without the last full stop."""
    return " ".join((record.__doc__ or "").partition("\n\n")[0].split()).removesuffix(".")


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


def page(found: Mapping[str, list[Any]]) -> str:
    """Return the page of the site: each object with its fields, then the parts of objects."""
    parts: dict[str, type] = {}
    sections = []
    for name, results in found.items():
        first, *others = results
        tables = [table(first, parts), *(f"Or: {sentence(one)}.\n\n{table(one, parts)}" for one in others)]
        further = "\nMore fields, with counts, depend on the command.\n" if first.schema.is_open else ""
        sections.append(f"## {name}\n\n{sentence(first)}.\n\n" + "\n".join(tables) + further)
    described: dict[str, str] = {}
    while waiting := parts.keys() - described.keys():
        described |= {
            name: f"### {name}\n\n{sentence(parts[name])}.\n\n{table(parts[name], parts)}" for name in sorted(waiting)
        }
    of_parts = [described[name] for name in sorted(described)]
    return HEADER + "\n".join([*sections, "## Parts of objects\n", *of_parts])


def table(record: type, parts: dict[str, type]) -> str:
    """Return the fields of a result as a table; results inside it are added to `parts`."""
    rows = ["| Field | Type | Meaning |\n|---|---|---|\n"]
    for field in fields_of(record):
        texts = [note for note in field.notes if isinstance(note, str)]
        meaning = texts[-1] if texts else ""
        if field.may_be_absent:
            meaning = f"{meaning} (not always present)".strip()
        rows.append(f"| `{field.name}` | {joined(words(field.type, field.notes, parts))} | {meaning} |\n")
    return "".join(rows)


def words(hint: Any, notes: Sequence[Any], parts: dict[str, type]) -> Iterator[str]:
    """Yield the types of a field in words."""
    origin, args = get_origin(hint), get_args(hint)
    values = constants(hint, notes)
    types = [dict(note.items)["type"] for note in notes if isinstance(note, Keywords) and "type" in dict(note.items)]
    if values is not None:
        yield from quoted(values)
    elif types:
        yield from [types[0]] if isinstance(types[0], str) else types[0]
    elif origin is Annotated:
        yield from words(args[0], args[1:], parts)
    elif origin in (Union, UnionType):
        for arg in args:
            yield from words(arg, (), parts)
    elif is_result(hint):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", hint.__name__.removesuffix("Object")).capitalize()
        parts[name] = hint
        yield f"[{name.lower()}](#{name.lower().replace(' ', '-')})"
    elif is_array(hint):
        yield f"array of {joined(words(args[0], (), parts))}"
    elif hint in (bytes, type(None)):
        yield "bytes" if hint is bytes else "null"
    else:
        yield "object" if origin is not None else TYPES[hint]


def constants(hint: Any, notes: Sequence[Any]) -> Sequence[Any] | None:
    """Return the only values of a field, None if it can have others."""
    of_notes = [dict(note.items)["enum"] for note in notes if isinstance(note, Keywords) and "enum" in dict(note.items)]
    if of_notes:
        return of_notes[0]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [member.value for member in hint]
    return get_args(hint) if get_origin(hint) is Literal else None


def joined(types: Iterator[str]) -> str:
    """Return types as `a, b or c`."""
    *first, last = types
    return f"{', '.join(first)} or {last}" if first else last


def quoted(values: Any) -> list[str]:
    """Return each value as code; long lists are in the schema."""
    return [f"`{json.dumps(value)}`" for value in values] if len(values) <= MOST_WORDS else ["string"]


def files() -> Mapping[Path, str]:
    """Return every generated file and its text."""
    return {
        Path(f"docs/schemas/{name.replace('/', '-')}.json"): pretty(schema(results)) + "\n"
        for name, results in kinds().items()
    }


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
