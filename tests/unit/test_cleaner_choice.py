"""What the cleaner chooses: plain copies of Kafka's own code."""

import random

import pytest

from kafkalog_cli.broker.cleaning.choosing import (
    CheckpointState,
    CleaningLimits,
    LogEnds,
    LogSegmentSize,
    SegmentTimes,
    UpTo,
    find_dirt,
    group_segments,
    places_between,
)

INT_MAX = 2**31 - 1
NOW_MS = 100


def some_segments(rng, count=5, largest=30):
    bases = sorted(rng.sample(range(largest), rng.randint(1, count)))
    return [LogSegmentSize(base, *(rng.randint(0, 4) for _ in range(3))) for base in bases]


def values(segments, start, end):
    """LogSegments.values(from, to): subMap(floorKey(from), to), without a floor headMap(to); IllegalArgumentException for to < from."""
    if end < start:
        raise ValueError
    if start == end:
        return []
    floor = [s for s in segments if s.base_offset <= start][-1:]
    return [s for s in segments if (not floor or s.base_offset >= floor[0].base_offset) and s.base_offset < end]


def non_active_from(segments, start):
    """LogSegments.nonActiveLogSegmentsFrom, which UnifiedLog.nonActiveLogSegmentsFrom asks."""
    active = segments[-1].base_offset
    return [] if start > active else values(segments, start, active)


def dirt(segments, ends, checkpoint, limits, times):
    """LogCleanerManager.cleanableOffsets (with findFirstUncleanableSegment), calculateCleanableBytes and maxCompactionDelay;
    the constructor of LogToClean (cleanBytes, cleanableRatio); the filter of grabFilthiestCompactedLog.

    UnifiedLog.getFirstBatchTimestampForSegments has Long.MAX_VALUE for a segment without a timestamp, which counts as none here.
    """
    first_dirty = ends.log_start if checkpoint is None else checkpoint
    if first_dirty < ends.log_start or first_dirty > ends.log_end:
        first_dirty = ends.log_start
    candidates = [(ends.last_stable, UpTo.LAST_STABLE_OFFSET), (segments[-1].base_offset, UpTo.ACTIVE_SEGMENT)]
    lag = max(limits.min_compaction_lag_ms, 0)
    if lag > 0:
        young = [s for s in non_active_from(segments, first_dirty) if times[s.base_offset][0] > NOW_MS - lag]
        candidates += [(s.base_offset, UpTo.MIN_COMPACTION_LAG) for s in young[:1]]
    limit, up_to = min(candidates, key=lambda one: one[0])
    uncleanable = (non_active_from(segments, max(first_dirty, limit)) or segments[-1:])[0].base_offset
    cleanable = sum(s.size_bytes for s in values(segments, min(first_dirty, uncleanable), uncleanable))
    clean = sum(s.size_bytes for s in values(segments, -1, first_dirty))
    firsts = [times[s.base_offset][1] for s in non_active_from(segments, first_dirty)]
    earliest = min((first for first in firsts if first > 0), default=2**63 - 1)
    until = NOW_MS - max(limits.max_compaction_lag_ms, 0)
    delay = until - earliest if earliest < until else 0
    ratio = cleanable / (clean + cleanable) if clean + cleanable else 0
    is_due = (delay > 0 and cleanable > 0) or ratio > limits.min_cleanable_dirty_ratio
    return first_dirty, uncleanable, clean, cleanable, up_to, delay, is_due


