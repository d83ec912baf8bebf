"""Rows of segments: file sizes, and ranges of offsets and times from headers and indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.listing.listing import SegmentListing, list_segment


class SegmentRow(NamedTuple):
    """A segment.

    Sizes are in bytes, None if the file is missing. Times are in epoch ms, None if unknown. `first_offset` is the first
    offset of its batches, and `next_offset` the offset after the last one. `format` is that of the first batch.
    `problems` counts what is wrong in its headers and indexes; `kafkalog verify` shows details.
    """

    topic: str
    partition: int
    segment: str
    base_offset: int
    first_offset: int | None
    next_offset: int
    size_bytes: int
    offset_index_bytes: int | None
    time_index_bytes: int | None
    txn_index_bytes: int | None
    first_timestamp: int | None
    max_timestamp: int | None
    format: str | None
    is_active: bool
    modified: int
    problems: int
    log_dir: str


def segments(fs: Filesystem, partition: Partition) -> Iterator[SegmentRow]:
    """Yield the segments, by base offset. A file that cannot be read counts as a problem, and raises nothing."""
    for segment in partition.segments:
        yield _row(list_segment(fs, partition, segment, clean=False))


def _row(listing: SegmentListing) -> SegmentRow:
    partition, segment = listing.partition, listing.segment
    return SegmentRow(
        partition.topic,
        partition.number,
        segment.log.path.rpartition("/")[2],
        segment.base_offset,
        listing.first_offset,
        listing.next_offset,
        segment.log.size_bytes,
        _size(segment.offset_index),
        _size(segment.time_index),
        _size(segment.txn_index),
        listing.first_timestamp,
        listing.max_timestamp,
        listing.format,
        listing.is_active,
        segment.log.mtime_ms,
        len(listing.faults),
        partition.path.rpartition("/")[0] or ".",
    )


def _size(file: FileStatus | None) -> int | None:
    return None if file is None else file.size_bytes
