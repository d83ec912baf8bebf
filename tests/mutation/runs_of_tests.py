"""Runs of pytest in child processes, on a copy of the tree.

The parent has imported the large libraries and nothing of the project, so that each child starts at once and imports the
changed source.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import hypothesis  # noqa: F401 children use it without importing it again
import numpy  # noqa: F401, ICN001
import pyarrow  # noqa: F401, ICN001
import pytest

LEFT_OUT = "not interop and not spark"
ENDS_WITH_TESTS = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
"""Otherwise pytest itself failed, and its run says nothing of tests."""
MOST_MEMORY = 6 << 30
"""A mutant that loops may also allocate without an end."""


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
        for name in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0"):
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

    def run(self, arguments: list[str], plugin: object, seconds: float) -> str | None:
        """Run pytest in a child until `seconds` have passed; return `plugin.answer`, nothing if pytest failed, None of a hung run."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                os.close(reader)
                self._become_pytest(arguments, plugin, writer)
            finally:
                os._exit(0)
        os.close(writer)
        try:
            return _read_all(reader, time.monotonic() + seconds)
        finally:
            os.close(reader)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _become_pytest(self, arguments, plugin, writer) -> None:
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
        # As the whole test suite runs: a test file that is named alone would run with all exhaustive cases.
        os.environ.setdefault("TEST_SHARE", "0/24")
        # The other core of coverage tells a line once, and not for each test.
        os.environ["COVERAGE_CORE"] = "ctrace"
        # Not the user's cache: it would be of the copy after each run.
        os.environ["NUMBA_CACHE_DIR"] = str(self.root.parent / "kernels")
        common = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-o", "addopts=", "-m", LEFT_OUT]
        ended = pytest.main([*common, *arguments], plugins=[plugin])
        if ended in ENDS_WITH_TESTS:
            with os.fdopen(writer, "w") as stream:
                stream.write(plugin.answer())


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


class Chosen:
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


class LinesOfTests:
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