@pytest.mark.parametrize("seed", range(4))
def test_the_dirt_of_any_log_as_the_broker_finds_it(seed):
    """Checkpoints, watermarks and times lie at, below and above the offsets and limits that they are compared with."""
    rng = random.Random(seed)
    for _ in range(2000):
        segments = some_segments(rng)
        first, last = segments[0].base_offset, segments[-1].base_offset
        start = rng.randint(first, last)
        ends = LogEnds(log_start=start, last_stable=rng.randint(start, last + 3), log_end=last + 3)
        near = [*(s.base_offset + step for s in segments for step in (-1, 0, 1)), start - 1, start, last + 3, last + 4]
        checkpoint = rng.choice([None, *(offset for offset in near if offset >= 0)])
        limits = CleaningLimits(
            rng.choice([0, 0.5, 1]), rng.choice([0, 0, 1, 50, 51]), rng.choice([-1, 0, 49, 50, 99, 100])
        )
        times = {s.base_offset: (rng.choice([-1, 49, 50, 51]), rng.choice([-1, 0, 1, 50, 51])) for s in segments}
        by_place = [times[s.base_offset] for s in segments]
        asked = SegmentTimes([one[0] for one in by_place].__getitem__, [one[1] for one in by_place].__getitem__)
        case = segments, ends, checkpoint, limits, times
        found = find_dirt(segments, ends, checkpoint, limits, NOW_MS, asked)
        first_dirty, uncleanable, clean, cleanable, up_to, _, delay = found
        got = first_dirty, uncleanable, clean, cleanable, up_to, delay, found.is_due(limits)
        assert got == dirt(*case), case


@pytest.mark.parametrize("offset", range(4, 12))
def test_a_checkpoint_counts_from_the_start_to_the_end_of_the_log(offset):
    segments = [LogSegmentSize(5, 1, 0, 0), LogSegmentSize(8, 1, 0, 0)]
    found = find_dirt(
        segments, LogEnds(log_start=5, last_stable=10, log_end=10), offset, CleaningLimits(0.5), NOW_MS, None
    )
    below, above = CheckpointState.BELOW_LOG_START, CheckpointState.ABOVE_LOG_END
    assert found.checkpoint is (below if offset < 5 else above if offset > 10 else CheckpointState.USED)


def test_segments_between_two_offsets_are_those_of_java():
    segments = [LogSegmentSize(base, 1, 0, 0) for base in (2, 5, 9)]
    for start in range(12):
        for end in range(start, 12):
            found = [segments[at] for at in places_between(segments, start, end)]
            assert found == values(segments, start, end), (start, end)
        with pytest.raises(ValueError, match="Invalid range"):
            places_between(segments, start + 1, start)


def groups(segments, most_bytes, most_index_bytes, first_uncleanable):
    """Cleaner.groupSegmentsBySize, and lastOffsetForFirstSegment for the last offset of the segment that is to be added."""
    grouped, rest = [], list(segments)
    while rest:
        group = [rest.pop(0)]
        while rest:
            log, offsets, times = (sum(s[field] for s in [*group, rest[0]]) for field in (1, 2, 3))
            last = (rest[1].base_offset if len(rest) > 1 else first_uncleanable) - 1
            fits = rest[0].size_bytes == 0 or last - group[0].base_offset <= INT_MAX
            if not (log <= most_bytes and offsets <= most_index_bytes and times <= most_index_bytes and fits):
                break
            group.append(rest.pop(0))
        grouped.append(group)
    return grouped


@pytest.mark.parametrize("seed", range(2))
def test_groups_as_the_broker_makes_them(seed):
    rng = random.Random(seed)
    for _ in range(1500):
        # Offsets near to a whole segment's reach from each other, so that the sum of the sizes is not all that counts.
        segments = some_segments(rng)
        at = rng.randint(0, len(segments))
        step = rng.choice([0, INT_MAX - 10 - segments[0].base_offset])
        segments = [s._replace(base_offset=s.base_offset + step * (n >= at)) for n, s in enumerate(segments)]
        uncleanable = segments[-1].base_offset + rng.choice([1, 2, INT_MAX + 1, INT_MAX + 2])
        limits = rng.randint(1, 10), rng.randint(1, 8)
        found = [[segments[at] for at in group] for group in group_segments(segments, *limits, uncleanable)]
        assert found == groups(segments, *limits, uncleanable), (segments, limits, uncleanable)
