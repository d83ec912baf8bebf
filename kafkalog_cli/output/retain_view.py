"""The Views of retain and of retain --free-bytes, and the text of retain's explanation."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypedDict

from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.errors import counted
from kafkalog_cli.log.log_end import LargestTimestamp, TimestampOrigin
from kafkalog_cli.ops.retain.free import Freed
from kafkalog_cli.ops.retain.plan import RetainPlan, SegmentFate, Stay
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.ops.timestamp_units import TimestampOddity
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, iso_time, plain_lines, setting_words
from kafkalog_cli.output.log_plan_view import (
    PlanObject,
    RemarkObject,
    SettingObject,
    changed_lines,
    plan_object,
    removal_undo_words,
)
from kafkalog_cli.output.ndjson import (
    EMPTY_IS_NULL,
    NULL_IS_ZERO,
    NUMBER_OF,
    Count,
    From,
    NotRequired,
    ObjectKind,
    PathText,
    keywords,
    same_fields,
)
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import FAILED, View, change_counts, change_has_work, change_is_idle


class RemovedSegmentObject(TypedDict):
    """A segment that retention removes."""

    base_offset: int
    next_offset: Annotated[int, "the base offset of the next segment, or the log's end"]
    size_bytes: Annotated[Count, "of its log"]
    limit: Annotated[RetentionPass, From("goes"), "the limit that removes it"]


class SegmentFateObject(TypedDict):
    """Whether a segment is removed, and why. Exactly one of `goes` and `stays` has the reason."""

    base_offset: int
    next_offset: int
    size_bytes: Annotated[Count, "of its log"]
    goes: Annotated[RetentionPass | None, "the limit that removes it"]
    stays: Annotated[Stay | None, "why it is kept"]
    setting: Annotated[SettingObject | None, "the setting that decides; null: another reason decides"]
    largest_timestamp_ms: Annotated[int | None, From("largest.timestamp_ms"), "null: it was not read"]
    largest_timestamp_from: Annotated[TimestampOrigin | None, From("largest.origin")]
    timestamp_of_broker_ms: Annotated[
        int | None,
        From("largest.believed_ms"),
        "the timestamp that a broker uses: of the time index, or the mtime",
    ]
    timestamp_is: Annotated[TimestampOddity | None, From("odd"), "the oddity of the timestamp"]
    due_ms: Annotated[int | None, "when the time limit removes it and all before it; null: never"]
    due_after_bytes: Annotated[Count | None, "the size of appends after which the size limit removes it; null: never"]


def _removed(fates: Iterable[SegmentFate]) -> list[RemovedSegmentObject]:
    return [same_fields(RemovedSegmentObject, fate) for fate in fates if fate.goes is not None]


class RemovalObject(TypedDict):
    """The segments that retention removes."""

    removed: Annotated[list[RemovedSegmentObject], From("fates"), keywords(_removed), "the removed segments"]
    removed_bytes: Annotated[Count, "sizes of their logs"]
    rolled: Annotated[bool, From("rolls"), "all segments are removed, and an empty segment starts at the log's end"]
    delay_ms: Annotated[Count, "how long the removed files stay as .deleted"]
    unlinked_files: Annotated[Count, From("due.files"), NUMBER_OF, "files of earlier runs that were due"]
    unlinked_bytes: Annotated[Count, From("due.size_bytes"), NULL_IS_ZERO, "their sizes"]


class RetentionObject(PlanObject, RemovalObject):
    """The result of retain for a partition, or of its dry run."""

    segments: NotRequired[Annotated[list[SegmentFateObject], "the fate of every segment; only with --explain"]]


def _base_offsets(segments: Iterable[Any]) -> list[int]:
    return [one.segment.base_offset for one in segments]


class FreedObject(TypedDict):
    """The result of retain --free-bytes for a partition, or of its dry run."""

    path: Annotated[PathText, From("plan.path"), "the partition directory"]
    topic: Annotated[str, From("plan.topic")]
    partition: Annotated[int, From("plan.partition")]
    dry_run: Annotated[bool, From("is_dry_run"), "nothing was changed: the other fields show what would be done"]
    refused: Annotated[
        bool, From("plan.is_refused"), "nothing is changed, with or without --dry-run; a remark has the reason"
    ]
    protected_by: Annotated[
        str | None, From("plan.protected_by"), EMPTY_IS_NULL, "why nothing may be removed; null if something may"
    ]
    run: Annotated[str | None, "the run that unlinked segments; it cannot be undone"]
    log_start_offset: Annotated[int | None, "after the run"]
    log_end_offset: Annotated[int | None, From("plan.log_end_offset")]
    removed: Annotated[list[int], From("segments"), keywords(_base_offsets), "base offsets of the unlinked segments"]
    unlinked_files: Annotated[Count, From("old_files"), "unlinked files of segments that were removed earlier"]
    freed_bytes: Annotated[Count, From("disk_bytes"), "the space of all these files on the disk"]
    remarks: Annotated[list[RemarkObject], From("plan.remarks")]


RETENTION = ObjectKind("kafkalog.retention/1", RetentionObject)
FREED = ObjectKind("kafkalog.freed/1", FreedObject)


def retain_view(*, explains: bool, keeps: bool) -> View[Changed[RetainPlan]]:
    """Return the View of retain.

    `explains`: each segment's fate is shown. `keeps`: removed files are kept, not unlinked.
    """

    def fields(changed: Changed[RetainPlan]) -> RetentionObject:
        return plan_object(RetentionObject, changed, segments=changed.plan.fates if explains else None)

    def lines(changed: Changed[RetainPlan]) -> Iterable[str]:
        plan = changed.plan
        undo = removal_undo_words(changed, keeps=keeps)
        yield from changed_lines(changed, _retention_words(plan), undo, lists_changes=not explains)
        yield from explain_lines(plan) if explains else ()

    def counts(changed: Changed[RetainPlan]) -> dict[str, int]:
        plan = changed.plan
        removed = {"removed_segments": len(plan.removed), "removed_bytes": plan.removed_bytes}
        return change_counts(changed, {**removed, **unlinked(plan.due)})

    return View(
        RETENTION,
        fields,
        lines,
        ("changed", "removed_segments", "removed_bytes", "unlinked_files", "unlinked_bytes"),
        counts,
        change_is_idle,
        _retention_question,
        has_work=change_has_work,
    )


def _retention_words(plan: RetainPlan) -> str:
    """Return what is removed, in words."""
    if not plan.has_work:
        return "nothing to do"
    done = []
    if plan.removed:
        done.append(f"{counted(len(plan.removed), 'segment')} removed ({sized(plan.removed_bytes)})")
    if plan.line_edits and not plan.removed:
        done.append(f"{counted(len(plan.line_edits), 'checkpoint line')} changed")
    if plan.due is not None and plan.due.files:
        done.append(f"{counted(len(plan.due.files), 'old file')} unlinked ({sized(plan.due.size_bytes)})")
    return ", ".join(done)


def _retention_question(plan: RetainPlan) -> str:
    """Return the question before segments are removed."""
    segments = counted(len(plan.removed), "segment")
    return f"Remove {segments} ({sized(plan.removed_bytes)}) from {printable(plan.path)}"


def unlinked(due: Any) -> dict[str, int]:
    """Return the counts of old files that are unlinked; `due` None: there are none."""
    return {} if due is None else {"unlinked_files": len(due.files), "unlinked_bytes": due.size_bytes}


def free_view() -> View[Freed]:
    """Return the View of retain --free-bytes."""
    return View(
        FREED,
        _freed,
        lambda freed: (freed_line(freed),),
        ("changed", "removed_segments", "removed_bytes", "unlinked_files", "freed_bytes"),
        _freed_counts,
        lambda freed: not (freed.segments or freed.old_files),
        has_work=lambda freed: bool(freed.segments or freed.old_files),
    )


def _freed(freed: Freed) -> FreedObject:
    return same_fields(FreedObject, freed, run=freed.run_id if freed.segments and not freed.is_dry_run else None)


def freed_line(freed: Freed) -> str:
    """Return one line: the unlinked files, the log's start and end, and that this cannot be undone."""
    plan = freed.plan
    path = printable(plan.path)
    parts = []
    if freed.segments:
        parts.append(f"{counted(len(freed.segments), 'segment')} unlinked")
    if freed.old_files:
        parts.append(f"{counted(freed.old_files, 'old file')} unlinked")
    if not parts:
        because = plan.protected_by or next((remark.message for remark in plan.remarks), "")
        return f"{path}: nothing unlinked{f', {printable(because)}' if because else ''}"
    offsets = "" if freed.log_start_offset is None else f", offsets {freed.log_start_offset} to {plan.log_end_offset}"
    how = "dry run: " if freed.is_dry_run else ""
    return f"{path}: {how}{', '.join(parts)} ({sized(freed.disk_bytes)}){offsets}" + (
        "" if freed.is_dry_run else "; cannot be undone"
    )


