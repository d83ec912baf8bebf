"""The tool itself: which mutants it makes, what names them, and that it finds a test that is missing."""

import argparse
import importlib

import pytest

from tests.mutation import __main__ as main
from tests.mutation.__main__ import EQUIVALENT, KINDS, LAYERS, TREE, all_mutants, attempt, verdicts
from tests.mutation.mutants import equivalent, mutants_of
from tests.mutation.results import Results, TestMap, digest
from tests.mutation.runs_of_tests import CopiedTree, put_in_place

SOURCE = """\
def is_in(low, x, high):
    é = "é" if x - 1 else ""
    return low <= x < high or é


class Table:
    def room(self, used):
        return len("a < b") + 1 > used
"""


def test_each_operator_alone_is_changed_and_nothing_else():
    changed = {mutant.apply(SOURCE) for mutant in mutants_of("a.py", SOURCE)}
    lines = {line for text in changed for line in set(text.splitlines()) - set(SOURCE.splitlines())}
    assert len(changed) == 5
    assert lines == {
        '    é = "é" if x else ""',
        "    return low < x < high or é",
        "    return low <= x <= high or é",
        '        return len("a < b") > used',
        '        return len("a < b") + 1 >= used',
    }


def test_a_key_stays_where_lines_above_move_and_no_two_mutants_share_a_key():
    keys = [mutant.key for mutant in mutants_of("a.py", SOURCE)]
    assert keys == [mutant.key for mutant in mutants_of("a.py", "import os\n\n" + SOURCE)]
    twice = SOURCE.replace("low <= x", "low <= x <= low")
    keys = [mutant.key for mutant in mutants_of("a.py", twice)]
    assert len(set(keys)) == len(keys) == 6


def test_every_equivalent_mutant_exists_and_has_a_reason():
    """An entry of a line that has changed speaks of nothing, and may hide nothing either."""
    reasons = equivalent(EQUIVALENT)
    assert set(reasons) <= {mutant.key for mutant in all_mutants(TREE, LAYERS)}
    assert [key for key, reason in reasons.items() if len(reason) < 20] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("checked", "verdict"), [("2", "survives 1 tests"), ("1", "killed by tests/test_room.py::")])
def test_a_mutant_ends_by_its_tests(tmp_path, checked, verdict):
    """The whole way: record the lines of a test, change a line, run the test, keep the result."""
    (tmp_path / "roomy").mkdir()
    (tmp_path / "roomy" / "room.py").write_text("def has_room(used):\n    return used < 1\n")
    (tmp_path / "tests").mkdir()
    # As the real tests are: a package with a conftest, of the same name as the package of this file.
    (tmp_path / "tests" / "__init__.py").write_text("")
    (tmp_path / "tests" / "conftest.py").write_text("import tests.conftest\n")
    test = tmp_path / "tests" / "test_room.py"
    test.write_text(f"from roomy.room import has_room\n\ndef test_room():\n    assert not has_room({checked})\n")
    (tmp_path / "roomy" / "__init__.py").write_text("")
    tree = CopiedTree.__new__(CopiedTree)
    tree.root, tree._writes = tmp_path, 0
    folder = tmp_path / "results"
    name = "tests/test_room.py"
    TestMap.record(folder, tree, name, digest(test), [str(tmp_path / "roomy")], 60)
    [mutant] = all_mutants(tmp_path, ["roomy"])
    [(_, found)] = verdicts([mutant], tree, TestMap(folder), 60)
    assert found.startswith(verdict)
    assert attempt(mutant, tree, ["tests"], [], 60).startswith(verdict)
    tried = tmp_path / "tried.txt"
    assert not Results(tried, [mutant]).settles(mutant, again=False)
    Results(tried, [mutant]).add(mutant, KINDS[found.partition(" ")[0]])
    assert Results(tried, [mutant]).settles(mutant, again=False)
    assert Results(tried, [mutant]).settles(mutant, again=True) == verdict.startswith("killed")


