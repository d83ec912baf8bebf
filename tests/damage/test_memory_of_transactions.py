"""Very many transactions, and segments of very many batches, in commands that follow them."""

from __future__ import annotations

import sys

import pytest

from tests.damage.large_files import producers
from tests.damage.makers import TRANSACTIONAL, batch, record
from tests.damage.peaks import BOMBS, peaks
from tests.support.logs import BASE_TIME_MS, R, batch_v2, end_marker

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux"),
    pytest.mark.exhaustive,
]

MOST_MEBIBYTES = 300
LOG, NEXT_LOG = f"{0:020}.log", f"{3:020}.log"


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9", 1, BOMBS)


def open_snapshot(count: int) -> bytes:
    """A snapshot of producers of which each has an open transaction."""
    np = pytest.importorskip("numpy")
    rows = {"producer_id": np.arange(count)[::-1], "last_offset": 1, "current_txn_first_offset": np.arange(count) % 7}
    return producers(count, rows)


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("ls", "--format", "json"),
        ("read", "--isolation", "read_committed", "--from", "3"),
        ("read", "--isolation", "read_committed"),
    ],
)
def test_commands_at_a_snapshot_of_very_many_open_transactions_stay_within_the_memory_limit(command, tmp_path):
    path = tmp_path / "t-0"
    path.mkdir()
    (path / LOG).write_bytes(b"".join(batch(at, [record(0, b"k", b"v")], producer=(at, 0, 0)) for at in range(3)))
    last = batch(3, [record(0, b"k", b"v")], producer=(9, 0, 1), attributes=TRANSACTIONAL)
    (path / NEXT_LOG).write_bytes(last)
    (path / f"{3:020}.snapshot").write_bytes(open_snapshot(1_400_000))
    ((code, mebibytes),) = peaks([(command[0], str(path), *command[1:])])
    assert code in (0, 3)
    assert mebibytes < MOST_MEBIBYTES, mebibytes


def test_recover_of_a_segment_of_very_many_batches_that_it_splits_stays_within_the_memory_limit(tmp_path):
    """Its last offset is above what an index can express, so that a broker splits it (KAFKA-6264)."""
    path = tmp_path / "t-0"
    path.mkdir()
    many, beyond = 150_000, 1 << 31
    with (path / LOG).open("wb") as log:
        for at in range(many):
            log.write(batch(at, b"", count=0, delta=0))
        log.write(batch(beyond, [record(0, b"k", b"v")]))
    ((code, mebibytes),) = peaks([("recover", "--like-broker", str(path))])
    assert code in (0, 3)
    assert (path / f"{beyond:020}.log").stat().st_size == len(batch(beyond, [record(0, b"k", b"v")]))
    assert mebibytes < 100, mebibytes


@pytest.mark.full
def test_commands_at_a_segment_of_very_many_transactions_stay_within_the_memory_limit(tmp_path):
    """A record and its marker take 150 bytes, so that a segment of a gigabyte has seven million."""
    np = pytest.importorskip("numpy")
    path, many = tmp_path / "t-0", 2_000_000
    path.mkdir()
    data = batch_v2([R(0, BASE_TIME_MS, b"k", b"v")], producer=(7, 0, 0), bits=TRANSACTIONAL)
    marker = end_marker(0, BASE_TIME_MS, (7, 0), commits=True)
    batches = np.tile(np.frombuffer(data + marker, np.uint8), (many, 1))
    for at, first in ((0, 0), (len(data), 1)):  # the base offset, which no CRC covers
        batches[:, at : at + 8] = np.arange(first, 2 * many, 2).astype(">i8").view(np.uint8).reshape(many, 8)
    batches.tofile(path / LOG)
    ((code, mebibytes),) = peaks([("verify", str(path))])
    assert code in (0, 3)
    assert mebibytes < MOST_MEBIBYTES, mebibytes
