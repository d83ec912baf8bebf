"""`--engine spark` when things go wrong: workers and drivers that are killed, other disks than were planned, options."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.posix_lock import lock_owner
from kafkalog_cli.errors import Refused
from kafkalog_cli.ops.engine import Place
from kafkalog_cli.ops.same_place import sight
from tests.spark.clusters import spark_environment
from tests.spark.test_spark_engine import COMPACT, NOW, SPARK, kafkalog, tree

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

HERE = Path(__file__).parent
FS = RealFilesystem()
TORN = "crash-torn-0"


def started(*argv):
    return subprocess.Popen(
        [sys.executable, *map(str, argv)],
        env=spark_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def data_of(root):
    """All but what runs keep."""
    return {name: data for name, data in tree(root).items() if ".kafkalog" not in name}


def until(condition, seconds=600):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it does not come to that")


# ---- a task that is tried again


@pytest.mark.full
def test_a_compaction_that_died_half_way_is_taken_back_by_the_next_try(corpus, tmp_path, spark):
    del spark  # where it is skipped, so is this
    logs = tmp_path / "logs"
    shutil.copytree(corpus / "compact-plain" / "before", logs)
    command = ["compact", *COMPACT, "--now", NOW, logs]
    mark = tmp_path / "died"
    engine = ["--engine", "spark", "--master", "local[1,3]"]
    process = started(HERE / "dying_tasks.py", "dies", mark, ".swap", *command, *engine)
    out, errors = process.communicate(timeout=1200)
    assert mark.exists()
    assert (process.returncode, out.count("undo for ")) == (0, 3), errors
    assert re.findall(r"run \S+-compact-\w+ was cut off half way, and is undone now", errors)
    done = data_of(logs)
    shutil.rmtree(logs)
    shutil.copytree(corpus / "compact-plain" / "before", logs)
    assert kafkalog(*command)[0] == 0
    assert done == data_of(logs)


@pytest.mark.full
def test_a_recovery_that_died_half_way_is_finished_by_the_next_try(corpus, tmp_path, spark):
    del spark
    logs, mark = tmp_path / "logs", tmp_path / "died"
    shutil.copytree(corpus / "crash-torn" / "before", logs)
    command = ["recover", "--now", NOW, "--topic", TORN[:-2], logs]
    # after the manifest says that it has begun
    process = started(
        HERE / "dying_tasks.py", "dies", mark, "manifest.json", *command, "--engine", "spark", "--master", "local[1,3]"
    )
    _, errors = process.communicate(timeout=1200)
    assert (process.returncode, mark.exists()) == (0, True), errors
    assert len([path for path in (logs / TORN / ".kafkalog").iterdir() if path.is_dir()]) == 2
    done = data_of(logs / TORN)
    shutil.rmtree(logs)
    shutil.copytree(corpus / "crash-torn" / "before", logs)
    assert kafkalog(*command)[0] == 0
    assert done == data_of(logs / TORN)


# ---- a driver that is killed


def holders(lock):
    """The processes with a lock on byte 0 of a file (Linux)."""
    inode = lock.stat().st_ino
    found = re.findall(
        rf"POSIX +ADVISORY +(READ|WRITE) (\d+) \w+:\w+:{inode} 0 0$", Path("/proc/locks").read_text(), re.M
    )
    return {int(pid) for _, pid in found}


def may_start(logs):
    """Whether a broker could lock the log directory, as it does when it starts; asked by another process."""
    ask = "import fcntl, sys\nfcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run([sys.executable, "-c", ask, str(logs / ".lock")], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="who holds a lock is read from /proc/locks")
def test_no_broker_starts_until_the_last_worker_of_a_killed_driver_is_gone(corpus, tmp_path, spark):
    del spark
    logs, mark = tmp_path / "logs", tmp_path / "at"
    shutil.copytree(corpus / "compact-plain" / "before", logs)
    command = ["compact", *COMPACT, "--now", NOW, logs]
    driver = started(HERE / "dying_tasks.py", "stays", mark, ".swap", *command, *SPARK)
    workers = set()
    try:
        until(lambda: driver.poll() is not None or len(list(tmp_path.glob("at-*"))) == 2)
        assert driver.poll() is None, driver.communicate()
        workers = {int(path.name[3:]) for path in tmp_path.glob("at-*")}
        assert holders(logs / ".lock") == {driver.pid, *workers}
        driver.kill()
        driver.wait()
        time.sleep(3)  # Java has noticed, and told its Python to end
        assert holders(logs / ".lock") == workers
        assert lock_owner(str(logs)).pid in workers
        assert not may_start(logs)
        assert set.union(*(holders(lock) for lock in logs.glob("*/.kafkalog/lock"))) == workers
        os.kill(workers.pop(), signal.SIGKILL)
        until(lambda: holders(logs / ".lock") == workers)
        assert not may_start(logs)
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
    until(lambda: not holders(logs / ".lock"))
    assert may_start(logs)
    code, _, errors = kafkalog(*command, *SPARK)
    assert (code, "was cut off half way, and is undone now" in errors) == (0, True)
    done = data_of(logs)
    shutil.rmtree(logs)
    shutil.copytree(corpus / "compact-plain" / "before", logs)
    assert kafkalog(*command)[0] == 0
    assert done == data_of(logs)


@pytest.mark.full
def test_what_is_at_work_is_done_when_the_driver_is_told_to_end(corpus, tmp_path, spark):
    del spark
    logs = tmp_path / "logs"
    shutil.copytree(corpus / "compact-plain" / "before", logs)
    slowly = ["--io-bytes-per-s", "50000", "--jobs", "1"]
    driver = started("-m", "kafkalog_cli", "compact", *COMPACT, "--now", NOW, logs, *SPARK, *slowly)
    until(lambda: driver.poll() is not None or list(logs.glob("*/.kafkalog/*-compact-*")))
    os.kill(driver.pid, signal.SIGTERM)
    out, errors = driver.communicate(timeout=1200)
    assert (driver.returncode, out.count("undo for ")) == (130, 1), errors
    assert "interrupted: 2 partitions not done: " in errors
    assert len(list(logs.glob("*/.kafkalog/*-compact-*"))) == 1  # the largest was begun, and no other


# ---- another disk than was planned


def sighting(path, host="here", **more):
    return sight(Place(FS, str(path), str(path.parent), **{"is_locked": True, **more}), host)


@pytest.fixture
def partition(corpus, tmp_path):
    shutil.copytree(corpus / "crash-torn" / "before", tmp_path / "logs")
    return tmp_path / "logs" / TORN


def moved(partition):
    """The partition's log directory in another place, and a copy of it in its own."""
    shutil.copytree(partition.parent, partition.parents[1] / "other", copy_function=shutil.copy2)
    partition.parent.rename(partition.parents[1] / "planned")
    (partition.parents[1] / "other").rename(partition.parent)


