"""The dial of the suite: all parts together are all cases, and no part leaves a file out."""

import ast
from pathlib import Path

import pytest

from tests.support.effort import DIAL, PARTS, chosen

TESTS = """
import pytest

@pytest.mark.exhaustive
@pytest.mark.parametrize("n", range(100))
def test_many(n):
    pass

def test_not_marked():
    pass
"""
FULL = """
@pytest.mark.full
def test_full_{n}():
    pass
"""
FEW = """
import pytest

@pytest.mark.exhaustive
def test_few():
    pass

@pytest.mark.exhaustive
def test_fewer():
    pass
"""
WHOLE_FILE = """
import pytest
pytestmark = pytest.mark.full

def test_one():
    pass

def test_other():
    pass
"""
WITH_BROKERS = {
    "test_broker_groups.py", "test_broker_imports.py", "test_broker_retains.py", "test_broker_serves_compacted.py",
    "test_broker_serves_erased.py", "test_broker_starts_corpus.py", "test_cluster_live.py", "test_cron_page_live.py",
    "test_dead_broker_page.py", "test_groups_live.py", "test_live_broker.py", "test_metadump_live.py",
    "test_old_brokers_live.py", "test_read_live.py", "test_replay_live.py", "test_serve_answers.py",
    "test_serve_old_clients.py", "test_serve_other_clients.py", "test_spark_connect.py",
}  # fmt: skip
"""Each starts brokers, clients or servers for a minute. Quick has none of their cases."""


@pytest.fixture
def suite(pytester, monkeypatch):
    monkeypatch.setattr(DIAL, "effort", DIAL.effort)  # the suite runs in this process
    monkeypatch.setattr(DIAL, "rotation", DIAL.rotation)
    pytester.makeini("[pytest]\nmarkers =\n  exhaustive: many\n  full: long\n")
    pytester.makeconftest(
        "from tests.support.effort import pytest_addoption, pytest_collection_modifyitems\n"
        "from tests.support.effort import DIAL\n"
        "def pytest_configure(config):\n"
        "    DIAL.effort, DIAL.rotation = config.getoption('effort'), config.getoption('rotation') or 0\n"
    )
    folder = pytester.mkdir("suite")
    (folder / "test_it.py").write_text(TESTS + "".join(FULL.format(n=n) for n in range(PARTS)))
    (folder / "test_few.py").write_text(FEW)
    (folder / "test_whole.py").write_text(WHOLE_FILE)
    return pytester


def names_run(suite, *options):
    result = suite.inline_run("-p", "no:cacheprovider", *options)
    passed, skipped, failed = result.listoutcomes()
    assert (skipped, failed) == ([], [])
    return [report.nodeid.rpartition("::")[2] for report in passed]


def test_a_quick_run_has_some_exhaustive_cases_of_each_file(suite):
    found = names_run(suite)
    assert [name for name in found if name.startswith("test_many")] == [
        "test_many[0]",
        "test_many[48]",
        "test_many[96]",
    ]
    assert "test_not_marked" in found
    assert {"test_few", "test_fewer"} & set(found) == {"test_few"}
    assert {"test_few", "test_fewer"} & set(names_run(suite, "--rotation", "1")) == {"test_fewer"}


def test_a_quick_run_has_no_full_test_without_a_rotation(suite):
    found = names_run(suite)
    assert "test_one" not in found
    assert not [name for name in found if name.startswith("test_full")]


def test_a_rotation_has_a_48th_of_the_full_tests_and_a_marked_file_is_one_of_them(suite):
    found = names_run(suite, "--rotation", "1")
    assert [name for name in found if name.startswith("test_full")] == ["test_full_1"]
    assert "test_one" not in found
    assert {"test_one", "test_other"} < set(names_run(suite, "--rotation", "0"))


def test_full_runs_every_case(suite):
    assert len(names_run(suite, "--effort", "full")) == 100 + 1 + 2 + PARTS + 2


@pytest.mark.parametrize("count", [1, 2, PARTS - 1, PARTS, PARTS + 1, 200])
@pytest.mark.parametrize("group", ["full", "a.py"])
def test_all_rotations_together_are_all_cases(group, count):
    names = [str(n) for n in range(count)]
    assert set().union(*(chosen(group, names, rotation) for rotation in range(PARTS))) == set(names)


@pytest.mark.parametrize("rotation", [0, 7, 47])
def test_a_loop_has_some_cases_in_every_rotation(rotation, monkeypatch):
    monkeypatch.setattr(DIAL, "effort", "quick")
    monkeypatch.setattr(DIAL, "rotation", rotation)
    assert DIAL.some(["only"]) == ["only"]
    assert 1 <= len(DIAL.some(list(range(20)))) <= 3


def test_a_file_waits_for_full_as_a_whole_only_if_it_starts_brokers():
    files = [path for path in Path(__file__).parents[1].rglob("test_*.py") if path != Path(__file__)]
    assert {path.name for path in files if waits_as_a_whole(path.read_text())} == WITH_BROKERS


def waits_as_a_whole(source):
    """Whether all tests of a file are marked `full`."""
    if "mark.full" not in source:
        return False
    statements = ast.parse(source).body
    marks = [
        ast.unparse(one.value) for one in statements if isinstance(one, ast.Assign) and "pytestmark" in ast.unparse(one)
    ]
    tests = [one for one in statements if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
    is_full = ["pytest.mark.full" in map(ast.unparse, test.decorator_list) for test in tests]
    return any("mark.full" in mark for mark in marks) or all(is_full)
