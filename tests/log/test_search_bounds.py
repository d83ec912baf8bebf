"""Searches of a log exactly at an offset, a time or a marker: ends, index entries, transactions, settings."""

import struct
from types import SimpleNamespace

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.log_end import TimestampOrigin, largest_timestamp, last_indexed, segment_end
from kafkalog_cli.log.open_transactions import SegmentPart
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.segment_search import SegmentIndexes
from kafkalog_cli.log.settings.cluster_metadata import MetadataPoint
from kafkalog_cli.log.settings.topic_config import TopicConfig, read_broker_properties
from kafkalog_cli.log.settings.topic_config_table import BrokerName
from kafkalog_cli.log.transaction_ends import Ending, TransactionEnds, _IndexOfSegment, _marker_rows, _Markers
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import CONTROL, TRANSACTIONAL, R, aborted_txns, batch_v2, end_marker

FS = RealFilesystem()
WARM_ENTRIES = 1024
"""AbstractIndex.warmEntries of 8 bytes each."""


def one_segment(base=0, **files):
    names = {f"/t-0/{base:020}.{kind}": data for kind, data in files.items()}
    fs = FaultyFilesystem(names)
    return fs, open_partition(fs, "/t-0").segments[0]


def batch(base, last=None, time_ms=1000, **options):
    return batch_v2([R(base, time_ms)], last=last, **options)


def index(*entries):
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def times(*entries):
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


# -- where a log ends


@pytest.mark.parametrize("like_clean_start", [True, False])
@pytest.mark.parametrize(("entries", "lies"), [((), 0), (((0, 0),), 0), (((1, 0),), 1)])
def test_an_index_of_a_log_without_a_batch_lies_only_above_the_base_offset(like_clean_start, entries, lies):
    fs, segment = one_segment(5, log=b"\xff" * 40, index=index(*entries))
    end = segment_end(fs, segment, like_clean_start=like_clean_start)
    assert end.next_offset == 5
    assert len(end.index_faults) == lies


@pytest.mark.parametrize(("last", "faults"), [(3, 1), (4, 1), (5, 0)])
def test_a_log_that_ends_below_its_base_offset_is_told(last, faults):
    fs, segment = one_segment(5, log=batch(last))
    end = segment_end(fs, segment, like_clean_start=False)
    assert (end.next_offset, len(end.faults)) == (last + 1, faults)
    if faults:
        assert end.faults[0].last_offset == last
        assert end.faults[0].message == f"the last batch ends with offset {last}, below the segment's base offset 5"


def kafkas_slot(keys, target):
    """AbstractIndex.indexSlotRangeFor."""

    def search(begin, end):
        low, high = begin, end
        while low < high:
            middle = (low + high + 1) >> 1
            if keys[middle] == target:
                return middle
            if keys[middle] > target:
                high = middle - 1
            else:
                low = middle
        return low

    first_hot = max(0, len(keys) - 1 - WARM_ENTRIES)
    if keys[first_hot] < target:
        return search(first_hot, len(keys) - 1)
    return -1 if keys[0] > target else search(0, first_hot)


@pytest.mark.parametrize("ascending", [0, 100, 1973, 1974, 1975, 1976, 2500, 2999, 3000])
@pytest.mark.parametrize("then", [0, 50, 5000])
def test_the_last_entry_is_looked_up_as_a_broker_does(ascending, then):
    """After some entries that ascend comes one offset only, as in an index that was not cut, or is damaged."""
    keys = [*range(ascending), *[then] * (3000 - ascending)]
    fs, segment = one_segment(log=batch(0), index=index(*((key, 7 * at) for at, key in enumerate(keys))))
    offset, position, faults = last_indexed(fs, segment, believe=True)
    assert (offset, faults) == (keys[-1], [])
    assert position == max(0, 7 * kafkas_slot(keys, keys[-1]))


def test_timestamps_may_be_0():
    fs, segment = one_segment(log=batch(0, time_ms=0), timeindex=times((0, 5)))
    found = largest_timestamp(fs, segment)
    assert (found.timestamp_ms, found.origin, found.believed_ms) == (0, TimestampOrigin.BATCHES, 0)
    fs, segment = one_segment(log=batch(0, time_ms=-1), timeindex=b"")
    assert largest_timestamp(fs, segment).origin is TimestampOrigin.MTIME


# -- index entries


