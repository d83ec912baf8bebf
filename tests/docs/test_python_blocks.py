"""Each block of Python in docs/spark.md is run, in their order, over docs/example: it prints what the block below it shows."""

import contextlib
import io
import re
import shutil

import pytest

from tests.docs.consoles import ROOT

PAGE = ROOT / "docs" / "spark.md"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
PLACES = ("docs/example", "new-log-dir", "checkpoint", "orders-parquet")
"""Paths of the page: Spark's Java has another working directory than a test."""


def blocks(text):
    """Code, the lines that it prints (None: the page does not say), and the line on which it begins."""
    for found in BLOCK.finditer(text):
        yield found["code"], found["shown"], text.count("\n", 0, found.start("code"))


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_blocks_print_what_is_shown(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "docs" / "example", tmp_path / "docs" / "example")
    (tmp_path / "new-log-dir").mkdir()
    names, views = {}, {one.name for one in spark.catalog.listTables()}
    try:
        for code, shown, line in blocks(PAGE.read_text()):
            for place in PLACES:
                code = code.replace(f'"{place}"', repr(str(tmp_path / place)))
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + code, str(PAGE), "exec"), names)
            if shown is not None:
                assert printed.getvalue().replace(f"{tmp_path}/", "").rstrip() == shown.rstrip(), f"{PAGE}:{line}"
        assert names["spark"] is spark
    finally:  # other tests use the same session
        for name in {one.name for one in spark.catalog.listTables()} - views:
            spark.catalog.uncacheTable(name)
            spark.catalog.dropTempView(name)


def test_all_blocks_are_found():
    text = PAGE.read_text()
    found = list(blocks(text))
    assert len(found) == text.count("```python\n") > 6
    assert sum(shown is not None for _, shown, _ in found) >= 4
    assert text.count("```text\n") == sum(shown is not None for _, shown, _ in found)
