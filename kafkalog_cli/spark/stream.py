"""The stream `kafkalog` of Spark: new records of a log directory, a range of offsets per micro-batch.

An offset of the stream is {topic: {partition: offset of the next record}}, as in Spark's Kafka source.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import NothingSelected, OffsetOutOfRange
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.look.read.request import growing_end
from kafkalog_cli.ops.scans.offset_limits import TopicPartition, is_latest
from kafkalog_cli.ops.scans.offsets import OffsetRange, check_limit, name_of, partitions_of, start_of
from kafkalog_cli.ops.scans.options import SourceOptions
from kafkalog_cli.ops.scans.splits import tasks_of
from kafkalog_cli.spark.jobs import without_traceback
from kafkalog_cli.spark.planned_tasks import read_task, spark_partitions

Offsets = dict[TopicPartition, int]
StreamOffset = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark pickles it to every worker; one worker, as long-lived as the query, answers for offsets."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: Offsets | None = None

    def initialOffset(self) -> StreamOffset:  # noqa: N802 - Spark's name
        """Return the start of a new query. Raises as the batch source."""
        fs, options = RealFilesystem(), self._options
        partitions = self._partitions()
        check_limit(options.starting, set(partitions), "start")
        latest = {name for name in partitions if is_latest(options.starting, name)}
        return _as_json(
            {
                name: growing_end(fs, partition, options.isolation)
                if name in latest
                else start_of(fs, partition, options)
                for name, partition in partitions.items()
            }
        )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit that maxOffsetsPerTrigger sets."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the stream now: records that come later are not read."""
        self._target = self._ends_of(self._partitions())

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # noqa: N802 - Spark's name
        """Return the end of the next micro-batch.

        Raises OffsetOutOfRange if a log ends before the offset that was read already, NothingSelected if a log is gone
        (both with failOnDataLoss).
        """
        begun, partitions = _of_json(start), self._partitions()
        ends = self._ends_of(partitions) if self._target is None else self._target
        for name, offset in begun.items():
            self._check_loss(name, offset, partitions.get(name), ends.get(name))
        if isinstance(limit, ReadMaxRows):
            starts = {name: ends[name] for name in ends if name not in begun}
            starts |= self._starts_of({name: partitions[name] for name in starts if name in partitions})
            ends = limited({**begun, **starts}, ends, limit.max_rows)
        return _as_json(ends)

    def reportLatestOffset(self) -> StreamOffset:  # noqa: N802 - Spark's name
        """Return the current ends of the logs."""
        return _as_json(self._ends_of(self._partitions()))

    @without_traceback()
    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[Any]:
        """Return a partition of Spark for each task of a micro-batch; its value is a tuple of `splits.Piece`s.

        Raises OffsetOutOfRange if retention deleted records before they were read (with failOnDataLoss).
        """
        fs, options = RealFilesystem(), self._options
        begun, partitions = _of_json(start), self._partitions()
        ranges = []
        for name, behind in _of_json(end).items():
            partition = partitions.get(name)
            if partition is None:
                self._lose(NothingSelected(reason=f"{name} was there when the stream began, and is missing now"))
                continue
            bounds = partition.bounds
            first = begun.get(name, bounds.start)
            if first >= behind:
                continue
            if first < bounds.start:
                what = f"offset {first} of {name}, where the stream is,"
                self._lose(OffsetOutOfRange(path=partition.path, what=what, first=bounds.start, last=bounds.end))
            if bounds.start < behind:
                ranges.append(OffsetRange(partition, max(first, bounds.start), behind, behind))
        tasks = tasks_of(fs, ranges, options.min_partitions, options.max_records)
        return spark_partitions(tasks)

    def read(self, partition: Any) -> Iterator[Any]:
        """Iterate over the RecordBatches of a task."""
        return read_task(partition, self._options)

    def _partitions(self) -> dict[TopicPartition, Partition]:
        """Return the selected partitions that have a segment, as they are now."""
        chosen = partitions_of(RealFilesystem(), self._options)
        return {name_of(partition): partition for partition in chosen if partition.segments}

    def _ends_of(self, partitions: dict[TopicPartition, Partition]) -> Offsets:
        fs, isolation = RealFilesystem(), self._options.isolation
        return {name: growing_end(fs, partition, isolation) for name, partition in partitions.items()}

    @staticmethod
    def _starts_of(partitions: dict[TopicPartition, Partition]) -> Offsets:
        return {name: partition.bounds.start for name, partition in partitions.items()}

    def _check_loss(self, name: TopicPartition, offset: int, partition: Partition | None, end: int | None) -> None:
        """Report a loss if a log is gone, or ends before the offset that was read already."""
        if partition is None:
            self._lose(NothingSelected(reason=f"{name} was there when the stream began, and is missing now"))
        elif end is not None and end < offset:
            what = f"offset {offset} of {name}, where the stream is,"
            first = partition.bounds.start
            self._lose(OffsetOutOfRange(path=partition.path, what=what, first=first, last=end))

    def _lose(self, error: NothingSelected | OffsetOutOfRange) -> None:
        if self._options.fail_on_data_loss:
            raise error


def limited(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int) -> Offsets:
    """Limit a micro-batch to about `most` offsets, shared in proportion to each partition's backlog.

    Every partition with a backlog gets at least one offset. Mirrors KafkaMicroBatchStream.rateLimit.
    """
    sizes = {name: max(end - begins[name], 0) for name, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    limited_ends = {}
    for name, end in ends.items():
        part = most * (sizes[name] / total)
        step = math.ceil(part) if part < 1 else math.floor(part)
        limited_ends[name] = min(begins[name] + step, end) if sizes[name] else end
    return limited_ends


def _as_json(offsets: Mapping[TopicPartition, int]) -> StreamOffset:
    offsets_by_topic: StreamOffset = {}
    for name, offset in sorted(offsets.items()):
        offsets_by_topic.setdefault(name.topic, {})[str(name.partition)] = offset
    return offsets_by_topic


def _of_json(offset: StreamOffset) -> Offsets:
    return {TopicPartition(topic, int(number)): at for topic, part in offset.items() for number, at in part.items()}
