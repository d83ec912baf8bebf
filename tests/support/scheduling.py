"""Which worker of pytest-xdist runs a test: the tests of a file, or of an `xdist_group`, run in one worker.

With `--dist loadgroup` alone, xdist gives each other test to any worker. Both workers then make the fixtures of a file, and they wait for xdist
before each of 12,000 tests.

In a new clone, all workers would compile the asserts of all files, 12 s of CPU each. So each of them imports another part of the files first,
and keeps their byte code for the others.

Groups are handed out first, as they start brokers and Spark, which take long, and so are LONG_FILES; the others follow by their number of
tests. So no worker has a long group left when the others have ended. The tests with Spark are two groups, by file: as one they take longer than all others
together, and as more they start more sessions.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from importlib import import_module

import pytest

SPARK_GROUPS = 2
LONG_FILES = {
    "tests/kafka/test_other_users_live.py",
    "tests/crash/test_planted_bugs.py",
    "tests/crash/test_killed.py",
    "tests/damage/test_large_records.py",
    "tests/unit/test_native_library.py",
}
"""Each has a few tests that take 10 to 40 s in all: at the end, the other workers would wait for it."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            group, file = super()._split_scope(nodeid), nodeid.partition("::")[0]
            if group == "spark":
                return f"spark {zlib.adler32(file.encode()) % SPARK_GROUPS}"
            return file if group == nodeid else group

        def _assign_work_unit(self, node):
            self.workqueue.move_to_end(max(self.workqueue, key=self._weight), last=False)
            super()._assign_work_unit(node)

        def _weight(self, scope):
            return not scope.endswith(".py") or scope in LONG_FILES, len(self.workqueue[scope])

    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    names = modules_below(session.config.rootpath, session.config.args)
    for name in names[int(worker.removeprefix("gw")) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
        with suppress(Exception, pytest.skip.Exception):  # the collection tells of it
            import_module(name)


def modules_below(root, folders):
    """The names of the modules with tests in the folders that are named."""
    files = {path for folder in folders for path in (root / folder).rglob("test_*.py")}
    return [".".join(path.relative_to(root).with_suffix("").parts) for path in sorted(files)]
