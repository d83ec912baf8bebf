"""Which segments a broker deletes and when it rolls one: at each boundary, and against its own loops."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.broker.open_log import ActiveSegment, Arriving, RollCause, RollLimits, roll_cause
from kafkalog_cli.broker.retention import RetainedSegment, RetentionBounds, RetentionLimits, RetentionPass, retain

# -- Retention against a twin that writes the broker's loops down as they are, and at each boundary


NOW_MS = 10_000
LOG_START, SIZE, TIME = RetentionPass


@st.composite
def logs(draw):
    """Segments with sizes and ages near each other and near the limits, so that boundaries are met."""
    count = draw(st.integers(1, 6))
    bases = sorted(draw(st.sets(st.integers(0, 30), min_size=count, max_size=count)))
    sizes = [draw(st.integers(1, 4)) for _ in bases]
    sizes[-1] = draw(st.integers(0, 4))
    end = bases[-1] + (draw(st.integers(1, 5)) if sizes[-1] else 0)
    times = [NOW_MS - draw(st.integers(-2, 6)) for _ in bases]
    start = draw(st.integers(bases[0], end))
    watermark = draw(st.integers(start, end))
    limits = RetentionLimits(draw(st.integers(-1, 6)), draw(st.integers(-1, 20)), draw(st.booleans()))
    return list(zip(bases, sizes, times, strict=True)), RetentionBounds(start, end, watermark), limits


class Twin:
    """UnifiedLog.deleteOldSegments, loop by loop, on a list that shrinks."""

    def __init__(self, segments, bounds):
        self.segments, self.bounds = list(segments), bounds
        self.start = bounds.log_start_offset
        self.gone, self.rolled = [], False

    def run(self, limits):
        self.one_pass(LOG_START, lambda segment, following: following is not None and following[0] <= self.start)
        if not limits.deletes:
            return
        size = sum(segment[1] for segment in self.segments)
        if limits.retention_bytes >= 0 and size >= limits.retention_bytes:
            diff = [size - limits.retention_bytes]

            def breaches(segment, _):
                if diff[0] - segment[1] >= 0:
                    diff[0] -= segment[1]
                    return True
                return False

            self.one_pass(SIZE, breaches)
        if limits.retention_ms >= 0:
            self.one_pass(TIME, lambda segment, _: NOW_MS - segment[2] > limits.retention_ms)

    def one_pass(self, why, predicate):
        deletable = []
        for at, segment in enumerate(self.segments):
            following = self.segments[at + 1] if at + 1 < len(self.segments) else None
            upper = self.bounds.log_end_offset if following is None else following[0]
            is_last_and_empty = following is None and segment[1] == 0
            if self.bounds.high_watermark >= upper and predicate(segment, following) and not is_last_and_empty:
                deletable.append(segment)
            else:
                break
        if not deletable:
            return
        if len(deletable) == len(self.segments):
            self.rolled = True
            self.segments.append((self.bounds.log_end_offset, 0, -1))
        self.gone += [why] * len(deletable)
        self.segments = self.segments[len(deletable) :]
        self.start = max(self.start, self.segments[0][0])


@given(logs())
def test_segments_go_as_in_the_plain_copy_of_the_broker_loops(made):
    segments, bounds, limits = made
    twin = Twin(segments, bounds)
    twin.run(limits)
    found = retained(segments, bounds, limits)
    assert list(found.passes) == twin.gone
    assert (found.log_start_offset, found.rolls) == (twin.start, twin.rolled)
    if not found.rolls:
        left = segments[len(found.passes) :]
        again = retained(left, bounds._replace(log_start_offset=found.log_start_offset), limits)
        assert not again.passes, "a second run changes something"


@pytest.mark.parametrize("retention_bytes", range(-1, 8))
def test_any_small_sizes_as_the_twin(retention_bytes):
    """Also of segments that a cleaning emptied, where the log is exactly as large as it may be."""
    limits = RetentionLimits(retention_bytes=retention_bytes)
    for sizes in product(range(3), repeat=3):
        segments = list(zip((0, 5, 9), sizes, (NOW_MS,) * 3, strict=True))
        twin = Twin(segments, RetentionBounds(0, 12, 12))
        twin.run(limits)
        assert list(retained(segments, RetentionBounds(0, 12, 12), limits).passes) == twin.gone, sizes


def retained(segments, bounds, limits, asked=None):
    def largest_timestamp(at):
        if asked is not None:
            asked.append(at)
        return segments[at][2]

    return retain([RetainedSegment(*s[:2]) for s in segments], bounds, limits, NOW_MS, largest_timestamp)


THREE = [(0, 10, NOW_MS - 500), (5, 10, NOW_MS - 400), (9, 10, NOW_MS - 300)]
WHOLE = RetentionBounds(0, 12, 12)


@pytest.mark.parametrize(("age", "goes"), [(499, 1), (500, 0), (501, 0)])
def test_a_segment_as_old_as_the_limit_stays(age, goes):
    assert len(retained(THREE, WHOLE, RetentionLimits(retention_ms=age)).passes) == goes


@pytest.mark.parametrize(("limit", "goes"), [(30, 0), (21, 0), (20, 1), (19, 1), (11, 1), (10, 2), (1, 2), (0, 3)])
def test_what_is_left_is_no_smaller_than_the_limit(limit, goes):
    found = retained(THREE, WHOLE, RetentionLimits(retention_bytes=limit))
    assert (len(found.passes), found.rolls) == (goes, goes == 3)


@pytest.mark.parametrize(("start", "goes"), [(4, 0), (5, 1), (6, 1), (8, 1), (9, 2), (12, 2)])
def test_segments_below_the_log_start_go_whatever_the_policy(start, goes):
    found = retained(THREE, RetentionBounds(start, 12, 12), RetentionLimits(0, 0, deletes=False))
    assert found.passes == (LOG_START,) * goes
    assert found.log_start_offset == start


@pytest.mark.parametrize(("watermark", "goes"), [(4, 0), (5, 1), (8, 1), (9, 2), (11, 2), (12, 3)])
def test_nothing_at_or_above_the_high_watermark_goes(watermark, goes):
    assert len(retained(THREE, RetentionBounds(0, 12, watermark), RetentionLimits(retention_ms=0)).passes) == goes


def test_times_are_asked_for_only_as_far_as_needed():
    asked = []
    retained(THREE, WHOLE, RetentionLimits(retention_ms=450), asked)
    assert asked == [0, 1]
    asked.clear()
    retained(THREE, WHOLE, RetentionLimits(retention_bytes=5), asked)
    assert asked == []


def test_an_empty_last_segment_stays():
    emptied = [*THREE[:2], (9, 0, NOW_MS - 300)]
    found = retained(emptied, RetentionBounds(0, 9, 9), RetentionLimits(0, 0))
    assert found.passes == (SIZE, SIZE)
    assert (found.log_start_offset, found.rolls) == (9, False)


def test_times_follow_sizes_on_what_is_left():
    found = retained(THREE, WHOLE, RetentionLimits(retention_ms=350, retention_bytes=20))
    assert found.passes == (SIZE, TIME)


# -- When a segment is rolled: at each boundary, and against a twin that writes LogSegment.shouldRoll down as it is


NOW_MS_OF_ROLLING = 50_000
ACTIVE = ActiveSegment(
    base_offset=100, size_bytes=900, first_timestamp=40_000, created_ms=30_000, offset_entries=3, time_entries=2
)
LIMITS = RollLimits(segment_bytes=1000, segment_ms=10_000, segment_index_bytes=48)
ARRIVING = Arriving(size_bytes=100, max_timestamp=NOW_MS_OF_ROLLING, last_offset=200)


def cause(active=ACTIVE, arriving=ARRIVING, limits=LIMITS, now_ms=NOW_MS_OF_ROLLING):
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
def test_segments_roll_as_in_the_plain_copy_of_should_roll(active, arriving, limits, now_ms):
    assert (cause(active, arriving, limits, now_ms) is not None) == should_roll(active, arriving, limits, now_ms)
