"""Selects the partitions on disk for a read, and the range of offsets in each."""

import re
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryName
from kafkalog_cli.errors import NothingSelected, OffsetOutOfRange, UsageError
from kafkalog_cli.format.internal_topics.records import CLUSTER_METADATA, COORDINATOR_TOPICS
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.choices import Isolation
from kafkalog_cli.ops.look.lookup_time import lookup_time
from kafkalog_cli.ops.look.read.request import growing_end
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.ops.scans.offset_limits import LATEST, LimitKind, OffsetLimit, TopicPartition, names_of
from kafkalog_cli.ops.scans.options import SourceOptions, local_path
from kafkalog_cli.ops.selection import served_partitions

_NEVER_MATCHED = frozenset({*COORDINATOR_TOPICS, CLUSTER_METADATA})
"""Kafka's internal topics, which Spark's pattern leaves out, and the metadata topic, which no client sees."""


class OffsetRange(NamedTuple):
    """A range of offsets of a partition: `first` inclusive, `end` exclusive (None: the log's end).

    `log_end` is the log's end at the time of planning.
    """

    partition: Partition
    first: int
    end: int | None
    log_end: int


def name_of(partition: Partition) -> TopicPartition:
    """Return the topic and number in the partition's directory name."""
    return TopicPartition(partition.topic, partition.number)


def partitions_of(fs: Filesystem, options: SourceOptions) -> list[Partition]:
    """Return the partitions that the options select, by topic and number.

    Raises PathNotFound, NotKafkaLayout, NothingSelected, Unreadable; UsageError if a partition is found twice.
    """
    chosen = served_partitions(fs, list(map(local_path, options.paths)), partial(_chooses, options))
    _check_chosen(options, chosen)
    return sort_partitions(chosen)


def sort_partitions(partitions: Iterable[Partition]) -> list[Partition]:
    """Return the partitions by topic and number. Raises UsageError if one is found in two places."""
    partitions = sorted(partitions, key=lambda partition: (*name_of(partition), partition.path))
    seen: dict[TopicPartition, str] = {}
    for partition in partitions:
        other = seen.setdefault(name_of(partition), partition.path)
        if other != partition.path:
            raise UsageError(
                reason=f"{name_of(partition)} is in {other} and in {partition.path}: give only one of them,"
                " or each record comes twice"
            )
    return partitions


def ranges_of(fs: Filesystem, partitions: list[Partition], options: SourceOptions) -> list[OffsetRange]:
    """Return the range to read of each partition; partitions without any offset to read are left out.

    Raises OffsetOutOfRange for offsets that are not on disk (with failOnDataLoss), UsageError for limits that do not
    fit the partitions, and the exceptions of `Partition.bounds` and `open_read`.
    """
    for limit, position in ((options.starting, "start"), (options.ending, "end")):
        check_limit(limit, {name_of(partition) for partition in partitions}, position)
    ranges = []
    for partition in partitions:
        if partition.segments:
            whole = _range(fs, partition, options)
            narrowed = narrow_range(fs, whole, options.records)
            if narrowed is not None:
                ranges.append(narrowed)
    return ranges


def _chooses(options: SourceOptions, directory: DirectoryName) -> bool:
    topics = options.topics
    topic = directory.name if directory.topic is None else directory.topic
    if topics.assigned is not None:
        return (topic, directory.partition) in topics.assigned
    if topics.subscribed is not None:
        return topic in topics.subscribed
    if topics.pattern is not None:
        return topic not in _NEVER_MATCHED and re.search(topics.pattern, topic) is not None
    return True


def _check_chosen(options: SourceOptions, chosen: list[Partition]) -> None:
    topics = options.topics
    names = {name_of(partition) for partition in chosen}
    missing = sorted(str(name) for name in (topics.assigned or frozenset()) - names)
    missing += sorted((topics.subscribed or frozenset()) - {partition.topic for partition in chosen})
    if missing:
        raise NothingSelected(reason=f"{', '.join(missing)} not found under {', '.join(options.paths)}")
    if not chosen:
        what = "no topic matches the pattern" if topics.pattern is not None else "there is no partition"
        raise NothingSelected(reason=f"{what} under {', '.join(options.paths)}")


def check_limit(limit: OffsetLimit, assigned: set[TopicPartition], position: str) -> None:
    """Raise UsageError if a limit names a partition that is not read."""
    if limit.of_partition is None or limit.of_partition.keys() == assigned:
        return
    names = f"Specified: {names_of(limit.of_partition)} Assigned: {names_of(assigned)}"
    if limit.kind is LimitKind.OFFSETS:
        raise UsageError(
            reason=f"Partitions specified for Kafka {position} offsets don't match what are assigned."
            f" Use -1 for latest, -2 for earliest. {names}"
        )
    raise UsageError(
        reason=f"Partitions specified for Kafka timestamp based {position} offsets don't match what are assigned."
        f" {names}"
    )


