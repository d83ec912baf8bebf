"""Searches of a log exactly at an offset, a time or a marker: ends, index entries, transactions, settings."""

import struct

import pytest

from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.log_end import TimestampOrigin, largest_timestamp, last_indexed, segment_end
from kafkalog_cli.log.open_transactions import SegmentPart
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.segment_search import SegmentIndexes
from kafkalog_cli.log.transaction_ends import Ending, TransactionEnds
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import CONTROL, TRANSACTIONAL, R, aborted_txns, batch_v2, end_marker

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
def test_a_log_that_ends_below_its_base_offset_has_a_fault(last, faults):
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


def ends_of(segments, told):
    """Of segments: base offset, bytes, entries of the transaction index."""
    files = {}
    for base, data, entries in segments:
        files |= {f"/t-0/{base:020}.log": data}
        if entries is not None:
            files |= {f"/t-0/{base:020}.txnindex": aborted_txns(entries)}
    fs = FaultyFilesystem(files)
    parts = [SegmentPart(segment, 0) for segment in open_partition(fs, "/t-0").segments]
    return TransactionEnds(fs, parts, 0, DEFAULT_LIMITS, lambda path, message: told.append((path[-12:], message)))


def test_markers_of_a_producer_count_in_the_order_of_the_log():
    """A marker without records is none (ControlBatch with count 0), nor is a control batch without a producer."""
    none = batch_v2([], base=2, last=2, producer=(7, 0, -1), bits=TRANSACTIONAL | CONTROL)
    data = [batch(0, 1), none, *(end_marker(at, 1000, (7, 0), at == 5) for at in (3, 5, 9))]
    ends = ends_of([(0, b"".join(data), [(7, 4, 9, 4)])], told := [])
    found = [ends.ending(7, at, at) for at in (1, 2, 3, 4, 5, 8, 9)]
    assert found == [Ending.ABORTED] * 2 + [Ending.COMMITTED] * 2 + [Ending.ABORTED] * 2 + [Ending.OPEN]
    assert [path for path, _ in told] == ["000.txnindex"]  # the abort at 3 has no entry


@pytest.mark.parametrize("last", range(2, 10))
def test_an_entry_counts_only_where_no_readable_batch_has_its_offset(last):
    """The marker at 3 is damaged, offset 4 is in no batch, and the entry at 8 would be the next segment's."""
    data = batch(0, 2) + damaged(end_marker(3, 1000, (8, 0), 0)) + batch(5, 7)
    segments = [(0, data, [(7, 0, last, 0)])]
    ends = ends_of([*segments, (8, batch(8), None)], told := [])
    is_lost = last in {3, 4}
    assert ends.ending(7, 0, 0) is (Ending.ABORTED if is_lost else Ending.OPEN)
    assert [path for path, _ in told] == ([] if is_lost else ["000.txnindex"])
    alone = ends_of(segments, [])
    assert alone.ending(7, 0, 0) is (Ending.ABORTED if is_lost or last > 7 else Ending.OPEN)


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


def test_a_missing_transaction_index_entry_is_reported_with_the_segment_of_the_marker():
    data = batch(0, producer=(7, 0, 0), bits=TRANSACTIONAL)
    ends = ends_of([(0, data, []), (1, end_marker(1, 1000, (7, 0), 0), None), (2, batch(2), [])], told := [])
    assert ends.ending(7, 0, 0) is Ending.ABORTED
    assert [path for path, _ in told] == ["00000001.log"]
