"""Only a regular file with the name of a broker's makes a directory a log directory."""

import pytest

from tests.support.commands import kafkalog

NAMES = [
    "meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
    "log-start-offset-checkpoint", "cleaner-offset-checkpoint", ".lock",
]  # fmt: skip


def is_known(root):
    """Whether `ls` takes `root` for a log directory. Other programs have a `.lock` too."""
    code, out, err = kafkalog("ls", root, "--format", "json")
    assert (code, '"NotKafkaLayout"' in err) in ((0, False), (3, False), (10, True)), (out, err)
    return code != 10


@pytest.mark.parametrize("name", NAMES)
def test_only_a_regular_meta_properties_makes_a_directory_a_log_directory(tmp_path, name):
    for kind in ("directory", "link to a file", "link to a directory", "link to nothing", "regular"):
        root = tmp_path / kind / "parent"
        root.mkdir(parents=True)
        (target := root.parent / name).write_bytes(b"0\n0\n")
        if kind == "directory":
            (root / name).mkdir()
        elif kind == "regular":
            (root / name).write_bytes(b"0\n0\n")
        else:
            where = {"link to a file": target, "link to a directory": root.parent, "link to nothing": root / "none"}
            (root / name).symlink_to(where[kind])
        assert is_known(root) == (kind == "regular" and name != ".lock"), kind


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_made_beside_such_an_entry(tmp_path, name):
    """A command took the parent of the partition for its log directory: it made a `.lock` and checkpoints there."""
    root = tmp_path / "parent"
    partition = root / "orders-0"
    partition.mkdir(parents=True)
    (root / name).mkdir()
    (partition / f"{0:020d}.log").touch()
    line = b'{"value":"a"}\n'
    for argv in (("append", partition, "--single-replica"), ("roll", partition), ("recover", partition)):
        code, _, err = kafkalog(*argv, "--config", f"segment.ms={2**62}", stdin=line)
        assert code == 0, err
    assert [one.name for one in sorted(root.iterdir())] == sorted(["orders-0", name])
