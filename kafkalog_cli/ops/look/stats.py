"""Reads partitions in parallel, and collects the contents of each on whole columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from typing import Annotated, Literal

from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.metered_fs import MeteredFilesystem
from kafkalog_cli.errors import ExitCode, KafkalogError, worst_exit_code
from kafkalog_cli.format.batch import CODEC_MASK, CONTROL_MASK, NO_TIMESTAMP, BatchColumns
from kafkalog_cli.format.columns import Flags, Integers
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import OUTSIDE, RecordBlock
from kafkalog_cli.log.partition import Partition, Segment, log_bytes
from kafkalog_cli.log.reading.records import records
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan, good_rows
from kafkalog_cli.ops.call.observer import LockWarnings, Observer
from kafkalog_cli.ops.damage import DamageSeen, refused_by_clients
from kafkalog_cli.ops.look.key_counts import KeyStatistics, stored_keys
from kafkalog_cli.ops.look.log_contents import (
    CodecContents,
    LargeRecord,
    LogContents,
    ProducerCounts,
    TimeCounts,
    together,
)
from kafkalog_cli.ops.map_each import Advance, Item, MapEach, do_not_report, map_each
from kafkalog_cli.ops.selection import Selection, select_served
from kafkalog_cli.ops.single_files import directories_of
from kafkalog_cli.results import FLAT, Before, Count, Host, PathName, result

DEFAULT_TOP = 5
_MOST_DAMAGE = 100
"""Damaged ranges of a partition that are reported one by one."""


@dataclass(slots=True)
class MeasuredPartition:
    """The contents of a partition, with the damage that was left out, and segments that could not be read.

    `damage` has the first ranges; `damage_count` is the number of all. `host` is where it is, None for this machine.
    """

    partition: Partition
    contents: LogContents = field(default_factory=LogContents)
    damage: list[tuple[str, Fault]] = field(default_factory=list)
    damage_count: int = 0
    not_read: list[tuple[str, KafkalogError | OSError]] = field(default_factory=list)
    code: ExitCode = ExitCode.OK
    host: str | None = None

    def add_damage(self, path: str, fault: Fault) -> None:
        """Add a damaged range."""
        self.damage_count += 1
        if len(self.damage) < _MOST_DAMAGE:
            self.damage.append((path, fault))


@result("kafkalog.stats/1")
@dataclass(frozen=True, slots=True)
class Stats:
    """The contents of a partition, of a topic, or of all partitions together."""

    scope: Literal["partition", "topic", "total"]
    topic: Annotated[PathName | None, "null for the total"]
    partition: Annotated[int | None, "null for a topic and the total"]
    path: Annotated[PathName | None, "the partition's directory; null for a topic and the total"]
    partitions: Count
    contents: Annotated[LogContents, FLAT]
    host: Annotated[Host, Before("topic")] = None


def sums_of(measured: Sequence[MeasuredPartition], top: int, host: str | None = None) -> Iterator[Stats]:
    """Yield the contents of the partitions, of the topics, the largest first, and of all. They are of one host."""
    by_topic: dict[str, list[LogContents]] = {}
    for found in measured:
        partition = found.partition
        by_topic.setdefault(partition.topic, []).append(found.contents)
        contents = found.contents.with_top(top)
        yield Stats("partition", partition.topic, partition.number, partition.path, 1, contents, host)
    topics = [
        Stats("topic", topic, None, None, len(logs), together(logs, top).with_top(top), host)
        for topic, logs in by_topic.items()
    ]
    yield from sorted(topics, key=lambda row: -row.contents.bytes)
    total = together([found.contents for found in measured], top).with_top(top)
    yield Stats("total", None, None, None, len(measured), total, host)


def measure_paths(  # noqa: PLR0913, PLR0917
    paths: Sequence[str], selection: Selection, top: int, limits: Limits, engine: MapEach, observer: Observer
) -> None:
    """Measure partitions by an engine that takes the results, and report locked log directories.

    Raises as `select_served`.
    """
    fs, directories = directories_of(observer.context.fs, paths)
    partitions = select_served(fs, directories, selection)
    LockWarnings(fs, observer.report).about_partitions(*(partition.path for partition in partitions))
    for _ in measure_partitions(fs, partitions, top=top, limits=limits, engine=engine):
        pass


def measure_partitions(  # noqa: PLR0913
    fs: WritableFilesystem,
    partitions: Sequence[Partition],
    *,
    top: int = DEFAULT_TOP,
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
    advance: Advance = do_not_report,
    engine: MapEach = map_each,
) -> Iterator[MeasuredPartition]:
    """Yield the contents of each partition, with `top` records, producers and keys, in order."""
    work = partial(_measure, fs, top, limits)
    items = (Item(partition, log_bytes(partition), (partition.path,)) for partition in partitions)
    jobs = min(jobs, len(partitions))
    yield from engine(items, work, jobs=jobs, name="kafkalog-stats", advance=advance, failed=_not_measured, fs=fs)


def _measure(
    fs: WritableFilesystem, top: int, limits: Limits, partition: Partition, advance: Advance
) -> MeasuredPartition:  # fmt: skip
    metered = MeteredFilesystem(fs, lambda path, size_bytes: advance(size_bytes, path))
    return measure_partition(metered, partition, top, limits)


def _not_measured(item: Item[Partition], error: KafkalogError) -> MeasuredPartition:
    return MeasuredPartition(item.value, not_read=[(item.value.path, error)], code=error.exit_code)


def measure_partition(fs: Filesystem, partition: Partition, top: int, limits: Limits) -> MeasuredPartition:
    """Return the contents of a partition: of all its batches with a correct CRC, also below the log start offset."""
    measured = MeasuredPartition(partition)
    collector = ContentsCollector(partition, top)
    codes: set[ExitCode] = set()
    for segment in partition.segments:
        try:
            codes.add(_measure_segment(fs, segment, limits, collector, measured))
        except (KafkalogError, OSError) as error:
            codes.add(error.exit_code if isinstance(error, KafkalogError) else ExitCode.FAILURE)
            measured.not_read.append((segment.log.path, error))
    measured.contents = collector.result(sum(segment.log.size_bytes for segment in partition.segments))
    measured.code = worst_exit_code(codes)
    return measured


def _measure_segment(
    fs: Filesystem,
    segment: Segment,
    limits: Limits,
    collector: ContentsCollector,
    measured: MeasuredPartition,
) -> ExitCode:
    damage, path = DamageSeen(), segment.log.path
    with fs.open_read(path) as file:
        seven = segment.base_offset if segment.is_v07 else None
        reader = Scan(
            file, DamagePolicy.RESYNC, limits=limits, v07_base_offset=seven
        )  # fmt: skip

        def add(fault: Fault) -> None:
            damage.fault(fault)
            measured.add_damage(path, fault)

        for chunk, blocks in records(reader, lambda chunk: good_rows(chunk.batches.for_clients())):
            if chunk.damage is not None:
                add(chunk.damage.fault)
            batches = chunk.batches.for_clients()
            collector.batches(batches)
            damage.batches(batches)
            for batch in () if batches.all_valid() else batches.rows():
                if not batch.valid:
                    measured.add_damage(path, refused_by_clients(batch, "not counted"))
            for block in blocks:
                collector.records(block)
                for fault in block.faults.values():
                    add(fault)
        if reader.damage is not None:
            add(reader.damage)
        return damage.exit_code(fs, file, reader.end_position, limits)


KEPT = 200
"""The least number of keys and producers that are kept, so that those of several partitions can be added up."""
MOST_PRODUCERS = 20_000
"""The number of producer ids that are counted one by one."""


class ContentsCollector:
    """Collects the contents of one partition's log, to report `top` records, producers and keys."""

    def __init__(self, partition: Partition, top: int) -> None:
        self._partition = partition
        self._top = top
        self._kept = max(top, KEPT)
        self._keys = KeyStatistics(self._kept)
        self._batches = self._records = self._control_records = 0
        self._codecs: dict[int, list[int]] = {}
        self._raw: dict[int, int] = {}
        self._batch_sizes: tuple[int, int] | None = None
        self._most_records: int | None = None
        self._producers: dict[int, tuple[set[int], list[int]]] = {}
        self._more_producers = False
        self._largest: list[LargeRecord] = []
        self._times = TimeCounts()
        self._first: int | None = None
        self._last: int | None = None
        self._out_of_order = 0

    def batches(self, batches: BatchColumns) -> None:
        """Take some batches in the order of the log; batches with a wrong CRC are left out."""
        import numpy as np

        arrays = batches.arrays()
        arrays = arrays if batches.all_valid() else arrays.select(np.flatnonzero(arrays.valid))
        if not len(arrays):
            return
        self._batches += len(arrays)
        codecs = arrays.attributes & CODEC_MASK
        for codec in np.unique(codecs).tolist():
            known_codec = self._codecs.setdefault(codec, [0, 0])
            known_codec[0] += int((codecs == codec).sum())
            known_codec[1] += int(arrays.size_bytes[codecs == codec].sum())
        small, large = int(arrays.size_bytes.min()), int(arrays.size_bytes.max())
        known = self._batch_sizes
        self._batch_sizes = (small, large) if known is None else (min(small, known[0]), max(large, known[1]))
        most = int(arrays.records_count.max())
        if most >= 0:
            self._most_records = max(most, self._most_records or 0)
        data = arrays.select(np.flatnonzero((arrays.producer_id >= 0) & (arrays.attributes & CONTROL_MASK == 0)))
        if len(data):
            self._take_producers(data.producer_id, data.producer_epoch, data.records_count)

    def _take_producers(self, ids: Integers, epochs: Integers, counts: Integers) -> None:
        import numpy as np

        pairs, pair_rows = np.unique(np.stack((ids, epochs)), axis=1, return_inverse=True)
        batches = np.bincount(pair_rows.reshape(-1)).tolist()
        records = np.bincount(pair_rows.reshape(-1), weights=counts).astype(np.int64).tolist()
        for producer_id, epoch, batch_count, record_count in zip(*pairs.tolist(), batches, records, strict=True):
            known = self._producers.get(producer_id)
            if known is None:
                if len(self._producers) >= MOST_PRODUCERS:
                    self._more_producers = True
                    continue
                known = self._producers[producer_id] = (set(), [0, 0])
            known[0].add(epoch)
            known[1][0] += batch_count
            known[1][1] += record_count

    def records(self, block: RecordBlock) -> None:
        """Take the records of some batches."""
        import numpy as np

        records = block.records
        if not len(records):
            return
        control = _control_rows(block)
        control_count = 0 if control is None else int(control.sum())
        self._records += len(records) - control_count
        self._control_records += control_count
        self._count_keys(block, None if control is None else ~control)
        sizes = np.zeros(len(records), dtype=np.int64)
        for position, size in ((records.key_position, records.key_size), (records.value_position, records.value_size)):
            stored = np.where(np.asarray(position) == OUTSIDE, 0, np.asarray(size, dtype=np.int64))
            sizes += np.maximum(stored, 0)
        offsets, times = (np.asarray(column, dtype=np.int64) for column in (records.offset, records.timestamp))
        ends = np.asarray(block.record_ends, dtype=np.int64)
        counts = ends - np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
        attributes = np.asarray(block.batches.attributes, dtype=np.int64)[block.first_row : block.end_row]
        codecs = np.repeat(attributes & CODEC_MASK, counts)
        if control is not None:
            offsets, times, sizes, codecs = (column[~control] for column in (offsets, times, sizes, codecs))
        for codec in np.unique(codecs).tolist():
            self._raw[codec] = self._raw.get(codec, 0) + int(sizes[codecs == codec].sum())
        self._take_largest(offsets, times, sizes)
        self._take_times(times[times != NO_TIMESTAMP])

    def _count_keys(self, block: RecordBlock, data_rows: Flags | None) -> None:
        import numpy as np

        records = block.records
        columns = (records.key_position, records.key_size, records.value_size)
        positions, key_sizes, value_sizes = (np.asarray(column, dtype=np.int64) for column in columns)
        if data_rows is not None:
            positions, key_sizes, value_sizes = positions[data_rows], key_sizes[data_rows], value_sizes[data_rows]
        known = key_sizes >= 0
        null_keys = len(known) - int(known.sum())
        positions, key_sizes, value_sizes = positions[known], key_sizes[known], value_sizes[known]
        if not len(key_sizes):
            self._keys.add_stored(None, value_sizes, null_keys)
            return
        key_sizes = np.where(positions == OUTSIDE, 0, key_sizes)
        self._keys.add_stored(stored_keys(block.buffer, positions, key_sizes), value_sizes, null_keys)

    def _take_largest(self, offsets: Integers, times: Integers, sizes: Integers) -> None:
        import numpy as np

        least = self._largest[-1].bytes if len(self._largest) == self._top else -1
        rows = np.flatnonzero(sizes > least)
        if not len(rows):
            return
        rows = rows[np.argsort(-sizes[rows], kind="stable")[: self._top]]
        topic, number = self._partition.topic, self._partition.number
        records = [
            LargeRecord(topic, number, offset, size, None if time == NO_TIMESTAMP else time)
            for size, offset, time in zip(*(column[rows].tolist() for column in (sizes, offsets, times)), strict=True)
        ]
        self._largest = nlargest(self._top, [*self._largest, *records], key=lambda record: record.bytes)

    def _take_times(self, times: Integers) -> None:
        import numpy as np

        if not len(times):
            return
        self._times.add(times)
        first, last = int(times.min()), int(times.max())
        before = self._last
        reached = np.maximum.accumulate(times if before is None else np.concatenate(([before], times)))
        self._out_of_order += int((times < (reached if before is None else reached[1:])).sum())
        self._first = first if self._first is None else min(first, self._first)
        self._last = last if before is None else max(last, before)

    def result(self, size_bytes: int) -> LogContents:
        """Return the contents of the log, whose files have `size_bytes`."""
        keys = self._keys.counts()
        codecs = (
            CodecContents(codec_name(codec) or str(codec), batches, size, self._raw.get(codec, 0))
            for codec, (batches, size) in sorted(self._codecs.items())
        )
        producers = (
            ProducerCounts(producer_id, len(epochs), *counts)
            for producer_id, (epochs, counts) in self._producers.items()
        )
        small, large = self._batch_sizes or (None, None)
        return LogContents(
            bytes=size_bytes,
            raw_bytes=sum(self._raw.values()),
            batches=self._batches,
            records=self._records,
            control_records=self._control_records,
            codecs=tuple(sorted(codecs, key=lambda codec: -codec.bytes)),
            smallest_batch_bytes=small,
            largest_batch_bytes=large,
            most_batch_records=self._most_records,
            keys=keys.keys,
            keys_relative_error=keys.relative_error,
            null_keys=keys.null_keys,
            duplicates=max(0, self._records - keys.null_keys - keys.keys),
            tombstones=keys.tombstones,
            frequent_keys=keys.most_frequent,
            producer_ids=frozenset(self._producers),
            more_producers=self._more_producers,
            top_producers=tuple(nlargest(self._kept, producers, key=lambda producer: producer.records)),
            first_timestamp_ms=self._first,
            last_timestamp_ms=self._last,
            out_of_order=self._out_of_order,
            largest_records=tuple(self._largest),
            times=self._times,
        )


def _control_rows(block: RecordBlock) -> Flags | None:
    """Return for each record of a block whether it is a control record; None if none is."""
    import numpy as np

    ends = np.asarray(block.record_ends, dtype=np.int64)
    names = ("attributes", "magic")
    attributes, magic = (
        np.asarray(getattr(block.batches, name), dtype=np.int64)[block.first_row : block.end_row] for name in names
    )
    control = (attributes & CONTROL_MASK != 0) & (magic >= 2)
    return np.repeat(control, np.diff(ends, prepend=0)) if control.any() else None
