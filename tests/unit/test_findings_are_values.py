"""Findings and steps are values: code that asks or changes their English would break with each better sentence."""

import ast
from pathlib import Path

import pytest

import kafkalog_cli

OPS = Path(kafkalog_cli.__file__).parent / "ops"
FOLDERS = ("checks", "doctor", "verify")
TEXTS = {"message", "broker_effect", "next_step"}
QUESTIONS = {
    *("startswith", "endswith", "find", "index", "count", "split", "rsplit", "partition", "rpartition"),
    *("replace", "removeprefix", "removesuffix", "strip", "rstrip", "lstrip"),
}


def is_text(node):
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


def questions_in(source):
    for node in ast.walk(ast.parse(source)):
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr in QUESTIONS and is_text(method.value):
            yield method.lineno
        if isinstance(node, ast.Compare):
            contained = [right for op, right in zip(node.ops, node.comparators, strict=True) if isinstance(op, ast.In)]
            if any(map(is_text, contained)):
                yield node.lineno


@pytest.mark.parametrize("path", sorted(p for f in FOLDERS for p in (OPS / f).glob("*.py")), ids=lambda p: p.stem)
def test_no_code_asks_or_edits_the_text_of_a_finding_or_step(path):
    assert list(questions_in(path.read_text())) == []


def test_the_search_finds_each_way_to_ask_a_text():
    assert [*questions_in("one.message.startswith('a')"), *questions_in("'a' in one.next_step")] == [1, 1]
    assert not [*questions_in("one.path.startswith('a')")]
