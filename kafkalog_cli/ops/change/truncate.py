"""Cuts a log at its end, as a follower does with records that its leader does not have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.open_log import CutBatch, Truncated, truncate_to
from kafkalog_cli.change.changes import in_log_order
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import OffsetOutOfRange
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Changed, Target
from kafkalog_cli.ops.change.apply_changes import MarkerUse, apply_changes
from kafkalog_cli.ops.change.plans import (
    LogPlan,
    Unready,
    check_logs,
    fingerprints_of,
    in_place,
    load_settings_of,
    open_log,
    refused,
    used_settings,
    whole_end_of,
)
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.ops.change.undo.last_run import is_cut_off_for_good
from kafkalog_cli.results import Count, result

if TYPE_CHECKING:
    from typing_extensions import Unpack


@result("kafkalog.truncation/1")
@dataclass(frozen=True, slots=True)
class TruncatePlan(LogPlan):
    """The result of truncate for a partition, or of its dry run.

    `cut_batch` is removed whole, so `log_end_offset` is then below the target.
    """

    target_offset: Annotated[int, "the first removed offset"] = 0
    old_end_offset: Annotated[int | None, "the log's end before; null if refused"] = None
    removed: Annotated[tuple[int, ...], "base offsets of the removed segments"] = ()
    cut_bytes: Annotated[Count, "cut from the segment that is then the last"] = 0
    cut_batch: Annotated[CutBatch | None, "the batch that the target is in, which cannot be split"] = None

    @property
    def drops_records(self) -> bool:
        """Whether records are removed: then the clean shutdown marker is not restored."""
        return bool(self.removed or self.cut_bytes)

    @property
    def drops_valid(self) -> bool:
        """See ChangePlan."""
        return self.drops_records


def plan_truncate(
    fs: Filesystem, partition: Partition, now_ms: int, target_offset: int, *, is_repeated: bool = False
) -> TruncatePlan:
    """Plan the removal of the records from `target_offset` on.

    `is_repeated`: a run that kept nothing may have been cut off half way. So the log may end before the offset, and an
    empty segment may be a new one beside others that were to be removed.

    Reads headers, indexes and producer snapshots, and the batches after a snapshot. Raises OffsetOutOfRange for an
    offset below the log start or above the log end, UnsupportedFormat for 0.7, the exceptions of
    `SettingsSource.metadata`, and those of opening the files.
    """
    assert partition.settings is not None
    used = used_settings(partition.settings, partition.log_dir, partition.topic)
    prints = fingerprints_of(fs, partition.path)
    plan = TruncatePlan.of(partition, fingerprints=prints, settings=used, target_offset=target_offset)
    try:
        check_logs(partition)
        new = [one for one in partition.segments[1:] if is_repeated and not one.log.size_bytes]
        end_offset = whole_end_of(fs, partition, [one for one in partition.segments if one not in new][-1])
        if is_repeated:
            target_offset = min(target_offset, end_offset)
        first_offset = max(partition.log_start, partition.segments[0].base_offset)
        if not first_offset <= target_offset <= end_offset:
            what = f"offset {target_offset}"
            raise OffsetOutOfRange(path=partition.path, what=what, first=first_offset, last=end_offset)
        draft = Draft(fs, partition.path)
        log = open_log(draft, partition, load_settings_of(now_ms, used), end_offset)
        log.drop_segments([segment.base_offset for segment in new])
        truncated = truncate_to(log, target_offset)
    except (Unready, LoadFailed) as error:
        return refused(plan, error)
    return replace(
        plan,
        changes=in_log_order(draft.changes()),
        line_edits=_line_edits(partition, truncated, log.base_offsets),
        log_start_offset=truncated.log_start_offset,
        log_end_offset=truncated.log_end_offset,
        high_watermark=partition.high_watermark(truncated.log_end_offset),
        old_end_offset=end_offset,
        removed=tuple(sorted(truncated.removed)),
        cut_batch=truncated.cut_batch,
        cut_bytes=truncated.cut_bytes,
    )


def _line_edits(partition: Partition, truncated: Truncated, base_offsets: list[int]) -> tuple[LineEdit, ...]:
    """Lower checkpoint lines to the new log end, and the cleaner's line to the active segment's base offset.

    See LogManager.truncateTo.
    """
    end_offset, first_base_offset = truncated.log_end_offset, min(base_offsets)
    is_told = truncated.log_start_offset <= first_base_offset
    log_start = partition.edit(FileKind.LOG_START_CHECKPOINT, None) if is_told and truncated.removed else ()
    return (
        *partition.lower(FileKind.RECOVERY_POINT_CHECKPOINT, end_offset),
        *partition.lower(FileKind.REPLICATION_CHECKPOINT, end_offset),
        *partition.lower(FileKind.CLEANER_CHECKPOINT, max(base_offsets)),
        *log_start,
    )


def truncate(
    path: Paths, offset: int, *, discard: bool = False, **options: Unpack[VerbOptions]
) -> Run[Changed[TruncatePlan]]:
    """Truncate the log of one partition to `offset`, the first offset removed, as `kafkalog truncate` does.

    `discard`: removed data is not kept for undo. Raises as `recover`.
    """

    def truncate_one(target: Target) -> Changed[TruncatePlan]:
        target.begin()
        partition = target.partition
        is_repeated = is_cut_off_for_good(target.fs, partition)
        plan = plan_truncate(target.fs, partition, target.clock.now_ms, offset, is_repeated=is_repeated)
        drops_records = plan.drops_records and partition.is_clean
        target.check(Action.TRUNCATE, in_place=in_place(plan), drops_records=drops_records)
        marker = MarkerUse.DROPPED if plan.drops_records else MarkerUse.LEFT
        return target.change(plan, partial(apply_changes, marker=marker, discard=discard), warns_first=True)

    call = Call("truncate", path, options)
    return call.change_each(call.one_partition(), truncate_one)
