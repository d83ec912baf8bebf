"""Tests of internals are in tests/unit; all others reach them only through tests/support/product.py."""

import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOOR = TESTS / "support" / "product.py"
INTERNAL = re.compile(r"^\s*(from kafkalog_cli\b|import kafkalog_cli\.)", re.MULTILINE)

LEFT = {
    "attacks": 12,
    "bad_input": 29,
    "broker": 14,
    "cli": 51,
    "conformance": 1,
    "crash": 21,
    "disk": 7,
    "docs": 11,
    "format": 7,
    "golden": 2,
    "interop": 30,
    "library": 4,
    "log": 15,
    "ops": 45,
    "output": 13,
    "packaging": 2,
    "serve": 12,
    "spark": 58,
    "support": 2,
}
"""How many files of each folder still import internals. A number only falls; a folder without one has none."""


def test_only_unit_tests_and_the_door_import_internals():
    files = [path for path in TESTS.rglob("*.py") if path != DOOR and path.parent.name != "unit"]
    assert len(files) > 100
    found = Counter(path.relative_to(TESTS).parts[0] for path in files if INTERNAL.search(path.read_text()))
    assert {folder: count for folder, count in found.items() if count > LEFT.get(folder, 0)} == {}


def test_import_of_an_internal_name_is_recognised():
    assert INTERNAL.search("import os\nfrom kafkalog_cli.disk.fs import RealFilesystem\n")
    assert INTERNAL.search("def test_x():\n    from kafkalog_cli import library\n")
    assert INTERNAL.search("import kafkalog_cli.library\n")
    assert not INTERNAL.search("import kafkalog_cli as kl\n")
    assert not INTERNAL.search("import kafkalog_cli\n")
