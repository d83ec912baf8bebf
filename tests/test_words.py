"""The rules of language for docstrings, comments, help, messages and pages. `prose_rules.py` has them, `prose.py` finds breaks."""

import re
from pathlib import Path

import pytest

from tests.support import prose
from tests.support.prose_rules import RULES

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/broker-messages/*.md")

ALLOWED = {
    # (path, rule, what is found): why it stays
    ("kafkalog_cli/log/log_end.py", "name", "See AbstractIndex"): "Kafka's class",
    ("kafkalog_cli/cli/__init__.py", "file", "COMMAND.py"): "stands for the file of each command",
    ("kafkalog_cli/cli/__init__.py", "file", "COMMAND_run.py"): "stands for a second file of each command",
    ("kafkalog_cli/cli/typer_parser.py", "name", "`process_value`"): "a function of typer",
    ("kafkalog_cli/output/ndjson.py", "name", "`path_b64`"): "a key of an object, put together from two words",
    ("kafkalog_cli/spark/source.py", "name", "`pushFilters`"): "a method of PySpark",
    ("kafkalog_cli/spark/queries/catalog.py", "name", "`kafkalog.NAME`"): "stands for the name of each table",
    ("kafkalog_cli/disk/names.py", "name", "`my_topic_0`"): "an example in Kafka's documentation",
}
"""Exceptions. An entry that nothing needs fails a test."""


def sources():
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "kafkalog_cli").rglob("*.py"))}


def newest_section(changelog):
    """The text up to the second heading of a version, with nothing moved to another line."""
    parts = re.split(r"(?m)^(?=## )", changelog)
    return "".join(parts[:2])


def pages():
    found = {str(path.relative_to(ROOT)): path.read_text() for pattern in PAGES for path in sorted(ROOT.glob(pattern))}
    return found | {"CHANGELOG.md": newest_section((ROOT / "CHANGELOG.md").read_text())}


def repository_paths():
    below = [path for top in ("kafkalog_cli", "tests", "docs", "bench") for path in (ROOT / top).rglob("*")]
    return [str(path.relative_to(ROOT)) for path in [*below, *ROOT.glob("*")]]


def all_broken():
    paths, names, strings = repository_paths(), set(), set()
    texts = [text for path, source in pages().items() for text in prose.markdown_texts(path, source)]
    for path, source in sources().items():
        nodes = prose.nodes_of(source)
        texts += prose.python_texts(path, source, nodes)
        if not path.startswith("kafkalog_cli/cli/"):  # options, whose help names the unit
            yield from prose.without_unit(path, nodes)
        for known, new in zip((names, strings), prose.names_in(nodes), strict=True):
            known.update(new)
        names.update(re.split(r"[/.]", path))
    known = prose.Known(frozenset(paths), frozenset(names), frozenset(strings))
    for text in texts:
        yield from prose.breaks(text, known)


@pytest.fixture(scope="module")
def broken():
    return list(all_broken())


def key(found):
    return found.path, found.rule, found.found


def test_all_texts_hold_the_rules(broken):
    wrong = [str(found) for found in broken if key(found) not in ALLOWED]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_exception_is_needed(broken):
    assert set(ALLOWED) - {key(found) for found in broken} == set()
    assert all(ALLOWED.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_its_wrong_sentences_and_no_right_one(rule):
    def rules_broken(words):
        return {found.rule for found in prose.banned(prose.Text("a.md", 1, "page", words))}

    assert rule.wrong
    for words in rule.wrong:
        assert rule.name in rules_broken(words), words
    for words in rule.right:
        assert rule.name not in rules_broken(words), words


PLANTED = '''"""The facts about a log, see docs/nowhere.md.

It is rebuilt by `no_such_function`. What was made anew is kept.
"""

NEAR = 1  # the records
# behind the tail are skipped


class Facts:
    """Facts. See NoSuchClass.

    Otherwise the file.
    """

    size: int = 0
    """A size."""


def plan(size):
    """Plan. It reads the first batch of the log, the second batch of the log, the third batch of the log, the fourth
    batch of the log and then the fifth batch of the log.
    """
    raise ValueError(f"{plan} is no plan of a batch")
'''


def test_planted_breaks_are_found_at_their_lines():
    nodes = prose.nodes_of(PLANTED)
    names, strings = prose.names_in(nodes)
    known = prose.Known(frozenset(["docs/here.md"]), frozenset(names), frozenset(strings))
    found = [*prose.without_unit("a.py", nodes)]
    for text in prose.python_texts("a.py", PLANTED, nodes):
        found += prose.breaks(text, known)
    assert {(each.line, each.kind, each.rule) for each in found} == {
        (1, "docstring", "file"),
        (3, "docstring", "name"),
        (3, "docstring", "What"),
        (3, "docstring", "anew"),
        (7, "comment", "behind"),
        (11, "docstring", "name"),
        (13, "docstring", "verb"),
        (16, "docstring", "unit"),
        (21, "docstring", "long"),
        (24, "message", "is no"),
    }
    assert str(found[0]) == "a.py:16: 'Facts: size': the docstring names the unit [unit]"


def test_right_prose_breaks_nothing():
    source = (
        PLANTED.replace("nowhere", "here")
        .replace("`no_such_function`", "`plan`")
        .replace("What was made anew is", "It was")
    )
    source = (
        source.replace("behind the tail", "after the tail")
        .replace("NoSuchClass", "Facts")
        .replace("Otherwise the file.", "It keeps a size.")
    )
    source = (
        source.replace('"""A size."""', '"""A size in bytes."""')
        .replace(", the second", ". It reads the second")
        .replace("is no plan", "is not a plan")
    )
    source = source.replace("    size: int = 0\n", "    size_bytes: int = 0\n")
    nodes = prose.nodes_of(source)
    known = prose.Known(frozenset(["docs/here.md"]), *(frozenset(each) for each in prose.names_in(nodes)))
    found = [*prose.without_unit("a.py", nodes)]
    for text in prose.python_texts("a.py", source, nodes):
        found += prose.breaks(text, known)
    assert found == []


def test_a_function_without_a_unit_is_found():
    source = 'def wait(timeout: float, jobs: int):\n    """Wait."""\ndef age() -> int:\n    """Return the age."""\n'
    assert [each.found for each in prose.without_unit("a.py", prose.nodes_of(source))] == ["wait: timeout", "age: age"]
    assert not [
        *prose.without_unit(
            "a.py", prose.nodes_of(source.replace("Wait.", "Wait for seconds.").replace("age.", "age in ms."))
        )
    ]


@pytest.mark.parametrize(
    ("words", "count"),
    [("One two three.", 3), ("`a b c` and `kafkalog verify PATH`", 3), ("See [the page](docs/page.md) - now.", 4)],
)
def test_words_are_counted(words, count):
    assert prose.word_count(words) == count


def test_sentences_end_where_they_end():
    text = "It is e.g. `a. B` here. See a.b for more. (Maybe.)\n\n- an item\n- another item"
    assert [sentence for _, sentence in prose.sentences(text)] == [
        "It is e.g. `a. B` here.",
        "See a.b for more.",
        "(Maybe.)",
        "- an item",
        "- another item",
    ]
    assert [position for position, _ in prose.sentences("One. Two.")] == [0, 5]


def test_pages_are_read_without_their_code():
    page = "# A title\n\nText that\ngoes on.\n```sh\nmade anew\n```\n| a cell | made anew |\n|---|---|\n- an item\n<!-- anew\n-->\n"
    texts = list(prose.markdown_texts("a.md", page))
    assert [(text.line, text.words) for text in texts] == [
        (1, "A title"),
        (3, "Text that\ngoes on."),
        (8, "a cell"),
        (8, "made anew"),
        (10, "an item"),
    ]
    assert [found.line for text in texts for found in prose.banned(text)] == [8]


def test_the_newest_section_of_the_changelog_is_read():
    changelog = "# Changelog\n\n## 0.2.0\n- new\n\n## 0.1.0\n- old\n"
    assert newest_section(changelog) == "# Changelog\n\n## 0.2.0\n- new\n\n"
    assert "- " in newest_section((ROOT / "CHANGELOG.md").read_text())
