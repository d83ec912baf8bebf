"""Only a regular file with the name of a broker's makes a directory a log directory."""

import pytest

from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.names import ROOT_KINDS
from kafkalog_cli.log.partition import open_logdir
from kafkalog_cli.ops.listing.root import broker_root
from kafkalog_cli.ops.same_place import is_of_a_broker
from tests.support.commands import kafkalog
from tests.support.product import NotKafkaLayout, RealFilesystem

FS = RealFilesystem()
NAMES = [kind.value for kind in ROOT_KINDS]


def is_known(root):
    """Whether each way to find out takes `root` for a log directory."""
    try:
        open_logdir(FS, str(root))
        is_opened = True
    except NotKafkaLayout:
        is_opened = False
    found = {log_dir_of(FS, f"{root}/orders-0") is not None, broker_root(FS, str(root)) is not None}
    assert len(found) == 1, root
    signs = {is_opened, is_of_a_broker(FS, str(root))}
    assert signs == (found if not (root / ".lock").exists() else {False}), root  # other programs have a .lock too
    return found.pop()


@pytest.mark.parametrize("name", NAMES)
def test_only_a_regular_file_counts(tmp_path, name):
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
        assert is_known(root) == (kind == "regular"), kind


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
