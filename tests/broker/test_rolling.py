"""When a segment is rolled: at each boundary, and against a twin that writes LogSegment.shouldRoll down as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.broker.open_log import ActiveSegment, Arriving, RollCause, RollLimits, roll_cause

NOW_MS = 50_000
ACTIVE = ActiveSegment(
    base_offset=100, size_bytes=900, first_timestamp=40_000, created_ms=30_000, offset_entries=3, time_entries=2
)
LIMITS = RollLimits(segment_bytes=1000, segment_ms=10_000, segment_index_bytes=48)
ARRIVING = Arriving(size_bytes=100, max_timestamp=NOW_MS, last_offset=200)


def cause(active=ACTIVE, arriving=ARRIVING, limits=LIMITS, now_ms=NOW_MS):
    return roll_cause(active, arriving, limits, now_ms)


@pytest.mark.parametrize(("size", "rolls"), [(99, None), (100, None), (101, RollCause.SIZE)])
def test_what_fills_the_segment_exactly_goes_in(size, rolls):
    assert cause(arriving=ARRIVING._replace(size_bytes=size)) is rolls


@pytest.mark.parametrize(("timestamp", "rolls"), [(49_999, None), (50_000, None), (50_001, RollCause.TIME)])
def test_records_exactly_as_far_from_the_first_batch_as_the_limit_go_in(timestamp, rolls):
    """By the time of the records, whatever the clock says: an idle log is not rolled."""
    for now_ms in (0, 10**12):
        assert cause(arriving=ARRIVING._replace(max_timestamp=timestamp), now_ms=now_ms) is rolls


@pytest.mark.parametrize(("now_ms", "rolls"), [(39_999, None), (40_000, None), (40_001, RollCause.TIME)])
def test_without_timestamps_time_counts_from_when_the_segment_was_opened(now_ms, rolls):
    assert cause(ACTIVE._replace(first_timestamp=-1), ARRIVING._replace(max_timestamp=-1), now_ms=now_ms) is rolls


@pytest.mark.parametrize("first", [-2, -1, 0, 1])
def test_a_first_timestamp_counts_from_0_on(first):
    """LogSegment.timeWaitedForRoll: 1970 is a time; a negative timestamp is none, and the segment's own age counts."""
    active = ACTIVE._replace(first_timestamp=first)
    arriving = ARRIVING._replace(max_timestamp=5000)
    by_clock = 10**12
    for limit in (4998, 4999, 5000, 5001):
        waited = 5000 - first if first >= 0 else by_clock - ACTIVE.created_ms
        wanted = RollCause.TIME if waited > limit else None
        assert cause(active, arriving, LIMITS._replace(segment_ms=limit), by_clock) is wanted


def test_an_empty_segment_is_not_rolled_for_its_age():
    empty = ACTIVE._replace(size_bytes=0, first_timestamp=-1, offset_entries=0, time_entries=0)
    assert cause(empty, now_ms=10**12) is None


@pytest.mark.parametrize(("entries", "rolls"), [(5, None), (6, RollCause.OFFSET_INDEX_FULL)])
def test_an_offset_index_that_is_full(entries, rolls):
    assert cause(ACTIVE._replace(offset_entries=entries)) is rolls


@pytest.mark.parametrize(("entries", "rolls"), [(2, None), (3, RollCause.TIME_INDEX_FULL)])
def test_a_time_index_keeps_a_place_for_the_last_entry(entries, rolls):
    assert cause(ACTIVE._replace(time_entries=entries)) is rolls


@pytest.mark.parametrize(
    ("offset", "rolls"),
    [
        (100, None),
        (99, RollCause.OFFSET_RANGE),
        (100 + 2**31 - 1, None),
        (100 + 2**31, RollCause.OFFSET_RANGE),
    ],
)
def test_offsets_that_an_index_can_hold(offset, rolls):
    assert cause(arriving=ARRIVING._replace(last_offset=offset)) is rolls


def should_roll(active, arriving, limits, now_ms):
    waited_ms = (
        arriving.max_timestamp - active.first_timestamp if active.first_timestamp >= 0 else now_ms - active.created_ms
    )
    has_waited = waited_ms > limits.segment_ms
    return (
        active.size_bytes > limits.segment_bytes - arriving.size_bytes
        or (active.size_bytes > 0 and has_waited)
        or active.offset_entries >= limits.segment_index_bytes // 8
        or active.time_entries >= limits.segment_index_bytes // 12 - 1
        or not 0 <= arriving.last_offset - active.base_offset <= 2**31 - 1
    )


SMALL = st.integers(0, 12)


@given(
    st.builds(ActiveSegment, SMALL, SMALL, st.integers(-1, 12), SMALL, SMALL, SMALL),
    st.builds(Arriving, SMALL, st.integers(-1, 30), st.one_of(SMALL, st.integers(2**31 - 3, 2**31 + 14))),
    st.builds(RollLimits, st.integers(0, 30), st.integers(0, 20), st.integers(0, 150)),
    st.integers(0, 40),
)
def test_as_the_twin(active, arriving, limits, now_ms):
    assert (cause(active, arriving, limits, now_ms) is not None) == should_roll(active, arriving, limits, now_ms)