@pytest.mark.parametrize("is_locked", [True, False])
@pytest.mark.parametrize("host", ["here", "there"])
def test_the_same_directory_is_known(partition, host, is_locked):
    seen = sighting(partition, is_locked=is_locked)
    seen.check(FS, host)
    (partition / ".kafkalog").mkdir()  # where a lock lies
    seen.check(FS, host)


@pytest.mark.parametrize("is_locked", [True, False])
def test_another_broker_s_disk_is_not_taken_for_it(partition, is_locked):
    seen = sighting(partition, is_locked=is_locked)
    properties = partition.parent / "meta.properties"
    properties.write_text(re.sub(r"(?m)^node\.id=.*$", "node.id=77", properties.read_text()))
    with pytest.raises(
        Refused, match=r"there sees another directory there than here, .*meta.properties has cluster.id"
    ):
        seen.check(FS, "there")
    properties.unlink()
    with pytest.raises(Refused, match=r"has nothing that can be read, not cluster.id .*; nothing was changed"):
        seen.check(FS, "there", is_again=True)


def test_a_copy_on_the_same_host_is_another_directory(partition):
    seen = [sighting(partition, is_locked=is_locked) for is_locked in (True, False)]
    moved(partition)
    for one in seen:
        with pytest.raises(Refused, match="its inode is"):
            one.check(FS, "here", is_again=True)
        one.check(FS, "there")  # there nothing tells it from the other one


def test_a_copy_that_is_not_the_newest(partition):
    seen = sighting(partition), sighting(partition, is_locked=False)
    log = max(partition.glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 1)
    for one in seen:
        with pytest.raises(Refused, match=rf"{log.name} of \d+ bytes .*, not of \d+ bytes"):
            one.check(FS, "there")
    log.unlink()
    with pytest.raises(Refused, match=rf"{log.name} missing, not of"):
        seen[0].check(FS, "there")


