"""docs/messages.md is what docs/generate_messages.py writes; the texts are found in the source by docs/source_texts.py."""

import ast
import importlib
import re
import sys

import pytest

from kafkalog_cli.errors import STEPS_AFTER_SYSTEM_ERRORS
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.refusals import RULES
from tests.docs.consoles import ROOT


@pytest.fixture(scope="module")
def generator():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
        return importlib.import_module("generate_messages")


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "messages.md").read_text()


def section(page, title):
    return re.search(rf"^## {title}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)[1]


@pytest.fixture(scope="module")
def texts(generator):
    return generator.Texts(ROOT / "kafkalog_cli")


@pytest.fixture(scope="module")
def errors(generator, texts):
    """The errors that the generator finds, which takes seconds."""
    return list(generator.found_errors(texts))


def test_messages_md_is_current(generator, page, texts, errors, monkeypatch):
    monkeypatch.setattr(generator, "found_errors", lambda _: errors)
    assert page == generator.render(texts), "run: python docs/generate_messages.py"


def test_every_finding_and_rule_has_a_row(page):
    assert re.findall(r"^\| `([a-z-]+)`", section(page, "Findings of verify"), re.M) == [
        kind.value for kind in FindingKind
    ]
    assert re.findall(r"^\| `([a-z-]+)`", section(page, "Refusals of writers"), re.M) == [rule.name for rule in RULES]
    rows = section(page, "Next steps after errors of the operating system").count("\n| ")
    assert rows == len(STEPS_AFTER_SYSTEM_ERRORS) + 1


def test_every_class_of_errors_that_is_raised_has_a_row(generator, errors):
    """By another way to them than the generator's: the names in `raise` statements."""
    raised = set()
    for path in (ROOT / "kafkalog_cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                raised.add(getattr(node.exc.func, "id", ""))
    assert {one.kind for one in errors} >= raised & generator.ERROR_CLASSES.keys()


SOURCE = '''
"""Reads and closes things. More."""

LIMIT = "at most 3 bytes"
STEP = f"wait, {LIMIT}"


def why(path: str) -> str:
    return f"{path} is closed"


def plan(path, count, kind):
    """Make calls."""
    if count > 3:
        message = f"{len(path)} bytes are too many"
        warn("size", message)
    else:
        message = "few"
        if kind:
            message += ", of a kind"
        warn("few", message)
    reason = "first" if kind else "second"
    warn("or", f"{reason} of {why(path)}; {STEP}")
    warn("value", kind)
'''


def test_texts_of_planted_source_are_found(generator, tmp_path):
    (tmp_path / "things.py").write_text(SOURCE)
    texts = generator.Texts(tmp_path)
    (module,) = texts.modules
    assert module.subject == "Reads and closes things. More"
    found = {call.args[0].value: texts.of(call.args[1], module, function) for call, function in module.calls
             if generator.called_name(call) == "warn"}  # fmt: skip
    assert found == {
        "size": ["N bytes are too many"],
        "few": ["few[, of a kind]"],
        "or": ["first of PATH is closed; wait, at most 3 bytes", "second of PATH is closed; wait, at most 3 bytes"],
        "value": ["KIND"],
    }
