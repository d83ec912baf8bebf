"""Which segments a broker deletes and when it rolls one: at each boundary, and against its own loops."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.broker.open_log import ActiveSegment, Arriving, RollLimits, roll_cause
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
def test_segments_of_small_sizes_go_as_in_the_plain_copy(retention_bytes):
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


# -- When a segment is rolled: against a twin that writes LogSegment.shouldRoll down as it is


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


def test_segments_roll_as_in_the_plain_copy_of_should_roll():
    """Around each limit: the size, the age by records or by the clock, both indexes, and the offsets of an int32."""
    limits = RollLimits(segment_bytes=10, segment_ms=10, segment_index_bytes=48)
    sizes, first, created, offset_entries, time_entries = (0, 9, 10), (-1, 0, 1), (9, 10, 11), (5, 6), (2, 3)
    for fields in product(sizes, first, created, offset_entries, time_entries):
        active = ActiveSegment(3, *fields)
        for timestamp, offset in product((-1, 9, 10, 11, 12), (2, 3, 4, 3 + 2**31 - 1, 3 + 2**31)):
            arriving = Arriving(1, timestamp, offset)
            rolls = roll_cause(active, arriving, limits, 20) is not None
            assert rolls == should_roll(active, arriving, limits, 20), (active, arriving)
