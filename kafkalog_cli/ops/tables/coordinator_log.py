"""Read a partition of a coordinator's topic in log order, as the coordinator does when it takes the partition over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import DamagedLog, ExitCode
from kafkalog_cli.format.control import COMMIT, ControlRecord, decode_control
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.internal_topics.records import CoordinatorRecord, UnreadableRecord, decode_coordinator
from kafkalog_cli.format.records import Record
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.read.log_read import LogRead, SegmentRead
from kafkalog_cli.ops.read.request import ReadRequest

OnDamage = Callable[[DamagedLog], None]
"""Called for records that cannot be read. It raises its argument, or returns, and the records are left out."""


class CoordinatorEntry(NamedTuple):
    """A record of a coordinator, or the end of a transaction of `producer_id` if `record` is None.

    `producer_id` is -1 for a record outside of transactions.
    """

    offset: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    record: CoordinatorRecord | None
    is_commit: bool = False


def coordinator_entries(
    fs: Filesystem,
    partition: Partition,
    on_damage: OnDamage,
    choice: KernelChoice | None = None,
    codes: list[ExitCode] | None = None,
) -> Iterator[CoordinatorEntry]:
    """Yield the records from the log's start on (CoordinatorLoaderImpl), including aborted and open transactions.

    Records of unknown types are skipped, as the coordinator does. `codes` gets the exit code of each segment's bytes:
    WARNINGS for a damaged tail. Raises as `on_damage` and `open_read` do.
    """
    if not partition.segments:
        return
    log = LogRead(fs, partition, ReadRequest(with_control=True), choice)
    log.codes = log.codes if codes is None else codes
    for segment in log.segments():
        for found in segment.blocks():
            if isinstance(found, Fault):
                on_damage(damaged_log(segment.segment.log.path, found))
                continue
            for record in found.rows():
                entry = _entry(partition.topic, record)
                if isinstance(entry, Fault):
                    on_damage(damaged_log(_path(segment), entry))
                elif entry is not None:
                    yield entry


def _path(segment: SegmentRead) -> str:
    return segment.segment.log.path


def _entry(topic: str, record: Record) -> CoordinatorEntry | Fault | None:
    batch = record.batch
    if batch.is_control:
        control = decode_control(record.key, record.value)
        if not isinstance(control, ControlRecord):
            return _fault(record, control.message)
        if not control.is_marker:
            return None
        is_commit = control.type_id == COMMIT
        return CoordinatorEntry(
            record.offset, record.timestamp, batch.producer_id, batch.producer_epoch, None, is_commit
        )
    if record.key is None:
        return _fault(record, "a coordinator's record without a key")
    found = decode_coordinator(topic, record.key, record.value)
    if isinstance(found, UnreadableRecord):
        return None if found.unknown_type is not None else _fault(record, found.message)
    return CoordinatorEntry(record.offset, record.timestamp, batch.producer_id, batch.producer_epoch, found)


def _fault(record: Record, message: str) -> Fault:
    """Return the fault for a damaged record, with the position of its batch."""
    batch, offset = record.batch, record.offset
    return Fault(
        FaultKind.INVALID_RECORD, batch.position, f"the record of offset {offset}: {message}", batch.size_bytes,
        base_offset=offset, last_offset=offset,
    )  # fmt: skip
