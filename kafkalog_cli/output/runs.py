"""The text and JSON output of undo and purge."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, TypedDict

from kafkalog_cli.change.manifest import RunState
from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.ops.policy_rules import Action
from kafkalog_cli.ops.purge import PurgePlan
from kafkalog_cli.ops.undo.plan import UndoPlan, UndoResult, UndoStep
from kafkalog_cli.ops.undo.verb import Undone
from kafkalog_cli.output.ndjson import From, ObjectKind, PathText, keywords, same_fields
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import Detail, View


class UndoStepObject(TypedDict):
    """A step of an undo."""

    what: Annotated[str, keywords(enum=("restore", "cut", "rename", "remove", "checkpoint"))]
    name: Annotated[PathText, "the file"]
    to: Annotated[str | None, "the file's name or the checkpoint's line afterwards"]
    size_bytes: Annotated[int | None, "the number of bytes restored to the file, or the size to which it is cut"]


class UndoObject(TypedDict):
    """A run on a partition that was undone, or would be."""

    path: Annotated[PathText, From("plan.path"), "the partition directory"]
    run: Annotated[str, From("plan.run_id")]
    action: Annotated[
        str | None, From("plan.manifest.run.action"), "the command; null if the run ended before it changed anything"
    ]
    started_ms: Annotated[int | None, From("plan.manifest.run.now_ms")]
    state: Annotated[RunState | None, From("plan.manifest.state"), "the progress of the run before the undo"]
    dry_run: Annotated[bool, From("result"), keywords(lambda result: result is None)]
    undone: Annotated[bool, From("result.undone"), keywords(bool), "whether this call undid it"]
    steps: Annotated[list[UndoStepObject], From("plan.steps"), "last change first"]
    clean_shutdown_marker: Annotated[
        bool | None,
        From("result.marker"),
        "whether .kafka_cleanshutdown is back; null in a dry run, or if the run did not remove it",
    ]


class DueFileObject(TypedDict):
    """A .deleted file that is due."""

    name: PathText
    size_bytes: Annotated[int, From("file.size_bytes")]
    due_ms: int
    run: Annotated[str | None, From("run_id"), "the run that renamed it, if it is known"]


class OldRunObject(TypedDict):
    """A run that is removed, with the files that it keeps."""

    run: Annotated[str, From("run_id")]
    state: Annotated[RunState | None, "null: it ended before it changed anything"]
    files: int
    size_bytes: int


class LeftoverObject(TypedDict):
    """The directory of an import that did not end."""

    files: int
    size_bytes: int


class KeptRunObject(TypedDict):
    """An old run that is not removed."""

    run: Annotated[str, From("run_id")]
    reason: str


class PurgeObject(TypedDict):
    """The files and runs of a partition that were permanently removed, or would be."""

    path: Annotated[PathText, "the partition directory"]
    dry_run: bool
    files: list[DueFileObject]
    runs: list[OldRunObject]
    leftover: Annotated[LeftoverObject | None, "the whole directory is removed: an import left it that did not end"]
    kept: Annotated[list[KeptRunObject], "runs that are kept, whatever their age"]
    waiting: Annotated[int, "files and runs that are not due yet"]
    size_bytes: Annotated[int, "of all removed files"]


UNDO = ObjectKind("kafkalog.undo/1", UndoObject)
PURGE = ObjectKind("kafkalog.purge/1", PurgeObject)


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
        yield Detail(f"  {printable(due.name)}: {sized(due.file.size_bytes)}")
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
        UNDO,
        partial(same_fields, UndoObject),
        lambda done: undo_lines(done.plan, done.result),
        ("undone",),
        lambda done: {"undone": int(done.result is not None and done.result.undone)},
        lambda done: not done.plan.has_work,
        has_work=lambda done: done.plan.has_work and done.plan.manifest is not None,
    )


def purge_view(*, dry_run: bool) -> View[PurgePlan]:
    """Return the View of purge."""
    return View(
        PURGE,
        lambda plan: same_fields(PurgeObject, plan, dry_run=dry_run),
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
    )
