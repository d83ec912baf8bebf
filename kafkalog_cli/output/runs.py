"""The text and JSON output of undo and purge."""

from collections.abc import Iterator
from functools import partial

from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.ops.policy_rules import Action
from kafkalog_cli.ops.purge import PurgePlan
from kafkalog_cli.ops.undo.plan import UndoPlan, UndoResult, UndoStep
from kafkalog_cli.ops.undo.verb import Undone
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import Detail, View, one_object


def undo_lines(plan: UndoPlan, result: UndoResult | None) -> Iterator[str]:
    """Return the line of an undone run, and its steps; `result` None: a dry run."""
    run = f"{printable(plan.path)}: run {printable(plan.run_id)}"
    if plan.manifest is None:
        yield f"{run}: had changed nothing" + (", its leftovers are removed" if result is not None else "")
        return
    if not plan.has_work:
        yield f"{run}: was undone before"
        return
    yield f"{run} ({plan.manifest.run.action}) {'would be' if result is None else 'is'} undone"
    for step in plan.steps:
        yield f"  {_sentence(step)}"
    if plan.moves_marker:
        yield f"  {_marker_sentence(result)}"
    if result is not None:
        action = plan.manifest.run.action
        again = f"`kafkalog recover {shell_word(plan.path)}`" if action == Action.RECOVER.value else printable(action)
        yield f"  an undo cannot be undone; {again} makes such changes again"


def _sentence(step: UndoStep) -> str:
    name = printable(step.name)
    if step.what == "restore":
        return f"{name}: {'as it was' if step.size_bytes is None else f'{step.size_bytes} bytes back'}"
    if step.what == "cut":
        return f"{name}: cut to its {step.size_bytes} bytes of before"
    if step.what == "rename":
        return f"{name}: named {printable(step.to or '')} again"
    if step.what == "remove":
        return f"{name}: removed, it was new"
    return f"{name}: {'no line' if step.to is None else f'line {printable(step.to)}'}"


def _marker_sentence(result: UndoResult | None) -> str:
    if result is None:
        return ".kafka_cleanshutdown: comes back if no other run is waited for"
    return f".kafka_cleanshutdown: {'is there again' if result.marker else 'stays away: another run is waited for'}"


def purge_lines(plan: PurgePlan, *, dry_run: bool) -> Iterator[str]:
    """Return the partition's line, then a line per file and run."""
    path = printable(plan.path)
    waiting = f", {plan.waiting} not due yet" if plan.waiting else ""
    if not plan.has_work:
        yield f"{path}: nothing to purge{waiting}"
        return
    would = "would be " if dry_run else ""
    yield f"{path}: {would}{purge_words(plan)}{waiting}"
    for due in plan.files:
        yield Detail(f"  {printable(due.name)}: {sized(due.size_bytes)}")
    for run in plan.runs:
        yield Detail(f"  run {printable(run.run_id)}: {counted(run.files, 'file')}, {sized(run.size_bytes)}")
    if not dry_run:
        yield "  cannot be undone"


def purge_words(plan: PurgePlan) -> str:
    """Return what is permanently removed, in words."""
    if plan.leftover is not None:
        files = counted(plan.leftover.files, "file")
        return f"purged: what an import left that did not end, {files}, {sized(plan.size_bytes)}"
    files, runs = counted(len(plan.files), "file"), counted(len(plan.runs), "run")
    return f"purged: {files} and {runs}, {sized(plan.size_bytes)}"


def purge_question(plan: PurgePlan) -> str:
    """Return the question before files are permanently removed."""
    counts = [counted(len(found), one) for found, one in ((plan.files, "file"), (plan.runs, "run")) if found]
    what = " and ".join(counts) or "the rest of an import"
    return f"Remove {what} ({sized(plan.size_bytes)}) for good from {printable(plan.path)}"


def undo_view() -> View[Undone]:
    """Return the View of undo."""
    return View(
        lambda done: undo_lines(done.plan, done.result),
        ("undone",),
        lambda done: {"undone": int(done.undone)},
        lambda done: not done.plan.has_work,
        has_work=lambda done: done.plan.has_work and done.plan.manifest is not None,
    )


def purge_view(*, dry_run: bool) -> View[PurgePlan]:
    """Return the View of purge."""
    return View(
        lambda plan: purge_lines(plan, dry_run=dry_run),
        ("files", "runs", "leftovers", "bytes"),
        lambda plan: {
            "files": len(plan.files),
            "runs": len(plan.runs),
            "leftovers": int(plan.leftover is not None),
            "bytes": plan.size_bytes,
        },
        lambda plan: not plan.has_work,
        purge_question,
        has_work=lambda plan: plan.has_work,
        objects=partial(one_object, dry_run=dry_run),
    )
