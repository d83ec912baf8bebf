"""Reads partitions in parallel, and returns the contents of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.metered_fs import EndingMeter, Meter, MeteredFilesystem
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.scan import Chunk, Rows
from kafkalog_cli.log.reading.segment_reader import DamagePolicy, SegmentReader
from kafkalog_cli.ops.damage import DamageSeen
from kafkalog_cli.ops.in_order import InOrder
from kafkalog_cli.ops.stats.collector import ContentsCollector
from kafkalog_cli.ops.stats.contents import LogContents

DEFAULT_TOP = 5
_MOST_DAMAGE = 100
"""Damaged places of a partition that are reported one by one."""


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """The choices of `kafkalog stats`: `top` records, producers and keys are reported."""

    top: int = DEFAULT_TOP
    limits: Limits = DEFAULT_LIMITS


@dataclass(slots=True)
class MeasuredPartition:
    """The contents of a partition, with the damage that was left out, and segments that could not be read.

    `damage` has the first places; `damage_count` is the number of all.
    """

    partition: Partition
    contents: LogContents = field(default_factory=LogContents)
    damage: list[tuple[str, Fault]] = field(default_factory=list)
    damage_count: int = 0
    not_read: list[tuple[str, KafkalogError | OSError]] = field(default_factory=list)
    code: ExitCode = ExitCode.OK

    def add_damage(self, path: str, fault: Fault) -> None:
        """Note a damaged place."""
        self.damage_count += 1
        if len(self.damage) < _MOST_DAMAGE:
            self.damage.append((path, fault))


def measure_partitions(  # noqa: PLR0913
    fs: WritableFilesystem,
    partitions: Sequence[Partition],
    request: StatsRequest,
    choice: KernelChoice | None = None,
    *,
    jobs: int = 1,
    on_read: Meter | None = None,
) -> Iterator[MeasuredPartition]:
    """Yield the contents of each partition, in order. `on_read` is called from any thread with the bytes read."""
    meter = EndingMeter(on_read)
    metered = MeteredFilesystem(fs, meter)
    tasks = [partial(measure_partition, metered, one, request, choice) for one in partitions]
    with InOrder(tasks, min(jobs, len(tasks)), "kafkalog-stats") as measured, meter:
        yield from measured


def measure_partition(
    fs: Filesystem, partition: Partition, request: StatsRequest, choice: KernelChoice | None = None
) -> MeasuredPartition:
    """Return the contents of a partition: of all its batches with a correct CRC, also below the log start offset."""
    found = MeasuredPartition(partition)
    collector = ContentsCollector(partition, request.top)
    codes = {ExitCode.OK}
    for segment in partition.segments:
        try:
            codes.add(_measure_segment(fs, segment, request.limits, choice, collector, found))
        except (KafkalogError, OSError) as error:
            codes.add(error.exit_code if isinstance(error, KafkalogError) else ExitCode.FAILURE)
            found.not_read.append((segment.log.path, error))
    found.contents = collector.result(sum(segment.log.size_bytes for segment in partition.segments))
    found.code = next((code for code in (ExitCode.FAILURE, ExitCode.CORRUPTION) if code in codes), max(codes))
    return found


def _measure_segment(  # noqa: PLR0913, PLR0917
    fs: Filesystem,
    segment: Segment,
    limits: Limits,
    choice: KernelChoice | None,
    collector: ContentsCollector,
    found: MeasuredPartition,
) -> ExitCode:
    damage, path = DamageSeen(), segment.log.path
    with fs.open_read(path) as file:
        seven = segment.base_offset if segment.is_seven else None
        reader = SegmentReader(
            file, DamagePolicy.RESYNC, limits=limits, kernels=choice, seven_base_offset=seven
        )  # fmt: skip
        for chain in reader.chains(deep=True):
            for chunk, blocks in reader.ahead(chain, _rows_with_right_crc):
                collector.batches(chunk.batches)
                damage.batches(chunk.batches)
                for batch in () if chunk.batches.all_valid() else chunk.batches.rows():
                    if not batch.valid:
                        found.add_damage(path, _wrong_crc(batch))
                for block in blocks:
                    collector.records(block)
                    for fault in block.faults.values():
                        damage.fault(fault)
                        found.add_damage(path, fault)
            if chain.fault is not None and reader.is_damage(chain.fault):
                damage.fault(chain.fault)
                found.add_damage(path, chain.fault)
        return damage.exit_code(fs, file, reader.end_position, limits)


def _wrong_crc(batch: Batch) -> Fault:
    message = f"its CRC does not match: offsets {batch.base_offset} to {batch.last_offset} are not counted"
    return Fault(
        FaultKind.CRC_MISMATCH, batch.position, message, batch.size_bytes,
        base_offset=batch.base_offset, last_offset=batch.last_offset,
    )  # fmt: skip


def _rows_with_right_crc(chunk: Chunk) -> list[Rows]:
    batches = chunk.batches
    if batches.all_valid():
        return [(0, len(batches))] if len(batches) else []
    return [(row, row + 1) for row in range(len(batches)) if batches.valid[row]]
