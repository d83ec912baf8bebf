"""The Views of roll, truncate and delete-records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypedDict

from kafkalog_cli.broker.open_log import RollCause
from kafkalog_cli.ops.delete_records import DeleteRecordsPlan
from kafkalog_cli.ops.roll import RollPlan
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.ops.truncate import TruncatePlan
from kafkalog_cli.output.log_plan_view import (
    PlanObject,
    Said,
    changed_lines,
    deleted_records_question,
    deleted_records_words,
    plan_object,
    roll_words,
    truncation_question,
    truncation_words,
    undo_words,
)
from kafkalog_cli.output.records import Count, ObjectKind
from kafkalog_cli.output.views import View, change_counts, change_has_work, change_is_idle


class ActiveSegmentObject(TypedDict):
    """The last segment before it is rolled."""

    base_offset: int
    size_bytes: Annotated[Count, "of its log"]
    first_timestamp_ms: Annotated[int | None, "the largest of its first batch"]
    index_entries: Annotated[Count, "of its offset index"]
    time_index_entries: Annotated[Count, "of its time index"]


class RollObject(PlanObject):
    """The result of roll for a partition, or of its dry run."""

    rolled: Annotated[bool, "whether a new segment starts at the log's end, or would"]
    cause: Annotated[RollCause | None, "why a broker would roll; null: it would not"]
    forced: Annotated[bool, "--force"]
    active: Annotated[ActiveSegmentObject | None, "the last segment before it is rolled; null if refused"]
    due_ms: Annotated[int | None, "the time at which it would be rolled for its age; null: never"]


class CutBatchObject(TypedDict):
    """A batch that the target of truncate is in; a batch cannot be split."""

    base_offset: int
    last_offset: int
    position: Annotated[Count, "in its file"]


class TruncationObject(PlanObject):
    """The result of truncate for a partition, or of its dry run."""

    target_offset: Annotated[int, "the first removed offset"]
    old_end_offset: Annotated[int | None, "the log's end before; null if refused"]
    removed: Annotated[list[int], "base offsets of the removed segments"]
    cut_bytes: Annotated[Count, "cut from the segment that is then the last"]
    cut_batch: Annotated[CutBatchObject | None, "the batch that the target is in, which cannot be split"]


class DeletedRecordsObject(PlanObject):
    """The result of delete-records for a partition, or of its dry run."""

    old_start_offset: Annotated[int | None, "the log's start before; null if refused"]
    removed: Annotated[list[int], "base offsets of the removed segments"]
    removed_bytes: Annotated[Count, "sizes of their logs"]
    delay_ms: Annotated[Count, "how long the removed files stay as .deleted"]


ROLL = ObjectKind("kafkalog.roll/1", RollObject)
TRUNCATION = ObjectKind("kafkalog.truncation/1", TruncationObject)
DELETED_RECORDS = ObjectKind("kafkalog.deleted-records/1", DeletedRecordsObject)


def roll_view() -> View[Changed[RollPlan]]:
    """Return the View of roll."""
    return View(
        ROLL,
        _roll,
        lambda changed: changed_lines(changed, Said(roll_words(changed.plan), undo_words(changed.plan, changed.done))),
        ("changed", "rolled"),
        lambda changed: change_counts(changed, {"rolled": int(changed.plan.has_work)}),
        change_is_idle,
        has_work=change_has_work,
    )


def _roll(changed: Changed[RollPlan]) -> RollObject:
    plan, active = changed.plan, changed.plan.active
    return {
        **plan_object(changed),
        "rolled": bool(plan.changes),
        "cause": plan.cause,
        "forced": plan.is_forced,
        "active": None
        if active is None
        else {
            "base_offset": active.base_offset,
            "size_bytes": active.size_bytes,
            "first_timestamp_ms": None if active.first_timestamp < 0 else active.first_timestamp,
            "index_entries": active.offset_entries,
            "time_index_entries": active.time_entries,
        },
        "due_ms": plan.due_ms,
    }


def truncate_view() -> View[Changed[TruncatePlan]]:
    """Return the View of truncate."""
    return View(
        TRUNCATION,
        _truncation,
        lambda changed: changed_lines(
            changed, Said(truncation_words(changed.plan), undo_words(changed.plan, changed.done))
        ),
        ("changed", "removed_segments", "cut_bytes"),
        lambda changed: change_counts(
            changed, {"removed_segments": len(changed.plan.removed), "cut_bytes": changed.plan.cut_bytes}
        ),
        change_is_idle,
        truncation_question,
        has_work=change_has_work,
    )


def _truncation(changed: Changed[TruncatePlan]) -> TruncationObject:
    plan, batch = changed.plan, changed.plan.cut_batch
    return {
        **plan_object(changed),
        "target_offset": plan.target_offset,
        "old_end_offset": plan.old_end_offset,
        "removed": list(plan.removed),
        "cut_bytes": plan.cut_bytes,
        "cut_batch": None
        if batch is None
        else {"base_offset": batch.base_offset, "last_offset": batch.last_offset, "position": batch.position},
    }


def delete_records_view(*, keeps: bool) -> View[Changed[DeleteRecordsPlan]]:
    """Return the View of delete-records. `keeps`: removed files are kept, not unlinked."""

    def lines(changed: Changed[DeleteRecordsPlan]) -> Iterable[str]:
        plan = changed.plan
        delay_ms = plan.delay_ms if plan.removed and not keeps else None
        return changed_lines(
            changed, Said(deleted_records_words(plan), undo_words(plan, changed.done, delay_ms=delay_ms))
        )

    return View(
        DELETED_RECORDS,
        _deleted_records,
        lines,
        ("changed", "removed_segments", "removed_bytes"),
        lambda changed: change_counts(
            changed, {"removed_segments": len(changed.plan.removed), "removed_bytes": changed.plan.removed_bytes}
        ),
        change_is_idle,
        deleted_records_question,
        has_work=change_has_work,
    )


def _deleted_records(changed: Changed[DeleteRecordsPlan]) -> DeletedRecordsObject:
    plan = changed.plan
    return {
        **plan_object(changed),
        "old_start_offset": plan.old_start_offset,
        "removed": list(plan.removed),
        "removed_bytes": plan.removed_bytes,
        "delay_ms": plan.delay_ms,
    }
