"""Commands and what they print, literally. Each heading of a page here is a case, which runs in a fresh directory.

The directory has `example`, a copy of docs/example, and `corpus`, the logs of real brokers, which commands may only read.
`log DIRECTORY 'PARTITION SEGMENT' 'metadata LINE' …` makes a log directory, `copy DIRECTORY COPY` a copy that commands may change. Lines of other programs
are given to a shell. The word RUN stands for the newest run that a command of the case has printed. The clock stands still, so that of the output only names of runs differ from run to run; paths are shown without the directory.
`pytest tests/transcripts --update` writes what the commands print now; lines with … stay where they match.
"""

import os
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.specification import write_log
from tests.docs.consoles import CUT, LEFT_OUT, ROOT, RUN_ID, examples_of, is_shown, printed_by
from tests.support.commands import writable_copy

PAGES = sorted(Path(__file__).parent.glob("*.md"))
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
NOW_MS, WRITTEN_S = 1_900_000_000_000, 1_890_000_000


def cases_of(page):
    """The text of each case of a page, by its heading."""
    parts = HEADING.split(page.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


CASES = [(page, name) for page in PAGES for name in cases_of(page)]


@pytest.fixture
def fresh(tmp_path, corpus, monkeypatch):
    shutil.copytree(ROOT / "docs" / "example", tmp_path / "example")
    for path in (tmp_path / "example").rglob("*"):
        os.utime(path, (WRITTEN_S, WRITTEN_S))
    (tmp_path / "corpus").symlink_to(corpus)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def make_log(line):
    """A line `log …`, with segments and lines of metadata as tests/conformance/specification.py reads them."""
    _, root, *words = shlex.split(line)
    partitions = {}
    for word in words:
        name, _, text = word.partition(" ")
        partitions.setdefault(name, []).append(text)
    metadata = partitions.pop("metadata", None)
    write_log({"partitions": partitions} | ({"metadata": metadata} if metadata else {}), Path(root))


def shown_now(example, run_ids):
    if example.words[0] == "sh" and example.words[2].startswith("log "):
        make_log(example.words[2])
        return []
    if example.words[0] == "sh" and example.words[2].startswith("copy "):
        writable_copy(*map(Path, shlex.split(example.words[2])[1:]))
        return []
    example = replace(example, words=tuple(run_ids["RUN"] if word == "RUN" else word for word in example.words))
    for run in RUN_ID.findall(" ".join(example.words)):
        run_ids.setdefault(run, run)
    printed = printed_by(example, run_ids, with_code=True, now_ms=lambda: NOW_MS, clock=lambda: 0.0)
    printed = [line.replace(f"{Path.cwd()}/", "") for line in printed]
    if runs := RUN_ID.findall("\n".join(printed)):
        run_ids["RUN"] = runs[-1]
    is_open = any(CUT in line or line == LEFT_OUT for line in example.shown)
    return list(example.shown) if is_open and is_shown(example.shown, printed) else printed


def same(shown, printed):
    return [RUN_ID.sub("RUN", line) for line in shown] == [RUN_ID.sub("RUN", line) for line in printed]


@pytest.mark.parametrize(("page", "name"), CASES, ids=[f"{page.stem}: {name}" for page, name in CASES])
def test_commands_print_what_is_written(page, name, fresh, pytestconfig):
    text, run_ids = cases_of(page)[name], {}
    examples = examples_of(page.name, text, other_programs=None)
    assert examples, "a case without a command"
    printed = [shown_now(example, run_ids) for example in examples]
    if pytestconfig.getoption("update"):
        names = {made: written for written, made in run_ids.items() if written != "RUN"}
        keep = [[RUN_ID.sub(lambda found: names.get(found[0], found[0]), line) for line in lines] for lines in printed]
        update(page, text, examples, keep)
        return
    for example, lines in zip(examples, printed, strict=True):
        assert same(example.shown, lines), (
            f"{example.words}\n" + "\n".join(example.shown) + "\n-- printed:\n" + "\n".join(lines)
        )


def update(page, text, examples, printed):
    """Write what the commands of a case print now."""
    lines = text.splitlines(keepends=True)
    for example, now in zip(reversed(examples), reversed(printed), strict=True):
        if not same(example.shown, now):
            lines[example.line : example.line + len(example.shown)] = [f"{line}\n" for line in now]
    page.write_text(page.read_text().replace(text, "".join(lines)))
