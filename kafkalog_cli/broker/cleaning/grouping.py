"""Decides which segments are cleaned into one segment (Cleaner.groupSegmentsBySize)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog_cli.broker.cleaning.choosing import LogSegmentSize
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET


def group_segments(
    segments: Sequence[LogSegmentSize], segment_bytes: int, segment_index_bytes: int, first_uncleanable: int
) -> list[range]:
    """Return groups of adjacent segments, as ranges of positions; each group is cleaned into one segment.

    The logs and each kind of index of a group together are within the limits, by their sizes before cleaning. The
    offsets must fit into one segment; a segment is assumed to end just below the next base offset.
    """
    groups: list[range] = []
    at = 0
    while at < len(segments):
        end = at + 1
        sizes = segments[at][1:]
        while end < len(segments):
            log, offset_index, time_index = together = _sum(sizes, segments[end][1:])
            if log > segment_bytes or max(offset_index, time_index) > segment_index_bytes:
                break
            last_offset = _last_offset(segments, end, first_uncleanable)
            if segments[end].size_bytes and last_offset - segments[at].base_offset > MAX_RELATIVE_OFFSET:
                break
            sizes, end = together, end + 1
        groups.append(range(at, end))
        at = end
    return groups


def _sum(sizes: tuple[int, int, int], more: tuple[int, int, int]) -> tuple[int, int, int]:
    return sizes[0] + more[0], sizes[1] + more[1], sizes[2] + more[2]


def _last_offset(segments: Sequence[LogSegmentSize], at: int, first_uncleanable: int) -> int:
    """Return the largest offset that the segment at position `at` can contain."""
    behind = segments[at + 1].base_offset if at + 1 < len(segments) else first_uncleanable
    return behind - 1
