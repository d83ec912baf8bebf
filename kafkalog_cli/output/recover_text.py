"""The text output of recover: findings, changes done or planned, and how to undo them."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.actions.change_plan import Remark, describe
from kafkalog_cli.actions.recover.plan import RecoverPlan
from kafkalog_cli.actions.recover.salvage import LostOffsets, Salvaged
from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.errors import shell_word
from kafkalog_cli.output.stream import printable


def plan_lines(plan: RecoverPlan, *, with_changes: bool) -> Iterator[str]:
    """Return a line for the partition, its remarks, and with `with_changes` each setting and change."""
    would = "would be recovered: " if with_changes and plan.has_work and not plan.is_refused else ""
    yield f"{printable(plan.path)}: {would}{plan_words(plan)}"
    for remark in plan.remarks:
        yield from remark_lines(plan.path, remark)
    if with_changes:
        for setting in plan.settings if plan.has_work else ():
            yield f"  setting {printable(setting.explanation)}"
        for sentence in describe(plan.changes):
            yield f"  would {printable(sentence)}"
        for edit in plan.line_edits:
            what = "take the line away" if edit.offset is None else f"say {edit.offset}"
            yield f"  would {what} in {edit.kind.value}"


def plan_words(plan: RecoverPlan) -> str:
    """Return what is done to the partition, in words."""
    if plan.is_refused:
        return "not recovered, nothing was changed"
    where = f"offsets {plan.log_start_offset} to {plan.log_end_offset}"
    if not plan.has_work:
        return f"nothing to do, {where}"
    done = []
    if plan.cut:
        done.append(f"{counted(sum(cut.size_bytes for cut in plan.cut), 'byte', 'bytes')} cut")
    if plan.removed:
        done.append(f"{counted(len(plan.removed), 'segment', 'segments')} removed")
    if plan.changes:
        done.append(f"{counted(len({change.name for change in plan.changes}), 'file', 'files')} changed")
    if not done:
        done.append(f"{counted(len(plan.line_edits), 'checkpoint line', 'checkpoint lines')} changed")
    return ", ".join([*done, where])


def remark_lines(partition_path: str, remark: Remark) -> Iterator[str]:
    """Return the lines of a remark: its message, and its next step if it has one."""
    name = "partition" if remark.path == partition_path else remark.path.removeprefix(f"{partition_path}/")
    at = "" if remark.position is None else f" at byte {remark.position}"
    yield f"  {printable(name)}{at}: {printable(remark.message)}"
    if remark.next_step:
        yield f"  next: {printable(remark.next_step)}"


def salvage_lines(source: str, result: Salvaged) -> Iterator[str]:
    """Return lines for what was copied, and what is lost."""
    offsets = "no offsets" if result.end_offset is None else f"offsets {result.first_offset} to {result.end_offset}"
    batches = f"{result.batches} batches, {result.size_bytes} bytes in {result.segments} segments"
    yield f"{printable(source)}: {batches} written to {printable(result.path)}, {offsets}"
    for lost in result.lost:
        yield f"  lost: {_lost(lost)}"
    for path, reason in result.unreadable:
        yield f"  not read: {printable(path)}: {printable(reason)}"
    if result.skipped:
        yield f"  left out: {result.skipped} batches whose CRC holds and whose offsets or magic cannot be right"
    if result.batches:
        yield f"  next: {_what_now(result)}"


def _what_now(result: Salvaged) -> str:
    """Return the operator's next step."""
    path = shell_word(result.path)
    return (
        f"`kafkalog verify {path}`; then, with the broker stopped, move the damaged directory out of the log directory"
        f" and {path} to its place"
    )


def _lost(lost: LostOffsets) -> str:
    where = f"{printable(lost.path.rpartition('/')[2])}, bytes {lost.start} to {lost.end}"
    if lost.unreadable_bytes:
        where += f", of which {lost.unreadable_bytes} cannot be read"
    if lost.last is None:
        return f"whatever there was from offset {lost.first} on ({where})"
    return f"offsets {lost.first} to {lost.last} ({where})"