class _Log(NamedTuple):
    """A partition, and the bounds in which this read's limits must be."""

    partition: Partition
    bounds: LogBounds


def _log(fs: Filesystem, partition: Partition, options: SourceOptions) -> _Log:
    """Return the bounds of a partition for this read.

    With read_committed, the log ends at its last stable offset; that offset is looked up only if a limit may be after
    it.
    """
    bounds = partition.bounds
    kinds = {options.starting.kind, options.ending.kind} - {LimitKind.EARLIEST, LimitKind.LATEST}
    if options.isolation is Isolation.READ_COMMITTED and kinds:
        bounds = bounds._replace(end=min(bounds.end, growing_end(fs, partition, options.isolation)))
    return _Log(partition, bounds)


def _range(fs: Filesystem, partition: Partition, options: SourceOptions) -> OffsetRange:
    log = _log(fs, partition, options)
    first = _start(fs, log, options)
    end = _end(fs, log, options)
    if end is not None and first > end:
        raise UsageError(
            reason=f"The resolved start offset {first} is greater than the resolved end offset {end}"
            f" for topic {partition.topic} partition {partition.number}."
        )
    return OffsetRange(partition, first, end, log.bounds.end)


def start_of(fs: Filesystem, partition: Partition, options: SourceOptions) -> int:
    """Return the start of a partition, for a limit other than the log's end. Raises as `ranges_of`."""
    return _start(fs, _log(fs, partition, options), options)


def _start(fs: Filesystem, log: _Log, options: SourceOptions) -> int:
    limit = options.starting
    if limit.kind is LimitKind.EARLIEST:
        return log.bounds.start
    if limit.kind is not LimitKind.OFFSETS:
        offset = _at_time(fs, log, limit)
        return log.bounds.end if offset is None else offset
    assert limit.of_partition is not None
    offset = limit.of_partition[name_of(log.partition)]
    return log.bounds.start if offset < 0 else _on_disk(log, "starting", offset, options)


def _end(fs: Filesystem, log: _Log, options: SourceOptions) -> int | None:
    limit = options.ending
    if limit.kind is LimitKind.LATEST:
        return None
    if limit.kind is not LimitKind.OFFSETS:
        return _at_time(fs, log, limit)
    assert limit.of_partition is not None
    offset = limit.of_partition[name_of(log.partition)]
    return None if offset == LATEST else _on_disk(log, "ending", offset, options)


def _on_disk(log: _Log, side: str, offset: int, options: SourceOptions) -> int:
    partition, bounds = log.partition, log.bounds
    if bounds.start <= offset <= bounds.end:
        return offset
    if options.fail_on_data_loss:
        committed = " (with read_committed it ends at the first open transaction)"
        is_stable = options.isolation is Isolation.READ_COMMITTED and offset > bounds.end
        what = f"the {side} offset {offset} of {name_of(partition)}{committed if is_stable else ''}"
        raise OffsetOutOfRange(path=partition.path, what=what, first=bounds.start, last=bounds.end)
    return min(max(offset, bounds.start), bounds.end)


def _at_time(fs: Filesystem, log: _Log, limit: OffsetLimit) -> int | None:
    """Return the first record at or after the limit's time for the partition.

    None if there is none and `or_latest` is set.

    Raises UsageError if there is none otherwise.
    """
    name = name_of(log.partition)
    time_ms = limit.time_ms if limit.of_partition is None else limit.of_partition[name]
    offset = lookup_time(fs, log.partition, time_ms).offset
    if offset is not None and offset >= log.bounds.end:
        offset = None
    if offset is None and not limit.or_latest:
        raise UsageError(reason=f"No offset matched from request of topic-partition {name} and timestamp {time_ms}.")
    return offset


def narrow_range(fs: Filesystem, whole: OffsetRange, records: Range) -> OffsetRange | None:
    """Return the offsets of a range of a log that can have some records; None if there are none."""
    first = max(whole.first, records.from_offset or 0)
    ends = [end for end in (whole.end, records.to_offset) if end is not None]
    end = min(ends) if ends else None
    since_ms, until_ms = records.since_ms, records.until_ms
    has_no_time = since_ms is not None and until_ms is not None and since_ms >= until_ms
    if has_no_time or (end is not None and first >= end):
        return None
    if since_ms is not None and since_ms >= 0:
        offset = lookup_time(fs, whole.partition, since_ms).first_to_read(whole.partition)
        if offset is None or (end is not None and offset >= end):
            return None
        first = max(first, offset)
    if first > whole.first and first >= whole.log_end:
        return None
    return whole._replace(first=first, end=end)
