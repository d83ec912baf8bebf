"""What `inspect`, `stats` and `ls` say of a log exactly at a limit: holes, times, counts, the start of a segment."""

import random
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops import inspect, stats
from kafkalog_cli.ops.inspect import LogWalk, WalkedSegment
from kafkalog_cli.ops.listing import listing
from kafkalog_cli.ops.log_contents import TimeCounter
from kafkalog_cli.ops.stats import ContentsCollector
from tests.ops.test_check_bounds import batch
from tests.support.faulty_fs import BytesFile
from tests.support.logs import LOG_APPEND_TIME, R, batch_v2, message, message_set, write_segment

FS = RealFilesystem()


def arrays(*batches):
    return BatchColumns.from_matrix(np.array(batches, np.int64).T)


def walk(log_start=0):
    found = object.__new__(LogWalk)
    found._next_offset, found._log_start, found._last_ms, found._holes = None, log_start, None, []
    found.hole_count = found.hole_offsets = 0
    found._times = TimeCounter()
    return found


# -- inspect


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_holes_between_batches(cut):
    """Not below the log start; the first offset of a compressed set is not known.

    What is said of a hole does not depend on how many batches were read at once.
    """
    for gaps in product((0, 1, 3), repeat=3):
        batches, offset = [batch(5, 6, max_timestamp=0)], 7
        for number, gap in enumerate(gaps, 1):
            offset += gap
            batches.append(batch(offset, offset + 1, max_timestamp=number if number != 2 else -1))
            offset += 2
        for log_start in (0, 7, 8, 9):
            found = walk(log_start)
            for part in (batches[:cut], batches[cut:]):
                found._take(arrays(*part), WalkedSegment(0, None, None))
            wanted, times = [], {0: 0, 1: 1, 2: None, 3: 3}
            for number in (1, 2, 3):
                first, last = batches[number - 1].last_offset + 1, batches[number].base_offset - 1
                first = max(first, log_start)
                if first <= last:
                    wanted.append((first, last, times[number - 1], times[number]))
            assert [tuple(hole) for hole in found._holes] == wanted, (gaps, log_start)
            assert found.hole_offsets == sum(last - first + 1 for first, last, *_ in wanted)
    found = walk()
    found._take(arrays(batch(5, 6), batch(-1, 20, magic=1)), WalkedSegment(0, None, None))
    assert found._holes == []


def test_the_first_and_the_last_time_of_a_segment():
    """A base timestamp of 0 is one; a delete horizon, and a time beside the broker's own, are none."""
    for base, largest, magic, bits in product((-1, 0, 5), (-1, 0, 7), (1, 2), (0, 8, 0x40)):
        one = batch(0, base_timestamp=base, max_timestamp=largest, magic=magic, attributes=bits)
        first = base if magic == 2 and not bits else largest
        found = walk()._take(arrays(one), WalkedSegment(3, None, None))
        assert found == WalkedSegment(4, first if first >= 0 else None, largest if largest >= 0 else None)


def test_the_largest_holes_are_kept(monkeypatch):
    monkeypatch.setattr(inspect, "_KEPT_HOLES", 4)
    monkeypatch.setattr(inspect, "MOST_HOLES", 2)
    found = walk()
    for count, kept in ((4, 4), (5, 2)):
        while found.hole_count < count:
            found._add(inspect.Hole(0, found.hole_count, None, None))
        assert len(found._holes) == kept
    assert [hole.offsets for hole in found.largest_holes] == [4, 5]
    assert [inspect._known(time) for time in (None, -1, 0, 1)] == [None, None, 0, 1]


# -- stats


def test_the_most_records_of_a_batch_may_be_0():
    for counts, most in (((-1,), None), ((0,), 0), ((-1, 2), 2)):
        collector = ContentsCollector(SimpleNamespace(topic="t", number=0), 3)
        collector.batches(arrays(*(batch(at, records_count=count) for at, count in enumerate(counts))))
        assert collector._most_records == most


@pytest.mark.parametrize("count", [1, 2, 3])
def test_so_many_producers_are_counted(monkeypatch, count):
    monkeypatch.setattr(stats, "MOST_PRODUCERS", 2)
    collector = ContentsCollector(SimpleNamespace(topic="t", number=0), 3)
    rows = [batch(at, producer_id=at, producer_epoch=0) for at in range(count)]
    control = [batch(9, producer_id=7, attributes=0x20), batch(10, producer_id=-1)]
    collector.batches(arrays(*rows, *control))
    assert sorted(collector._producers) == list(range(min(count, 2)))
    assert collector._more_producers == (count > 2)


@pytest.mark.parametrize("seed", range(20))
def test_times_that_go_back_and_the_largest_records(seed):
    chance = random.Random(seed)
    collector, times, sizes = ContentsCollector(SimpleNamespace(topic="t", number=0), 3), [], []
    for _ in range(4):
        some = np.array([chance.randrange(5) for _ in range(chance.randrange(4))], np.int64)
        own = np.array([chance.randrange(4) for _ in some], np.int64)
        collector._take_times(some)
        collector._take_largest(np.arange(len(sizes), len(sizes) + len(some)), some, own)
        times += some.tolist()
        sizes += own.tolist()
    assert collector._out_of_order == sum(time < max(times[:at], default=0) for at, time in enumerate(times))
    wanted = sorted(range(len(sizes)), key=lambda at: (-sizes[at], at))[:3]
    assert [one.offset for one in collector._largest] == wanted


