"""Findings and steps are values: code that tests or edits their English would break with each better sentence."""

import ast
from pathlib import Path

import pytest

import kafkalog_cli

PACKAGE = Path(kafkalog_cli.__file__).parent
FILES = [
    *(PACKAGE / "ops" / "check").rglob("*.py"),
    *(PACKAGE / "ops" / name for name in ("steps.py", "damage.py")),
    *(PACKAGE / "output" / name for name in ("findings.py", "ci_report.py", "junit_report.py")),
    *(PACKAGE / "cli" / name for name in ("verify.py", "doctor.py")),
]
TEXTS = {"message", "broker_effect", "next_step", "why", "effect", "reason", "when"}
EDITS = {
    *("startswith", "endswith", "find", "index", "count", "split", "rsplit", "partition", "rpartition", "splitlines"),
    *("replace", "removeprefix", "removesuffix", "strip", "rstrip", "lstrip", "lower", "upper", "capitalize"),
    *("sub", "match", "fullmatch", "search", "findall", "finditer"),
}


def is_text(node):
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS | {"words"}
    return isinstance(node, ast.Name) and node.id in TEXTS


def is_question(node):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EDITS:
        parts = [part for value in (node.func.value, *node.args) for part in ast.walk(value)]
        return any(map(is_text, parts))
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and is_text(node.value)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return is_text(node.comparators[0])
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return is_text(node.left) is not is_text(node.comparators[0])  # two texts may be compared with each other
    return False


def questions_in(source):
    return [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr) and is_question(node)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_code_tests_or_edits_the_text_of_a_finding_or_step(path):
    assert questions_in(path.read_text()) == []


def test_the_files_are_those_of_verify_and_doctor():
    assert {"advice", "commands", "diagnose", "examination", "finding_kinds"} <= {path.stem for path in FILES}


@pytest.mark.parametrize(
    "source",
    [
        "one.message.startswith('a')",
        "'a' in one.next_step",
        "str(one.first_offset) in one.message",
        "next((step.effect for step in steps if step.effect), '').strip(' :,')",
        "why.rstrip(': ,')",
        "fault.message == UNUSUAL_CLUSTER_ID",
        "any(message != UNUSUAL_CLUSTER_ID for message in messages)",
        "NUMBER.sub('', step.message)",
        "one.message[:-1]",
    ],
)
def test_the_search_finds_each_way_to_test_or_edit_a_text(source):
    assert questions_in(source) == [1]


@pytest.mark.parametrize("source", ["one.path.startswith('a')", "one.next_step != other.next_step", "f'{one.message}'"])
def test_the_search_leaves_other_code_alone(source):
    assert questions_in(source) == []
