"""How a run knows the same command and the same partition again: a choice as text, and the files that were there."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from kafkalog_cli.ops.move.same_place import PartitionIdentities
from kafkalog_cli.ops.selection import Selection
from tests.support.product import PathNotFound, RealFilesystem, Refused

MAKE = (
    "from kafkalog_cli.ops.selection import Selection; print(Selection(frozenset('abcdefgh'), frozenset((9, 1))).text)"
)


def test_the_text_of_a_selection_is_the_same_in_every_process():
    """Where the hashes of strings differ, and with them the order in a set."""
    told = {
        subprocess.run(
            [sys.executable, "-c", MAKE],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in range(1, 5)
    }
    assert told == {b'[["a", "b", "c", "d", "e", "f", "g", "h"], [1, 9], null]\n'}


def test_the_text_of_a_selection_differs_for_each_selection():
    choices = [
        Selection(), Selection(frozenset("a")), Selection(frozenset("b")), Selection(frozenset("ab")),
        Selection(partitions=frozenset((1,))), Selection(topic_pattern=re.compile("a")),
    ]  # fmt: skip
    assert len({one.text for one in choices}) == len(choices)


# -- a partition that is only read, seen by another host: its broker may be at work

FS = RealFilesystem()
OLD, MIDDLE, NEWEST, NEWER = (f"{offset:020d}.log" for offset in (0, 70, 800, 9000))


@pytest.fixture
def partition(tmp_path):
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    (folder.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for name in (OLD, MIDDLE, NEWEST):
        (folder / name).write_bytes(bytes(100))
    (folder / NEWEST).with_suffix(".index").write_bytes(bytes(10_000))
    (folder / "leader-epoch-checkpoint").write_bytes(bytes(40))
    return folder


def seen(folder, host="driver"):
    return PartitionIdentities(FS, host).of(str(folder))


def check(one, host):
    PartitionIdentities(FS, host).check(one)


def test_an_identity_names_only_the_newest_log_file(partition):
    one = seen(partition)
    assert (one.newest, one.size_bytes) == (NEWEST, 100)
    (partition / f"{10**6:020d}.log.deleted").touch()
    (partition / "x.log").touch()
    assert seen(partition).newest == NEWEST


def test_the_disk_of_another_broker_is_refused(partition):
    one = seen(partition)
    (partition.parent / "meta.properties").write_text("version=1\nnode.id=77\ncluster.id=x\n")
    with pytest.raises(
        Refused, match=r"worker sees another .* than driver, .*meta.properties has cluster.id x, node.id 77"
    ):
        check(one, "worker")
    (partition.parent / "meta.properties").unlink()
    with pytest.raises(Refused, match=r"has nothing that can be read, not cluster.id x.*; nothing was changed"):
        check(one, "worker")


def test_a_copy_on_the_same_host_is_refused(partition):
    one = seen(partition)
    partition.rename(partition.with_name("moved"))
    shutil.copytree(partition.with_name("moved"), partition)
    with pytest.raises(Refused, match="its inode is"):
        check(one, "driver")
    check(one, "worker")  # where nothing tells it from the other one


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / NEWEST).write_bytes(bytes(101)),
        lambda folder: (folder / NEWEST).with_suffix(".index").write_bytes(bytes(8)),  # trimmed: it was made large
        lambda folder: (folder / "leader-epoch-checkpoint").write_bytes(bytes(20)),
        lambda folder: (folder / OLD).write_bytes(bytes(50)),  # cleaned
        lambda folder: [(folder / name).unlink() for name in (OLD, MIDDLE)],
        lambda folder: [(folder / NEWER).touch(), (folder / NEWEST).write_bytes(bytes(10))],  # rolled and cleaned
        lambda folder: [(folder / NEWER).touch(), *((folder / name).unlink() for name in (OLD, MIDDLE, NEWEST))],
    ],
)
def test_changes_of_a_running_broker_do_not_change_the_identity_of_a_partition(partition, change):
    one = seen(partition)
    change(partition)
    check(one, "worker")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / NEWEST).write_bytes(bytes(99)), "of 99 bytes"),
        (lambda folder: (folder / NEWEST).unlink(), "missing"),
        (lambda folder: [path.unlink() for path in folder.iterdir()], "missing"),
    ],
)
def test_an_older_copy_and_an_empty_directory(partition, change, words):
    one = seen(partition)
    change(partition)
    with pytest.raises(
        Refused, match=rf"worker sees another directory there than driver, .*: {NEWEST} {words}.*, not of 100 bytes"
    ):
        check(one, "worker")
    check(one, "driver")  # which knows the directory by its inode


def test_a_partition_without_a_log_file_has_an_identity(partition):
    for path in partition.iterdir():
        path.unlink()
    one = seen(partition)
    (partition / NEWEST).touch()
    check(one, "worker")


def test_the_identity_of_a_removed_partition_is_path_not_found(partition):
    one = seen(partition)
    for path in partition.iterdir():
        path.unlink()
    partition.rmdir()
    with pytest.raises(PathNotFound):
        check(one, "worker")
