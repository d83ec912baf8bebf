"""Fixtures for all tests: the corpus of real logs, and how many examples property tests try."""

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.spark.spark_session import spark  # noqa: F401 fixture
from tests.support.archives import CORPUS, unpack
from tests.support.effort import (  # noqa: F401 hooks
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_make_parametrize_id,
    pytest_report_collectionfinish,
)
from tests.support.evidence import evidence, pytest_sessionfinish, pytest_terminal_summary  # noqa: F401 fixture and hooks
from tests.support.exit_codes import exit_codes_are_listed  # noqa: F401 fixture
from tests.support.scheduling import pytest_collection, pytest_xdist_make_scheduler  # noqa: F401 hooks

# A developer's own variables are none of the tests'.
for name in [name for name in os.environ if name.startswith("KAFKALOG_") and not name.startswith("KAFKALOG_TEST_")]:
    del os.environ[name]

# A shell starts its background jobs with SIGINT ignored, and nohup ignores SIGHUP; children would inherit it.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# The tests make a hundred thousand files and sync many of them. Their directories are in memory where that has room, which
# saves a tenth of the time. TMPDIR names another place; `.ci/run` takes the disk for the tests on other Pythons.
MEMORY, NEEDED_BYTES = "/dev/shm", 8 << 30


def has_room_in_memory():
    """Containers often have little room there, or forbid to execute files, as some tests do."""
    if not os.access(MEMORY, os.W_OK | os.X_OK) or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return False
    (kilobytes,) = re.findall(r"(?m)^MemAvailable: *(\d+) kB$", Path("/proc/meminfo").read_text())
    return min(shutil.disk_usage(MEMORY).free, int(kilobytes) << 10) >= NEEDED_BYTES


if "TMPDIR" not in os.environ and has_room_in_memory():
    os.environ["TMPDIR"], tempfile.tempdir = MEMORY, None

# The tests start hundreds of processes. Each would compile our source again where no byte code may be written: 0.6 s of CPU
# instead of 0.3 for `kafkalog verify`.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A process that a test starts says by a line that it is ready, and then waits: Python would keep the line in its buffer.
os.environ["PYTHONUNBUFFERED"] = "1"

# The tests ask Spark small questions: Java's second compiler and parallel garbage collector would take more time than they
# save. In all it is half of the CPU that a query takes, and a third of what a start takes.
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Each worker of xdist collects 17,000 tests, all of which stay: the garbage collector need not go through them.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """The folder with the cases of tests/fixtures/corpus; tests leave it as it is."""
    target = tmp_path_factory.mktemp("corpus")
    unpack(CORPUS, target)
    return target / "corpus"
