"""The lock of a log directory between `kafkalog` and Java, by the class that a broker locks with.

Each of the two keeps the other out; two of ours let each other in; readers ask and take none.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import count

import pytest

from tests.cli.trials import RECOVERED, TORN
from tests.cli.trials import WRITERS as ALL_WRITERS
from tests.kafka.recovering import ENVIRONMENT, kafkalog, our_lock
from tests.support.commands import everything

pytestmark = pytest.mark.xdist_group("broker-lock")  # what its fixtures make is made once

LOCKED = 11
SECONDS = 120
WRITERS = {name: command for name, command in ALL_WRITERS.items() if name.split()[0] in {"recover", "undo", "purge"}}
READERS = {
    "ls": ["ls", "DATA"],
    "ls json": ["ls", "--format", "json", "DATA"],
    "dump-log": ["dump-log", "--files", f"DATA/{TORN}/00000000000000000000.log"],
    "dump-log of all": ["dump-log", "--format", "json", "DATA"],
    "dump-index": ["dump-index", "DATA"],
    "lookup-offset": ["lookup-offset", f"DATA/{TORN}", "60"],
    "lookup-time": ["lookup-time", f"DATA/{TORN}", "--earliest"],
    "verify": ["verify", "DATA"],
    "verify a partition": ["verify", "--level", "deep", f"DATA/{TORN}"],
    "verify a file": ["verify", f"DATA/{TORN}/00000000000000000000.log"],
    "verify against": ["verify", f"DATA/{TORN}", "--against", f"DATA/{RECOVERED}"],
    "salvage": ["recover", "--salvage", "OUT", f"DATA/{TORN}"],
    "what recover would do": ["recover", "--dry-run", "DATA"],
    "what undo would do": ["undo", "--dry-run", "DATA", "RUN"],
    "what purge would do": ["purge", "--dry-run", "--older-than", "0s", "DATA"],
}


class LogDir:
    """A log directory with a partition to recover, and one that was recovered."""

    def __init__(self, path):
        self.path = path
        done = kafkalog("recover", "--format", "json", path / RECOVERED)
        self._outs = count()
        self.run = next(json.loads(line)["run"] for line in done.out.splitlines())
        (path / ".lock").unlink()

    def arguments(self, words):
        """The words of a command line; whatever is written goes to a new directory each time."""
        names = {"DATA": str(self.path), "RUN": self.run, "OUT": str(self.path.with_name(f"out-{next(self._outs)}"))}
        return [re.sub("DATA|RUN|OUT", lambda name: names[name[0]], word) for word in words]


@pytest.fixture
def log_dir(corpus, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(corpus / "crash-torn" / "before", data)
    (data / "crash-torn-0").rename(data / TORN)
    (data / TORN / "00000000000000000057.index").unlink()
    shutil.copytree(data / TORN, data / RECOVERED)
    return LogDir(data)


def contents(root):
    """What files there are, with their contents; locks, which have none, are left out."""
    return {
        path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name not in {".lock", "lock"}
    }


@pytest.fixture(scope="module")
def class_path(real_kafka):
    return real_kafka.class_path


class Java:
    """A JVM that has locked, or could not lock, a log directory as a broker does."""

    def __init__(self, process):
        self._process = process
        words = process.stdout.readline().split()
        self.pid = int(words[1]) if words[0] == "held" else None

    def release(self):
        self._process.stdin.close()
        self._process.wait(SECONDS)


@contextmanager
def java_lock(class_path, data):
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx64m", "-cp", class_path, "HoldLock", str(data / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        java = Java(process)
        yield java
        java.release()


def test_java_keeps_writers_out(log_dir, class_path, evidence):
    with java_lock(class_path, log_dir.path) as java:
        before = everything(log_dir.path)
        for name, words in WRITERS.items():
            done = kafkalog(*log_dir.arguments(words))
            assert done.code == LOCKED, (name, done)
            assert f"pid {java.pid}" in done.err, name
            assert str(log_dir.path / ".lock") in done.err, name
            assert "Stop it, or wait for it with --wait" in done.err, name
            assert "Traceback" not in done.err, name
            assert everything(log_dir.path) == before, name
    evidence("R17", len(WRITERS), 4)


@pytest.mark.parametrize("name", WRITERS)
def test_each_writer_of_the_lock_tests_changes_a_log(log_dir, name):
    before = contents(log_dir.path)
    assert kafkalog(*log_dir.arguments(WRITERS[name])).code == 0
    assert contents(log_dir.path) != before


def test_a_writer_that_waits_in_vain_for_the_lock_of_java_ends_with_11(log_dir, class_path, evidence):
    with java_lock(class_path, log_dir.path) as java:
        before = everything(log_dir.path)
        for name in ("recover", "undo", "purge"):
            started = time.monotonic()
            done = kafkalog(*log_dir.arguments(WRITERS[name]), "--wait", "1")
            assert done.code == LOCKED, (name, done)
            assert 1 <= time.monotonic() - started < SECONDS, name
            assert f"pid {java.pid}" in done.err, name
            assert everything(log_dir.path) == before, name

    evidence("R17", 3, 4)


def test_a_writer_waits_until_java_releases_its_lock(log_dir, class_path):
    with java_lock(class_path, log_dir.path) as java:
        command = [sys.executable, "-m", "kafkalog_cli", "recover", "--wait", str(SECONDS), str(log_dir.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as waiting:
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(1.5)
            java.release()
            assert waiting.wait(SECONDS) == 0


def test_readers_work_and_leave_no_trace(log_dir, class_path, evidence):
    without = {name: kafkalog(*log_dir.arguments(words)) for name, words in READERS.items()}
    assert not (log_dir.path / ".lock").exists()
    with java_lock(class_path, log_dir.path) as java:
        before = everything(log_dir.path)
        for name, words in READERS.items():
            done = kafkalog(*log_dir.arguments(words))
            assert done.code == without[name].code, (name, done)
            assert f"pid {java.pid}" in done.out + done.err, name
            if not name.startswith(("ls", "verify", "salvage")):  # which tell of the lock, or where they write
                assert done.out == without[name].out, name
            assert everything(log_dir.path) == before, name

    evidence("R17", len(READERS), 4)


def test_ls_names_the_process_that_has_the_lock(log_dir, class_path):
    with java_lock(class_path, log_dir.path) as java:
        assert str(java.pid) in kafkalog("ls", log_dir.path).out


def test_a_lock_of_kafkalog_keeps_java_out_and_other_writers_in(log_dir, class_path, evidence):
    with our_lock(log_dir.path), our_lock(log_dir.path):
        with java_lock(class_path, log_dir.path) as java:
            assert java.pid is None
        assert kafkalog("recover", log_dir.path).code == 0
    with java_lock(class_path, log_dir.path) as java:
        assert java.pid is not None

    evidence("R17", 3, 4)


def test_java_that_failed_leaves_our_lock(log_dir, class_path):
    """A broker closes its channel when it cannot have the lock; that is its own descriptor, not ours."""
    with our_lock(log_dir.path):
        for _ in range(2):
            with java_lock(class_path, log_dir.path) as java:
                assert java.pid is None
