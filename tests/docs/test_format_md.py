"""docs/format.md is what docs/generate_format.py writes, from every Layout of the package."""

import importlib.util
from pathlib import Path

import pytest

from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY
from kafkalog_cli.format.layout import Field, Layout

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_format", ROOT / "docs" / "generate_format.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_format_md_is_current(generator):
    current = (ROOT / "docs" / "format.md").read_text()
    assert current == generator.render(), "run: python docs/generate_format.py"


def test_every_layout_constant_is_found(generator):
    in_source = sum(
        line.endswith(" = Layout(")
        for path in (ROOT / "kafkalog_cli" / "format").rglob("*.py")
        for line in path.read_text().splitlines()
    )
    found = [layout for section in generator.sections() for layout in section.layouts]
    assert len(found) == in_source >= 9
    assert len(set(map(id, found))) == len(found)
    assert OFFSET_INDEX_ENTRY in found


def test_a_table_has_a_row_a_field_with_offset_size_and_type(generator):
    layout = Layout("Thing", "org.example.Thing", Field("first", "h", "a | b"), Field("second", "I", "more"))
    assert generator.table(layout).splitlines() == [
        "### Thing",
        "",
        "`org.example.Thing`, 6 bytes",
        "",
        "| Offset | Bytes | Type | Field | Meaning |",
        "|---|---|---|---|---|",
        "| 0 | 2 | int16 | first | a \\| b |",
        "| 2 | 4 | uint32 | second | more |",
    ]
