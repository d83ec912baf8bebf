"""A follower that truncates leaves its index files as they are: entries behind those in use, which only it can count."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.crash.log_directories import PARTITION, ROOT, batch
from tests.crash.test_live import busy_disk
from tests.crash.writers import NOW_MS, kafkalog
from tests.support.product import RealFilesystem

HOLD = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(); sys.stdin.read()"
ACTIVE = "t-0/00000000000000000014"


@contextmanager
def running_broker(root):
    """Another process holds the lock of the log directory, as a broker does."""
    command = [sys.executable, "-c", HOLD, str(root / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield
        process.stdin.close()


@pytest.fixture
def truncated(tmp_path):
    """Of the last segment's batches one is left, and others came; its index has the entries of before."""
    for path, inode in busy_disk("killed").walk(ROOT):
        if not inode.is_directory:
            file = tmp_path / path.removeprefix(f"{ROOT}/")
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(inode.content)
    assert f"{ROOT}/t-0" == PARTITION
    log = tmp_path / f"{ACTIVE}.log"
    log.write_bytes(
        b"".join(batch(first, *count)[0] for first, count in ((14, ()), (16, (3,)), (19, (3,)), (22, (3,))))
    )
    return tmp_path


READERS = (["verify", "."], ["verify", "--level", "deep", "."], ["dump-index", "t-0"], ["dump-index", "."])


@pytest.mark.parametrize("argv", READERS, ids=" ".join)
def test_entries_that_a_truncation_left_are_no_corruption(truncated, argv):
    path = [*argv[:-1], str(truncated / argv[-1])]
    with running_broker(truncated):
        outcome = kafkalog(RealFilesystem(), *path, now_ms=NOW_MS)
    assert outcome.code == 3, outcome
    assert "a running broker that truncated the log leaves unused entries at the end" in outcome.out
    assert kafkalog(RealFilesystem(), *path, now_ms=NOW_MS).code == 4  # nobody but a broker has such files


@pytest.mark.parametrize("argv", READERS, ids=" ".join)
def test_an_index_of_another_segment_is_corrupt_beside_a_broker_too(truncated, argv):
    index = truncated / "t-0/00000000000000000006.index"
    index.write_bytes(b"\0\0\0\1\0\0\0\7" + index.read_bytes()[8:])
    with running_broker(truncated):
        outcome = kafkalog(RealFilesystem(), *argv[:-1], str(truncated / argv[-1]), now_ms=NOW_MS)
    assert outcome.code == 4, outcome
