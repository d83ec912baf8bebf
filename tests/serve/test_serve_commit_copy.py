"""`serve --commit-to DIRECTORY`: commits are appended to a copy of `__consumer_offsets`, and survive what may happen."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import ExitCode, Locked, Refused, UsageError
from kafkalog_cli.ops.session.options import Context
from tests.serve.test_serve_fetch import commit, committed, log_dir  # noqa: F401 fixture
from tests.support.commands import json_of, kafkalog
from tests.support.coordinator_logs import commit as commit_of
from tests.support.coordinator_logs import commit_key, commits, coordinator_partition_at
from tests.support.kafka_client import KafkaClient
from tests.support.logs import BASE_TIME_MS, write_segment
from tests.support.serving import serving

NOT_AVAILABLE, NOT_COORDINATOR = 15, 16


@pytest.fixture
def copy(log_dir, tmp_path):  # noqa: F811
    """A copy of the served log directory, in which group `old` has committed the offset 3."""
    folder = coordinator_partition_at(log_dir, 0, [], epoch=0)
    write_segment(folder, 0, [(commits((commit_key("old"), commit_of(3)))[0], 0, BASE_TIME_MS)])
    return shutil.copytree(log_dir, tmp_path / "copy")


def offsets_in(path):
    """{group: (offset, metadata) of its only partition} by `kafkalog groups`."""
    _, found, _ = json_of("groups", path)
    offsets = {one["group_id"]: one["offsets"] for one in found if one["type"] == "group"}
    return {group: (one["current_offset"], one["metadata"]) for group, (one,) in offsets.items()}


def tree(path):
    return {str(one): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def test_commits_are_in_the_copy_when_they_are_answered(log_dir, copy):  # noqa: F811
    before = tree(log_dir)
    with serving(log_dir, commit_to=str(copy)) as server, KafkaClient(server.server.address) as client:
        assert committed(client, "old") == [("orders", [3])]
        for offset in (11, 12):
            assert commit(client, "new", offset) == 0
            assert offsets_in(copy)["new"] == (offset, "m")
        assert commit(client, "old", 4) == 0
    assert offsets_in(copy) == {"new": (12, "m"), "old": (4, "m")}
    with serving(log_dir, commit_to=str(copy)) as server, KafkaClient(server.server.address) as client:
        assert committed(client, "new") == [("orders", [12])]
        assert commit(client, "new", 13) == 0
        assert server.notes == []
    assert offsets_in(copy)["new"] == (13, "m")
    assert kafkalog("verify", copy / "__consumer_offsets-0", "--level", "deep").code == 0
    assert tree(log_dir) == before


def test_undo_takes_the_commits_of_a_run_back(log_dir, copy):  # noqa: F811
    before = (copy / "__consumer_offsets-0" / f"{0:020d}.log").read_bytes()
    with serving(log_dir, commit_to=str(copy)) as server, KafkaClient(server.server.address) as client:
        assert commit(client, "new", 11) == 0
    (run,) = (one.name for one in (copy / "__consumer_offsets-0" / ".kafkalog").iterdir() if one.is_dir())
    assert kafkalog("undo", copy / "__consumer_offsets-0", run).code == 0
    assert (copy / "__consumer_offsets-0" / f"{0:020d}.log").read_bytes() == before


@pytest.mark.parametrize("where", ["", "orders-0", ".."])
def test_a_copy_in_the_served_directory_is_refused(log_dir, copy, where):  # noqa: F811
    with pytest.raises(Refused, match="which is served"), serving(log_dir, commit_to=str(log_dir / where)):
        pass


def test_a_directory_without_the_topic_is_refused(log_dir, tmp_path):  # noqa: F811
    other = shutil.copytree(log_dir, tmp_path / "other")
    with pytest.raises(UsageError, match="no partition of __consumer_offsets"), serving(log_dir, commit_to=str(other)):
        pass


def test_a_copy_with_a_broker_is_refused(log_dir, copy):  # noqa: F811
    hold = "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f, fcntl.LOCK_EX, 1); print(flush=True); input()"
    words = [sys.executable, "-c", hold, copy / ".lock"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        broker.stdout.readline()
        with pytest.raises(Locked), serving(log_dir, commit_to=str(copy)):
            pass
        broker.communicate(b"\n")


def test_a_group_of_another_partition_is_refused(log_dir, copy):  # noqa: F811
    """Of 5 partitions the copy has only the last: groups of the others have their coordinators elsewhere."""
    (copy / "__consumer_offsets-0").rename(copy / "__consumer_offsets-4")
    with serving(log_dir, commit_to=str(copy)) as server, KafkaClient(server.server.address) as client:
        found = {group: commit(client, group, 1) for group in "abcdefghij"}
    assert {group: error for group, error in found.items() if not error} == {
        "c": 0,
        "h": 0,
    }  # 99 and 104 are 4 modulo 5
    assert set(found.values()) == {0, NOT_COORDINATOR}
    assert set(offsets_in(copy)) == {"c", "h", "old"}


class FullDisk(RealFilesystem):
    """Files with the suffix cannot grow while `is_full`; with `seconds` each write waits."""

    is_full, seconds, suffix = False, 0.0, ".log"

    def open_write(self, path, **more):
        return self._slow(super().open_write(path, **more))

    def create(self, path, *more):
        return self._slow(super().create(path, *more))

    def _slow(self, file):
        real = file.write

        def write(position, data):
            time.sleep(self.seconds)
            if self.is_full and file.path.endswith(self.suffix):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
            return real(position, data)

        file.write = write
        return file


def test_a_full_disk_refuses_commits_and_loses_none(log_dir, copy):  # noqa: F811
    """Answered commits stay on the disk at all times; refused commits are not there, also after there is room again."""
    fs = FullDisk()
    with serving(log_dir, commit_to=str(copy), context=Context(fs)) as server:  # noqa: SIM117
        with KafkaClient(server.server.address) as client:
            assert commit(client, "g", 1) == 0
            fs.is_full = True
            assert [commit(client, group, 2) for group in ("g", "h")] == [NOT_COORDINATOR] * 2
            assert committed(client, "g") == [("orders", [1])]
            assert [note.exit_code for note in server.notes] == [ExitCode.NO_SPACE]
            assert offsets_in(copy) == {"g": (1, "m"), "old": (3, "m")}
            fs.is_full = False
            assert commit(client, "h", 3) == 0
            assert offsets_in(copy) == {"g": (1, "m"), "h": (3, "m"), "old": (3, "m")}
    assert offsets_in(copy) == {"g": (1, "m"), "h": (3, "m"), "old": (3, "m")}
    assert kafkalog("verify", copy / "__consumer_offsets-0", "--level", "deep").code == 0


@pytest.mark.parametrize("name", [".log", "checkpoint", "index"])
def test_kill_9_on_a_full_disk_keeps_all_answered_commits(log_dir, copy, tmp_path, name):  # noqa: F811
    """The disk is full from the second commit on, for the log itself or for the files beside it."""
    fs = FullDisk()
    fs.suffix = name
    answered = {}
    with serving(log_dir, commit_to=str(copy), context=Context(fs)) as server:  # noqa: SIM117
        with KafkaClient(server.server.address) as client:
            for offset in range(1, 8):
                fs.is_full = offset in {2, 3, 6}
                if commit(client, f"g{offset}", offset) == 0:
                    answered[f"g{offset}"] = (offset, "m")
                killed = shutil.copytree(copy, tmp_path / f"killed-{offset}")
                assert offsets_in(killed) == {**answered, "old": (3, "m")}
            fs.is_full = True  # also while the server ends
    assert len(answered) >= 4
    assert offsets_in(copy) == {**answered, "old": (3, "m")}
    kafkalog("recover", copy / "__consumer_offsets-0")
    assert offsets_in(copy) == {**answered, "old": (3, "m")}


def test_a_commit_that_takes_too_long_is_answered(log_dir, copy, monkeypatch):  # noqa: F811
    monkeypatch.setattr("kafkalog_cli.ops.serve.commit_copy._SECONDS", 0.2)
    fs = FullDisk()
    with serving(log_dir, commit_to=str(copy), context=Context(fs)) as server:  # noqa: SIM117
        with KafkaClient(server.server.address) as client:
            fs.seconds = 0.3
            assert commit(client, "g", 1) == NOT_AVAILABLE
            assert committed(client, "g") == []


def test_answered_commits_survive_kill_9(log_dir, copy):  # noqa: F811
    words = [sys.executable, "-m", "kafkalog_cli", "serve", log_dir, "--port", "0", "--commit-to", copy]
    with subprocess.Popen([*words, "--format", "json"], stdout=subprocess.PIPE) as server:
        host, _, port = json.loads(server.stdout.readline())["bootstrap"].rpartition(":")
        with KafkaClient((host, int(port))) as client:
            while (error := commit(client, "g", 1)) == 14:  # the offsets are loading
                time.sleep(0.05)
            assert error == 0
            assert [commit(client, "g", offset) for offset in (2, 3)] == [0, 0]
        server.send_signal(signal.SIGKILL)
    assert offsets_in(copy) == {"g": (3, "m"), "old": (3, "m")}
    with serving(log_dir, commit_to=str(copy)) as again, KafkaClient(again.server.address) as client:
        assert committed(client, "g") == [("orders", [3])]
        assert commit(client, "g", 4) == NOT_COORDINATOR, "the index of the new segment was never written"
        assert f"kafkalog recover {copy}" in again.notes[0].message
    assert kafkalog("recover", copy / "__consumer_offsets-0").code == 0
    with serving(log_dir, commit_to=str(copy)) as again, KafkaClient(again.server.address) as client:
        assert commit(client, "g", 4) == 0
    assert offsets_in(copy)["g"] == (4, "m")
