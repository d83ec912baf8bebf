"""Commands over many partitions: several at a time, shown in order, within limits of time and load, interrupted."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.support import commands
from tests.support.commands import Terminal
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.plain_changes import files
from tests.support.product import Environment, RealFilesystem, UsageError, run
from tests.support.watched_fs import WatchedFilesystem

MARKER = ".kafka_cleanshutdown"
NAMES = [f"t-{number}" for number in range(8)]
RECORDS, TORN_BYTES = 40, 30
LOG = f"{0:020d}.log"


def partition(directory, torn=b"\x01" * TORN_BYTES):
    """A segment of batches of two records, with a torn tail."""
    directory.mkdir()
    made = []
    for first in range(0, RECORDS, 2):
        records = [R(offset, BASE_TIME_MS + offset, b"k", b"v" * 400) for offset in (first, first + 1)]
        made.append((batch_v2(records), first + 1, BASE_TIME_MS + first + 1))
    write_segment(directory, 0, made, 4096)
    log = directory / LOG
    log.write_bytes(log.read_bytes() + torn)


def log_directory(root, torn=b"\x01" * TORN_BYTES):
    """A log directory of torn partitions, whose recovery points are above what is left; and of one line more."""
    root.mkdir()
    for name in NAMES:
        partition(root / name, torn)
    (root / MARKER).write_text('{"version":0,"brokerEpoch":7}')
    lines = [f"t {number} {90 + number}" for number in range(len(NAMES))]
    lines.insert(3, "other 0 123456")
    text = "\n".join(["0", str(len(lines)), *lines, ""])
    (root / "recovery-point-offset-checkpoint").write_text(text)
    return root


class Clock:
    """Time that passes only where somebody sleeps, or a test says so; `tick` is what each look at it takes."""

    def __init__(self, tick=0.0):
        self.now, self.tick, self.slept = 1000.0, tick, []

    def __call__(self):
        self.now += self.tick
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Hooked(WatchedFilesystem):
    """Calls `hook(call)` before each call on the real file system."""

    def __init__(self, hook):
        super().__init__(RealFilesystem())
        self.before = hook


def kafkalog(*argv, fs=None, clock=None, terminal=False):
    clock = clock or Clock()
    stderr = Terminal() if terminal else None
    return commands.kafkalog(*argv, stderr=stderr, fs=fs, clock=clock, sleep=clock.sleep)


ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"


def objects(text):
    """The lines of machine output; of those that end it, or tell how far it is, each is as its schema says."""
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        if one["type"] in ("summary", "progress"):
            schema = json.loads((SCHEMAS / f"kafkalog.{one['type']}-1.json").read_text())
            Draft202012Validator(schema).validate(one)
    return found


def points(root):
    """The lines of the recovery points."""
    return (root / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]


def logs(root):
    """The partitions that are whole: their logs end with their last batch; all others are as they were made."""
    torn = {name for name in NAMES if (root / name / LOG).read_bytes().endswith(b"\x01" * TORN_BYTES)}
    sizes = {(root / name / LOG).stat().st_size - TORN_BYTES * (name in torn) for name in NAMES}
    assert len(sizes) == 1
    return [name for name in NAMES if name not in torn]


def recovered_point(number, names):
    return f"t {number} {RECORDS if f't-{number}' in names else 90 + number}"


def assert_clean(root, done):
    """Each partition is as before or as after, its lines are as it is, and no run was cut off."""
    assert logs(root) == done
    wanted = [recovered_point(number, done) for number in range(len(NAMES))]
    assert points(root) == [*wanted[:3], "other 0 123456", *wanted[3:]]
    for name in NAMES:
        states = [json.loads(path.read_text())["state"] for path in (root / name).glob(".kafkalog/*/manifest.json")]
        assert states == (["done"] if name in done else [])


# ---- several at a time


@pytest.mark.parametrize("jobs", [1, 3, 8])
def test_a_writer_runs_as_many_jobs_as_given_and_prints_results_in_order(tmp_path, jobs):
    root = log_directory(tmp_path / "log")
    lock, seen, both = threading.Lock(), set(), threading.Event()

    def wait_for_others(call):
        """The first read of each log waits until so many are being read."""
        if call.name == "open_read" and call.path.endswith(".log"):
            with lock:
                seen.add(call.path)
                if len(seen) >= jobs:
                    both.set()
            assert both.wait(300)

    code, out, err = kafkalog("recover", "--jobs", jobs, "--format", "json", root, fs=Hooked(wait_for_others))
    *plans, summary = objects(out)
    assert (code, summary["partitions"], summary["changed"]) == (0, 8, 8)
    assert [plan["path"] for plan in plans] == [f"{root}/{name}" for name in NAMES]
    assert "not_done" not in summary
    assert_clean(root, NAMES)
    assert not (root / MARKER).exists()
    assert [one["kind"] for one in objects(err)] == ["marker"]  # once for all


def test_parallel_jobs_leave_the_same_files_as_sequential_ones(tmp_path):
    """The log directory's own files too: lines, and the marker's account, without help from POSIX locks."""
    one, many = log_directory(tmp_path / "one"), log_directory(tmp_path / "many")

    def hesitate(call):
        if call.path.rpartition("/")[0] == str(many) and call.name in ("create", "rename", "open_read"):
            time.sleep(0.001)

    class NoLocks(Hooked):
        def lock(self, path, *, first_byte, exclusive):
            raise OSError(38, "Function not implemented", path)

    assert kafkalog("recover", "--jobs", 1, one)[0] == 0
    code, out, err = kafkalog("recover", "--jobs", 8, "--assume-offline", many, fs=NoLocks(hesitate))
    assert code == 0, err
    assert_clean(many, NAMES)
    for name in NAMES:
        assert files(many / name) == files(one / name)
    held = json.loads((many / ".kafkalog-clean-shutdown").read_text())["reasons"]
    assert list(held.values()) == [NAMES]
    # And all back, which gives the marker back when the last is done.
    run_id = re.search(r"undo: kafkalog undo \S+ (\S+)", out)[1]
    assert kafkalog("undo", "--assume-offline", many, run_id, fs=NoLocks(hesitate))[0] == 0
    fresh = log_directory(tmp_path / "fresh")
    for name in NAMES:
        assert files(many / name) == files(fresh / name)
    assert points(many) == points(fresh)
    assert (many / MARKER).read_text() == (fresh / MARKER).read_text()


def test_the_clean_shutdown_file_is_back_after_the_last_of_parallel_jobs(tmp_path):
    """Nothing is cut, only indexes are made: one partition's end says nothing of the others."""
    root = log_directory(tmp_path / "log", torn=b"")
    before = (root / MARKER).read_bytes()
    for name in NAMES:
        (root / name / LOG.replace(".log", ".index")).unlink()
    code, _, err = kafkalog("recover", "--jobs", 4, root)
    assert (code, err) == (0, "")
    assert (root / MARKER).read_bytes() == before
    assert not (root / ".kafkalog-clean-shutdown").exists()


