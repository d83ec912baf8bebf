"""Runs of pytest in child processes, on a copy of the tree.

The parent has imported the large libraries and nothing of the project, so that each child starts at once and imports the
changed source.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO

import hypothesis  # noqa: F401 children use it without importing it again
import numpy  # noqa: F401, ICN001
import pyarrow  # noqa: F401, ICN001
import pytest

from tests.mutation.mutants import Mutant

WITHOUT_A_MUTANT = "first"
TestsOf = Callable[[Mutant, Counter[str]], dict[str, float]]
LEFT_OUT = "not interop and not spark"
ENDS_WITH_TESTS = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
"""Otherwise pytest itself failed, and its run says nothing of tests."""
MOST_MEMORY = 6 << 30
"""A mutant that loops may also allocate without an end."""
NATIVE = "kafkalog_cli/format/native.lib"
"""Built and not tracked: without it no command answers."""


class CopiedTree:
    """A copy of the files of the project, for mutants to change."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.root = folder.resolve() / "tree"
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another run mutates the copy of the tree in {self.root}: wait until it ends") from None
        self.remove()
        command = ["git", "-C", str(tree), "ls-files", "-co", "--exclude-standard", "-z"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in [*names, NATIVE]:
            if name and (tree / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, self.root / name, follow_symlinks=False)
        self._writes = 0

    def write(self, path: str, source: str) -> None:
        """Replace a source file; its time is unlike all earlier times, or Python would load the old bytecode."""
        self._writes += 1
        (self.root / path).write_text(source)
        os.utime(self.root / path, (self._writes, self._writes))

    def remove(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, arguments: list[str], plugin: Plugin, seconds: float) -> str | None:
        """Run pytest in a child until `seconds` have passed; return `plugin.answer`, nothing if pytest failed, None of a hung run."""
        with _child(lambda writer: self._become_pytest(arguments, plugin, writer)) as reader:
            return _read_all(reader, time.monotonic() + seconds)

    def lines(self, arguments: list[str], plugin: Plugin) -> Iterator[str]:
        """Run pytest in a child; yield the lines that the plugin writes to `plugin.stream`."""
        with (
            _child(lambda writer: self._become_pytest(arguments, plugin, writer)) as reader,
            os.fdopen(os.dup(reader)) as stream,
        ):
            yield from (line.removesuffix("\n") for line in stream)

    def _become_pytest(self, arguments: list[str], plugin: Plugin, writer: int) -> None:
        os.chdir(self.root)
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        sys.path.insert(0, str(self.root))
        # The package `tests` of the tree: the copy has its own.
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        os.environ["PYTHONPATH"] = str(self.root)
        # The other core of coverage tells a line once, and not for each test.
        os.environ["COVERAGE_CORE"] = "ctrace"
        # Not the user's cache: it would be of the copy after each run.
        common = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-o", "addopts=", "-m", LEFT_OUT]
        with os.fdopen(writer, "w") as plugin.stream:
            if pytest.main([*common, *arguments], plugins=[plugin]) in ENDS_WITH_TESTS:
                plugin.stream.write(plugin.answer())


@contextlib.contextmanager
def _child(work: Callable[[int], None]) -> Iterator[int]:
    """Fork a child that does the work with the end of a pipe, whose other end this gives; in the end it is killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.close(reader)
            work(writer)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        yield reader
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _read_all(reader: int, end: float) -> str | None:
    os.set_blocking(reader, False)
    found = b""
    while time.monotonic() < end:
        try:
            part = os.read(reader, 1 << 20)
        except BlockingIOError:
            time.sleep(0.02)
            continue
        if not part:
            return found.decode()
        found += part
    return None


class Plugin:
    """What all our plugins have: a stream to the parent, and the answer that is written to it in the end."""

    stream: IO[str]

    def answer(self) -> str:
        """Nothing more."""
        return ""


class Chosen(Plugin):
    """A pytest plugin that runs the tests of given names, in the order given, and answers with the test that failed."""

    def __init__(self, names: list[str]) -> None:
        self._order = {name: place for place, name in enumerate(names)}
        self._ran = 0
        self._failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Keep the chosen tests; all if none is chosen."""
        if not self._order:
            return
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )

    def pytest_collectreport(self, report):
        """A file that cannot be imported shows the mutant too."""
        if report.failed:
            self._failed = self._failed or f"import of {report.nodeid}"

    def pytest_runtest_logreport(self, report):
        """Keep the first failure."""
        self._ran += report.when == "call"
        if report.failed:
            self._failed = self._failed or report.nodeid

    def answer(self) -> str:
        """`failed NAME` or `passed COUNT`."""
        return f"failed {self._failed}" if self._failed else f"passed {self._ran}"


