"""Rows of batch headers, with bad CRCs, markers and aborted transactions included; and rows of segments."""

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from kafkalog_cli.ops.cluster.tables.coordinator_log import OnDamage
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.look.listing.listing import SegmentListing, list_segment
from kafkalog_cli.results import Int32, Time

_NONE = -1


class BatchRow(NamedTuple):
    """A batch: `size_bytes` from byte `position` of the file `segment` on.

    Times are in epoch ms; None if there is none. `base_offset` and `records` of a compressed message set v0 or v1 are
    None, because its header does not contain them. In 0.7 each message is a batch, and offsets are byte positions.
    """

    topic: str
    partition: Int32
    segment: str
    position: int
    size_bytes: Int32
    base_offset: int | None
    last_offset: int
    records: Int32 | None
    magic: Int32
    codec: str | None
    timestamp_type: str
    max_timestamp: Time | None
    leader_epoch: Int32 | None
    producer_id: int | None
    producer_epoch: Int32 | None
    base_sequence: Int32 | None
    transactional: bool
    control: bool
    delete_horizon: Time | None
    crc: int
    crc_valid: bool
    log_dir: str


def batches(fs: Filesystem, partition: Partition, on_damage: OnDamage) -> Iterator[BatchRow]:
    """Yield every batch in log order; nothing is decompressed.

    A bad CRC is reported in the row. Where the chain of batches breaks, `on_damage` is called, and the next valid batch
    follows. Raises as `on_damage` and `open_read` do.
    """
    log_dir = partition.path.rpartition("/")[0] or "."
    for segment in partition.segments:
        name = segment.log.path.rpartition("/")[2]
        for batch in _of_segment(fs, segment, on_damage):
            yield _row(partition, name, log_dir, batch, is_v07=segment.is_v07)


def _of_segment(fs: Filesystem, segment: Segment, on_damage: OnDamage) -> Iterator[Batch]:
    seven = segment.base_offset if segment.is_v07 else None
    with fs.open_read(segment.log.path) as file:
        scan = Scan(file, DamagePolicy.RESYNC, v07_base_offset=seven)
        for chunk in scan.columns():
            if chunk.damage is not None:
                on_damage(damaged_log(segment.log.path, chunk.damage.fault))
            yield from chunk.batches.rows()
        if scan.fault is not None:
            on_damage(damaged_log(segment.log.path, scan.fault))


def _row(partition: Partition, segment: str, log_dir: str, batch: Batch, *, is_v07: bool) -> BatchRow:
    return BatchRow(
        partition.topic,
        partition.number,
        segment,
        batch.position,
        batch.size_bytes,
        None if batch.base_offset == NO_OFFSET else batch.base_offset,
        batch.last_offset,
        None if batch.records_count == _NONE else batch.records_count,
        batch.magic,
        codec_name(batch.codec),
        "NoTimestampType" if is_v07 else batch.timestamp_type,
        _known(batch.max_timestamp),
        _known(batch.leader_epoch),
        _known(batch.producer_id),
        _known(batch.producer_epoch),
        _known(batch.base_sequence),
        batch.is_transactional,
        batch.is_control,
        batch.delete_horizon_ms,
        batch.crc,
        batch.valid != 0,
        log_dir,
    )


def _known(value: int) -> int | None:
    return None if value == _NONE else value


class SegmentRow(NamedTuple):
    """A segment.

    Sizes are in bytes, None if the file is missing. Times are in epoch ms, None if unknown. `first_offset` is the first
    offset of its batches, and `next_offset` the offset after the last one. `format` is that of the first batch.
    `problems` counts what is wrong in its headers and indexes; `kafkalog verify` shows details.
    """

    topic: str
    partition: Int32
    segment: str
    base_offset: int
    first_offset: int | None
    next_offset: int
    size_bytes: int
    offset_index_bytes: int | None
    time_index_bytes: int | None
    txn_index_bytes: int | None
    first_timestamp: Time | None
    max_timestamp: Time | None
    format: str | None
    is_active: bool
    modified: Time
    problems: Int32
    log_dir: str


def segments(fs: Filesystem, partition: Partition) -> Iterator[SegmentRow]:
    """Yield the segments, by base offset. A file that cannot be read counts as a problem, and raises nothing."""
    for segment in partition.segments:
        yield _segment_row(list_segment(fs, partition, segment, clean=False))


def _segment_row(listing: SegmentListing) -> SegmentRow:
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
