"""Which segments are cleaned into one (Cleaner.groupSegmentsBySize)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog_cli.storage.cleaning.choosing import LogSegmentSize
from kafkalog_cli.storage.segments.segment_writer import MAX_RELATIVE_OFFSET


def group_segments(
    segments: Sequence[LogSegmentSize], segment_bytes: int, segment_index_bytes: int, first_uncleanable: int
) -> list[range]:
    """Places of neighbours that together are no larger, log and indexes each, than a segment may be.

    By their sizes before they are cleaned, and as long as the offsets fit into one segment, as far as the base offset
    behind each tells.
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
    """The last offset that can be in a segment."""
    behind = segments[at + 1].base_offset if at + 1 < len(segments) else first_uncleanable
    return behind - 1