def searched(base, **files):
    fs, segment = one_segment(base, **files)
    return SegmentIndexes(fs, segment), fs.open_read(segment.log.path)


def test_an_entry_may_lead_to_the_base_offset():
    below = batch(3, 4)
    indexes, log = searched(5, log=below + batch(5) + batch(6), index=index((1, len(below))), timeindex=b"")
    assert indexes.before_offset(log, 6).position == len(below)
    indexes, log = searched(5, log=below + batch(4) + batch(6), index=index((1, len(below))), timeindex=b"")
    assert indexes.before_offset(log, 6)[:2] == (0, None)


def test_an_entry_of_the_very_time_says_nothing():
    data = [batch(0, time_ms=0), batch(1, time_ms=10), batch(2, time_ms=20)]
    size = len(data[0])
    files = {"index": index((1, size), (2, 2 * size)), "timeindex": times((0, 0), (10, 1), (20, 2))}
    indexes, log = searched(0, log=b"".join(data), **files)
    offsets = [indexes.before_time(log, time_ms)[0] for time_ms in (0, 1, 10, 11, 20, 21)]
    assert offsets == [-1, 0, 0, 1, 1, 2]


def test_a_time_index_without_an_offset_index_is_followed_from_the_start():
    indexes, log = searched(
        0, log=batch(0, time_ms=5) + batch(1, time_ms=9), index=b"", timeindex=times((5, 0), (9, 1))
    )
    assert indexes.before_time(log, 10) == (1, (9, 1))


def test_indexes_that_begin_together_are_used_without_what_lies_before():
    """The batches before the first entry are not read: here they cannot be."""
    broken, good = b"\xff" * len(batch(0)), batch(2, time_ms=20)
    indexes, log = searched(0, log=broken + good, index=index((2, len(broken))), timeindex=times((20, 2)))
    assert indexes.before_time(log, 21) == (2, (20, 2))
    assert indexes.largest_timestamp(log) == 20


# -- transactions


def test_markers_are_passed_in_order():
    markers = _Markers()
    for offset in (3, 5, 9):
        markers.append(offset, aborts=offset == 5, is_indexed=offset == 9)
    assert markers.next_after(2) == (3, Ending.COMMITTED, False)
    assert markers.next_after(3) == (5, Ending.ABORTED, False)
    assert markers.next_after(4).offset == 5
    assert markers.next_after(5) == (9, Ending.COMMITTED, True)
    assert markers.next_after(9) is None
    markers.append(11, aborts=False, is_indexed=False)
    assert markers.next_after(9).offset == 11


def row(base, last, *, valid=1, magic=2, producer=7, count=1, bits=TRANSACTIONAL | CONTROL):
    return Batch(0, 61, base, last, 0, magic, 0, bits, 0, 0, producer, 0, -1, count, valid)


@pytest.mark.parametrize("arrays", [False, True])
def test_which_batches_are_markers(arrays):
    rows = [
        row(0, 0), row(1, 1, producer=0), row(2, 2, producer=-1), row(3, 3, magic=1), row(4, 4, count=0),
        row(5, 5, valid=0), row(6, 6, bits=TRANSACTIONAL), row(7, 7),
    ]  # fmt: skip
    columns = BatchColumns.from_rows(rows)
    assert _marker_rows(columns.arrays() if arrays else columns) == [0, 1, 7]


def entry(last, first=0, producer=7):
    return AbortedTxn(0, producer, first, last, first)


def index_of(*entries):
    said = []
    segment = SimpleNamespace(txn_index=SimpleNamespace(path="/x.txnindex"))
    return _IndexOfSegment(
        segment, entries, lambda _, message: said.append(int(message.split("offset ")[1].split()[0]))
    ), said


def test_an_entry_is_lost_where_no_readable_batch_has_its_offset():
    rows = [row(0, 2), row(3, 3, valid=0), row(5, 7), row(9, 9, valid=0)]
    index, said = index_of(*(entry(at) for at in (2, 3, 4, 5, 7, 8, 9)))
    assert [found.last_offset for found in index.passed(BatchColumns.from_rows(rows))] == [3, 4]
    assert said == [2, 5, 7]
    assert [found.last_offset for found in index.rest(9)] == [8]
    assert said == [2, 5, 7, 9]
    index, said = index_of(entry(8), entry(9))
    assert [found.last_offset for found in index.rest(None)] == [8, 9]
    assert index.passed(BatchColumns.from_rows([row(0, 0, valid=0)])) == []


