"""Tests of internals are in tests/unit; all others reach them only through tests/support/product.py and the files product_*.py beside it."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
MOST_FILES = 120
DOORS = set((TESTS / "support").glob("product*.py"))
INTERNAL = re.compile(
    r"^\s*(from kafkalog_cli\b(?! import spark$|\.spark import (session|sql|KafkalogDataSource|plain_errors)$)|import kafkalog_cli\.)"
    r"|\bkafkalog_cli\.((broker|change|cli|disk|duck|format|library|log|ops|output|results|__main__(?!:))\b"
    r"|spark\.(?!(session|sql|KafkalogDataSource|plain_errors)\b))",
    re.MULTILINE,
)


def test_only_unit_tests_and_the_door_import_internals():
    files = [path for path in TESTS.rglob("*.py") if path not in DOORS and path.parent.name != "unit"]
    assert len(files) > 100
    assert [str(path.relative_to(TESTS)) for path in files if INTERNAL.search(path.read_text())] == []


def test_few_files_import_internals():
    """Each of them has to be read again when the product is redesigned."""
    files = [path for path in TESTS.rglob("*.py") if INTERNAL.search(path.read_text())]
    assert len(files) <= MOST_FILES


def test_import_of_an_internal_name_is_recognised():
    assert INTERNAL.search("import os\nfrom kafkalog_cli.disk.fs import RealFilesystem\n")
    assert INTERNAL.search("def test_x():\n    from kafkalog_cli import library\n")
    assert INTERNAL.search("import kafkalog_cli.library\n")
    assert INTERNAL.search('    monkeypatch.setattr("kafkalog_cli.disk.fs.CHUNK", 1)\n')
    assert INTERNAL.search('    code = "import sys; from kafkalog_cli.cli.app import run"\n')
    assert INTERNAL.search('    if name.startswith("kafkalog_cli.spark."):\n')
    assert not INTERNAL.search('    assert points["kafkalog"] == "kafkalog_cli.__main__:main"\n')
    assert not INTERNAL.search("import kafkalog_cli as kl\n")
    assert not INTERNAL.search("import kafkalog_cli\n")
    assert not INTERNAL.search("from kafkalog_cli.spark import session\n"), "the library of docs/spark.md"
    assert INTERNAL.search("from kafkalog_cli.spark import sessions\n")
