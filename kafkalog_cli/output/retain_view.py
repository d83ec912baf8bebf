"""The Views of retain and of retain --free-bytes, and the text of retain's explanation."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.errors import counted
from kafkalog_cli.log.log_end import TimestampOrigin
from kafkalog_cli.ops.retain.free import Freed
from kafkalog_cli.ops.retain.plan import RetainPlan, SegmentFate, Stay
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.human import Column, NumberColumn, iso_time, setting_words, table_lines
from kafkalog_cli.output.log_plan_view import changed_lines, plan_objects, removal_undo_words
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import FAILED, View, change_counts, change_has_work, change_is_idle


def retain_view(*, explains: bool, keeps: bool) -> View[Changed[RetainPlan]]:
    """Return the View of retain.

    `explains`: each segment's fate is shown. `keeps`: removed files are kept, not unlinked.
    """

    def objects(changed: Changed[RetainPlan]) -> Iterable[tuple[Any, Mapping[str, object]]]:
        return plan_objects(changed, segments=changed.plan.fates if explains else None)

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
        lines,
        ("changed", "removed_segments", "removed_bytes", "unlinked_files", "unlinked_bytes"),
        counts,
        change_is_idle,
        _retention_question,
        has_work=change_has_work,
        objects=objects,
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
        lambda freed: (freed_line(freed),),
        ("changed", "removed_segments", "removed_bytes", "unlinked_files", "freed_bytes"),
        _freed_counts,
        lambda freed: not (freed.segments or freed.old_files),
        has_work=lambda freed: bool(freed.segments or freed.old_files),
    )


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
        yield from (f"  {line.rstrip()}" for line in table_lines(_COLUMNS, plan.fates))


_ORIGINS = {TimestampOrigin.BATCHES: "", TimestampOrigin.TIME_INDEX: " (index)", TimestampOrigin.MTIME: " (mtime)"}
_COLUMNS = (
    Column("OFFSETS", lambda fate: f"{fate.base_offset} to {fate.next_offset}"),
    NumberColumn("SIZE", lambda fate: sized(fate.size_bytes)),
    Column(
        "NEWEST", lambda fate: fate.largest and f"{iso_time(fate.largest.timestamp_ms)}{_ORIGINS[fate.largest.origin]}"
    ),
    Column("RESULT", lambda fate: _result(fate)),  # noqa: PLW0108 it is defined below
)


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
