"""The text output of recover: findings, changes done or planned, and how to undo them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from kafkalog_cli.change.checkpoint_lines import LineEdit
from kafkalog_cli.errors import counted
from kafkalog_cli.ops.change_plan import Remark, describe
from kafkalog_cli.ops.recover.plan import RecoverPlan
from kafkalog_cli.ops.recover.salvage import LostOffsets
from kafkalog_cli.ops.recover.salvage_verb import Copied
from kafkalog_cli.output.human import setting_words
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import Detail


def plan_lines(plan: RecoverPlan, *, with_changes: bool) -> Iterator[str]:
    """Return a line for the partition, its remarks, and with `with_changes` each setting and change as a Detail."""
    would = "would be recovered: " if with_changes and plan.has_work and not plan.is_refused else ""
    yield f"{printable(plan.path)}: {would}{plan_words(plan)}"
    for remark, number in _grouped(plan.remarks):
        yield from remark_lines(plan.path, remark, number)
    if with_changes:
        for setting in plan.settings if plan.has_work else ():
            yield Detail(f"  {setting_words(setting)}")
        for sentence in describe(plan.changes):
            yield Detail(f"  would {printable(sentence)}")
        for edit in plan.line_edits:
            yield Detail(f"  would {line_edit_words(edit)}")


def line_edit_words(edit: LineEdit) -> str:
    """Return the change of a checkpoint's line, in words."""
    if edit.offset is None:
        return f"remove the line from {edit.kind.value}"
    return f"set the line in {edit.kind.value} to {edit.offset}"


def recovery_question(plan: RecoverPlan) -> str:
    """Return the question before valid records are removed."""
    parts = [f"cut {sized(sum(cut.size_bytes for cut in plan.cut))}"] if plan.cut else []
    parts += [f"remove {counted(len(plan.removed), 'segment', 'segments')}"] if plan.removed else []
    words = " and ".join(parts) or plan_words(plan)
    return f"{words[:1].upper()}{words[1:]} in {printable(plan.path)}"


def plan_words(plan: RecoverPlan) -> str:
    """Return what is done to the partition, in words."""
    if plan.is_refused:
        return "not recovered, nothing was changed"
    where = f"offsets {plan.log_start_offset} to {plan.log_end_offset}"
    if not plan.has_work:
        return f"nothing to do, {where}"
    done = []
    if plan.cut:
        done.append(f"{sized(sum(cut.size_bytes for cut in plan.cut))} cut")
    if plan.removed:
        done.append(f"{counted(len(plan.removed), 'segment', 'segments')} removed")
    if plan.changes:
        done.append(f"{counted(len({change.name for change in plan.changes}), 'file', 'files')} changed")
    if not done:
        done.append(f"{counted(len(plan.line_edits), 'checkpoint line', 'checkpoint lines')} changed")
    return ", ".join([*done, where])


def _grouped(remarks: Sequence[Remark]) -> Iterator[tuple[Remark, int]]:
    """Yield the remarks with the number of files that have the same remark: more than 3 in a row are yielded once."""
    for _, group in groupby(remarks, lambda remark: (remark.message, remark.position, remark.next_step)):
        same = list(group)
        if len(same) > _MOST_ALIKE:
            yield same[0], len(same)
        else:
            yield from ((remark, 1) for remark in same)


_MOST_ALIKE = 3


def remark_lines(partition_path: str, remark: Remark, files: int = 1) -> Iterator[str]:
    """Return the lines of a remark: its message, and its next step if it has one; `files`: how many files have it."""
    name = "partition" if remark.path == partition_path else remark.path.removeprefix(f"{partition_path}/")
    at = "" if remark.position is None else f" at byte {remark.position}"
    at += "" if files == 1 else f" and {counted(files - 1, 'later file', 'later files')}"
    yield f"  {printable(name)}{at}: {printable(remark.message)}"
    if remark.next_step:
        yield f"  next: {printable(remark.next_step)}"


def salvage_lines(copied: Copied) -> Iterator[str]:
    """Return lines for what was copied, and what is lost."""
    source, result = copied.partition.path, copied.salvaged
    offsets = "no offsets" if result.end_offset is None else f"offsets {result.first_offset} to {result.end_offset}"
    segments = counted(result.segments, "segment", "segments")
    batches = f"{counted(result.batches, 'batch', 'batches')}, {sized(result.size_bytes)} in {segments}"
    yield f"{printable(source)}: {batches} written to {printable(result.path)}, {offsets}"
    for lost in result.lost:
        yield f"  lost: {_lost(lost)}"
    for path, reason in result.unreadable:
        yield f"  not read: {printable(path)}: {printable(reason)}"
    if result.skipped:
        yield f"  left out: {result.skipped} batches with a correct CRC, but wrong offsets or an unknown magic"
    if copied.next_step:
        yield f"  next: {printable(copied.checking)}. With the broker stopped, put it in the place of the damaged log:"
        yield from (f"    {printable(command.strip('`'))}" for command in copied.replacing)


def _lost(lost: LostOffsets) -> str:
    where = f"{printable(lost.path.rpartition('/')[2])}, bytes {lost.start} to {lost.end}"
    if lost.unreadable_bytes:
        where += f", of which {lost.unreadable_bytes} cannot be read"
    if lost.last is None:
        return f"whatever there was from offset {lost.first} on ({where})"
    return f"offsets {lost.first} to {lost.last} ({where})"
