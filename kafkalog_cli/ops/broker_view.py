"""A broker's view of a partition's files: where its log starts and ends, and which indexes it trusts."""

from __future__ import annotations

import os
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import NothingSelected
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.segments.log_end import segment_end
from kafkalog_cli.ops.listing.root import CheckpointedOffsets, LogDirRoot, Shutdown, broker_root


class LogBounds(NamedTuple):
    """Where a log starts and ends: `start` is inclusive, `end` is the offset after the last batch.

    `high_watermark` is None if no checkpoint has the partition. `broker_end` is the end that a broker would find, None
    if it is `end`. A broker trusts the last index entry, and loses the batches that it cannot reach from there.
    """

    start: int
    end: int
    high_watermark: int | None = None
    broker_end: int | None = None

    @property
    def next_offset(self) -> int:
        """The offset that a broker assigns to the next record."""
        return self.end if self.broker_end is None else self.broker_end


class BrokerView(NamedTuple):
    """A broker's knowledge of a partition: how the last broker stopped (or that it runs), and its checkpoints."""

    shutdown: Shutdown = Shutdown.UNKNOWN
    offsets: CheckpointedOffsets = CheckpointedOffsets()

    def believes_indexes(self, partition: Partition, segment: Segment) -> bool:
        """Whether the broker uses the indexes of `segment` as they are on disk.

        A broker rebuilds the indexes of a segment without an offset index. After an unclean shutdown it also rebuilds
        those of the segments from the recovery point on. A running broker has the active segment's indexes in memory.
        """
        if segment.offset_index is None or partition.directory.is_metadata_log:
            return False
        if self.shutdown is Shutdown.CLEAN:
            return True
        following = next((s.base_offset for s in partition.segments if s.base_offset > segment.base_offset), None)
        if self.shutdown is Shutdown.UNCLEAN:
            return following is not None and following <= (self.offsets.recovery_point or 0)
        return following is not None


class BrokerViews:
    """The views of many partitions at one moment: the files of each log directory are read once."""

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._roots: dict[str, LogDirRoot | None] = {}

    def of(self, partition: Partition) -> BrokerView:
        """Return the view of a partition from its log directory's files; an empty view outside a log directory."""
        path = os.path.dirname(os.path.abspath(partition.path))  # noqa: PTH100, PTH120 (a name, links are not followed)
        if path not in self._roots:
            self._roots[path] = broker_root(self._fs, path)
        root = self._roots[path]
        if root is None:
            return BrokerView()
        in_place = partition.directory.kind is DirectoryKind.PARTITION
        offsets = root.offsets_of(partition.topic, partition.number) if in_place else CheckpointedOffsets()
        return BrokerView(root.shutdown, offsets)


def broker_view(fs: Filesystem, partition: Partition) -> BrokerView:
    """Return the view of one partition."""
    return BrokerViews(fs).of(partition)


def log_bounds(fs: Filesystem, partition: Partition, view: BrokerView | None = None) -> LogBounds:
    """Return the earliest and latest offset, from checkpoints and from the last segment's batches.

    Raises NothingSelected for a partition without segments, and the exceptions of `open_read`.
    """
    if not partition.segments:
        raise NothingSelected(reason=f"{partition.path} has no segments")
    first, last = partition.segments[0], partition.segments[-1]
    if last.is_seven:
        with fs.open_read(last.log.path) as log:
            reader = SegmentReader(log, seven_base_offset=last.base_offset).run()
            return LogBounds(first.base_offset, last.base_offset + reader.end_position)
    view = view or broker_view(fs, partition)
    end = segment_end(fs, last, like_clean_start=False).next_offset
    broker_end = None
    if view.believes_indexes(partition, last):
        taken = segment_end(fs, last, like_clean_start=True).next_offset
        broker_end = None if taken == end else taken
    bounds = LogBounds(max(first.base_offset, view.offsets.log_start or 0), end, broker_end=broker_end)
    watermark = view.offsets.high_watermark
    return bounds if watermark is None else bounds._replace(high_watermark=min(bounds.next_offset, watermark))