# -- ls


@pytest.mark.parametrize(
    ("data", "start"),
    [
        (batch_v2([R(5, 0)]), ("v2", 5, 0)), (batch_v2([R(5, -1)]), ("v2", 5, None)),
        (batch_v2([R(5, 7)], bits=LOG_APPEND_TIME, max_timestamp=9), ("v2", 5, 9)),
        (batch_v2([R(6, 8)], base=5, horizon=3), ("v2", 6, 8)), (message(R(5, 7), 1), ("v1", 5, 7)),
        (message_set([R(5, 0), R(6, 8)], 1, 1), ("v1", 5, 0)), (message_set([R(5, 7), R(6, 8)], 0, 1), ("v0", 5, None)),
        (batch_v2([R(5, 7), R(6, 8)], 1), ("v2", 5, 7)),
    ],
)  # fmt: skip
def test_how_a_segment_starts(data, start):
    header = next(SegmentReader(BytesFile(data)).headers())
    assert tuple(listing._start(BytesFile(data), header)) == start


@pytest.mark.parametrize(("magic", "missing"), [(0, [True, False]), (1, [True, False]), (2, [True, True])])
def test_indexes_that_a_log_of_a_format_has(tmp_path, magic, missing):
    (tmp_path / "t-0").mkdir()
    data = batch_v2([R(0, 5)]) if magic == 2 else message(R(0, 5), magic)
    write_segment(tmp_path / "t-0", 0, [(data, 0, 5)])
    for name in ("index", "timeindex"):
        (tmp_path / "t-0" / f"{0:020d}.{name}").unlink()
    (segment,) = open_partition(FS, str(tmp_path / "t-0")).segments
    kinds = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    assert [listing.is_index_missing(FS, segment, kind) for kind in kinds] == missing


@pytest.mark.parametrize(("more", "is_noted"), [(0, False), (1, True)])
def test_a_segment_may_be_as_large_as_a_broker_opens(more, is_noted):
    noted = []
    notes = SimpleNamespace(add=lambda path, faults: noted.extend(faults), fs=FS, found=())
    log = SimpleNamespace(size_bytes=2**31 - 1 + more, path="/t-0/0.log")
    index = SimpleNamespace(size_bytes=0, path="i")
    segment = SimpleNamespace(log=log, offset_index=index, time_index=index, txn_index=None, is_seven=False)
    listing.sidecar_lengths(segment, notes)
    assert bool(noted) == is_noted


@pytest.mark.parametrize(("size", "largest"), [(0, -1), (11, -1), (12, 77)])
def test_a_time_index_has_an_entry_from_12_bytes_on(tmp_path, size, largest):
    import struct

    path = tmp_path / f"{0:020d}.timeindex"
    path.write_bytes(struct.pack(">qi", 77, 3)[:size])
    segment = SimpleNamespace(time_index=FS.status(str(path)), base_offset=0)
    notes = SimpleNamespace(fs=FS, add=lambda *_: None)
    assert listing.largest_indexed_timestamp(segment, notes) == largest


@pytest.mark.parametrize("limit", [-1, 0, 5])
def test_a_limit_of_0_is_one(limit):
    known = SimpleNamespace(is_deleted=True, retention_ms=limit, retention_bytes=limit, is_known=lambda name: True)
    outlook = SimpleNamespace(
        retain_plan=SimpleNamespace(fates=(), removed=(), removed_bytes=0), _config=known, _now_ms=100
    )
    found = vars(inspect._Outlook)["retention"].fget(outlook)
    assert (found.retention_ms, found.retention_bytes, found.horizon_ms) == (
        (None, None, None) if limit < 0 else (limit, limit, 100 - limit)
    )


def test_which_part_of_a_log_is_clean():
    """Up to the first dirty offset; what begins from the first uncleanable one on cannot be cleaned."""
    segments = [SimpleNamespace(base_offset=base, log=SimpleNamespace(size_bytes=1)) for base in (0, 5, 10, 15)]
    for dirty, end in product((4, 5, 6, 10), (10, 11, 15)):
        dirt = SimpleNamespace(first_dirty=dirty, first_uncleanable=end)
        outlook = SimpleNamespace(retain_plan=None, cleaning=SimpleNamespace(dirt=dirt))
        found = list(inspect._segments(20, segments, [WalkedSegment()] * 4, outlook))
        assert [one.next_offset for one in found] == [5, 10, 15, 20]
        clean, part = inspect.CleaningPart.CLEAN, inspect.CleaningPart
        wanted = [
            clean if following <= dirty else part.DIRTY if base < end else part.UNCLEANABLE
            for base, following in ((0, 5), (5, 10), (10, 15), (15, 20))
        ]
        assert [one.part for one in found] == wanted