class EachInPlace(Plugin):
    """A pytest plugin that collects the tests once, and runs the tests of each mutant in a child of this process.

    The child gives the functions that are there the code of the mutant, which takes a tenth of the time of a new import. The changed
    file is there too, for tests that start processes. `tests_of` gives the names of tests with their seconds.
    """

    def __init__(self, tree: CopiedTree, mutants: list[Mutant], tests_of: TestsOf) -> None:
        self._tree, self._mutants, self._tests_of = tree, mutants, tests_of

    def pytest_runtestloop(self, session):
        """Write a line per mutant: its number, and `failed NAME`, `passed COUNT`, `hangs` or `not in place`.

        The first line is of all these tests without a mutant. There is no other line unless they pass.
        """
        items = {item.nodeid: item for item in session.items}

        def tests_of(*mutants: Mutant) -> list[tuple[pytest.Item, float]]:
            found = {name: took for one in mutants for name, took in self._tests_of(one, killers).items()}
            return [(items[name], seconds) for name, seconds in found.items() if name in items]

        killers: Counter[str] = Counter()
        green = self._answer(session, tests_of(*self._mutants), lambda: True)
        self._write(f"{WITHOUT_A_MUTANT} {green}")
        for number, mutant in enumerate(self._mutants if green.startswith("passed") else ()):
            verdict = self._attempt(session, mutant, tests_of(mutant))
            killers[verdict.partition(" ")[2]] += verdict.startswith("failed")
            self._write(f"{number} {verdict}")
        return True

    def _write(self, line: str) -> None:
        self.stream.write(f"{line}\n")
        self.stream.flush()

    def _attempt(self, session, mutant, tests) -> str:
        path = self._tree.root / mutant.path
        source = path.read_text()
        changed = mutant.apply(source)
        self._tree.write(mutant.path, changed)
        try:
            return self._answer(session, tests, lambda: put_in_place(path, mutant.path, source, changed))
        finally:
            self._tree.write(mutant.path, source)

    def _answer(self, session, tests, prepare: Callable[[], bool]) -> str:
        with _child(lambda writer: self._run(session, tests, prepare, writer)) as reader:
            limit = 60 + 10 * sum(seconds for _, seconds in tests)
            return _read_all(reader, time.monotonic() + limit) or "hangs"

    def _run(self, session, tests, prepare, writer) -> None:
        answer = "not in place"
        if prepare():
            chosen = Chosen([])
            session.config.pluginmanager.register(chosen)
            following = [item for item, _ in tests[1:]] + [None]
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            for (item, seconds), next_item in zip(tests, following, strict=True):
                # A test in an endless loop ends this process, and nothing is answered.
                signal.setitimer(signal.ITIMER_REAL, 10 + 5 * seconds)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
                answer = chosen.answer()
                if answer.startswith("failed"):
                    break
        os.write(writer, answer.encode())


def put_in_place(file: Path, path: str, source: str, changed: str) -> bool:
    """Give all functions whose code differs in the changed source the changed code; return whether there are any."""
    importlib.import_module(path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
    old, new = (_codes(compile(text, str(file), "exec", dont_inherit=True)) for text in (source, changed))
    other = {before: after for before, after in zip(old, new, strict=True) if before != after}
    found = [one for one in gc.get_objects() if type(one) is FunctionType and one.__code__ in other]
    for function in found:
        function.__code__ = other[function.__code__]
    return bool(found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class LinesOfTests(Plugin):
    """A pytest plugin that records the lines of `folders` that each passing test executes, and its seconds."""

    def __init__(self, folders: list[str]) -> None:
        from coverage import Coverage

        self._coverage = Coverage(data_file=None, source=folders, config_file=False, messages=False)
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_sessionstart(self):
        """Begin before the test file is imported."""
        self._coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        """From here on lines belong to this test."""
        self._coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report):
        """Keep the seconds; a test that fails on the copy tells nothing about mutants."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def answer(self) -> str:
        """JSON with `seconds` per test, and `lines`: per source file and line the tests."""
        self._coverage.stop()
        data = self._coverage.get_data()
        root = Path.cwd()
        lines = {}
        for path in data.measured_files():
            found = {line: self._passing(names) for line, names in data.contexts_by_lineno(path).items()}
            lines[str(Path(path).relative_to(root))] = {line: names for line, names in found.items() if names}
        seconds = {name: round(took, 3) for name, took in self._seconds.items() if name not in self._failed}
        return json.dumps({"seconds": seconds, "lines": lines, "failed": sorted(self._failed)})

    def _passing(self, names) -> list[str]:
        return sorted(name for name in names if name and name in self._seconds and name not in self._failed)
