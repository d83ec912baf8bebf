"""Readers that go away, full disks, closed streams, interruptions: quiet or one line, the right code, no traceback."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.damage.makers import batch, record, words
from tests.support.product import IN_A_PROCESS, ExitCode

ROOT = Path(__file__).parents[2]
KAFKALOG = f"{sys.executable} -m kafkalog_cli"
LOG = "00000000000000000000.log"
SECONDS = 300
"""At most: a busy machine is no reason."""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A segment whose dump is larger than a pipe and all buffers."""
    rng = random.Random(1)
    file = tmp_path_factory.mktemp("streams-0") / LOG
    file.write_bytes(b"".join(batch(20 * i, [record(j, b"k", words(rng, 40)) for j in range(20)]) for i in range(200)))
    return file


@pytest.fixture(scope="module", autouse=True)
def buffered_output():
    """Containers often set the variable; with it, Python has no buffer that a full disk leaves unwritten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        yield


def shell(command, **options):
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, cwd=ROOT, timeout=SECONDS, check=False, text=True, **options
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command", ["dump-log --print-data-log {}", "dump-log --format json {}", "dump-log {} --strict --resync"]
)
@pytest.mark.parametrize("reader", ["head -n 1", "true", "head -c 200000"])
def test_a_closed_pipe_is_quiet(large, command, reader):
    done = shell(f"{KAFKALOG} {command.format(large)} | {reader} >/dev/null; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command", ["--help", "dump-log --help", "--version", "ls {0.parent}", "dump-index {0.parent}"]
)
def test_a_pipe_that_was_closed_before_is_quiet(large, command):
    done = shell(f"{{ sleep 0.2; {KAFKALOG} {command.format(large)}; echo $? >&2; }} | true")
    errors = [line for line in done.stderr.splitlines() if not line.endswith("rebuilds it")]  # ls of a bare log
    assert errors in (["0"], ["3"])


def test_closed_pipes_on_both_streams_leave_no_traceback(large):
    done = shell(
        f"{{ sleep 0.2; {KAFKALOG} dump-log --files {large},gone 2>&1; echo $? >&3; }} 3>&1 1>&0 | true",
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command", ["dump-log {}", "dump-log --print-data-log {}", "dump-log --format json {}", "--version", "dump-log --help", "--help",
                "ls {0.parent}", "read {0.parent}", "read -f %o {0.parent}", "find {0.parent}", "dump-index {0.parent}", "lookup-offset {0.parent} 5", "lookup-time {0.parent} --latest"]
)  # fmt: skip
def test_output_on_a_full_disk_ends_with_13(large, command):
    done = shell(f"{KAFKALOG} {command.format(large)} > /dev/full")
    assert done.returncode == ExitCode.NO_SPACE
    errors = [line for line in done.stderr.splitlines() if not line.endswith("rebuilds it")]  # ls of a bare log
    (error,) = errors
    if "--format json" in command:
        assert json.loads(error)["exit_code"] == ExitCode.NO_SPACE
        error = "kafkalog: " + json.loads(error)["message"]
    assert error == "kafkalog: No space left on device (where output goes)"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command", ["dump-log --print-data-log {}", "dump-log --format json --print-data-log {}", "read {0.parent}"]
)
def test_an_output_that_fails_in_the_middle_is_not_an_error_of_the_log(large, command, tmp_path):
    """The limit of a file stands for a disk that becomes full: the first 200 KiB of the output are written."""
    done = shell(f"ulimit -f 200; {KAFKALOG} {command.format(large)} > {tmp_path}/out")
    assert (done.returncode, (tmp_path / "out").stat().st_size) == (ExitCode.FAILURE, 200 << 10)
    assert "File too large (where output goes)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


FOLLOWERS = 30


@pytest.mark.parametrize("streams", ["> /dev/full", "2> /dev/full", "> /dev/full 2>&1", "--format json > /dev/full"])
def test_a_writer_goes_on_where_its_output_has_no_room(streams, tmp_path):
    """`retain` of a full disk that its own log is on: it is to make room, whoever reads of it."""
    for number in range(FOLLOWERS):
        folder = tmp_path / f"{'long' * 40}-{number}"  # the report is longer than a buffer
        folder.mkdir()
        (folder / LOG).write_bytes(batch(0, [record(0, b"k", b"v")]) + b"torn")
    done = shell(f"{KAFKALOG} recover {tmp_path} {streams}")
    assert len(list(tmp_path.glob("*/.kafkalog/*-recover-*"))) == FOLLOWERS
    assert done.returncode == (0 if streams.startswith("2>") else ExitCode.NO_SPACE)
    if streams == "> /dev/full":
        told = "No space left on device (where output goes): the command went on, but its report is incomplete"
        assert done.stderr == f"kafkalog: {told}\n"


def test_a_full_disk_for_messages_only_ends_a_dump_with_an_error(large):
    done = shell(f"{KAFKALOG} dump-log --files {large},gone.log 2> /dev/full")
    assert done.returncode in (ExitCode.FAILURE, ExitCode.NO_SPACE)
    assert done.stdout.startswith("Dumping ")


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["dump-log {}", "--version", "--help"])
def test_a_closed_standard_output_is_an_error(large, command):
    done = shell(f"{KAFKALOG} {command.format(large)} >&-")
    assert (done.returncode, done.stderr) == (ExitCode.FAILURE, "kafkalog: standard output is closed\n")


def test_closed_standard_input_and_error_change_nothing(large):
    whole = shell(f"{KAFKALOG} dump-log {large}")
    assert whole.returncode == 0
    for closed in ("<&-", "2>&-", "<&- 2>&-"):
        done = shell(f"{KAFKALOG} dump-log {large} {closed}")
        assert (done.returncode, done.stdout) == (0, whole.stdout), closed
    missing = shell(f"{KAFKALOG} dump-log --files gone.log 2>&-")
    assert (missing.returncode, missing.stderr) == (ExitCode.FAILURE, "")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_log_is_opened_under_a_standard_descriptor(large):
    code = IN_A_PROCESS + (
        "import os, sys\n"
        "real = os.open\n"
        "def spy(path, *rest, **more):\n"
        "    number = real(path, *rest, **more)\n"
        "    if str(path).endswith('.log') and number < 3: os._exit(99)\n"
        "    return number\n"
        "os.open = spy\n"
        f"sys.argv = ['kafkalog', 'dump-log', {str(large)!r}]\n"
        "entry.main()\n"
    )
    for closed in ("<&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["bash", "-c", f'exec {sys.executable} -c "$CODE" {closed}'],
            env={**os.environ, "CODE": code}, cwd=ROOT, capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == (1 if ">&- 2" in closed else 0), closed


def long_dump(large, *options, stdout):
    """A dump of the same file again and again."""
    files = ",".join([large.name] * 2000)
    command = [sys.executable, "-m", "kafkalog_cli", "dump-log", *options, "--files", files]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=large.parent, env=environment, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize("options", [["--print-data-log"], ["--format", "json"], ["--strict", "--resync"]])
def test_an_interruption_is_130_without_a_traceback(large, options):
    with long_dump(large, *options, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(100)  # it is at work
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        errors = running.stderr.read().decode()
        assert running.wait(SECONDS) == ExitCode.INTERRUPTED
    assert "Traceback" not in errors
    assert len(errors.splitlines()) <= 1


def test_an_interrupted_dump_ends_without_a_traceback_at_any_time(large):
    """From the entry point on; before it Python itself prints where it was, or loses the interruption in a callback."""
    for delay_ms in (40, 60, 80, 120, 180, 300):
        with long_dump(large, "--print-data-log", stdout=subprocess.DEVNULL) as running:
            time.sleep(delay_ms / 1000)
            running.send_signal(signal.SIGINT)
            try:
                errors = running.communicate(timeout=SECONDS / 5)[1].decode()
            except subprocess.TimeoutExpired:  # it was lost, and may be only before the entry point
                running.kill()
                errors = running.communicate()[1].decode()
        before_entry = running.returncode == -signal.SIGINT and ", in main\n" not in errors
        before_entry |= errors.startswith(("Could not import runpy module", "Fatal Python error: init_"))
        before_entry |= errors.startswith("Exception ignored in") and "KeyboardInterrupt" in errors
        assert before_entry or (running.returncode, errors) == (ExitCode.INTERRUPTED, ""), (delay_ms, errors)


@pytest.mark.parametrize("callback", ["__del__", "weakref"])
def test_an_interruption_in_a_callback_is_not_lost(callback):
    """Python ignores what a callback raises, and an import calls one for its lock."""
    code = """if True:
        import signal, sys, time, weakref

        class Dropped:
            def __del__(self):
                if sys.argv[1] == "__del__":
                    signal.raise_signal(signal.SIGINT)

        def command(argv):
            dropped = Dropped()
            if argv == ["weakref"]:
                held = weakref.ref(dropped, lambda _: signal.raise_signal(signal.SIGINT))
            del dropped
            time.sleep(600)
            return 0

        app.run = command
        entry.main()
    """
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS + code, callback],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (ExitCode.INTERRUPTED, "")


def test_an_unwritable_home_and_cache_do_not_matter(large, tmp_path):
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    done = shell(
        f"{KAFKALOG} dump-log {large}",
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(nowhere),
            "XDG_CACHE_HOME": str(nowhere),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dump_is_printed_without_any_terminal_or_locale(large):
    done = shell(f"{KAFKALOG} dump-log --print-data-log {large}", env={"LC_ALL": "C", "PATH": os.environ["PATH"]})
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"payload: [0-9a-f ]+\n", done.stdout)