@pytest.mark.exhaustive
@pytest.mark.parametrize("limit", ["LIMIT = 1", "LIMIT = 2 - 1"])
def test_no_mutant_is_tried_with_tests_that_fail_without_it(tmp_path, monkeypatch, limit):
    """Each mutant counted as killed there. The map is of an earlier time, when the test passed; or the tests are given.

    The second limit has a mutant that runs at import, which is tried in another way.
    """
    source = tmp_path / "roomy" / "room.py"
    source.parent.mkdir()
    source.write_text(f"{limit}\n\ndef room(used):\n    return used < LIMIT\n")
    (tmp_path / "roomy" / "__init__.py").write_text("")
    test = tmp_path / "tests" / "test_room.py"
    test.parent.mkdir()
    (test.parent / "__init__.py").write_text("")
    test.write_text("from roomy.room import room\n\ndef test_room():\n    assert not room(1)\n")
    tree = CopiedTree.__new__(CopiedTree)
    tree.root, tree._writes = tmp_path, 0
    folder, name = tmp_path / "results", "tests/test_room.py"
    TestMap.record(folder, tree, name, digest(test), [str(tmp_path / "roomy")], 60)
    tree.write("roomy/room.py", source.read_text().replace("used <", "used + 0 <=").replace("(used)", "(used, more=0)"))
    mutants = all_mutants(tmp_path, ["roomy"])
    told = f"nothing was tried, since the tests fail without a mutant: failed {name}::test_room"
    with pytest.raises(SystemExit, match=told):
        list(verdicts(mutants, tree, TestMap(folder), 60))
    only = [mutant for mutant in mutants if mutant.runs_at_import]
    if only:
        with pytest.raises(SystemExit, match=told):
            list(verdicts(only, tree, TestMap(folder), 60))
    monkeypatch.setattr(main, "CopiedTree", lambda *_: tree)
    monkeypatch.setattr(main, "TRIED", tmp_path / "tried.txt")
    monkeypatch.setattr(tree, "remove", lambda: None)
    options = argparse.Namespace(
        below=["roomy"], again=False, sample=0, tests=["tests"], seconds=60, folder=folder, verb="run"
    )
    with pytest.raises(SystemExit, match=told):
        main.run(options)
    assert not (tmp_path / "tried.txt").exists()


HELD = """\
from functools import lru_cache

def below(limit):
    return lambda x: x < limit

class Room:
    @property
    def is_full(self):
        return len("full") > 4

@lru_cache
def following(x):
    return x + 1

first, second = lambda x: x < 1, lambda x: x < 1
"""


@pytest.mark.parametrize("number", range(6))
def test_whoever_holds_a_function_has_the_mutant_of_it(tmp_path, monkeypatch, number):
    """A closure, a property, what a decorator holds, and one of two functions on a line; a constant is made at import."""
    file, source = tmp_path / f"held_{number}.py", HELD + "LIMIT = 1 + 1\n"
    file.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(file.stem)
    held = (module.below(1), lambda _: module.Room().is_full, module.following, module.first, module.second)
    mutant = mutants_of(file.name, source)[number]
    assert put_in_place(file, file.name, source, mutant.apply(source)) == (number < 5)
    is_changed = [one(1) != was for one, was in zip(held, (False, False, 2, False, False), strict=True)]
    assert is_changed == [place == number for place in range(5)]


def test_results_stay_where_another_function_changes_and_go_with_their_own(tmp_path):
    tried = tmp_path / "tried.txt"
    mutants = mutants_of("a.py", SOURCE)
    for mutant, word in zip(mutants, ["killed", "survive", "killed", "survive", "killed"], strict=True):
        Results(tried, mutants).add(mutant, word)
    [other] = mutants_of("b.py", "def f(x):\n    return x + 1\n")
    Results(tried, [other]).add(other, "killed")
    documented = SOURCE.replace("high):\n", 'high):\n    """Say so."""\n    # A comment.\n')
    changed = mutants_of("a.py", "import os\n\n" + documented.replace("> used", "> used and True"))
    words = [Results(tried, changed).of(mutant) for mutant in changed]
    assert words == ["killed", "survive", "killed", "not run", "not run"]
    Results(tried, changed).add(changed[4], "killed")
    assert [len(line.split()) for line in tried.read_text().splitlines() if line[0] != "#"] == [3, 2]


def test_two_lines_of_a_file_after_a_merge_are_one(tmp_path):
    tried = tmp_path / "tried.txt"
    mutants = mutants_of("a.py", SOURCE)
    content = mutants[0].content
    assert [mutant.content for mutant in mutants[:3]] == [content] * 3
    tried.write_text(f"a.py {content}=.sk\na.py {content}=sk.\n")
    assert [Results(tried, mutants).of(mutant) for mutant in mutants[:3]] == ["survive", "killed", "killed"]


def test_a_run_of_pytest_that_fails_is_no_record(tmp_path):
    """It was recorded as a file without a test, and each mutant of all lines as executed by no test."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text("raise ImportError\n")
    test = tmp_path / "tests" / "test_room.py"
    test.write_text("def test_room():\n    pass\n")
    tree = CopiedTree.__new__(CopiedTree)
    tree.root, tree._writes = tmp_path, 0
    told = TestMap.record(tmp_path / "results", tree, "tests/test_room.py", digest(test), [str(tmp_path)], 60)
    assert told.startswith("left out")
    assert not (tmp_path / "results").exists()