def test_a_partition_that_fails_does_not_end_the_others(tmp_path):
    root = log_directory(tmp_path / "log")

    def fail(call):
        if call.name == "create" and "/t-3/" in call.path:
            raise OSError(28, os.strerror(28), call.path)

    code, out, err = kafkalog("recover", "--jobs", 3, "--format", "json", root, fs=Hooked(fail))
    assert code == 5
    assert "t-3" in err
    assert len(objects(out)) == 8
    assert logs(root) == [name for name in NAMES if name != "t-3"]


def test_purge_takes_several_at_a_time(tmp_path):
    root = log_directory(tmp_path / "log")
    kafkalog("recover", root)
    code, out, _ = kafkalog("purge", "--older-than", "0s", "--jobs", 4, "--format", "json", root)
    *_, summary = objects(out)
    assert (code, summary["runs"]) == (0, 8)
    assert not list(root.glob("t-*/.kafkalog/2*"))


# ---- limits


@pytest.mark.parametrize("done", [0, 1, 5, 8])
def test_the_time_budget_ends_between_partitions(tmp_path, done):
    root = log_directory(tmp_path / "log")
    clock = Clock()
    last = f"{root}/{NAMES[done - 1]}/" if done else str(root)

    def work(call):
        if call.path.startswith(last) and call.name == "open_read":
            clock.now += 100

    argv = ["recover", "--jobs", 1, "--time-budget", "1m" if done else 0, root]
    code, out, err = kafkalog(*argv, "--format", "json", fs=Hooked(work), clock=clock)
    *plans, summary = objects(out)
    rest = [f"{root}/{name}" for name in NAMES[done:]]
    assert code == summary["exit_code"] == (130 if rest else 0)
    assert [one["path"] for one in summary.get("not_done", [])] == rest
    assert len(plans) == done
    told = [one for one in objects(err) if one.get("kind") == "time-budget"]
    if rest:
        how_many = "1 partition" if len(rest) == 1 else f"{len(rest)} partitions"
        names = ", ".join(rest)
        assert [one["message"] for one in told] == [f"the time budget is over: {how_many} not begun: {names}"]
    else:
        assert not told
    assert_clean(root, NAMES[:done])
    assert kafkalog("recover", root)[0] == 0
    assert_clean(root, NAMES)


