"""Rows of batch headers: every batch in a log, with bad CRCs, markers and aborted transactions included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.segment_reader import DamagePolicy, SegmentReader
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.tables.coordinator_log import OnDamage

_NONE = -1


class BatchRow(NamedTuple):
    """A batch: `size_bytes` from byte `position` of the file `segment` on.

    Times are in epoch ms; None if there is none. `base_offset` and `records` of a compressed message set v0 or v1 are
    None, because its header does not contain them. In 0.7 each message is a batch, and offsets are byte positions.
    """

    topic: str
    partition: int
    segment: str
    position: int
    size_bytes: int
    base_offset: int | None
    last_offset: int
    records: int | None
    magic: int
    codec: str | None
    timestamp_type: str
    max_timestamp: int | None
    leader_epoch: int | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    transactional: bool
    control: bool
    delete_horizon: int | None
    crc: int
    crc_valid: bool
    log_dir: str


def batches(
    fs: Filesystem, partition: Partition, on_damage: OnDamage, choice: KernelChoice | None = None
) -> Iterator[BatchRow]:
    """Yield every batch in log order; nothing is decompressed.

    A bad CRC is reported in the row. Where the chain of batches breaks, `on_damage` is called, and the next valid batch
    follows. Raises as `on_damage` and `open_read` do.
    """
    choice = choice or KernelChoice()
    log_dir = partition.path.rpartition("/")[0] or "."
    for segment in partition.segments:
        name = segment.log.path.rpartition("/")[2]
        for batch in _of_segment(fs, segment, on_damage, choice):
            yield _row(partition, name, log_dir, batch, is_seven=segment.is_seven)


def _of_segment(fs: Filesystem, segment: Segment, on_damage: OnDamage, choice: KernelChoice) -> Iterator[Batch]:
    seven = segment.base_offset if segment.is_seven else None
    with fs.open_read(segment.log.path) as file:
        for chain in SegmentReader(file, DamagePolicy.RESYNC, kernels=choice, seven_base_offset=seven).chains():
            for chunk in chain:
                yield from chunk.batches.rows()
            if chain.fault is not None:
                on_damage(damaged_log(segment.log.path, chain.fault))


def _row(partition: Partition, segment: str, log_dir: str, batch: Batch, *, is_seven: bool) -> BatchRow:
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
        "NoTimestampType" if is_seven else batch.timestamp_type,
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
