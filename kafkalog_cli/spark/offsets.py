"""Which partitions on the disk a read takes, and of each the range of offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kafkalog_cli.actions.broker_view import BrokerView, BrokerViews, LogBounds, log_bounds
from kafkalog_cli.actions.lookup.by_time import lookup_time
from kafkalog_cli.actions.selection import Selection, expand, select_partitions
from kafkalog_cli.errors import NothingSelected, OffsetOutOfRange, UsageError
from kafkalog_cli.format.murmur2 import partition_of_key
from kafkalog_cli.spark.offset_limits import LATEST, LimitKind, OffsetLimit, TopicPartition, names_of
from kafkalog_cli.spark.options import Partitioner, SourceOptions
from kafkalog_cli.spark.partition_counts import partition_counts
from kafkalog_cli.spark.pushdown import Pruning
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.names import DirectoryKind
from kafkalog_cli.storage.partition import Partition

LEFT_OUT = (DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY)
"""What a broker serves nobody from: read where it is named itself."""


class LogRange(NamedTuple):
    """Offsets of a partition: `first` inclusive, `end` exclusive, None: to where the log ends.

    `log_end` is where it ended when this was made, `view` how its broker looked at it.
    """

    partition: Partition
    first: int
    end: int | None
    log_end: int
    view: BrokerView


def name_of(partition: Partition) -> TopicPartition:
    """A partition's names, by its directory's name."""
    return TopicPartition(partition.topic, partition.number)


def partitions_of(fs: Filesystem, options: SourceOptions) -> list[Partition]:
    """The partitions that the options choose, by topic and number.

    Raises PathNotFound, NotKafkaLayout, NothingSelected, Unreadable; UsageError for a partition found twice.
    """
    found = served_partitions(fs, list(options.paths))
    chosen = [one for one in found if _chooses(options, one)]
    _check_chosen(options, chosen)
    check_unique(chosen)
    return sorted(chosen, key=lambda one: (*name_of(one), one.path))


def check_unique(partitions: Iterable[Partition]) -> None:
    """Raises UsageError for a partition that is found in two places."""
    seen: dict[TopicPartition, str] = {}
    for one in partitions:
        other = seen.setdefault(name_of(one), one.path)
        if other != one.path:
            raise UsageError(
                reason=f"{name_of(one)} is found twice, in {other} and in {one.path}: its records would come twice"
            )


def served_partitions(fs: Filesystem, paths: list[str], selection: Selection | None = None) -> list[Partition]:
    """The partitions under `paths` that a broker would serve, and those that are named themselves.

    Raises PathNotFound, NotKafkaLayout, NothingSelected, Unreadable.
    """
    named = {path.rstrip("/") for path in expand(fs, paths)}
    return [
        one
        for one in select_partitions(fs, paths, selection or Selection())
        if one.directory.kind not in LEFT_OUT or one.path in named
    ]


def ranges_of(fs: Filesystem, partitions: list[Partition], options: SourceOptions, pruning: Pruning) -> list[LogRange]:
    """What is to be read of each partition; none of those that the filters leave nothing of.

    Raises OffsetOutOfRange for offsets that are not on the disk (with failOnDataLoss), UsageError for limits that do
    not fit the partitions, and what `log_bounds` and `open_read` raise.
    """
    for limit, position in ((options.starting, "start"), (options.ending, "end")):
        check_limit(limit, {name_of(one) for one in partitions}, position)
    found = []
    views = BrokerViews(fs)
    for one in _of_keys(fs, [one for one in partitions if pruning.takes(one.topic, one.number)], options, pruning):
        if one.segments:
            whole = _range(fs, one, options, views.of(one))
            wanted = _pruned(fs, whole, pruning)
            if wanted is not None:
                found.append(wanted)
    return found


def _of_keys(fs: Filesystem, partitions: list[Partition], options: SourceOptions, pruning: Pruning) -> list[Partition]:
    """Those that a record with one of the keys can be in; all where nobody says how producers choose partitions."""
    if pruning.keys is None or options.partitioner is not Partitioner.MURMUR2:
        return partitions
    counts = partition_counts(fs, partitions, options.num_partitions)
    kept = []
    for one in partitions:
        count = counts[one.topic]
        if one.number >= count:
            raise UsageError(
                reason=f"partitioner murmur2: {name_of(one)} is there, but {one.topic}"
                f" is said to have {count} partitions"
            )
        if one.number in {partition_of_key(key, count) for key in pruning.keys}:
            kept.append(one)
    return kept


def _chooses(options: SourceOptions, one: Partition) -> bool:
    topics = options.topics
    if topics.assigned is not None:
        return name_of(one) in topics.assigned
    if topics.subscribed is not None:
        return one.topic in topics.subscribed
    if topics.pattern is not None:  # as Spark's, it never means internal topics
        return not one.topic.startswith("__") and re.search(topics.pattern, one.topic) is not None
    return True


def _check_chosen(options: SourceOptions, chosen: list[Partition]) -> None:
    topics = options.topics
    missing = sorted(str(one) for one in (topics.assigned or frozenset()) - {name_of(one) for one in chosen})
    missing += sorted((topics.subscribed or frozenset()) - {one.topic for one in chosen})
    if missing:
        raise NothingSelected(reason=f"{', '.join(missing)} not found under {', '.join(options.paths)}")
    if not chosen:
        what = "no topic fits the pattern" if topics.pattern is not None else "there is no partition"
        raise NothingSelected(reason=f"{what} under {', '.join(options.paths)}")


def check_limit(limit: OffsetLimit, assigned: set[TopicPartition], position: str) -> None:
    """Raises UsageError where a limit names other partitions than those that are read."""
    if limit.of_partition is None or limit.of_partition.keys() == assigned:
        return
    said = f"Specified: {names_of(limit.of_partition)} Assigned: {names_of(assigned)}"
    if limit.kind is LimitKind.OFFSETS:
        raise UsageError(
            reason=f"Partitions specified for Kafka {position} offsets don't match what are assigned."
            f" Use -1 for latest, -2 for earliest. {said}"
        )
    raise UsageError(
        reason=f"Partitions specified for Kafka timestamp based {position} offsets don't match what are assigned."
        f" {said}"
    )


def _range(fs: Filesystem, one: Partition, options: SourceOptions, view: BrokerView) -> LogRange:
    bounds = log_bounds(fs, one, view)
    first = _start(fs, one, options, bounds, view)
    end = _end(fs, one, options, bounds, view)
    if end is not None and first > end:
        if options.fail_on_data_loss:
            raise UsageError(
                reason=f"The resolved start offset {first} is greater than the resolved end offset {end}"
                f" for topic {one.topic} partition {one.number}."
            )
        end = first
    return LogRange(one, first, end, bounds.end, view)


def start_of(fs: Filesystem, one: Partition, options: SourceOptions, view: BrokerView) -> int:
    """Where the options have a partition begin, if that is not where its log ends. Raises as `ranges_of` does."""
    return _start(fs, one, options, log_bounds(fs, one, view), view)


def _start(fs: Filesystem, one: Partition, options: SourceOptions, bounds: LogBounds, view: BrokerView) -> int:
    limit = options.starting
    if limit.kind is LimitKind.EARLIEST:
        return bounds.start
    if limit.kind is not LimitKind.OFFSETS:
        offset = _at_time(fs, one, limit, view)
        return bounds.end if offset is None else offset
    assert limit.of_partition is not None
    offset = limit.of_partition[name_of(one)]
    return bounds.start if offset < 0 else _on_disk(one, "starting", offset, bounds, options)


def _end(fs: Filesystem, one: Partition, options: SourceOptions, bounds: LogBounds, view: BrokerView) -> int | None:
    limit = options.ending
    if limit.kind is LimitKind.LATEST:
        return None
    if limit.kind is not LimitKind.OFFSETS:
        return _at_time(fs, one, limit, view)
    assert limit.of_partition is not None
    offset = limit.of_partition[name_of(one)]
    return None if offset == LATEST else _on_disk(one, "ending", offset, bounds, options)


def _on_disk(one: Partition, side: str, offset: int, bounds: LogBounds, options: SourceOptions) -> int:
    if bounds.start <= offset <= bounds.end:
        return offset
    if options.fail_on_data_loss:
        what = f"the {side} offset {offset} of {name_of(one)}"
        raise OffsetOutOfRange(path=one.path, what=what, first=bounds.start, last=bounds.end)
    return min(max(offset, bounds.start), bounds.end)


def _at_time(fs: Filesystem, one: Partition, limit: OffsetLimit, view: BrokerView) -> int | None:
    """The first record at or after the time that the limit has for a partition; None, if it may: there is none."""
    time_ms = limit.time_ms if limit.of_partition is None else limit.of_partition[name_of(one)]
    found = lookup_time(fs, one, time_ms, view=view).offset
    if found is None and not limit.or_latest:
        raise UsageError(
            reason=f"No offset matched from request of topic-partition {name_of(one)} and timestamp {time_ms}."
        )
    return found


def _pruned(fs: Filesystem, whole: LogRange, pruning: Pruning) -> LogRange | None:
    """What filters leave of a range, None for nothing."""
    first = max(whole.first, pruning.first_offset)
    ends = [one for one in (whole.end, pruning.end_offset) if one is not None]
    end = min(ends) if ends else None
    if pruning.is_nothing or (end is not None and first >= end):
        return None
    if pruning.since_ms is not None and pruning.since_ms >= 0:
        found = lookup_time(fs, whole.partition, pruning.since_ms, view=whole.view).offset
        if found is None or (end is not None and found >= end):
            return None
        first = max(first, found)
    if first > whole.first and first >= whole.log_end:
        return None
    return whole._replace(first=first, end=end)
