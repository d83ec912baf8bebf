"""docs/bench.md: a run of some rows keeps the others."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- begin -->", "<!-- end -->"
TABLE = "| Work | s |\n|---|---:|\n| a | 1 |\n| b | 2 |\n| of other logs | 3 |"


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    sys.modules.pop("page", None)
    page = importlib.import_module("page")
    monkeypatch.setattr(page, "PAGE", tmp_path / "bench.md")
    page.PAGE.write_text(f"before\n{BEGIN}\n{TABLE}\n{END}\nafter\n", encoding="utf-8")
    return page


def test_rows_that_were_not_measured_stay(page):
    rows = page.with_rows_before([["b", "20"], ["new", "4"]], ["a", "new", "b"], BEGIN, END)
    assert rows == [["a", "1"], ["new", "4"], ["b", "20"], ["of other logs", "3"]]


def test_rows_of_a_page_with_other_columns_go(page):
    assert page.with_rows_before([["b", "20", "met"]], ["a", "b"], BEGIN, END) == [["b", "20", "met"]]


def test_a_table_is_replaced_between_its_marks(page):
    page.publish("new", BEGIN, END)
    assert page.PAGE.read_text(encoding="utf-8") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