def test_what_a_broker_writes_meanwhile_is_no_other_directory_to_a_reader(partition):
    seen = sighting(partition, is_locked=False)
    with max(partition.glob("*.log")).open("ab") as log:
        log.write(b"more")
    (partition / f"{99999:020d}.log").touch()
    seen.check(FS, "there")


def test_another_try_finds_what_the_first_one_left(partition):
    seen = sighting(partition)
    (partition / "new").touch()
    with pytest.raises(Refused):
        seen.check(FS, "there", is_again=True)
    seen.check(FS, "here", is_again=True)
    (partition / ".kafkalog" / "20261122T080000.000Z-compact-0001").mkdir(parents=True)
    seen.check(FS, "there", is_again=True)
    with pytest.raises(Refused):
        seen.check(FS, "there")


def test_a_task_that_sees_another_directory_touches_nothing(partition, spark, monkeypatch):
    """As a worker on another machine would, on which something else is mounted there."""
    del spark
    monkeypatch.setattr(
        "kafkalog_cli.spark.engine.sight", lambda place, host: sight(place, "elsewhere")._replace(meta=None)
    )
    before = tree(partition.parent)
    for command in (["recover"], ["verify"]):
        code, _, errors = kafkalog(*command, partition, "--now", NOW, *SPARK)
        assert (code, "sees another directory there than elsewhere, where the run was planned" in errors) == (14, True)
    assert before == tree(partition.parent)
    assert not (partition.parent / ".lock").exists()  # the driver made it for the run that failed


# ---- what does not go with it


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["verify", "--against", "x", *SPARK], "--against needs --engine local"),
        (["recover", "--salvage", "x", *SPARK], "--salvage needs --engine local"),
        (
            ["recover", "--conf", "spark.speculation=TRUE", *SPARK],
            "spark.speculation must be off: only a single task may change a log",
        ),
        (["compact", "--assume-offline", *SPARK], "--assume-offline needs --engine local"),
        (["compact", "--master", "local[2]"], "--master and --conf need --engine spark"),
        (["verify", "--conf", "a=b"], "--master and --conf need --engine spark"),
        (["compact", "--engine", "spark", "--master", "spark://h:1", "--io-bytes-per-s", "1MiB"], "needs --jobs N"),
    ],
)
def test_what_does_not_go_with_it_is_refused(partition, command, said):
    pytest.importorskip("pyspark")
    code, _, errors = kafkalog(*command, partition)
    assert (code, said in errors) == (2, True), errors


@pytest.mark.full
def test_limits_of_time_and_load(partition, spark, corpus, tmp_path):
    """No task begins once the time is over; and all tasks together keep to what may be moved in a second."""
    del spark
    code, _, errors = kafkalog("recover", partition, "--now", NOW, "--time-budget", "0", *SPARK)
    assert (code, "the time budget is over: 1 partition not begun" in errors) == (130, True)
    shutil.copytree(corpus / "compact-plain" / "before", tmp_path / "plain")
    size = sum(path.stat().st_size for path in (tmp_path / "plain").glob("*/*.log"))
    begun = time.monotonic()
    slowly = ["--io-bytes-per-s", size // 4, "--format", "json"]
    errors = io.BytesIO()
    argv = ["compact", *COMPACT, "--now", NOW, tmp_path / "plain", *SPARK, *slowly]
    assert run([str(arg) for arg in argv], Environment(stdout=io.BytesIO(), stderr=errors)) == 0
    assert time.monotonic() - begun > 4
    said = [json.loads(line) for line in errors.getvalue().splitlines()]
    (*_, last) = [one for one in said if one["type"] == "progress"]
    assert (last["work"], last["done_bytes"], last["total_bytes"]) == ("compact", size, size)


class Somebody:
    def __init__(self, answer):
        self.questions, self._answer = [], answer

    def answer(self, question, poll):
        poll()
        self.questions.append(question)
        return self._answer


def test_a_terminal_is_asked_before_tasks_begin(partition, spark):
    del spark
    before = tree(partition.parent)
    for answer, wanted in (("n", 1), ("y", 0)):
        terminal = Somebody(answer)
        assert kafkalog("recover", partition, "--now", NOW, *SPARK, terminal=terminal)[0] == wanted
        (question,) = terminal.questions
        assert question == "Run recover on 1 partition in tasks of Spark, which ask no questions? [y/N/a(ll)] "
        assert (before == tree(partition.parent)) is bool(wanted)
