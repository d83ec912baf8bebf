"""Commands as processes of their own: a closed or full output, no input, signals, and the same answer as in this process.

`pytest tests/conformance --update` stores the answers.
"""

import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from functools import partial
from pathlib import Path

import pytest

from tests.conformance import record
from tests.conformance.log_directories import log_directory_of
from tests.conformance.rows import EXTRAS, NOW, Row, commands_of
from tests.conformance.runner import ENVIRONMENT, recorded_environment, run_in
from tests.support.effort import DIAL

CASE = "crash-torn"
PARTITION = f"D/{CASE}-0"
READERS = """
ls D *
verify D NOW *
doctor D NOW
stats D --format json
groups D
transactions D NOW
cluster D NOW
inspect D NOW
read D --format json
read D --print partition,offset,timestamp,key,value
find D --value a --format json
dump-log P --print-data-log *
dump-index P
lookup-offset P 7
lookup-time P --latest
recover D --dry-run NOW
help verify
verify --no-such-option
--version
"""
CHANGES = """
recover P NOW
roll P --force DELETE NOW
compact P COMPACT --force NOW
append P LINES --input lines --single-replica DELETE NOW
retain P --config retention.ms=1000 DELETE NOW
truncate P --to 20 --single-replica DELETE NOW
delete-records P --before 15 --single-replica DELETE NOW
"""
WRITERS = f"""{CHANGES.rstrip()}
purge D
undo D
demo OUT
metadump D OUT --format json
export D --output OUT --format json --mode dropmalformed
import KCAT --input kcat --log-dir D --topic k --topic-id AAAAAAAAAAAAAAAAAAAAAQ --partitions 1 DELETE NOW
sql DUCKDB D 'select count(*) from segments'
replay D CLUSTER --command-config LINES
"""
SIGNALLED_WRITERS = f"""{CHANGES.rstrip()}
recover P --salvage OUT NOW
metadump D OUT --format json
export D --output OUT --format json --mode dropmalformed
import KCAT --input kcat --log-dir D --topic k --topic-id AAAAAAAAAAAAAAAAAAAAAQ --partitions 1 DELETE NOW
"""
SIGNAL_AT_FIRST_SYNC = """
import os, signal, time

real = os.fsync

def fsync(descriptor):
    os.fsync = real
    os.kill(os.getpid(), signal.{name})
    time.sleep(0.5)  # the main thread takes the signal, whichever thread syncs
    return real(descriptor)

os.fsync = fsync
"""
WITHOUT_STREAM = """
ls D
dump-log P
recover P NOW
append P --input lines --single-replica DELETE NOW
"""
LONG = """
read D --format json
dump-log P --print-data-log --format json
read D --print partition,offset,timestamp,key,value
"""
"""What they print does not fit into a pipe, so they wait for a reader."""
PIPE_BYTES = 4096
PORT = re.compile(r"(?<=127.0.0.1):\d+")
STAGED = re.compile(r"(?<=\.)[0-9a-f]{32}(?=-delete)")
"""What import names the directories with that it builds partitions in."""
DEADLINE_SECONDS = 60


@pytest.fixture
def log_directory(corpus):
    return log_directory_of(corpus / CASE)


@pytest.fixture
def place(tmp_path, log_directory):
    shutil.copytree(log_directory, tmp_path / "D")
    for name, text in record.INPUTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def start(argv, place, stdout, redirection="", **variables):
    """`redirection` is one of bash."""
    environment = {**os.environ, **ENVIRONMENT, "PYTHONUNBUFFERED": "", **variables}  # users' output has a buffer
    streams = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": subprocess.PIPE}
    command = ["bash", "-c", f'exec "$@" {redirection}', "bash", sys.executable, "-m", "kafkalog_cli", *argv]
    return subprocess.Popen(command, cwd=place, env=environment, **streams)


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


def files_of(argv, place):
    return {STAGED.sub("ID", name): facts for name, facts in record.files_of(Row((argv,)), place).items()}


