"""How the plans of all changes of a log look: lines and details as text, and the fields of the JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal, TypedDict, TypeVar

from kafkalog_cli.change.changes import Change, Cut, Drop, Move, Put
from kafkalog_cli.errors import ExitCode, counted, shell_word
from kafkalog_cli.log.log_dir import HighWatermarkOrigin, LineEdit
from kafkalog_cli.log.settings.topic_config import Origin
from kafkalog_cli.ops.apply_changes import Applied
from kafkalog_cli.ops.plans import LogPlan, Remark, describe
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.human import setting_words, time_span
from kafkalog_cli.output.ndjson import (
    EMPTY_IS_NULL,
    From,
    ObjectKind,
    PathText,
    RecordT,
    keywords,
    lower_names,
    same_fields,
)
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import Detail, View, change_counts, change_has_work, change_is_idle

PlanT = TypeVar("PlanT", bound=LogPlan)


class RemarkObject(TypedDict):
    """A remark on a file."""

    path: PathText
    position: Annotated[int | None, "the byte of the file"]
    severity: Annotated[str, From("code"), lower_names(ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.REFUSED)]
    message: str
    next_step: Annotated[str | None, EMPTY_IS_NULL]


class CutObject(TypedDict):
    """A file is shortened in place."""

    change: Literal["cut"]
    name: str
    from_bytes: int
    to_bytes: int


class MoveObject(TypedDict):
    """A file is renamed."""

    change: Literal["move"]
    name: str
    new_name: str


class DropObject(TypedDict):
    """A file is removed."""

    change: Literal["drop"]
    name: str


class PutObject(TypedDict):
    """A file is written."""

    change: Literal["put"]
    name: str
    size_bytes: Annotated[int, From("content.size_bytes")]
    replaces: Annotated[bool, "whether it replaces a file"]


def _change_object(change: Change) -> Mapping[str, object]:
    kinds: dict[type, type[Mapping[str, object]]] = {Cut: CutObject, Move: MoveObject, Drop: DropObject, Put: PutObject}
    return same_fields(kinds[type(change)], change, change=type(change).__name__.lower())


ChangeObject = Annotated[CutObject | MoveObject | DropObject | PutObject, keywords(_change_object)]


class LineEditObject(TypedDict):
    """The partition's line in a checkpoint of the log directory."""

    file: Annotated[str, From("kind.value"), "the name of the checkpoint"]
    offset: Annotated[int | None, "null: the line is removed"]


class SettingObject(TypedDict):
    """A setting that a plan uses."""

    name: str
    value: Annotated[str, From("text")]
    origin: Annotated[Origin, "the source of the value"]


class PlanObject(TypedDict):
    """The fields of all changes of a log."""

    path: Annotated[PathText, "the partition directory"]
    topic: str
    partition: int
    dry_run: Annotated[bool, "nothing was changed: the other fields show what would be done"]
    refused: Annotated[
        bool, From("is_refused"), "nothing is changed, with or without --dry-run; a remark has the reason"
    ]
    run: Annotated[str | None, "the run that made the changes, for undo; null if nothing was changed"]
    log_start_offset: Annotated[int | None, "after the changes; null if refused, or without segments"]
    log_end_offset: Annotated[int | None, "after the changes; null if refused, or without segments"]
    high_watermark: Annotated[
        int | None,
        From("high_watermark.offset"),
        "records below this offset are replicated; null if refused, and for 0.7",
    ]
    high_watermark_from: Annotated[
        HighWatermarkOrigin | None,
        From("high_watermark.origin"),
        "log-end: the checkpoint has no line of the partition",
    ]
    remarks: list[RemarkObject]
    changes: Annotated[list[ChangeObject], "changes of the partition's files, in order"]
    checkpoints: Annotated[
        list[LineEditObject], From("line_edits"), "the partition's lines in root checkpoints that change"
    ]
    settings: Annotated[list[SettingObject], "the settings that were used"]


def plan_object(record: type[RecordT], changed: Changed[Any], **others: object) -> RecordT:
    """Return an object with the fields that every change of a log has, of the plan and from `others`."""
    plan: LogPlan = changed.plan
    run = None if changed.done is None else changed.done.manifest.run.run_id
    return same_fields(record, plan, **{"dry_run": changed.is_dry_run, "run": run, **others})


def change_view(  # noqa: PLR0913, PLR0917
    kind: ObjectKind[Any],
    words: Callable[[PlanT], str],
    names: tuple[str, ...],
    counts: Callable[[PlanT], Mapping[str, int]],
    question: Callable[[PlanT], str] = str,
    fields: Callable[[Changed[PlanT]], Mapping[str, object]] | None = None,
    *,
    keeps: bool = True,
) -> View[Changed[PlanT]]:
    """Return the View of a verb that changes logs.

    `words` say what is done, without a full stop, and `counts` are a plan's part of the `names` in the summary.
    `fields` None: the plan has all fields. `keeps`: removed files are kept for undo, not unlinked after a time.
    """
    return View(
        kind,
        fields or partial(plan_object, kind.record),
        lambda changed: changed_lines(changed, words(changed.plan), removal_undo_words(changed, keeps=keeps)),
        ("changed", *names),
        lambda changed: change_counts(changed, counts(changed.plan)),
        change_is_idle,
        question,
        has_work=change_has_work,
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
