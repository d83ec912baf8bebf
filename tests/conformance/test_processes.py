"""Commands as processes of their own: a closed pipe or a full disk as output, signals, and the same answer as in this process.

`pytest tests/conformance --update` stores the answers.
"""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.conformance import record
from tests.conformance.log_directories import log_directory_of
from tests.conformance.rows import COMPACT, DELETE, JSON, NOW
from tests.conformance.runner import ENVIRONMENT, recorded_environment, run_in
from tests.support.effort import DIAL

CASE = "crash-torn"
PARTITION = f"D/{CASE}-0"
READERS = [
    ["ls", "D", *NOW],
    ["ls", "D", *NOW, *JSON],
    ["verify", "D", *NOW],
    ["verify", "D", *NOW, *JSON],
    ["doctor", "D", *NOW],
    ["stats", "D", *JSON],
    ["groups", "D"],
    ["transactions", "D", *NOW],
    ["cluster", "D", *NOW],
    ["inspect", "D", *NOW],
    ["read", "D", *JSON],
    ["read", "D", "--print", "partition,offset,timestamp,key,value"],
    ["find", "D", "--value", "a", *JSON],
    ["dump-log", PARTITION, "--print-data-log"],
    ["dump-log", PARTITION, "--print-data-log", *JSON],
    ["dump-index", PARTITION],
    ["lookup-offset", PARTITION, "7"],
    ["lookup-time", PARTITION, "--latest"],
    ["recover", "D", "--dry-run", *NOW],
    ["help", "verify"],
    ["verify", "--no-such-option"],
    ["--version"],
]
WRITERS = [
    ["recover", PARTITION, *NOW],
    ["roll", PARTITION, "--force", *DELETE, *NOW],
    ["compact", PARTITION, *COMPACT, "--force", *NOW],
    ["append", PARTITION, "LINES", "--input", "lines", "--single-replica", *DELETE, *NOW],
]
LONG = [
    ["read", "D", *JSON],
    ["dump-log", PARTITION, "--print-data-log", *JSON],
    ["read", "D", "--print", "partition,offset,timestamp,key,value"],
]
"""What they print does not fit into a pipe, so they wait for a reader."""
PIPE_BYTES = 4096
DEADLINE_SECONDS = 60


@pytest.fixture
def log_directory(corpus):
    return log_directory_of(corpus / CASE)


@pytest.fixture
def place(tmp_path, log_directory):
    shutil.copytree(log_directory, tmp_path / "D")
    (tmp_path / "LINES").write_text("one\ntwo\nthree\n")
    return tmp_path


def start(argv, place, stdout):
    environment = {**os.environ, **ENVIRONMENT}
    streams = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "kafkalog_cli", *argv], cwd=place, env=environment, **streams)


def answer(process, place, root):
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    text = (out or b"").decode("latin-1")
    return [record.answer_of(process.returncode, text, err.decode("latin-1"), place, root)]


def closed_pipe(argv, place, root):
    """Its reader has gone, as after `| head -0`."""
    reader, writer = os.pipe()
    os.close(reader)
    process = start(argv, place, writer)
    os.close(writer)
    return answer(process, place, root)


def full_disk(argv, place, root):
    with Path("/dev/full").open("wb") as full:
        return answer(start(argv, place, full), place, root)


def signalled(number):
    def run(argv, place, root):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        process = start(argv, place, writer)
        os.close(writer)
        wait_until_full(reader, process)
        process.send_signal(number)
        try:
            return answer(process, place, root)
        finally:
            os.close(reader)

    return run


def wait_until_full(reader, process):
    """Return when the command has waited for its reader for a second: a last write that does not fit leaves some room."""
    deadline, waiting, since = time.monotonic() + DEADLINE_SECONDS, 0, time.monotonic()
    while time.monotonic() < deadline and process.poll() is None:
        now = struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, b"\0" * 4))[0]
        if now != waiting:
            waiting, since = now, time.monotonic()
        elif now and time.monotonic() - since > 1:
            return
        time.sleep(0.01)
    pytest.fail(f"it ended with {process.poll()} before its output filled a pipe")


CONDITIONS = [("closed pipe", closed_pipe, READERS + WRITERS), ("full disk", full_disk, READERS + WRITERS)]
CONDITIONS += [(name.name, signalled(name), LONG) for name in (signal.SIGINT, signal.SIGTERM)]
ROWS = {f"{name}: {' '.join(argv)}": (run, argv) for name, run, commands in CONDITIONS for argv in commands}


@pytest.fixture(scope="module")
def recorded(pytestconfig):
    """The stored answers; with --update the module's answers are stored at its end."""
    known, now = record.read_answers(record.PROCESSES), {}
    yield known, now
    if pytestconfig.getoption("update"):
        record.write_answers(record.PROCESSES, {name: now.get(name, known.get(name)) for name in ROWS})


@pytest.mark.parametrize("name", DIAL.some([*ROWS]))
def test_a_process_answers_as_recorded(name, place, log_directory, recorded, pytestconfig):
    run, argv = ROWS[name]
    known, now = recorded
    now[name] = run(argv, place, log_directory)
    found = list(record.differences({name: known.get(name)}, {name: now[name]}))
    if found and not pytestconfig.getoption("update"):
        pytest.fail("\n".join(found), pytrace=False)
    print(*found, sep="\n")


@pytest.mark.parametrize("argv", DIAL.some(READERS), ids=" ".join)
def test_a_process_answers_as_the_runner_of_the_record_does(argv, place, log_directory):
    with recorded_environment():
        ran = run_in(place, argv)
    expected = record.answer_of(ran["code"], ran["out"], ran["err"], place, log_directory)
    assert [expected] == answer(start(argv, place, subprocess.PIPE), place, log_directory)
