"""What a listing says exactly at a limit: of times, of offsets below the first segment, of sizes up to which it reads."""

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.listing import listing as lister
from kafkalog_cli.ops.listing.listing import list_segment
from tests.bad_input.makers import seven
from tests.ops.test_listing import listing, write
from tests.support.logs import R, batch_v2, producer_snapshot, write_segment

FS = RealFilesystem()


@pytest.fixture
def disk(tmp_path):
    """A log directory with a partition that has no file."""
    root = write(tmp_path / "logs", {"meta.properties": b"version=1\nnode.id=4\ncluster.id=abc\n"})
    write(root / "t-0", {})
    return root


@pytest.mark.parametrize(("time_ms", "shown"), [(-1, None), (0, 0), (1, 1)])
def test_the_first_millisecond_is_a_time(disk, time_ms, shown):
    write_segment(disk / "t-0", 0, [(batch_v2([R(0, time_ms, b"k", b"v")]), 0, time_ms)])
    partition = listing(disk).partitions[0]
    assert (partition.first_timestamp, partition.max_timestamp) == (shown, shown)
    opened = open_partition(FS, str(disk / "t-0"))
    one = list_segment(FS, opened, opened.segments[0], clean=False)
    assert (one.first_timestamp, one.max_timestamp) == (shown, shown)


@pytest.mark.parametrize(("line", "is_below"), [(0, True), (4, True), (5, False), (6, False)])
def test_a_log_that_starts_below_its_first_segment(tmp_path, line, is_below):
    root = write(tmp_path / "logs", {"log-start-offset-checkpoint": b"0\n1\nt 0 %d\n" % line})
    write(root / "t-0", {})
    write_segment(root / "t-0", 5, [(batch_v2([R(at, 9, b"k", b"v") for at in (5, 6)]), 6, 9)])
    assert listing(root).partitions[0].is_tiered == is_below


def test_a_compressed_batch_says_where_it_begins(disk):
    """The cleaner may have removed its first record; only a set of before v2 has its first offset inside."""
    write_segment(disk / "t-0", 0, [(batch_v2([R(at, 9, b"k", b"v") for at in (2, 3)], 1, base=0), 3, 9)])
    opened = open_partition(FS, str(disk / "t-0"))
    assert list_segment(FS, opened, opened.segments[0], clean=False).first_offset == 0


@pytest.mark.parametrize(("limit", "end"), [(0, 35), (34, 35), (35, 28), (36, 28)])
def test_a_segment_of_seven_is_scanned_up_to_a_size(disk, monkeypatch, limit, end):
    """28 of its 35 bytes are whole messages."""
    monkeypatch.setattr(lister, "SEVEN_SCAN_BYTES", limit)
    (disk / "t-0" / f"{0:020}.kafka").write_bytes(seven(b"12345") * 2 + bytes(7))
    assert listing(disk).partitions[0].log_end_offset == end


@pytest.mark.parametrize(("less", "is_known"), [(1, False), (0, True)])
def test_transactions_are_replayed_up_to_a_size(disk, monkeypatch, less, is_known):
    data = batch_v2([R(0, 9, b"k", b"v")])
    write_segment(disk / "t-0", 0, [(data, 0, 9)])
    monkeypatch.setattr(lister, "REPLAY_BYTES", len(data) - less)
    assert (listing(disk).partitions[0].open_transactions is not None) == is_known


def test_nothing_is_replayed_from_a_snapshot_at_the_end(disk, monkeypatch):
    write_segment(disk / "t-0", 0, [(batch_v2([R(0, 9, b"k", b"v")]), 0, 9)])
    (disk / "t-0" / f"{1:020}.snapshot").write_bytes(producer_snapshot([]))
    monkeypatch.setattr(lister, "REPLAY_BYTES", 0)
    assert listing(disk).partitions[0].open_transactions == []
