"""Each command line of the record answers as it did.

`pytest tests/conformance --update` stores what the commands answer now, and prints each difference first.
"""

import re
import tarfile
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conformance import record
from tests.conformance.log_directories import IDENTITY, LEFT_OUT, ROOT, SEGMENT, unpack_all
from tests.conformance.rows import json_option, rows_for
from tests.conformance.runner import recorded_environment
from tests.support.commands import options_of
from tests.support.product import COMMANDS, replace_point
from tests.support.recording_cluster import RecordingCluster

SHOWN_ROWS = 10
NOT_RECORDED = {
    "serve": "it runs until a signal: test_processes.py ends it by one, tests/serve asks it",
    "warmup": "it needs Java: tests/spark",
}


@pytest.fixture(scope="module")
def log_directories(tmp_path_factory, corpus):
    return unpack_all(tmp_path_factory.mktemp("fixtures"), corpus)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """The variables of the record, and for each row an empty cluster in memory, which replay sends to."""
    clusters = {}
    replace_point(
        monkeypatch,
        "cluster that replay sends to",
        lambda _: lambda address, settings: clusters.setdefault(Path.cwd(), RecordingCluster()),
    )
    with recorded_environment():
        yield


def recorded_cases():
    """Two groups of cases: two workers of pytest-xdist run them side by side."""
    for number, case in enumerate(record.recorded_cases()):
        yield pytest.param(case, marks=pytest.mark.xdist_group(f"conformance {number % 2}"))


def differences_now(name, case, place):
    """The answers of a case now, each difference from the record as text, and what rows need that is not installed."""
    known = record.read_answers(name)
    answers, missing = {}, set()
    for number, row in enumerate(rows_for(name, case.root, case.is_changed)):
        if row.needs and find_spec(row.needs) is None:
            missing.add(row.needs)
            answers |= {row.name: known[row.name]} if row.name in known else {}  # stays as recorded
        else:
            answers[row.name] = record.answers_of(row, case.root, place / f"row-{number}")
    return answers, list(record.differences(known, answers)), missing


@pytest.mark.parametrize("case", list(recorded_cases()))
def test_commands_answer_as_recorded(case, log_directories, tmp_path, pytestconfig):
    answers, found, missing = differences_now(case, log_directories[case], tmp_path)
    if found and pytestconfig.getoption("update"):
        record.update(case, answers, found, pytestconfig)
    elif found:
        text = "\n".join(found[:SHOWN_ROWS])
        pytest.fail(f"{case}: {len(found)} of {len(answers)} rows answer otherwise\n{text}", pytrace=False)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}. Rows that need nothing of it answer as recorded")


def test_every_log_directory_has_answers(log_directories, tmp_path, pytestconfig):
    missing = sorted(set(log_directories) - set(record.recorded_cases()))
    if pytestconfig.getoption("update"):
        for case in missing:
            answers, _found, _missing = differences_now(case, log_directories[case], tmp_path / case)
            record.update(case, answers, [f"{len(answers)} rows are new"], pytestconfig)
    else:
        assert missing == []


def test_every_log_directory_of_fixtures_and_docs_is_recorded_or_left_out_with_a_reason(log_directories):
    """This reads the names in archives and folders by itself: a new archive needs a row of SOURCES, or a reason."""
    there = set()
    for top in (ROOT / "tests" / "fixtures", ROOT / "docs"):
        for path in top.rglob("*"):
            place = path.relative_to(ROOT)
            names = [place]
            if ".tar" in path.suffixes:
                with tarfile.open(path) as tar:
                    names = [place / name for name in tar.getnames()]
            there |= {name.parent.parent.as_posix() for name in names if SEGMENT.match(name.name)}
            there |= {name.parent.as_posix() for name in names if name.name == IDENTITY}
    recorded = {case.place for case in log_directories.values()} - {""}
    assert recorded <= there
    not_recorded = there - recorded
    left_out = {reason: {place for place in not_recorded if re.search(reason, place)} for reason in LEFT_OUT}
    assert all(left_out.values())
    assert not_recorded == set().union(*left_out.values())


def test_every_command_is_recorded_in_text_and_in_json_and_so_is_its_dry_run():
    """An answer counts only if the command did what it was asked for, and no options are refused in all cases."""
    codes = defaultdict(set)
    for case in record.recorded_cases():
        for name, answers in record.read_answers(case).items():
            for line, answer in zip(name.split(" ; "), answers, strict=True):
                command, *words = line.split()
                options = tuple(word for word in words if word.startswith("--"))
                codes[command, f"{json_option(command)} json" in line, options].add(answer["code"])
    assert [refused for refused, found in codes.items() if found == {2}] == []
    recorded = {
        (command, is_json, "--dry-run" in options) for (command, is_json, options), found in codes.items() if 0 in found
    }
    wanted = set()
    for command in set(COMMANDS) - set(NOT_RECORDED):
        options = options_of(command)
        forms = (False, True) if json_option(command) in options else (False,)
        runs = (False, True) if "--dry-run" in options else (False,)
        wanted |= {(command, is_json, is_dry) for is_json in forms for is_dry in runs}
    assert wanted - recorded == set(), "command, in JSON, with --dry-run"
    assert set(NOT_RECORDED) <= set(COMMANDS)
