"""docs/schemas and docs/output.md are what docs/generate_schemas.py writes from the declarations of JSON objects."""

import importlib.util
import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest

from kafkalog_cli.output.ndjson import OPEN, Count, NotRequired, ObjectKind, PathText, keywords

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_schemas", ROOT / "docs" / "generate_schemas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_generated_file_is_current(generator):
    files = generator.files()
    stale = [str(path) for path, text in files.items() if (ROOT / path).read_text() != text]
    assert stale == [], "run: python docs/generate_schemas.py"
    there = {path.relative_to(ROOT) for path in (ROOT / "docs" / "schemas").iterdir()}
    assert there == {path for path in files if path.suffix == ".json"}


def test_the_page_has_a_section_for_each_object(generator):
    page = (ROOT / "docs" / "output.md").read_text()
    assert len(generator.kinds()) == page.count("\n## kafkalog.")
    assert all(f"\n## {kind.name}\n" in page for kind in generator.kinds())


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(TypedDict):
    """A part."""

    size: Count


class Common(TypedDict):
    """Common fields."""

    path: Annotated[PathText, "where it is"]


class Thing(Common):
    """A thing."""

    colour: Annotated[Colour | None, "how it looks"]
    size: NotRequired[Annotated[Count | None, "in bytes"]]
    part: Annotated[Part | None, OPEN]
    parts: list[Part]
    word: Literal["a", "b"] | None
    data: bytes
    either: Literal[True] | Part
    by_name: dict[str, int]
    open: dict[str, Any]


class Other(Common):
    """Another thing."""

    ratio: Annotated[float, keywords(minimum=0, maximum=1)]


PART = {
    "type": "object",
    "description": "A part",
    "required": ["size"],
    "properties": {"size": {"type": "integer", "minimum": 0}},
}


def test_the_schema_of_a_declaration(generator):
    found = generator.schema(ObjectKind("kafkalog.thing/1", Thing))
    others = ["part", "parts", "word", "data", "either", "by_name", "open"]
    assert found.pop("properties") == {
        "schema": {"const": "kafkalog.thing/1"},
        "type": {"const": "thing"},
        "path": {"type": "string", "description": "where it is"},
        "path_b64": generator.BASE64,
        "colour": {"enum": ["red", "blue", None], "description": "how it looks"},
        "size": {"type": ["integer", "null"], "minimum": 0, "description": "in bytes"},
        "part": {**PART, "type": ["object", "null"], "additionalProperties": True},
        "parts": {"type": "array", "items": PART},
        "word": {"enum": ["a", "b", None]},
        "data": {
            "type": "object",
            "description": "Bytes without loss",
            "required": ["encoding", "data"],
            "properties": {
                "encoding": {
                    "enum": ["utf-8", "base64"],
                    "description": "utf-8 if the bytes are strict UTF-8, else base64",
                },
                "data": {"type": "string"},
            },
        },
        "either": {"oneOf": [{"const": True}, PART]},
        "by_name": {"type": "object", "additionalProperties": {"type": "integer"}},
        "open": {"type": "object"},
    }
    assert found == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "kafkalog.thing/1",
        "title": "A thing",
        "type": "object",
        "required": ["schema", "type", "path", "colour", *others],
    }


def test_the_schema_of_two_forms_and_of_an_open_object(generator):
    found = generator.schema(ObjectKind("kafkalog.thing/1", Part, other=Other, is_open=True))
    assert found["oneOf"] == [{"required": ["size"]}, {"required": ["path", "ratio"]}]
    assert found["required"] == ["schema", "type"]
    assert [*found["properties"]] == ["schema", "type", "size", "path", "path_b64", "ratio"]
    assert found["properties"]["ratio"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert found["additionalProperties"] is True


def test_the_tables_of_a_declaration(generator):
    page = generator.page([ObjectKind("kafkalog.thing/1", Thing, other=Other)])
    assert "\n## kafkalog.thing/1\n\nA thing.\n\n| Field | Type | Meaning |\n" in page
    assert '\n| `colour` | `"red"`, `"blue"` or null | how it looks |\n' in page
    assert "\n| `size` | integer or null | in bytes (not always present) |\n" in page
    assert "\n| `parts` | array of [part](#part) |  |\n" in page
    assert "\nOr: Another thing.\n" in page
    assert page.endswith("### Part\n\nA part.\n\n| Field | Type | Meaning |\n|---|---|---|\n| `size` | integer |  |\n")


def test_json_is_on_one_line_where_it_fits(generator):
    value = {"a": [1, 2], "b": {"text": "x" * 200, "more": []}}
    text = generator.pretty(value)
    assert json.loads(text) == value
    assert text.splitlines()[1:4] == ['  "a": [1, 2],', '  "b": {', f'    "text": "{"x" * 200}",']
