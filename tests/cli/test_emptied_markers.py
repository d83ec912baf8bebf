"""A control batch that the cleaner emptied ends no transaction (ProducerAppendInfo.append), and is no damage."""

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import (
    BASE_TIME_MS,
    CONTROL,
    TRANSACTIONAL,
    R,
    aborted_txns,
    batch_v2,
    end_marker,
    producer_snapshot,
    write_segment,
)

NAMES = {kind: f"{2:020}{kind}" for kind in (".txnindex", ".snapshot")}


def data(offset, sequence):
    return batch_v2([R(offset, BASE_TIME_MS, b"k", b"v")], producer=(5, 0, sequence), bits=TRANSACTIONAL)


@pytest.fixture
def partition(tmp_path):
    """A transaction of offsets 0 to 3, in which an emptied control batch of the same producer lies at offset 1."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    emptied = batch_v2([], base=1, last=1, producer=(5, 0, -1), bits=TRANSACTIONAL | CONTROL)
    abort = end_marker(3, BASE_TIME_MS, (5, 0), False)
    write_segment(directory, 0, [(data(0, 0), 0, BASE_TIME_MS), (emptied, 1, -1)])
    write_segment(directory, 2, [(data(2, 1), 2, BASE_TIME_MS), (abort, 3, BASE_TIME_MS)])
    (directory / NAMES[".snapshot"]).write_bytes(producer_snapshot([(5, 0, 0, 0, 0, BASE_TIME_MS, -1, 0)]))
    (directory / NAMES[".txnindex"]).write_bytes(aborted_txns([(5, 0, 3, 4)]))
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    return directory


@pytest.mark.parametrize("command", [["verify", "--level", "deep"], ["dump-index"], ["recover", "--like-broker"]])
def test_it_ends_no_transaction(partition, command):
    code, out, _ = kafkalog(*command, partition)
    assert code == 0, out


def test_the_entry_of_the_transaction_around_it_is_missed(partition):
    (partition / NAMES[".txnindex"]).unlink()
    code, out, _ = kafkalog("verify", partition)
    assert code == 4
    assert "no entry for an aborted transaction of producer 5, offsets 0 to 3 [" in out


def test_salvage_copies_it(partition, tmp_path):
    code, out, _ = kafkalog("recover", partition, "--salvage", tmp_path / "salvaged")
    assert code == 0, out
    for base in (0, 2):
        name = f"{base:020}.log"
        assert (tmp_path / "salvaged" / "t-0" / name).read_bytes() == (partition / name).read_bytes()