def ends_of(segments, told):
    """Of segments: base offset, bytes, entries of the transaction index."""
    files = {}
    for base, data, entries in segments:
        files |= {f"/t-0/{base:020}.log": data}
        if entries is not None:
            files |= {f"/t-0/{base:020}.txnindex": aborted_txns(entries)}
    fs = FaultyFilesystem(files)
    parts = [SegmentPart(segment, 0) for segment in open_partition(fs, "/t-0").segments]
    return TransactionEnds(fs, parts, 0, DEFAULT_LIMITS, None, lambda path, message: told.append((path[-12:], message)))


def damaged(data):
    return data[:-1] + b"!"


@pytest.mark.parametrize(("first", "ending"), [(0, Ending.ABORTED), (1, Ending.OPEN)])
def test_the_entry_of_a_lost_marker_counts_from_its_first_offset_on(first, ending):
    """In the first of two segments: its entries end below the next one's base offset."""
    data = batch(0, producer=(7, 0, 0), bits=TRANSACTIONAL) + damaged(end_marker(1, 1000, (7, 0), 0))
    ends = ends_of([(0, data, [(7, first, 1, first)]), (2, batch(2), None)], told := [])
    assert ends.ending(7, 0, 0) is ending
    assert told == []
    # The marker itself is no part of the transaction after it.
    assert ends_of([(0, data, [(7, 0, 1, 0)]), (2, batch(2), None)], []).ending(7, 1, 1) is Ending.OPEN


def test_an_entry_beyond_its_segment_is_no_marker():
    data = batch(0, producer=(7, 0, 0), bits=TRANSACTIONAL)
    ends = ends_of([(0, data, [(7, 0, 2, 0)]), (2, batch(2), None)], told := [])
    assert ends.ending(7, 0, 0) is Ending.OPEN
    assert [path for path, _ in told] == ["000.txnindex"]


def test_a_missing_entry_is_told_of_the_segment_with_the_marker():
    data = batch(0, producer=(7, 0, 0), bits=TRANSACTIONAL)
    ends = ends_of([(0, data, []), (1, end_marker(1, 1000, (7, 0), 0), None), (2, batch(2), [])], told := [])
    assert ends.ending(7, 0, 0) is Ending.ABORTED
    assert [path for path, _ in told] == ["00000001.log"]


# -- settings


def test_a_point_of_the_metadata_log():
    at_3, at_time = MetadataPoint(end_offset=3), MetadataPoint(time_ms=1000)
    assert [at_3.is_before(row(0, 9), offset) for offset in (2, 3, 4)] == [False, True, True]
    batches = [SimpleNamespace(max_timestamp=time_ms) for time_ms in (999, 1000, 1001)]
    assert [at_time.is_before(one, 0) for one in batches] == [False, False, True]


def test_a_lag_of_no_time_does_not_roll():
    """LogConfig.maxSegmentMs: compact and maxCompactionLagMs > 0."""
    for lag, compacted, found in ((0, True, 50), (1, True, 1), (99, True, 50), (1, False, 50)):
        config = SimpleNamespace(max_compaction_lag_ms=lag, is_compacted=compacted, segment_ms=50)
        assert TopicConfig.__dict__["max_segment_ms"].fget(config) == found


def test_the_two_lags_may_be_the_same(tmp_path):
    for smaller, fails in ((5, False), (6, True)):
        path = tmp_path / "server.properties"
        lags = f"log.cleaner.min.compaction.lag.ms={smaller}\nlog.cleaner.max.compaction.lag.ms=5\n"
        path.write_text(f"{lags}log.dirs=/x\n")
        if fails:
            with pytest.raises(UsageError, match=r"min.compaction.lag.ms.*6.*>.*5"):
                read_broker_properties(FS, str(path))
        else:
            assert read_broker_properties(FS, str(path))["log.dirs"] == "/x"


def test_only_below_zero_is_unlimited():
    name = BrokerName("log.retention.minutes", unit=60_000, below_zero_is_unlimited=True)
    assert [name.in_topic_units(value) for value in (-2, -1, 0, 1)] == [-1, -1, 0, 60_000]
    assert BrokerName("x", unit=60_000).in_topic_units(-1) == -60_000
