"""Forks that check many small logs: their results, and the ends of forks that die or are not wanted any more."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.ops.map_each import GROUP_ITEMS, LEAST_ITEMS
from tests.support.logs import R, batch_v2, write_segment
from tests.support.product import ExitCode

PARTITIONS = GROUP_ITEMS + LEAST_ITEMS
"""Enough for two forks, with several groups for each."""
COMMAND = """
import os, sys, threading, time
from kafkalog_cli.cli.process import exit_code
from kafkalog_cli.ops import map_each
real, forked = os.fork, 0
def fork():
    global forked
    forked += 1
    number, pid = forked, real()
    {in_fork}
    return pid
os.fork = fork
{before}
code = exit_code(sys.argv[1:])
print("forks:", forked, file=sys.stderr)
sys.exit(code)
"""
DIES = "not pid and number == 1 and os._exit(9)"
WAITS = "pid or time.sleep(60)"
ANOTHER_THREAD = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
FULL = "map_each._send = lambda pipe, _: (time.sleep(1), os.write(pipe, bytes(1 << 20)))"
"""Results that take long to make, and fill a pipe."""
NO_ROOM = "def fork(): raise BlockingIOError(11, 'Resource temporarily unavailable')\nos.fork = fork"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory):
    """A log directory of small partitions: most are whole, some are damaged, and one belongs to another program."""
    path = tmp_path_factory.mktemp("forks") / "data"
    for number in range(PARTITIONS):
        partition = path / f"t-{number}"
        partition.mkdir(parents=True)
        batches = [
            (batch_v2([R(offset, 1_795_000_000_000, None, b"v")]), offset, 1_795_000_000_000) for offset in (0, 1)
        ]
        write_segment(partition, 0, batches)
        if not number % 50:
            log = partition / f"{0:020}.log"
            log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    (path / "t-7" / "0-1-v1.log").write_bytes(b"")
    (path / FileKind.META_PROPERTIES.value).write_text("version=0\nbroker.id=1\n")
    return path


def program(log_dir, *arguments, in_fork="pass", before=""):
    code = COMMAND.format(in_fork=in_fork, before=before)
    return [sys.executable, "-c", code, "verify", str(log_dir), "--now", "1800000000000", *arguments]


def verified(log_dir, *arguments, **how):
    """The exit code of `verify`, its output without times, its messages without progress, and the number of forks."""
    done = subprocess.run(program(log_dir, *arguments, **how), capture_output=True, text=True, check=False)
    *messages, forks = (line for line in done.stderr.splitlines() if "kafkalog.progress/1" not in line)
    return done.returncode, re.sub(r", \S+ m?s$", "", done.stdout, flags=re.MULTILINE), messages, forks


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", ["quick", "normal"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_forks_find_what_this_process_finds(log_dir, level, form):
    arguments = ("--verbose", "--level", level, "--format", form)
    *alone, no_forks = verified(log_dir, *arguments, "--jobs", "1")
    *forked, two_forks = verified(log_dir, *arguments, "--jobs", "2")
    assert forked == alone
    assert (no_forks, two_forks) == ("forks: 0", "forks: 2")
    assert "bad-tail-batch" in alone[1] or level == "quick"
    assert any("Redpanda" in message for message in alone[2])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("how", "forks"),
    [
        ({"in_fork": DIES}, 2),
        ({"before": ANOTHER_THREAD}, 0),
        ({"before": NO_ROOM}, 0),
    ],
    ids=["a fork dies", "another thread", "too many processes"],
)
def test_without_forks_this_process_does_the_work(log_dir, how, forks):
    *alone, _ = verified(log_dir, "--verbose", "--jobs", "1")
    assert verified(log_dir, "--verbose", "--jobs", "2", **how) == (*alone, f"forks: {forks}")


def test_records_are_not_decoded_in_forks(log_dir):
    assert verified(log_dir, "--level", "deep", "--jobs", "2")[-1] == "forks: 0"


@pytest.mark.parametrize("to_all", [False, True], ids=["the process", "the terminal"])
def test_an_interrupt_ends_the_forks(log_dir, to_all):
    """Ctrl-C in a terminal goes to the forks too."""
    command = program(log_dir, "--jobs", "2", in_fork=WAITS)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as run:
        forks = _forks_of(run.pid, 2)
        (os.killpg if to_all else os.kill)(run.pid, signal.SIGINT)
        out, messages = run.communicate(timeout=300)
    assert run.returncode == ExitCode.INTERRUPTED
    assert not out
    assert "Traceback" not in messages
    assert not any(Path(f"/proc/{fork}").exists() for fork in forks)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("at", ["before their tasks", "with more results than a pipe takes"])
def test_forks_do_not_outlive_a_process_that_is_ended(log_dir, number, at):
    """They waited for ever for a reader of their results, and held the standard output of the command open."""
    how = {"in_fork": "pid or time.sleep(1)"}
    if at != "before their tasks":
        how = {"in_fork": "setattr(os, 'getppid', lambda: parent)", "before": f"parent = os.getpid(); {FULL}"}
    command = program(log_dir, "--jobs", "2", **how)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as run:
        forks = _forks_of(run.pid, 2)
        os.kill(run.pid, number)
        try:
            run.communicate(timeout=300)
        finally:
            end = time.monotonic() + 120
            while (left := [fork for fork in forks if _is_running(fork)]) and time.monotonic() < end:
                time.sleep(0.05)
            for fork in left:
                os.kill(int(fork), signal.SIGKILL)
    assert (run.returncode, left) == (-number, [])


def _is_running(pid):
    """Whether a process has not ended: who is to reap it may be slow."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _forks_of(pid, count):
    """Wait until a process has so many children, and return their ids."""
    for _ in range(12_000):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if len(children) == count:
            return children
        time.sleep(0.01)
    raise AssertionError("it does not fork")
