"""The rules of language for docstrings, comments, help, messages and pages. `prose.py` has the rules and finds what breaks them.

Docstrings and comments hold all rules. Help, messages and pages are not there yet: `words_not_yet.txt` counts what is left
of each rule per file, exactly, so that nothing is added and a rewritten text lowers its count:

    PYTHONPATH=tests python -m test_words
"""

import collections
import re
from pathlib import Path

import prose
import pytest

ROOT = Path(__file__).parents[1]
NOT_YET = Path(__file__).parent / "words_not_yet.txt"
OWN = ("docstring", "comment")
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md")

ALLOWED = {
    # (path, rule, what is found): why it stays
}
"""Exceptions in docstrings and comments. An entry that nothing needs fails a test."""


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
    code = sources()
    known = prose.known_names(repository_paths(), code)
    texts = [text for path, source in code.items() for text in prose.python_texts(path, source)]
    texts += [text for path, source in pages().items() for text in prose.markdown_texts(path, source)]
    for text in texts:
        yield from prose.banned(text)
        yield from prose.too_long(text)
        yield from prose.verbless(text)
        if text.kind in OWN:
            yield from prose.unknown_references(text, known)
    for path, source in code.items():
        yield from prose.without_unit(path, source)


@pytest.fixture(scope="module")
def broken():
    return list(all_broken())


def key(found):
    return found.path, found.rule, found.found


def counts_of(broken):
    return collections.Counter((found.path, found.rule) for found in broken if found.kind not in OWN)


def as_lines(counts):
    return "".join(f"{path}: {rule}: {count}\n" for (path, rule), count in sorted(counts.items()))


def test_docstrings_and_comments_hold_the_rules(broken):
    wrong = [str(found) for found in broken if found.kind in OWN and key(found) not in ALLOWED]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_exception_is_needed(broken):
    assert set(ALLOWED) - {key(found) for found in broken if found.kind in OWN} == set()
    assert all(ALLOWED.values())


def test_help_messages_and_pages_get_better(broken):
    """Where a count is too high, the breaks are listed; where it is too low, lower it in words_not_yet.txt."""
    before = collections.Counter()
    for line in NOT_YET.read_text().splitlines():
        path, rule, count = line.split(": ")
        before[path, rule] = int(count)
    now = counts_of(broken)
    added = [str(found) for found in broken if now[found.path, found.rule] > before[found.path, found.rule] and found.kind not in OWN]
    assert not added, "\n" + "\n".join(added)
    assert as_lines(before) == as_lines(now), "lower the counts: PYTHONPATH=tests python -m test_words"


if __name__ == "__main__":
    NOT_YET.write_text(as_lines(counts_of(all_broken())))
