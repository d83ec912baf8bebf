"""A partition of a coordinator's topic in log order, as the coordinator replays it when it takes the partition over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkalog_cli.actions.damage import damaged_log
from kafkalog_cli.actions.read.log_read import LogRead, SegmentRead
from kafkalog_cli.actions.read.request import ReadRequest
from kafkalog_cli.errors import DamagedLog
from kafkalog_cli.format.control import COMMIT, ControlRecord, decode_control
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.internal_topics.records import CoordinatorRecord, Unreadable, decode_coordinator
from kafkalog_cli.format.records import Record
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.partition import Partition

OnDamage = Callable[[DamagedLog], None]
"""What becomes of records that cannot be read: it raises what it is given, or takes it and they are left out."""


class CoordinatorEntry(NamedTuple):
    """A record; where `record` is None, the end of a transaction of `producer_id` (-1: the record is of none)."""

    offset: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    record: CoordinatorRecord | None
    is_commit: bool = False


def coordinator_entries(
    fs: Filesystem, partition: Partition, on_damage: OnDamage, choice: KernelChoice | None = None
) -> Iterator[CoordinatorEntry]:
    """The records from the log's start on (CoordinatorLoaderImpl), aborted ones and open ones among them.

    Records of a type that is not known are passed over, as there. Raises what `on_damage` and `open_read` raise.
    """
    if not partition.segments:
        return
    log = LogRead(fs, partition, ReadRequest(with_control=True), choice)
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
    if isinstance(found, Unreadable):
        return None if found.unknown_type is not None else _fault(record, found.message)
    return CoordinatorEntry(record.offset, record.timestamp, batch.producer_id, batch.producer_epoch, found)


def _fault(record: Record, message: str) -> Fault:
    """Damage of one record, told by the place of its batch."""
    batch, offset = record.batch, record.offset
    return Fault(
        FaultKind.INVALID_RECORD, batch.position, f"the record of offset {offset}: {message}", batch.size_bytes,
        base_offset=offset, last_offset=offset,
    )  # fmt: skip
