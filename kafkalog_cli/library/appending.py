"""Appends Arrow columns to a partition for Python programs, with the plan, locks, refusals and journal of `append`."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.errors import Refused, UsageError
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.call.call import Call
from kafkalog_cli.ops.call.observer import Observer
from kafkalog_cli.ops.call.options import Context, VerbOptions
from kafkalog_cli.ops.change.append.batching import Writing
from kafkalog_cli.ops.change.append.making import is_left_empty, is_topic_id, partition_to_make
from kafkalog_cli.ops.change.append.verb import Appending, AppendOptions, ArrowInput

CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Ending = Literal["commit", "abort", "open"]


class Appended(NamedTuple):
    """The offsets of an append: `first_offset` (inclusive) to `end_offset` (exclusive, after a transaction's marker).

    `run` is the id for `kafkalog undo PATH RUN`; None if nothing was appended.
    """

    first_offset: int
    end_offset: int
    records: int
    batches: int
    run: str | None


class NewPartition(NamedTuple):
    """A partition that has no record yet. `topic_id` is None if the metadata log has the topic's id."""

    partition: Partition
    topic_id: str | None


def new_partition(fs: WritableFilesystem, path: str, topic_id: str | None) -> NewPartition:
    """Return the partition that the first append will create.

    It may exist without a record, as an append that failed leaves it. Raises UsageError if it has a record, has another
    topic id or cannot be created, and as `is_left_empty` does.
    """
    if topic_id is not None and not is_topic_id(topic_id):
        raise UsageError(reason=f"topic_id {topic_id!r} is not a topic id")
    partition = partition_to_make(fs, path)
    if partition is None and is_left_empty(fs, path, topic_id):
        partition = open_partition(fs, path)
    if partition is None:
        reason = "it has records or another topic id, its name is not a partition name, or there is no directory for it"
        raise UsageError(reason=f"{path} cannot be made: {reason}")
    return NewPartition(partition, topic_id)


def append_arrow(
    fs: WritableFilesystem, target: Partition | NewPartition, data: Any, writing: Writing, options: VerbOptions
) -> Appended:
    """Append the records; see PartitionLog.append."""
    writing.check()
    new = target if isinstance(target, NewPartition) else None
    partition = target.partition if isinstance(target, NewPartition) else target
    if new is None or is_left_empty(fs, partition.path, new.topic_id):  # an append that failed has made it
        new, partition = None, open_partition(fs, partition.path)
    call = Call("append", partition.path, {**options, "observer": Observer(Context(fs), unheard=_MADE)})
    failed: list[OSError] = []
    own = AppendOptions(writing, topic_id=None if new is None else new.topic_id)
    appending = Appending(call, own, ArrowInput(_keep_errors(_record_batches(data), failed)))
    appending.take(partition, is_new=new is not None)
    run = appending.append([partition])
    for error in run.errors:
        raise next((cause for cause in failed if cause is error.__cause__), error)
    plan, done = run.results[0].plan, run.results[0].done
    if plan.appended is None:
        raise Refused(path=plan.remarks[0].path, reason=plan.remarks[0].message)
    first, end, count, batches, *_ = plan.appended
    run_id = None if done is None else done.manifest.run.run_id
    return Appended(first, end, count, batches, run_id)


_MADE = frozenset({"new-partition"})
"""Notes that a program expects, since it has asked for a new partition."""


def _record_batches(data: Any) -> Iterable[Any]:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        whole: list[Any] = data.combine_chunks().to_batches()  # few batches: the append plans per part
        return whole
    return [data] if isinstance(data, pa.RecordBatch) else data


def _keep_errors(batches: Iterable[Any], failed: list[OSError]) -> Iterator[Any]:
    """Yield the batches, and keep an OSError of the program's own iterator: it is raised as it is."""
    try:
        yield from batches
    except OSError as error:
        failed.append(error)
        raise
