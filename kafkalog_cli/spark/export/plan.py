"""Plans an export: which logs, which offsets, and messages about logs that changed since the last export."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import NothingSelected, Refused
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.export.request import ExportRequest, LogProgress, change_since
from kafkalog_cli.ops.lookup.by_time import lookup_time
from kafkalog_cli.ops.partition_facts import topic_id_of
from kafkalog_cli.ops.partition_state import BrokerViews, log_bounds
from kafkalog_cli.ops.read.request import growing_end
from kafkalog_cli.ops.read.visible import ReadNote
from kafkalog_cli.ops.same_place import PartitionIdentities, PartitionIdentity
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.spark.offsets import OffsetRange, check_unique, name_of, served_partitions
from kafkalog_cli.spark.splits import TIMES_OF_FILES, Task, tasks_of

Progress = dict[tuple[str, int], LogProgress]
_MOST_NAMED = 3


class ExportPlan(NamedTuple):
    """The tasks, the largest first. `gaps`: records that were deleted before they were exported.

    `begun` has the progress of all logs. `seen` has the PartitionIdentity of each partition that is read, by its path.
    """

    tasks: list[Task]
    seen: dict[str, PartitionIdentity]
    gaps: list[ReadNote]
    begun: Progress


def exported_partitions(fs: Filesystem, paths: Sequence[str], selection: Selection) -> list[Partition]:
    """Return the selected partitions, sorted by topic and number.

    Partitions that a broker is removing or has set aside are left out. Raises as `select_partitions`, NothingSelected
    for none, UsageError if one is found twice.
    """
    full = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - workers may have another directory of their own
    found = served_partitions(fs, full, selection)
    if not found:
        raise NothingSelected(reason=f"no partition of a topic under {', '.join(paths)}")
    check_unique(found)
    return sorted(found, key=lambda one: (*name_of(one), one.path))


def plan_export(fs: Filesystem, partitions: Sequence[Partition], request: ExportRequest, known: Progress) -> ExportPlan:
    """Plan which offsets of each log to read; `known` is the progress of earlier runs.

    Raises Refused if a log is not the one in `known`, and the exceptions of `open_read`.
    """
    ranges, begun = [], dict(known)
    gaps: list[ReadNote] = []
    refused: list[ReadNote] = []
    views = BrokerViews(fs)
    for one in partitions:
        if not one.segments:
            continue
        view = views.of(one)
        bounds, topic_id = log_bounds(fs, one, view), topic_id_of(fs, one)
        progress = known.get((one.topic, one.number))
        first = bounds.start
        if progress is not None:
            change = change_since(fs, one, bounds, topic_id, progress, view)
            if change is not None:
                (gaps if change.is_gap else refused).append(ReadNote("log-changed", one.path, change.reason))
            first = max(first, progress.next_offset)
        begun[one.topic, one.number] = (progress or LogProgress(first))._replace(
            next_offset=first, topic_id=topic_id or (progress.topic_id if progress else None)
        )
        end = growing_end(fs, one, request.isolation) if request.is_incremental else None
        wanted = _wanted(fs, OffsetRange(one, first, end, bounds.end, view), request)
        if wanted is not None:
            ranges.append(wanted)
    if refused:
        raise _refusal(refused)
    tasks = tasks_of(fs, ranges, None, None, times=TIMES_OF_FILES)
    tasks.sort(key=lambda task: -sum(piece.size_bytes for piece in task))
    sights = PartitionIdentities(fs, socket.gethostname())
    return ExportPlan(tasks, {one.partition.path: sights.of(one.partition.path) for one in ranges}, gaps, begun)


def _wanted(fs: Filesystem, whole: OffsetRange, request: ExportRequest) -> OffsetRange | None:
    """Return the part of a log that the request asks for; None if it is empty."""
    wanted = request.range
    first = max(whole.first, wanted.from_offset or 0)
    ends = [end for end in (whole.end, wanted.to_offset) if end is not None]
    end = min(ends) if ends else None
    if wanted.since_ms is not None and wanted.since_ms >= 0:
        found = lookup_time(fs, whole.partition, wanted.since_ms, view=whole.view).offset
        if found is None:
            return None
        first = max(first, found)
    if (end is not None and first >= end) or (first > whole.first and first >= whole.log_end):
        return None
    return whole._replace(first=first, end=end)


def _refusal(refused: list[ReadNote]) -> Refused:
    first = refused[0]
    more = ", ".join(note.path for note in refused[1:_MOST_NAMED])
    others = f" (and {len(refused) - 1} more: {more}{', ...' if len(refused) > _MOST_NAMED else ''})"
    way_out = "export it with another --output and --state, or leave it out (--topic, --topic-pattern)"
    return Refused(path=first.path, reason=f"{first.message}{others if more else ''}; nothing was exported; {way_out}")
