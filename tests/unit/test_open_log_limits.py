"""Where a log is cut, closed and continued, exactly at an offset or a time of an entry. Kafka's rules on small logs."""

import struct

import pytest

from kafkalog_cli.broker.appended_log import AppendTarget
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.open_log import CutBatch, OpenLog, _truncate_segment, roll, truncate_to
from kafkalog_cli.change.draft import Draft
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import R, aborted_txns, batch_v2

SETTINGS = LoadSettings(now_ms=0)
TIME_MS = 1000


def batch(base, last=None, time_ms=TIME_MS, epoch=0):
    return batch_v2([R(base, time_ms)], last=last, epoch=epoch)


SIZE = len(batch(0))


def index(*entries):
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def times(*entries):
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def opened(segments, *, end, log_start=0, is_clean=True, **files):
    """A log of (base offset, batches); `files` are further files of the first segment, by their suffix."""
    disk = {}
    for base, batches in segments:
        path = f"/t-0/{base:020}"
        disk |= {f"{path}.log": b"".join(batches), f"{path}.index": b"", f"{path}.timeindex": b""}
    first = f"/t-0/{segments[0][0]:020}"
    disk |= {f"{first}.{suffix}": data for suffix, data in files.items()}
    draft = Draft(FaultyFilesystem(disk), "/t-0")
    return OpenLog(draft, SETTINGS, log_start, end, is_clean=is_clean)


# -- times


@pytest.mark.parametrize(
    ("is_clean", "entries", "knows"), [(True, b"", False), (True, times((9, 0)), True), (False, b"", True)]
)
def test_an_empty_time_index_knows_no_times(is_clean, entries, knows):
    log = opened([(0, [batch(0)])], end=1, is_clean=is_clean, timeindex=entries)
    assert log.knows_times(log.active()) is knows


@pytest.mark.parametrize(
    ("times_of_batches", "entry", "added"),
    [
        ((5, 9, 9, 3), None, (9, 1)),  # the first of two with the largest timestamp
        ((5, 9, 9, 3), (9, 1), None),
        ((5, 9, 9, 3), (8, 0), (9, 1)),
        ((9, 9), (9, 0), None),
    ],
)
def test_the_closing_entry_is_the_first_largest_timestamp(times_of_batches, entry, added):
    """LogSegment.readLargestTimestamp and TimeIndex.maybeAppend: timestamp > lastEntry.timestamp."""
    batches = [batch(at, time_ms=time_ms) for at, time_ms in enumerate(times_of_batches)]
    before = times(entry) if entry else b""
    log = opened([(0, batches)], end=len(batches), timeindex=before)
    log.close_time_index(log.active())
    assert log.draft.read(f"{0:020}.timeindex") == before + (times(added) if added else b"")


# -- rolling


@pytest.mark.parametrize(("end", "batches", "fails"), [(5, [], False), (5, [5], True), (4, [], True), (4, [5], True)])
def test_a_segment_with_batches_is_not_rolled_at_its_base_offset(end, batches, fails):
    """LocalLog.roll throws where a segment with that base offset exists and is not empty."""
    log = opened([(5, [batch(at) for at in batches])], end=end)
    if fails:
        with pytest.raises(LoadFailed, match=f"a new segment would begin at {end}"):
            roll(log)
    else:
        roll(log)
    assert log.base_offsets == [5]


# -- truncating


def test_nothing_is_truncated_at_the_end():
    log = opened([(0, [batch(0), batch(1)])], end=2)
    names = log.draft.names()
    assert truncate_to(log, 2)[:3] == (0, 2, ())
    assert log.draft.names() == names


def test_a_segment_that_begins_at_the_target_stays_without_batches():
    """LocalLog.truncateTo removes the segments with baseOffset > targetOffset, and truncates the active segment."""
    log = opened([(0, [batch(0)]), (1, [batch(1)]), (2, [batch(2)])], end=3)
    assert truncate_to(log, 1) == (0, 1, (2,), None, SIZE)
    assert log.base_offsets == [0, 1]
    log = opened([(3, [batch(3)]), (4, [batch(4)])], end=5)
    assert truncate_to(log, 3) == (3, 3, (4,), None, SIZE)
    assert log.base_offsets == [3]
    log = opened([(3, [batch(3)])], end=4)
    assert truncate_to(log, 2)[:3] == (2, 2, (3,))