def test_a_time_budget_finishes_the_partitions_in_progress(tmp_path):
    """What was begun is finished."""
    root = log_directory(tmp_path / "log")
    clock = Clock()

    def work(call):
        if call.name == "truncate":
            clock.now += 100

    code, out, _ = kafkalog(
        "recover", "--jobs", 3, "--time-budget", "90s", "--format", "json", root, fs=Hooked(work), clock=clock
    )
    *plans, summary = objects(out)
    assert code == 130
    done = [plan["path"].rpartition("/")[2] for plan in plans]
    assert len(done) + len(summary["not_done"]) == 8
    assert 1 <= len(done) < 8
    assert_clean(root, done)


def test_the_io_rate_is_kept_over_all_partitions(tmp_path):
    root = log_directory(tmp_path / "log")
    moved, lock = [], threading.Lock()

    class Counting(WatchedFilesystem):
        def before(self, call):
            if call.name in {"read", "write"}:
                with lock:
                    moved.append(call.detail[1] if call.name == "read" else len(call.detail[1]))

    clock = Clock()
    code, _, _ = kafkalog(
        "recover", "--jobs", 1, "--io-bytes-per-s", "1e5", root, fs=Counting(RealFilesystem()), clock=clock
    )
    assert code == 0
    assert clock.now - 1000 >= 8 * RECORDS * 400 / 1e5
    assert sum(clock.slept) <= 1.3 * sum(moved) / 1e5
    assert max(moved) <= 64 << 10  # in small pieces
    clock = Clock()
    assert kafkalog("recover", "--jobs", 1, root, clock=clock)[0] == 0
    assert clock.slept == []


@pytest.mark.parametrize("option", [("--io-bytes-per-s", "0"), ("--io-bytes-per-s", "fast"), ("--time-budget", "soon"),
                                    ("--time-budget", "-5s"), ("--jobs", "-1")])  # fmt: skip
def test_pace_options_refuse_values_that_are_no_limits(tmp_path, option):
    assert kafkalog("recover", *option, tmp_path)[0] == UsageError.exit_code


# ---- interrupted


def test_salvage_refuses_an_output_that_a_killed_salvage_left(tmp_path):
    root = log_directory(tmp_path / "log")
    (tmp_path / "out" / "t-2.partial").mkdir(parents=True)
    code, _, err = kafkalog("recover", "--salvage", tmp_path / "out", root / "t-2")
    assert code == 14
    assert "t-2.partial" in err
    assert "a salvage that was cut off has left it" in err


@pytest.mark.parametrize(("path", "wait"), [(".lock", "600"), ("t-0/.kafkalog/lock", "600"), (".lock", "inf")])
def test_waiting_for_a_lock_can_be_interrupted(tmp_path, path, wait):
    root = log_directory(tmp_path / "log")
    clock = Clock()

    class Held(WatchedFilesystem):
        def lock(self, wanted, *, first_byte, exclusive):
            if wanted == f"{root}/{path}" and first_byte == 0:
                raise BlockingIOError(11, "held", wanted)
            return super().lock(wanted, first_byte=first_byte, exclusive=exclusive)

    def sleep(seconds):
        clock.sleep(seconds)
        if clock.now > 1010:
            os.kill(os.getpid(), signal.SIGINT)

    out, err = io.BytesIO(), io.BytesIO()
    environment = Environment(stdout=out, stderr=err, fs=Held(RealFilesystem()), clock=clock, sleep=sleep)
    assert run(["recover", "--jobs", "1", "--wait", wait, str(root)], environment) == 130
    assert 1010 < clock.now < 1012
    assert b"8 partitions not done" in err.getvalue()
    assert_clean(root, [])


CHILD = """
import os, signal, sys, time
from tests.support.product_journal import AGAIN_SECONDS, Interruptions
number = int(sys.argv[1])
wish = Interruptions()
with wish.watched():
    for _ in range(3):
        os.kill(os.getpid(), number)
    assert wish.is_requested
    print("three at once are one", flush=True)
    time.sleep(AGAIN_SECONDS)
    os.kill(os.getpid(), number)
    print("not reached", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_the_process(number):
    command = [sys.executable, "-c", CHILD, str(int(number))]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (-number, "three at once are one\n"), done.stderr
