"""A disk that is full: the next step is one that the command has, and that makes room there."""

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.product import RealFilesystem
from tests.support.watched_fs import FailingFilesystem

PURGE = "next: make room: `kafkalog purge {0} --older-than 0s` removes what earlier runs keep for undo"
LOOK = ", and `kafkalog ls {0.parent} --freeable` shows what retention and compaction would free"
KEEPS = "nothing was changed; bytes that are cut are copied first, unless --discard is given"
CONFIG = ("--config", "cleanup.policy={}", "--config", "retention.ms=1000", "--config", "min.cleanable.dirty.ratio=0")


@pytest.fixture
def partition(tmp_path):
    """Three segments with the same keys, an incomplete batch at the end."""
    path = tmp_path / "t-0"
    path.mkdir()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for first in (0, 10, 20):
        batches = [
            (batch_v2([R(at, BASE_TIME_MS, b"k%d" % (at % 4), b"v")]), at, BASE_TIME_MS)
            for at in range(first, first + 10)
        ]
        write_segment(path, first, batches)
    with (path / f"{20:020}.log").open("ab") as file:
        file.write(batch_v2([R(30, BASE_TIME_MS, b"k", b"v")])[:-4])
    return path


COMMANDS = {
    "recover": ("recover", "PATH"),
    "truncate": ("truncate", "PATH", "--to", "5", "--single-replica"),
    "retain": ("retain", "PATH", *(one.format("delete") for one in CONFIG)),
    "compact": ("compact", "PATH", "--force", *(one.format("compact") for one in CONFIG)),
    "delete-records": ("delete-records", "PATH", "--before", "12", "--single-replica"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_next_step_of_a_full_disk_is_of_the_command_that_failed(name, partition, tmp_path):
    """At each call that finds the disk full: `--discard` is named by the commands that have it, and where it helps."""
    words = [str(partition) if word == "PATH" else word for word in COMMANDS[name]]
    if name != "recover":
        assert kafkalog("recover", partition).code == 0
    advised = frees = 0
    for number in range(200):
        fs = FailingFilesystem(RealFilesystem(), "ENOSPC", number, for_ever=True)
        code, _, err = kafkalog(*words, fs=fs)
        if not fs.fired:
            break
        assert code == 13, (number, err)
        if "nothing was changed" not in err:
            break
        (error,) = [line for line in err.splitlines() if "no space left" in line]
        if f" {partition}" not in error:  # a file of the log directory, of which no run keeps anything
            continue
        assert f"  {PURGE.format(partition)}{LOOK.format(partition)}" in err.splitlines(), (number, err)
        advised += "--discard" in err
        frees += "nothing was changed; with --free-bytes SIZE, the oldest segments go" in error
        assert ("--discard" in err) == (KEEPS in err), (number, err)
    assert number > 3
    assert bool(advised) == (name in {"recover", "truncate"})
    assert bool(frees) == (name == "retain")