@pytest.mark.parametrize(("log_start", "removed"), [(1, ()), (2, (0,))])
def test_a_log_may_be_cut_down_to_its_start(log_start, removed):
    log = opened([(0, [batch(0), batch(1), batch(2)])], end=3, log_start=log_start)
    found = truncate_to(log, 1)
    assert (found.log_start_offset, found.log_end_offset, found.removed) == (log_start, log_start, removed)


@pytest.mark.parametrize(
    ("target", "kept_offsets", "kept_times", "kept_aborts", "cut"),
    [
        (2, 0, 0, 0, None),
        (3, 1, 1, 1, CutBatch(2, 3, SIZE)),
        (4, 1, 1, 1, None),
        (5, 2, 2, 2, None),
        (6, 2, 2, 2, None),
    ],
)
def test_entries_at_the_target_are_cut(target, kept_offsets, kept_times, kept_aborts, cut):
    """OffsetIndex.truncateTo, TimeIndex.truncateTo and TransactionIndex.truncateTo."""
    batches = [batch(0), batch(2, 3), batch(4), batch(5), batch(6)]
    entries, stamps = [(2, SIZE), (4, 2 * SIZE)], [(1, 2), (TIME_MS, 4)]
    aborts = aborted_txns([(7, 0, 2, 2), (7, 3, 4, 4)])
    log = opened([(0, batches)], end=7, index=index(*entries), timeindex=times(*stamps), txnindex=aborts)
    found, cut_bytes = _truncate_segment(log, log.active(), target)
    assert log.draft.read(f"{0:020}.index") == index(*entries[:kept_offsets])
    assert log.draft.read(f"{0:020}.timeindex")[: 12 * kept_times] == times(*stamps[:kept_times])
    times_kept = len(log.draft.read(f"{0:020}.timeindex")) // 12
    # The closing entry: batches are read from the last entry on, and a target of 3 leaves none there.
    assert times_kept == kept_times + (target in {2, 4})
    assert log.draft.read(f"{0:020}.txnindex") == aborts[: 34 * kept_aborts]
    assert found == cut
    position = {2: 1, 3: 1, 4: 2, 5: 3, 6: 4}[target] * SIZE
    assert (log.draft.size_bytes(f"{0:020}.log"), cut_bytes) == (position, 5 * SIZE - position)


def test_a_transaction_index_that_is_not_cut_keeps_all_its_bytes():
    aborts = aborted_txns([(7, 0, 0, 0)]) + b"odd"
    log = opened([(0, [batch(0), batch(1)])], end=2, txnindex=aborts)
    _truncate_segment(log, log.active(), 1)
    assert log.draft.read(f"{0:020}.txnindex") == aborts


# -- rolling


def test_a_segment_of_a_killed_broker_gets_its_closing_time():
    """A broker that recovers the segment writes this entry (LogSegment.recover), and `roll` keeps it."""
    log = opened([(0, [batch(0), batch(1, time_ms=1500)])], end=2, is_clean=False, timeindex=bytes(96))
    roll(log)
    assert log.draft.read(f"{0:020}.timeindex") == times((1500, 1))
    assert log.base_offsets == [0, 2]


# -- appending


def test_an_empty_segment_of_a_killed_broker_may_have_no_indexes():
    draft = Draft(FaultyFilesystem({f"/t-0/{5:020}.log": b""}), "/t-0")
    target = AppendTarget(OpenLog(draft, SETTINGS, 0, 5, is_clean=False))
    assert (target.base_offset, target.end_offset, target.size_bytes) == (5, 5, 0)
    assert target.indexes.entries == (0, 0)
    draft = Draft(FaultyFilesystem({f"/t-0/{5:020}.log": batch(5)}), "/t-0")
    with pytest.raises(LoadFailed, match="an index of"):
        AppendTarget(OpenLog(draft, SETTINGS, 0, 6, is_clean=False))
