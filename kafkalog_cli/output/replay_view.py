"""The output of replay: the plan, and the outcomes of partitions and of committed offsets."""

from collections.abc import Iterator
from typing import Annotated, TypedDict

from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.replay.plan import ReplayPlan
from kafkalog_cli.ops.replay.sending import ReplayedOffset, ReplayedPartition
from kafkalog_cli.ops.replay.state import SentProgress
from kafkalog_cli.output.ndjson import Count, From, ObjectKind, PathText, exit_codes
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable


class PlannedReplayObject(TypedDict):
    """A partition that a replay would send."""

    path: Annotated[PathText, From("copy.path"), "the copy"]
    topic: Annotated[PathText, From("progress.topic")]
    partition: Annotated[Count, From("progress.partition")]
    target_topic: Annotated[PathText, From("progress.target_topic"), "the topic in the cluster"]
    is_created: Annotated[bool, "whether the topic is to be created"]
    next_offset: Annotated[Count, From("progress.next_offset"), "the first offset to send"]
    size_bytes: Annotated[Count, "of the log files"]
    records: Annotated[Count, From("progress.records"), "acknowledged in earlier runs with the state"]
    target_end_offset: Annotated[
        Count | None,
        From("target_records"),
        "the end of the partition in the cluster; null if it is to be created, or if --partitioner chooses partitions",
    ]


class ReplayedObject(TypedDict):
    """A partition that was sent."""

    path: Annotated[PathText, From("planned.copy.path"), "the copy"]
    topic: Annotated[PathText, From("progress.topic")]
    partition: Annotated[Count, From("progress.partition")]
    target_topic: Annotated[PathText, From("progress.target_topic"), "the topic in the cluster"]
    sent: Annotated[Count, "records that this run has sent, all acknowledged"]
    recognised: Annotated[Count, "records of an interrupted run that were in the cluster, though not in the state"]
    records: Annotated[Count, From("progress.records"), "acknowledged records of all runs with the state"]
    next_offset: Annotated[Count, From("progress.next_offset"), "all records below this offset are acknowledged"]
    target_offset: Annotated[
        Count | None,
        From("progress.target_offset"),
        "the offset after the last of them in the cluster; null if they are in several partitions (--partitioner)",
    ]
    is_done: Annotated[bool, From("progress.is_done"), "whether there are no more records to send"]
    exit_code: Annotated[
        int,
        From("code"),
        exit_codes(
            ExitCode.OK, ExitCode.FAILURE, ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.NO_SPACE, ExitCode.REFUSED
        ),
    ]


class ReplayedOffsetObject(TypedDict):
    """A committed offset of a group."""

    group_id: Annotated[str, From("committed.group_id")]
    topic: Annotated[PathText, From("committed.topic")]
    partition: Annotated[Count, From("committed.partition")]
    offset: Annotated[Count, From("committed.offset"), "as it was committed"]
    target_topic: Annotated[PathText, "the topic in the cluster"]
    target_offset: Annotated[Count, "the same place in the cluster"]
    kept_offset: Annotated[Count | None, "an offset of the group in the cluster, which stays; else null"]


PLANNED = ObjectKind("kafkalog.planned-replay/1", PlannedReplayObject)
REPLAYED = ObjectKind("kafkalog.replayed/1", ReplayedObject)
OFFSET = ObjectKind("kafkalog.replayed-offset/1", ReplayedOffsetObject)


def plan_lines(plan: ReplayPlan, offsets: int | None) -> Iterator[str]:
    """Return the lines of a plan. `offsets` is the number of committed offsets to move, None without --groups."""
    for topic in plan.topics:
        if topic.is_new:
            settings = ", ".join(f"{name}={value}" for name, value in sorted(topic.settings.items()))
            partitions = counted(topic.partitions, "partition")
            yield printable(f"create topic {topic.name}: {partitions}{settings and f', {settings}'}")
    for one in plan.partitions:
        progress = one.progress
        parts = [f"from offset {progress.next_offset}", sized(one.size_bytes)]
        if one.is_resumed:
            parts.append(f"{counted(progress.records, 'record')} acknowledged before")
        elif one.target_records:
            parts.append(f"the cluster's partition ends at offset {one.target_records}")
        name = _target_name(progress)
        yield printable(f"send {one.copy.path} to {name}: {', '.join(parts)}")
    if offsets is not None:
        yield f"then commit {counted(offsets, 'offset')} of groups"


def _target_name(progress: SentProgress) -> str:
    if progress.target_offset is None:
        return f"{counted(len(progress.targets), 'partition')} of {progress.target_topic}"
    return f"{progress.target_topic}-{progress.partition}"


def replayed_line(done: ReplayedPartition) -> str:
    """Return the line of a partition that was sent."""
    progress = done.progress
    parts = [f"{counted(done.sent, 'record')} sent"]
    if done.recognised:
        parts.append(f"{done.recognised} more were in the cluster already")
    parts.append(f"acknowledged up to offset {progress.next_offset}")
    if done.error is not None:
        parts.append("not complete")
    name = _target_name(progress)
    return printable(f"{done.planned.copy.path} to {name}: {', '.join(parts)}") + "\n"


def offset_line(found: ReplayedOffset) -> str:
    """Return the line of a committed offset."""
    committed = found.committed
    name = f"{found.target_topic}-{committed.partition}"
    kept = f"; the group has committed {found.kept_offset} there, which stays" if found.is_kept else ""
    place = f"group {committed.group_id}, {name}"
    return printable(f"{place}: offset {committed.offset} is {found.target_offset} in the cluster{kept}") + "\n"