def redirected(redirection, argv, place, root):
    """The files that it changes are in the answer."""
    before = files_of(argv, place)
    [found] = answer(start(argv, place, subprocess.PIPE, redirection), place, root)
    return [{**found, "files": record.changed_files(before, files_of(argv, place))}]


def runs_in(place):
    return {path.name for path in place.rglob(".kafkalog/*") if record.RUN.fullmatch(path.name)}


def signalled_at_first_sync(number, argv, place, root):
    """A writer that is stopped while it changes files of a sound log; then its undo, or the same command where it left no run."""
    if argv[0] != "recover":
        with recorded_environment():
            run_in(place, ["recover", "D", *NOW])
    (place / "sitecustomize.py").write_text(SIGNAL_AT_FIRST_SYNC.format(name=number.name))
    before, runs = files_of(argv, place), runs_in(place)
    process = start(argv, place, subprocess.PIPE, PYTHONPATH=str(place), PYTHONDONTWRITEBYTECODE="1")
    [found] = answer(process, place, root)
    found["files"] = record.changed_files(before, files_of(argv, place))
    made = runs_in(place) - runs
    with recorded_environment():
        ran = run_in(place, ["undo", "D", *made] if made else argv)
    again = record.answer_of(ran["code"], ran["out"], ran["err"], place, root)
    return [found, {**again, "files": record.changed_files(before, files_of(argv, place))}]


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


def stopped_server(number, argv, place, root):
    """The signal comes at once after the first line."""
    process = start(argv, place, subprocess.PIPE)
    first = process.stdout.readline()
    process.send_signal(number)
    [found] = answer(process, place, root)
    return [{**found, "out": PORT.sub(":PORT", first.decode()) + found["out"]}]


def lines(table):
    return [command for [command] in commands_of(table, {"P": PARTITION})]


CONDITIONS = [
    (name, run, lines(READERS + WRITERS)) for name, run in (("closed pipe", closed_pipe), ("full disk", full_disk))
]
CONDITIONS += [
    (name, partial(redirected, redirection), lines(WITHOUT_STREAM))
    for name, redirection in (("no input", "<&-"), ("no output", ">&-"), ("full disk for messages", "2>/dev/full"))
]
for signalled_by in (signal.SIGINT, signal.SIGTERM):
    CONDITIONS += [(signalled_by.name, signalled(signalled_by), lines(LONG))]
    CONDITIONS += [
        (
            f"{signalled_by.name} at its first sync",
            partial(signalled_at_first_sync, signalled_by),
            lines(SIGNALLED_WRITERS),
        )
    ]
    CONDITIONS += [(signalled_by.name, partial(stopped_server, signalled_by), lines("serve D --port 0 *"))]
ROWS = {f"{name}: {' '.join(argv)}": (run, argv) for name, run, commands in CONDITIONS for argv in commands}


@pytest.fixture(scope="module")
def recorded(pytestconfig):
    """The stored answers; with --update the module's answers are stored at its end."""
    known, now = record.read_answers(record.PROCESSES), {}
    yield known, now
    if pytestconfig.getoption("update"):
        answers = {name: now.get(name, known.get(name)) for name in ROWS}
        record.update(record.PROCESSES, answers, list(record.differences(known, answers)), pytestconfig)


@pytest.mark.parametrize("name", DIAL.some([*ROWS]))
def test_a_process_answers_as_recorded(name, place, log_directory, recorded, pytestconfig):
    run, argv = ROWS[name]
    if argv[0] in EXTRAS:
        pytest.importorskip(EXTRAS[argv[0]])
    known, now = recorded
    now[name] = run(argv, place, log_directory)
    found = list(record.differences({name: known.get(name)}, {name: now[name]}))
    if found and not pytestconfig.getoption("update"):
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize("argv", DIAL.some(lines(READERS)), ids=" ".join)
def test_a_process_answers_as_the_runner_of_the_record_does(argv, place, log_directory):
    with recorded_environment():
        ran = run_in(place, argv)
    expected = record.answer_of(ran["code"], ran["out"], ran["err"], place, log_directory)
    assert [expected] == answer(start(argv, place, subprocess.PIPE), place, log_directory)