def _freed_counts(freed: Freed) -> dict[str, int]:
    is_changed = bool(freed.segments or freed.old_files) and not freed.is_dry_run
    return {
        FAILED: int(freed.plan.is_refused),
        "changed": int(is_changed),
        "removed_segments": len(freed.segments),
        "removed_bytes": sum(segment.segment.log.size_bytes for segment in freed.segments),
        "unlinked_files": freed.old_files,
        "freed_bytes": freed.disk_bytes,
    }


# ---- the text of --explain


def explain_lines(plan: RetainPlan) -> Iterator[str]:
    """Return lines for the settings used, then for each segment."""
    for setting in plan.settings:
        yield f"  {setting_words(setting)}"
    if plan.is_refused and plan.fates:
        yield "  without that refusal:"
    if plan.fates:
        rows = [[*_offsets_and_size(fate), _newest(fate.largest), _result(fate)] for fate in plan.fates]
        yield from (f"  {line.rstrip()}" for line in plain_lines(TextTable(_COLUMNS, rows)))


_COLUMNS = (TextColumn("OFFSETS"), TextColumn("SIZE", is_number=True), TextColumn("NEWEST"), TextColumn("RESULT"))
_ORIGINS = {TimestampOrigin.BATCHES: "", TimestampOrigin.TIME_INDEX: " (index)", TimestampOrigin.MTIME: " (mtime)"}


