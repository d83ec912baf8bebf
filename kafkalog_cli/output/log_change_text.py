"""The text output of roll, retain, truncate and delete-records: one line per partition, and details in a dry run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.log.checkpoints import HighWatermarkOrigin
from kafkalog_cli.ops.apply_changes import Applied
from kafkalog_cli.ops.change_plan import describe
from kafkalog_cli.ops.delete_records import DeleteRecordsPlan
from kafkalog_cli.ops.log_plan import LogPlan
from kafkalog_cli.ops.retain.plan import RetainPlan
from kafkalog_cli.ops.roll import RollPlan
from kafkalog_cli.ops.truncate import TruncatePlan
from kafkalog_cli.output.human import setting_words, time_span
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.recover_text import line_edit_words, remark_lines
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import Detail


class Said(NamedTuple):
    """The words for a partition's change: `what` (without a full stop), and `undo`: how to undo it, or ""."""

    what: str
    undo: str = ""


def plan_lines(plan: LogPlan, said: Said, *, dry_run: bool, with_changes: bool) -> Iterator[str]:
    """Return the partition's line and its remarks; with `with_changes`, also each setting and change as a Detail."""
    yield f"{printable(plan.path)}: {_summary(plan, said, dry_run=dry_run)}"
    for remark in plan.remarks:
        yield from remark_lines(plan.path, remark)
    if not with_changes or not plan.has_work:
        return
    for setting in plan.settings:
        yield Detail(f"  {setting_words(setting)}")
    if plan.high_watermark is not None and plan.high_watermark.origin is HighWatermarkOrigin.LOG_END:
        yield Detail(f"  high watermark {plan.high_watermark.offset}: no checkpoint has it, so the log's end is used")
    for sentence in describe(plan.changes):
        yield Detail(f"  would {printable(sentence)}")
    for edit in plan.line_edits:
        yield Detail(f"  would {line_edit_words(edit)}")


def retention_question(plan: RetainPlan) -> str:
    """Return the question before segments are removed."""
    return f"Remove {_segments(len(plan.removed))} ({sized(plan.removed_bytes)}) from {printable(plan.path)}"


def truncation_question(plan: TruncatePlan) -> str:
    """Return the question before records at the end are removed."""
    parts = [_segments(len(plan.removed))] if plan.removed else []
    parts += [f"{sized(plan.cut_bytes)} of another segment"] if plan.cut_bytes else []
    return f"Remove the records from offset {plan.log_end_offset} on ({', '.join(parts)}) from {printable(plan.path)}"


def deleted_records_question(plan: DeleteRecordsPlan) -> str:
    """Return the question before records at the start are deleted."""
    removed = f" ({_segments(len(plan.removed))}, {sized(plan.removed_bytes)})" if plan.removed else ""
    return f"Delete the records before offset {plan.log_start_offset}{removed} from {printable(plan.path)}"


def _summary(plan: LogPlan, said: Said, *, dry_run: bool) -> str:
    if plan.is_refused:
        return "refused, nothing was changed"
    offsets = f"offsets {plan.log_start_offset} to {plan.log_end_offset}"
    if plan.log_start_offset is None:
        offsets = "no offsets"
    parts = [
        "dry run: " if dry_run and plan.has_work else "",
        said.what,
        f", {offsets}",
        said.undo and f"; {said.undo}",
    ]
    return "".join(parts)


def undo_words(plan: LogPlan, done: Applied | None, *, delay_ms: int | None = None) -> str:
    """Return how to undo a run; `delay_ms`: how long removed files are kept; 0: they are not."""
    if done is None:
        return ""
    if done.manifest.discard or delay_ms == 0:
        return "cannot be undone"
    until = "" if delay_ms is None else f" for {time_span(delay_ms)}, and until a broker starts"
    return f"undo{until}: kafkalog undo {shell_word(plan.path)} {done.manifest.run.run_id}"


def roll_words(plan: RollPlan) -> str:
    """Return what happens to the active segment, in words."""
    if plan.is_empty:
        return "nothing to do, the active segment is empty"
    if not plan.has_work:
        return "nothing to do"
    because = plan.cause.value if plan.cause is not None else "forced"
    return f"rolled at {plan.log_end_offset} ({because})"


def retention_words(plan: RetainPlan) -> str:
    """Return what is removed, in words."""
    if not plan.has_work:
        return "nothing to do"
    done = []
    if plan.removed:
        done.append(f"{_segments(len(plan.removed))} removed ({sized(plan.removed_bytes)})")
    if plan.line_edits and not plan.removed:
        done.append(f"{counted(len(plan.line_edits), 'checkpoint line', 'checkpoint lines')} changed")
    if plan.due is not None and plan.due.files:
        done.append(f"{counted(len(plan.due.files), 'old file', 'old files')} unlinked ({sized(plan.due.size_bytes)})")
    return ", ".join(done)


def truncation_words(plan: TruncatePlan) -> str:
    """Return what is removed at the end, in words."""
    if not plan.drops_records:
        return "nothing to do" if not plan.has_work else "its files trimmed to its end"
    parts = [f"truncated to {plan.target_offset}"]
    batch = plan.cut_batch
    if batch is not None:
        split = f"batch {batch.base_offset} to {batch.last_offset} cannot be split"
        parts = [f"the log ends at {plan.log_end_offset}, not {plan.target_offset}: {split}"]
    if plan.removed:
        parts.append(f"{_segments(len(plan.removed))} removed")
    if plan.cut_bytes:
        parts.append(f"{sized(plan.cut_bytes)} cut")
    return ", ".join(parts)


def deleted_records_words(plan: DeleteRecordsPlan) -> str:
    """Return what is removed at the start, in words."""
    if not plan.has_work:
        return "nothing to do"
    went = f", {_segments(len(plan.removed))} removed ({sized(plan.removed_bytes)})" if plan.removed else ""
    return f"records before {plan.log_start_offset} deleted (the log started at {plan.old_start_offset}){went}"


def _segments(count: int) -> str:
    return counted(count, "segment", "segments")
