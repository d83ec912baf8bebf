"""`kafkalog retain --free-bytes`: on a file system that is full, and what never goes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.support.commands import kafkalog
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem
from tests.support.product import ExitCode, RealFilesystem
from tests.support.watched_fs import FailingFilesystem, RecordingFilesystem, WatchedFilesystem

NOW_MS = 1795228795800
NOW = ("--now", str(NOW_MS))
DELETES = ("--config", "cleanup.policy=delete")


def logs_in(root, pattern="*.log"):
    return sorted(str(path.relative_to(root)) for path in root.rglob(pattern))


# -- a real file system with no byte left


@pytest.fixture
def full_disk(tmp_path):
    """A tmpfs on which nothing more can be written; `fill` fills it up again."""
    where = tmp_path / "disk"
    where.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(where)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here, which needs root: {made.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


def fill(where):
    with (where / "ballast").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    assert os.statvfs(where).f_bavail == 0


def log_dir_on(where, corpus):
    """Three topics of some hundred KiB each; the timestamps of `young` are the latest."""
    root = where / "data"
    root.mkdir()
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(corpus / "retention" / "before" / name, root)
    for source, name in (("ret-time", "old-0"), ("ret-allold", "older-0"), ("ret-compact", "__consumer_offsets-0")):
        shutil.copytree(corpus / "retention" / "before" / f"{source}-0", root / name)
    names = ("old", "older", "__consumer_offsets")
    for kind in ("recovery-point", "replication"):
        lines = "".join(f"{name} 0 120\n" for name in names)
        (root / f"{kind}-offset-checkpoint").write_text(f"0\n{len(names)}\n{lines}")
    return root


def test_free_bytes_removes_the_oldest_segments_on_a_disk_with_no_byte_left(full_disk, corpus):
    root = log_dir_on(full_disk, corpus)
    fill(full_disk)
    argv = ["retain", root, *DELETES, *NOW, "--free-bytes"]
    before = logs_in(root)
    code, out, err = kafkalog(*argv, 20_000, "--dry-run")
    assert (code, logs_in(root)) == (0, before), err
    *lines, closing = out.splitlines()
    assert sum("dry run: " in line for line in lines) == 1
    assert re.match(r"dry run: 1 of \d+ partitions would be changed, \d+ segments? \(.*\) would be removed", closing)
    # It is not enough that one partition gives: the oldest of both go.
    code, out, err = kafkalog(*argv, 60_000)
    assert code == 0, (out, err)
    assert os.statvfs(full_disk).f_bavail * os.statvfs(full_disk).f_frsize >= 60_000
    gone = set(before) - set(logs_in(root))
    assert {name.split("/")[0] for name in gone} == {"older-0", "old-0"}
    assert f"__consumer_offsets-0/{0:020d}.log" in logs_in(root)
    for name in ("older-0", "old-0"):
        starts = sorted(int(path.name[:-4]) for path in (root / name).glob("*.log"))
        assert starts[-1] in (93, 98), "the active segment"
        epochs = (root / name / "leader-epoch-checkpoint").read_text().split()
        assert epochs[-1] == str(starts[0])
        manifest = json.loads(next((root / name).glob(".kafkalog/*/manifest.json")).read_text())
        assert manifest["facts"]["unlinked"]
    lines = [line for line in out.splitlines() if "unlinked (" in line and line.startswith(str(root))]
    assert len(lines) == 2
    assert all(line.endswith("; cannot be undone") for line in lines)
    assert (root / ".kafka_cleanshutdown").exists()
    # There is room now: a second run has nothing to do.
    left = logs_in(root)
    assert kafkalog(*argv, 60_000, "--quiet")[:2] == (0, "")
    assert logs_in(root) == left


def test_free_bytes_ends_with_13_on_a_disk_that_stays_full(full_disk, corpus):
    root = log_dir_on(full_disk, corpus)
    fill(full_disk)
    code, out, err = kafkalog("retain", root, *DELETES, *NOW, "--free-bytes", "1GiB", "--format", "json")
    assert code == 13
    assert "bytes are free, 1073741824 were wanted" in err
    *_, summary = map(json.loads, out.splitlines())
    assert (summary["exit_code"], summary["changed"], summary["removed_segments"]) == (13, 2, 6)
    assert len(logs_in(root)) == 1 + 1 + 4, "the active segments, and what is internal"


# -- what goes, in which order, and what never


@pytest.fixture
def root(corpus, tmp_path):
    return log_dir_on(tmp_path, corpus)


def free_by_dry_run(root, *argv):
    """Base offsets of what would go of each partition, if all that may is wanted."""
    code, out, _ = kafkalog("retain", root, *NOW, "--free-bytes", "1000TB", "--dry-run", "--format", "json", *argv)
    assert code in (13, 14)
    return {each["topic"]: each["removed"] for each in map(json.loads, out.splitlines()[:-1])}


def test_free_bytes_keeps_the_active_segment(root):
    found = free_by_dry_run(root, *DELETES)
    assert found == {"old": [0, 33, 64], "older": [0, 32, 61], "__consumer_offsets": []}


def test_free_bytes_keeps_segments_at_or_above_the_high_watermark(root):
    checkpoint = root / "replication-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("old 0 120", "old 0 63"))
    assert free_by_dry_run(root, *DELETES)["old"] == [0]
    checkpoint.write_text(checkpoint.read_text().replace("old 0 63", "old 0 64"))
    assert free_by_dry_run(root, *DELETES)["old"] == [0, 33]


def test_free_bytes_keeps_compacted_topics_and_topics_of_unknown_policy(corpus, root):
    nothing = {"old": [], "older": [], "__consumer_offsets": []}
    assert free_by_dry_run(root, "--config", "cleanup.policy=compact,delete") == nothing
    assert free_by_dry_run(root) == {"__consumer_offsets": []}, "no source says which policy the others have"
    (root / "cleaner-offset-checkpoint").write_text("0\n1\nold 0 64\n")
    assert free_by_dry_run(root, *DELETES)["old"] == []
    (root / "cleaner-offset-checkpoint").unlink()
    code, out, err = kafkalog(
        "retain", corpus / "internal" / "data", *NOW, *DELETES, "--free-bytes", "1000TB", "--dry-run"
    )
    assert code == 13
    assert out.count("nothing unlinked, the topic is internal") == 3
    assert err.count("skipped: the metadata log") + err.count("skipped: marked for deletion (-delete)") == 3


def test_keep_bytes_and_keep_ms_limit_what_free_bytes_removes(root):
    sizes = [(root / "old-0" / f"{base:020d}.log").stat().st_size for base in (0, 33, 64, 98)]
    for keep, removed in (
        (sum(sizes), []),
        (sum(sizes[1:]) + 1, []),
        (sum(sizes[1:]), [0]),
        (sum(sizes[2:]), [0, 33]),
        (1, [0, 33, 64]),
    ):
        assert free_by_dry_run(root, *DELETES, "--keep-bytes", keep)["old"] == removed, keep
    plan = kafkalog(
        "retain", root / "old-0", *NOW, "--config", "retention.ms=1", "--explain", "--dry-run", "--format", "json"
    )
    segments = json.loads(plan[1].splitlines()[0])["segments"]
    age = NOW_MS - segments[1]["largest_timestamp_ms"]
    assert free_by_dry_run(root, *DELETES, "--keep-ms", age)["old"] == [0]
    assert free_by_dry_run(root, *DELETES, "--keep-ms", age - 1)["old"] == [0, 33]


def test_free_bytes_unlinks_deleted_files_before_segments(memory):
    limit = ("--config", "retention.ms=60000000")
    kafkalog("retain", "/data/old-0", *NOW, *DELETES, *limit, "--delay", "7d", fs=memory)
    logs = [entry.path for entry in memory.list_directory("/data/old-0") if entry.path.endswith(".log.deleted")]
    assert len(logs) == 3
    code, out, err = kafkalog("retain", "/data", *NOW, *DELETES, "--free-bytes", 1, fs=memory)
    assert code == 0, err
    line = next(line for line in out.splitlines() if line.startswith("/data/old-0"))
    assert "11 old files unlinked" in line
    assert "segment" not in line
    assert memory.status(f"/data/older-0/{0:020d}.log") is not None


def test_free_bytes_counts_no_segment_with_a_second_link(root, tmp_path):
    os.link(root / "old-0" / f"{33:020d}.log", tmp_path / "backup")
    assert free_by_dry_run(root, *DELETES)["old"] == [0]


def test_free_bytes_refuses_options_that_contradict_it(root):
    for argv in (["--free-bytes", "1", "--explain"], ["--free-bytes", "x"], ["--keep-ms", "1"], ["--keep-bytes", "1"]):
        assert kafkalog("retain", root, *argv)[0] == 2


# -- on a disk in memory: which calls are made, and what fails


@pytest.fixture
def memory(root):
    fs = MemoryFilesystem()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            fs.add(f"/{path.relative_to(root.parent)}", path.read_bytes())
    fs.settle()
    fs.capacity_bytes = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    return fs


def test_as_much_room_as_is_wanted_is_enough(memory):
    """Nothing is free at first: the first segment frees as much as is wanted then."""
    wanted = 1
    for _ in range(2):
        argv = ("retain", "/data", *DELETES, *NOW, "--free-bytes", wanted, "--dry-run", "--format", "json")
        *partitions, summary = map(json.loads, kafkalog(*argv, fs=memory).out.splitlines())
        assert [len(each["removed"]) for each in partitions] == [0, 0, 1]
        wanted = summary["freed_bytes"]


def test_nothing_is_written_before_the_first_segment_went(memory):
    memory.add("/data/.lock", b"")
    memory.add("/data/older-0/.kafkalog/lock", b"")
    fs = RecordingFilesystem(memory)
    code, _, err = kafkalog("retain", "/data", *DELETES, *NOW, "--free-bytes", "4000", fs=fs)
    assert code == 0, err
    calls = [(call.name, call.path) for call in fs.changes]
    assert calls[0] == ("unlink", f"/data/older-0/{0:020d}.log")
    assert memory.status(f"/data/older-0/{0:020d}.index") is None


def test_free_bytes_works_where_there_is_no_room_for_the_lock_file(memory):
    class Full(RecordingFilesystem):
        """No name can be made until something has gone."""

        def perform(self, call, action):
            is_making = call.name in ("create", "make_directory") or (
                call.name == "lock" and memory.status(call.path) is None
            )
            if is_making and not any(done.name == "unlink" for done in self.calls):
                raise OSError(28, os.strerror(28), call.path)
            return super().perform(call, action)

    fs = Full(memory)
    code, out, err = kafkalog("retain", "/data", *DELETES, *NOW, "--free-bytes", "4000", fs=fs)
    assert code == 0, (out, err)
    assert "there is no room for the lock, so nobody else has it" in err
    assert memory.status(f"/data/older-0/{0:020d}.log") is None
    assert [entry for entry in memory.list_directory("/data/older-0/.kafkalog") if entry.is_directory]


def test_a_run_record_without_room_is_reported_once(memory):
    class Full(RecordingFilesystem):
        """No file can be written, whatever goes."""

        def perform(self, call, action):
            if call.name == "create":
                raise OSError(28, os.strerror(28), call.path)
            return super().perform(call, action)

    code, _, err = kafkalog("retain", "/data", *DELETES, *NOW, "--free-bytes", "1GiB", fs=Full(memory))
    told = [line for line in err.splitlines() if "no space left" in line.lower()]
    assert (code, len(told)) == (13, 2), err
    for line in told:
        assert "no space left on the device: segments were removed, but" in line
        assert line.lower().count("no space left") == line.count("-0: ") == 1, line


def test_free_bytes_goes_on_with_other_partitions_after_a_failure(memory):
    """Each unlink fails once: what fails ends its partition, and every log that is left is one without a gap."""
    number = 1
    while True:
        copy = memory.image(SURVIVALS[0])
        copy.capacity_bytes = memory.capacity_bytes
        fs = FailingFilesystem(copy, "EIO", number)
        code, _, _ = kafkalog("retain", "/data", *DELETES, *NOW, "--free-bytes", "9000", fs=fs)
        if not fs.fired:
            assert code == 0
            break
        for name in ("old", "older", "__consumer_offsets"):
            names = {entry.path.rpartition("/")[2] for entry in copy.list_directory(f"/data/{name}-0")}
            logs = sorted(int(each[:-4]) for each in names if each.endswith(".log"))
            all_logs = {"old": [0, 33, 64, 98], "older": [0, 32, 61, 93], "__consumer_offsets": [0, 35, 64, 93]}[name]
            assert logs == all_logs[len(all_logs) - len(logs) :]
            assert logs, name
        number += 7
    assert number > 50


@pytest.mark.parametrize(
    "targets", [["old-0"], ["old-0", "older-0"], [""], ["__consumer_offsets-0"], ["old-0", "__consumer_offsets-0"]]
)
def test_free_bytes_ends_with_11_where_a_broker_holds_every_lock(root, targets):
    """Each target ends alike; five would say that some were done."""
    if targets == [""]:
        for internal in root.glob("__*"):
            shutil.rmtree(internal)
    held = (
        "import fcntl, sys\n"
        f"lock = open({str(root / '.lock')!r}, 'w')\n"
        "fcntl.lockf(lock, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        broker.stdout.readline()
        before = logs_in(root)
        code, _, err = kafkalog("retain", *(root / name for name in targets), *NOW, *DELETES, "--free-bytes", "900TB")
        broker.stdin.close()
    assert (code, logs_in(root) == before) == (11, True), err


def test_an_interruption_while_waiting_for_a_lock_leaves_no_partition_out(root):
    class Held(WatchedFilesystem):
        def lock(self, path, *, first_byte, exclusive):
            raise BlockingIOError(11, "held", path)

    def interrupt(_):
        os.kill(os.getpid(), signal.SIGINT)

    argv = ("retain", root, *NOW, *DELETES, "--free-bytes", "900TB", "--wait", 600, "--format", "json")
    before = logs_in(root)
    code, out, _ = kafkalog(*argv, fs=Held(RealFilesystem()), sleep=interrupt)
    (summary,) = map(json.loads, out.splitlines())
    assert (code, logs_in(root) == before) == (130, True)
    names = ["__consumer_offsets-0", "old-0", "older-0"]
    assert [one["path"].rpartition("/")[2] for one in summary["not_done"]] == names
    assert summary["partitions"] == len(names)


def test_free_bytes_writes_its_metrics_file(corpus, tmp_path):
    """They were forgotten: planning is a dry run, and that was taken for the whole command."""
    root, target = log_dir_on(tmp_path, corpus), tmp_path / "retain.prom"
    wanted = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize + (1 << 40)
    argv = ("retain", root, "--free-bytes", wanted, *DELETES, *NOW, "--metrics", target)
    assert kafkalog(*argv, "--dry-run")[0] == ExitCode.NO_SPACE
    assert not target.exists()
    code, out, _ = kafkalog(*argv, "--format", "json")
    summary = json.loads(out.splitlines()[-1])
    assert code == ExitCode.NO_SPACE
    metrics = dict(line.split() for line in target.read_text().splitlines() if not line.startswith("#"))
    freed = [float(value) for name, value in metrics.items() if "freed_bytes" in name]
    assert freed == [summary["freed_bytes"]] != [0]
