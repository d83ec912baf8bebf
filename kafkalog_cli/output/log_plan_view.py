"""How the plans of all changes of a log look: lines and details as text, and JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kafkalog_cli.change.changes import Change
from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.log.log_dir import HighWatermarkOrigin, LineEdit
from kafkalog_cli.ops.apply_changes import Applied
from kafkalog_cli.ops.plans import LogPlan, Remark, describe
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.human import setting_words, time_span
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import Detail, View, change_counts, change_has_work, change_is_idle, one_object

PlanT = TypeVar("PlanT", bound=LogPlan)


def plan_objects(changed: Changed[Any], **given: object) -> list[tuple[Any, Mapping[str, object]]]:
    """Return the JSON object of a plan and its run."""
    run = None if changed.done is None else changed.done.manifest.run.run_id
    return one_object(changed.plan, dry_run=changed.is_dry_run, run=run, **given)


def change_view(
    words: Callable[[PlanT], str],
    names: tuple[str, ...],
    counts: Callable[[PlanT], Mapping[str, int]],
    question: Callable[[PlanT], str] = str,
    *,
    keeps: bool = True,
) -> View[Changed[PlanT]]:
    """Return the View of a verb that changes logs.

    `words` say what is done, without a full stop, and `counts` are a plan's part of the `names` in the summary.
    `keeps`: removed files are kept for undo, not unlinked after a time.
    """
    return View(
        lambda changed: changed_lines(changed, words(changed.plan), removal_undo_words(changed, keeps=keeps)),
        ("changed", *names),
        lambda changed: change_counts(changed, counts(changed.plan)),
        change_is_idle,
        question,
        has_work=change_has_work,
        objects=plan_objects,
    )


def changed_lines(changed: Changed[Any], what: str, undo: str, *, lists_changes: bool = True) -> Iterator[str]:
    """Return the partition's line and its remarks; in a dry run, also each setting and change as a Detail.

    `what` is done, without a full stop, and `undo` is how it is undone, or "". `lists_changes`: list each change.
    """
    plan: LogPlan = changed.plan
    yield f"{printable(plan.path)}: {_summary(plan, what, undo, dry_run=changed.is_dry_run)}"
    for remark in plan.remarks:
        yield from remark_lines(plan.path, remark)
    if not changed.is_dry_run or not lists_changes or not plan.has_work:
        return
    for setting in plan.settings:
        yield Detail(f"  {setting_words(setting)}")
    if plan.high_watermark is not None and plan.high_watermark.origin is HighWatermarkOrigin.LOG_END:
        yield Detail(f"  high watermark {plan.high_watermark.offset}: no checkpoint has it, so the log's end is used")
    yield from change_details(plan.changes, plan.line_edits)


def change_details(changes: Iterable[Change], edits: Iterable[LineEdit]) -> Iterator[Detail]:
    """Yield what a plan would change: files, then lines of checkpoints."""
    yield from (Detail(f"  would {words}") for words in (*map(printable, describe(changes)), *map(_edit_words, edits)))


def _summary(plan: LogPlan, what: str, undo: str, *, dry_run: bool) -> str:
    if plan.is_refused:
        return "refused, nothing was changed"
    start = "dry run: " if dry_run and plan.has_work else ""
    offsets = "no offsets"
    if plan.log_start_offset is not None:
        offsets = f"offsets {plan.log_start_offset} to {plan.log_end_offset}"
    return f"{start}{what}, {offsets}" + (undo and f"; {undo}")


def removal_undo_words(changed: Changed[Any], *, keeps: bool) -> str:
    """Return how to undo a run; `keeps`: removed files are kept, not unlinked after a time."""
    delay_ms = changed.plan.delay_ms if not keeps and changed.plan.removed else None
    return undo_words(changed.plan, changed.done, delay_ms)


def undo_words(plan: LogPlan, done: Applied | None, delay_ms: int | None) -> str:
    """Return how to undo a run; `delay_ms`: how long removed files are kept; 0: they are not; None: until a purge."""
    if done is None:
        return ""
    if done.manifest.discard or delay_ms == 0:
        return "cannot be undone"
    until = "" if delay_ms is None else f" for {time_span(delay_ms)}, and until a broker starts"
    return f"undo{until}: kafkalog undo {shell_word(plan.path)} {done.manifest.run.run_id}"


def _edit_words(edit: LineEdit) -> str:
    if edit.offset is None:
        return f"remove the line from {edit.kind.value}"
    return f"set the line in {edit.kind.value} to {edit.offset}"


def remark_lines(partition_path: str, remark: Remark, files: int = 1) -> Iterator[str]:
    """Return the lines of a remark: its message, and its next step if it has one; `files`: how many files have it."""
    name = "partition" if remark.path == partition_path else remark.path.removeprefix(f"{partition_path}/")
    at = "" if remark.position is None else f" at byte {remark.position}"
    at += "" if files == 1 else f" and {counted(files - 1, 'later file')}"
    yield f"  {printable(name)}{at}: {printable(remark.message)}"
    if remark.next_step:
        yield f"  next: {printable(remark.next_step)}"
