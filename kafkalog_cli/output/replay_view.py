"""The output of replay: the plan, and the outcomes of partitions and of committed offsets."""

from collections.abc import Iterator

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.replay.plan import ReplayPlan
from kafkalog_cli.ops.replay.sending import ReplayedOffset, ReplayedPartition
from kafkalog_cli.ops.replay.state import SentProgress
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable


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
        elif one.target_end_offset:
            parts.append(f"the cluster's partition ends at offset {one.target_end_offset}")
        name = _target_name(progress)
        yield printable(f"send {one.path} to {name}: {', '.join(parts)}")
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
    return printable(f"{done.path} to {name}: {', '.join(parts)}") + "\n"


def offset_line(found: ReplayedOffset) -> str:
    """Return the line of a committed offset."""
    kept = "" if found.kept_offset is None else f"; the group has committed {found.kept_offset} there, which stays"
    place = f"group {found.group_id}, {found.target_topic}-{found.partition}"
    return printable(f"{place}: offset {found.offset} is {found.target_offset} in the cluster{kept}") + "\n"