def _offsets_and_size(fate: SegmentFate) -> tuple[str, str]:
    return f"{fate.base_offset} to {fate.next_offset}", sized(fate.size_bytes)


def _newest(largest: LargestTimestamp | None) -> str:
    return NOTHING if largest is None else f"{iso_time(largest.timestamp_ms)}{_ORIGINS[largest.origin]}"


def _result(fate: SegmentFate) -> str:
    """Return the fate of a segment, and the name of the setting that decides; the settings are printed above."""
    setting = "" if fate.setting is None else printable(fate.setting.name)
    if fate.goes is RetentionPass.LOG_START:
        return "removed: before log start"
    if fate.goes is not None:
        return f"removed: {setting}"
    due = _due(fate)
    if fate.stays in (None, Stay.LIMITS):
        return f"due {due}" if due else "kept: within the limits"
    if fate.stays is Stay.POLICY and fate.setting is not None:
        return f"kept: {setting}={printable(fate.setting.text)}"
    reason = _REASONS[fate.stays].format(odd=fate.odd.value if fate.odd else "")
    return f"kept: {reason}" + (f"; due {due}" if due else "")


_REASONS = {
    Stay.EMPTY: "active, no records",
    Stay.POLICY: "nothing is deleted",
    Stay.NO_LIMIT: "no limit is set",
    Stay.FUTURE: "newest is in the future",
    Stay.UNIT: "newest is {odd}",
    Stay.NOT_REPLICATED: "past the high watermark",
    Stay.BEHIND: "an earlier segment is kept",
}


def _due(fate: SegmentFate) -> str:
    """Return when a segment that stays would be removed; "" if never."""
    if fate.stays in (Stay.POLICY, Stay.NO_LIMIT, Stay.EMPTY):
        return ""
    parts = [] if fate.due_ms is None else [iso_time(fate.due_ms)]
    parts += [] if fate.due_after_bytes is None else [f"after {sized(fate.due_after_bytes)} more"]
    return " or ".join(parts)
