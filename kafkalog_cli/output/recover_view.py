"""The Views of recover and recover --salvage, and their text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.ops.plans import Remark
from kafkalog_cli.ops.recover.plan import RecoverPlan
from kafkalog_cli.ops.recover.salvage import LostOffsets
from kafkalog_cli.ops.recover.verb import Copied, Recovered
from kafkalog_cli.ops.steps import command_line, text_of
from kafkalog_cli.output.human import setting_words
from kafkalog_cli.output.log_plan_view import change_details, remark_lines
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import FAILED, Detail, View, one_object

_MOST_ALIKE = 3
"""The most files with the same remark that are listed one by one."""


def recover_view() -> View[Recovered]:
    """Return the View of recover."""
    return View(
        _lines,
        ("changed",),
        _counts,
        lambda result: not result.plan.has_work and not result.plan.remarks,
        recovery_question,
        has_work=lambda result: result.plan.has_work and not result.plan.is_refused,
        objects=_objects,
    )


def _objects(result: Recovered) -> list[tuple[Any, Mapping[str, object]]]:
    run = None if result.done is None else result.done.manifest.run.run_id
    return one_object(result.plan, path=result.live_path or result.plan.path, run=run)


def _lines(result: Recovered) -> Iterable[str]:
    plan, done = result.plan, result.done
    if result.live_path is not None:
        plan = replace(plan, path=result.live_path)
    yield from plan_lines(plan, with_changes=result.is_dry_run)
    if done is not None:
        undo = f"undo: kafkalog undo {shell_word(plan.path)} {done.manifest.run.run_id}"
        yield "  cannot be undone (--discard)" if done.manifest.discard else f"  {undo}"


def _counts(result: Recovered) -> dict[str, int]:
    plan = result.plan
    return {
        "changed": int(result.done is not None or result.live_path is not None),
        FAILED: int(plan.is_refused),
        "cut_bytes": sum(cut.size_bytes for cut in plan.cut),
    }


def salvage_view() -> View[Copied]:
    """Return the View of recover --salvage."""
    return View(salvage_lines)


def plan_lines(plan: RecoverPlan, *, with_changes: bool) -> Iterator[str]:
    """Return a line for the partition, its remarks, and with `with_changes` each setting and change as a Detail."""
    would = "would be recovered: " if with_changes and plan.has_work and not plan.is_refused else ""
    yield f"{printable(plan.path)}: {would}{plan_words(plan)}"
    for remark, number in _grouped(plan.remarks):
        yield from remark_lines(plan.path, remark, number)
    if with_changes:
        for setting in plan.settings if plan.has_work else ():
            yield Detail(f"  {setting_words(setting)}")
        yield from change_details(plan.changes, plan.line_edits)


def recovery_question(plan: RecoverPlan) -> str:
    """Return the question before valid records are removed."""
    parts = [f"cut {sized(sum(cut.size_bytes for cut in plan.cut))}"] if plan.cut else []
    parts += [f"remove {counted(len(plan.removed), 'segment')}"] if plan.removed else []
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
        done.append(f"{counted(len(plan.removed), 'segment')} removed")
    if plan.changes:
        done.append(f"{counted(len({change.name for change in plan.changes}), 'file')} changed")
    if not done:
        done.append(f"{counted(len(plan.line_edits), 'checkpoint line')} changed")
    return ", ".join([*done, where])


def _grouped(remarks: Sequence[Remark]) -> Iterator[tuple[Remark, int]]:
    """Yield the remarks with the number of files that have the same remark: more than 3 in a row are yielded once."""
    for _, group in groupby(remarks, lambda remark: (remark.message, remark.position, remark.next_step)):
        same = list(group)
        if len(same) > _MOST_ALIKE:
            yield same[0], len(same)
        else:
            yield from ((remark, 1) for remark in same)


def salvage_lines(copied: Copied) -> Iterator[str]:
    """Return lines for what was copied, and what is lost."""
    source, result = copied.path, copied.salvaged
    offsets = "no offsets" if result.end_offset is None else f"offsets {result.first_offset} to {result.end_offset}"
    segments = counted(result.segments, "segment")
    batches = f"{counted(result.batches, 'batch', 'batches')}, {sized(result.size_bytes)} in {segments}"
    yield f"{printable(source)}: {batches} written to {printable(result.path)}, {offsets}"
    for lost in result.lost:
        yield f"  lost: {_lost(lost)}"
    for path, reason in result.unreadable:
        yield f"  not read: {printable(path)}: {printable(reason)}"
    if result.skipped:
        yield f"  left out: {result.skipped} batches with a correct CRC, but wrong offsets or an unknown magic"
    if copied.next_step:
        replace = ". With the broker stopped, put it in the place of the damaged log:" if copied.replacing else ""
        yield f"  next: {printable(text_of(copied.checking))}{replace}"
        yield from (f"    {printable(command_line(argv))}" for argv in copied.replacing)


def _lost(lost: LostOffsets) -> str:
    where = f"{printable(lost.path.rpartition('/')[2])}, bytes {lost.start} to {lost.end}"
    if lost.unreadable_bytes:
        where += f", of which {lost.unreadable_bytes} cannot be read"
    if lost.last is None:
        return f"whatever there was from offset {lost.first} on ({where})"
    return f"offsets {lost.first} to {lost.last} ({where})"
