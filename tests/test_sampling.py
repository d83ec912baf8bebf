"""The shares of the exhaustive tests: together they are all cases, and none leaves a test function out."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.remote import WorkerInteractor

from tests.support import scheduling
from tests.support.evidence import PAGE
from tests.support.sampling import PART, RUN, SHARES, sampled, some_of
from tests.support.scheduling import pytest_xdist_make_scheduler

TESTS = """
import pytest

@pytest.mark.exhaustive
@pytest.mark.parametrize("n", range(30))
def test_many(n):
    pass

@pytest.mark.exhaustive
@pytest.mark.parametrize("n", range(3))
def test_few(n):
    pass

@pytest.mark.exhaustive
def test_alone():
    pass

@pytest.mark.parametrize("n", range(10))
def test_not_marked(n):
    pass

@pytest.mark.exhaustive(together=True)
@pytest.mark.parametrize("n", range(2))
class Test:
    def test_one(self, n):
        pass

    def test_other(self, n):
        pass
"""
TAKES_TURNS = """
@pytest.mark.exhaustive(in_turn=True)
def test_in_turn_{n}():
    pass
"""
TURNS = SHARES
TESTS += "".join(TAKES_TURNS.format(n=n) for n in range(TURNS))
COUNT = 30 + 3 + 1 + 10 + 4 + TURNS


@pytest.fixture
def suite(pytester, monkeypatch):
    monkeypatch.delenv("TEST_SHARE", raising=False)  # `.ci/run` sets it
    for name, value in RUN.items():  # the suite runs in this process: it is put back at the end
        monkeypatch.setitem(RUN, name, value)
    pytester.makeini("[pytest]\nmarkers =\n  exhaustive: very many cases\n")
    pytester.makeconftest(
        "from tests.support.sampling import pytest_addoption, pytest_collection_modifyitems, pytest_configure"
    )
    (pytester.mkdir("suite") / "test_it.py").write_text(TESTS)
    return pytester


def ran(suite, *arguments):
    """Names of the tests that ran and passed."""
    result = suite.inline_run("-p", "no:cacheprovider", "-p", "no:randomly", *arguments)
    passed, skipped, failed = result.listoutcomes()
    assert not skipped
    assert not failed
    return {report.nodeid.rpartition("::")[2] for report in passed}


@pytest.mark.parametrize("count", [1, 2, SHARES - 1, SHARES, SHARES + 1, 200])
@pytest.mark.parametrize("function", ["a.py::test_a", "b.py::test_b", "c.py::test_c"])
def test_the_shares_together_are_all_cases(function, count):
    names = [f"{function}[{n}]" for n in range(count)]
    shares = [sampled(names, function, share, SHARES) for share in range(SHARES)]
    assert set().union(*shares) == set(names)
    assert all(shares)
    assert max(map(len, shares)) <= -(-count // SHARES)


@pytest.mark.parametrize("count", [1, 2, PART - 1, PART, PART + 1, 50])
def test_the_eighths_of_a_loop_together_are_all_cases(monkeypatch, count):
    cases, found = list(range(count)), []
    for share in range(SHARES):
        monkeypatch.setitem(RUN, "share", share)
        monkeypatch.setitem(RUN, "is whole", True)
        assert some_of(cases) == cases
        monkeypatch.setitem(RUN, "is whole", False)
        assert 1 <= len(some_of(cases)) <= -(-count // PART)
        found += some_of(cases)
    assert set(found) == set(cases)


def test_a_share_has_some_cases_of_each_function(suite):
    names = ran(suite, "suite", "--share", f"1/{SHARES}")
    functions = [name.partition("[")[0] for name in names]
    assert functions.count("test_not_marked") == 10
    assert 1 <= functions.count("test_many") <= 2
    assert functions.count("test_few") == functions.count("test_alone") == 1
    assert len({name for name in names if name in ("test_one[0]", "test_other[0]")}) in (0, 2)
    assert functions.count("test_one") == functions.count("test_other") == 1
    assert sum(name.startswith("test_in_turn_") for name in functions) == TURNS / SHARES


def test_one_case_of_each_function(suite):
    names = ran(suite, "suite", "--share", f"1/{SHARES}", "--one-case")
    functions = [name.partition("[")[0] for name in names if not name.startswith("test_in_turn_")]
    assert sorted(functions) == sorted(
        ["test_many", "test_few", "test_alone", "test_not_marked", "test_one", "test_other"]
    )
    others = (ran(suite, "suite", "--share", f"{n}/10", "--one-case") for n in range(10))
    assert len(set().union(*others) & {f"test_not_marked[{n}]" for n in range(10)}) == 10


def test_files_take_turns(suite):
    """A file with a fixture of its own is one case beside the tests that are one each."""
    text = "import pytest\npytestmark = pytest.mark.exhaustive(in_turn=True, together=True)\n"
    for n in range(SHARES):
        (suite.path / "suite" / f"test_file_{n}.py").write_text(f"{text}def test_a{n}(): pass\ndef test_b{n}(): pass\n")
    names = ran(suite, "suite", "--share", f"1/{SHARES}")
    whole = [n for n in range(SHARES) if {f"test_a{n}", f"test_b{n}"} <= names]
    assert len(whole) + sum(name.startswith("test_in_turn_") for name in names) == 2
    assert sum(name.startswith(("test_a", "test_b")) for name in names - {"test_alone"}) == 2 * len(whole)


def test_later_stages_of_a_file_take_turns(suite):
    """Tests and parameters of a fixture with one name are one case, and the other tests of their file are in each run."""
    (suite.path / "suite" / "test_stages.py").write_text(
        "import pytest\nLATER = pytest.mark.exhaustive(in_turn=True, together='later')\n"
        "@pytest.fixture(params=['first', pytest.param('second', marks=LATER)])\ndef stage(request): pass\n"
        "def test_stage(stage): pass\n@LATER\ndef test_stage_at_the_end(): pass\n"
    )
    seen = [{name for name in ran(suite, "suite", "--share", f"{n}/3") if "stage" in name} for n in range(3)]
    assert sorted(map(len, seen)) == [1, 1, 3]
    assert all("test_stage[first]" in names for names in seen)


def test_names_do_not_depend_on_the_second_in_which_a_worker_collects(suite):
    suite.makeconftest(
        "from tests.support.sampling import pytest_addoption, pytest_configure, pytest_make_parametrize_id"
    )
    (suite.path / "suite" / "test_it.py").write_text(
        "import gzip, pytest\n@pytest.mark.parametrize('data', [b'k', gzip.compress(b'v'), gzip.compress(b'w')])\n"
        "def test_bytes(data): pass\n"
    )
    assert ran(suite, "suite") == {"test_bytes[k]", "test_bytes[data0]", "test_bytes[data1]"}


def test_all_shares_of_a_suite(suite):
    assert len(set().union(*(ran(suite, "suite", "--share", f"{n}/5") for n in range(5)))) == COUNT
    assert len(ran(suite, "suite", "--share", "all")) == COUNT


def test_a_named_file_runs_whole(suite):
    assert len(ran(suite, "suite/test_it.py")) == COUNT
    assert ran(suite, "suite") == ran(suite, "suite", "--share", f"0/{SHARES}")


def test_an_eighth_of_a_fuzz(suite):
    (suite.path / "suite" / "test_it.py").write_text(
        "from tests.support.sampling import part_of\nCASES = part_of(30)\ndef test_count(request):\n"
        "    assert CASES == (30 if request.config.getoption('share') == 'all' else 4)\n"
    )
    assert ran(suite, "suite", "--share", f"0/{SHARES}") == ran(suite, "suite", "--share", "all") == {"test_count"}


@pytest.mark.parametrize("share", ["12/12", "1/0", "x", "-1/12", "1"])
def test_a_share_that_is_none(suite, share):
    assert suite.inline_run("suite", f"--share={share}").ret == pytest.ExitCode.USAGE_ERROR


def test_the_tests_of_a_file_or_group_go_to_one_worker(pytester):
    scheduler = pytest_xdist_make_scheduler(pytester.parseconfig("--tx=popen", "--dist=loadgroup"), None)
    names = ["a/b.py::test[x::y@z]", "a/b.py::C::test", "a/b.py::test_b@broker", "c.py::test@broker"]
    assert [*map(scheduler._split_scope, names)] == ["a/b.py", "a/b.py", "broker", "broker"]
    groups = {(file, scheduler._split_scope(f"{file}.py::{test}@spark")) for file in "abcdef" for test in ("x", "y")}
    assert len(groups) == len("abcdef")  # the tests of a file stay together
    assert {group for _, group in groups} == {"spark 0", "spark 1"}
    assert pytest_xdist_make_scheduler(pytester.parseconfig("--tx=popen", "--dist=load"), None) is None


def test_xdist_knows_the_group_of_a_test(pytester, monkeypatch):
    """With some pytest it does not, and each worker starts a Spark and brokers of its own."""
    (item,) = pytester.getitems("import pytest\n@pytest.mark.xdist_group('spark')\ndef test_it(): pass\n")
    monkeypatch.setattr(item.config.option, "loadgroup", True, raising=False)
    WorkerInteractor.pytest_collection_modifyitems(None, item.config, [item])
    assert item.nodeid.endswith("::test_it@spark")


class Node:
    """A worker, as its scheduler sees it."""

    shutting_down = False

    def __init__(self):
        self.sent = []

    def send_runtest_some(self, indexes):
        self.sent += indexes

    def shutdown(self):
        self.shutting_down = True


def test_groups_and_then_long_files_are_handed_out_first(pytester):
    config = pytester.parseconfig("--tx=popen", "--dist=loadgroup")
    scheduler, node = pytest_xdist_make_scheduler(config, None), Node()
    names = ["a.py::test", *(f"b.py::test[{n}]" for n in range(2)), "c.py::test@spark"]
    scheduler.add_node(node)
    scheduler.add_node_collection(node, names)
    scheduler.schedule()
    assert [names[at] for at in node.sent] == [names[3], *names[1:3]]
    scheduler.mark_test_complete(node, 3)
    assert [names[at] for at in node.sent] == [names[3], *names[1:3], names[0]]
    assert not scheduler.workqueue


def test_each_worker_imports_a_part_of_the_files_first(suite, monkeypatch):
    for name in ("a", "b", "c", "not_b"):
        (suite.path / "suite" / f"test_{name}.py").write_text("raise OSError" if name == "b" else "")
    config, imported = suite.parseconfig("suite"), []

    def imports(name):
        imported.append(name)
        if name == "suite.test_b":
            raise OSError

    monkeypatch.setattr(scheduling, "import_module", imports)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    for worker in range(3):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        scheduling.pytest_collection(SimpleNamespace(config=config))
    assert imported == [f"suite.test_{name}" for name in ("a", "it", "b", "not_b", "c")]
    assert scheduling.modules_below(suite.path, ["suite/test_a.py", "suite/test_b.py::test_it"]) == []


def files_of_tests(word):
    """(path, each function with its marks and those of its file) of each file of tests with a word."""
    for path in Path(__file__).parent.rglob("test_*.py"):
        text = path.read_text()
        body = ast.parse(text).body if word in text else []
        functions = [each for each in body if isinstance(each, ast.FunctionDef)]
        marks = " ".join(ast.unparse(each) for each in body if "pytestmark" in ast.unparse(each).partition("=")[0])
        yield path, [(each, f"{[*map(ast.unparse, each.decorator_list)]} {marks}") for each in functions]


def test_spark_is_started_in_few_workers():
    """A test that takes the session belongs to a group: else its worker would start a Spark for it alone."""
    alone = [
        f"{path.name}::{function.name}"
        for path, functions in files_of_tests("spark")
        for function, marks in functions
        if function.name.startswith("test_") and "spark" in {one.arg for one in function.args.args}
        if "xdist_group" not in marks
    ]
    assert alone == []


def rows_of_tests():
    """(row of docs/reliability.md, whether the test is exhaustive) of each test that tells how much it tried."""
    for _, marked in files_of_tests("evidence"):
        functions = [function for function, _ in marked]
        exhaustive = [function for function, marks in marked if "pytest.mark.exhaustive" in marks]
        sampled_names = {each.name for each in exhaustive} | {name for each in exhaustive for name in called(each)}
        for function in functions:
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "evidence":
                    yield ast.literal_eval(call.args[0]), function.name in sampled_names


def called(function):
    return {ast.unparse(call.func) for call in ast.walk(function) if isinstance(call, ast.Call)}


def test_the_page_says_of_which_rows_a_run_has_a_share():
    found = set(rows_of_tests())
    told = dict(re.findall(r"^\| (R\d+[a-z]?|corpus) \|.*\| (all|a share) \|$", PAGE.read_text(), re.MULTILINE))
    assert set(told) == {row for row, _ in found}
    assert {row for row, said in told.items() if said == "a share"} == {row for row, exhaustive in found if exhaustive}
