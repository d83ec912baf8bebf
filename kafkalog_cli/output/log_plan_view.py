"""How plans look: the lines that the Views of all changes of a log have, and the fields of the JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypedDict

from kafkalog_cli.change.changes import Change, Cut, Drop, Move, Put
from kafkalog_cli.change.checkpoint_lines import LineEdit
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.checkpoints import HighWatermarkOrigin
from kafkalog_cli.log.settings.topic_config import Origin, Setting
from kafkalog_cli.ops.change_plan import Remark
from kafkalog_cli.ops.log_plan import LogPlan
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.log_change_text import Said, plan_lines
from kafkalog_cli.output.records import PathText, keywords

_REMARK_CODES = (ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.REFUSED)


class RemarkObject(TypedDict):
    """A remark on a file."""

    path: PathText
    position: Annotated[int | None, "the byte of the file"]
    severity: Annotated[str, keywords(enum=tuple(code.name.lower() for code in _REMARK_CODES))]
    message: str
    next_step: str | None


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
    size_bytes: int
    replaces: Annotated[bool, "whether it replaces a file"]


ChangeObject = CutObject | MoveObject | DropObject | PutObject


class LineEditObject(TypedDict):
    """The partition's line in a checkpoint of the log directory."""

    file: Annotated[str, "the name of the checkpoint"]
    offset: Annotated[int | None, "null: the line is removed"]


class SettingObject(TypedDict):
    """A setting that a plan uses."""

    name: str
    value: str
    origin: Annotated[Origin, "the source of the value"]


class PlanObject(TypedDict):
    """The fields of all changes of a log."""

    path: Annotated[PathText, "the partition directory"]
    topic: str
    partition: int
    dry_run: Annotated[bool, "nothing was changed: the other fields show what would be done"]
    refused: Annotated[bool, "nothing is changed, with or without --dry-run; a remark has the reason"]
    run: Annotated[str | None, "the run that made the changes, for undo; null if nothing was changed"]
    log_start_offset: Annotated[int | None, "after the changes; null if refused, or without segments"]
    log_end_offset: Annotated[int | None, "after the changes; null if refused, or without segments"]
    high_watermark: Annotated[int | None, "records below this offset are replicated; null if refused, and for 0.7"]
    high_watermark_from: Annotated[HighWatermarkOrigin | None, "log-end: the checkpoint has no line of the partition"]
    remarks: list[RemarkObject]
    changes: Annotated[list[ChangeObject], "changes of the partition's files, in order"]
    checkpoints: Annotated[list[LineEditObject], "the partition's lines in root checkpoints that change"]
    settings: Annotated[list[SettingObject], "the settings that were used"]


def plan_object(changed: Changed[Any]) -> PlanObject:
    """Return the fields that every change of a log has."""
    plan: LogPlan = changed.plan
    high_watermark = plan.high_watermark
    return {
        "path": PathText(plan.path),
        "topic": plan.topic,
        "partition": plan.partition,
        "dry_run": changed.is_dry_run,
        "refused": plan.is_refused,
        "run": None if changed.done is None else changed.done.manifest.run.run_id,
        "log_start_offset": plan.log_start_offset,
        "log_end_offset": plan.log_end_offset,
        "high_watermark": None if high_watermark is None else high_watermark.offset,
        "high_watermark_from": None if high_watermark is None else high_watermark.origin,
        "remarks": remark_objects(plan.remarks),
        "changes": change_objects(plan.changes),
        "checkpoints": line_edit_objects(plan.line_edits),
        "settings": setting_objects(plan.settings),
    }


def changed_lines(changed: Changed[Any], said: Said, *, lists_changes: bool = True) -> Iterator[str]:
    """Return the lines that every change of a log has; `lists_changes`: a dry run lists each change."""
    is_dry = changed.is_dry_run
    return plan_lines(changed.plan, said, dry_run=is_dry, with_changes=is_dry and lists_changes)


def remark_objects(remarks: Iterable[Remark]) -> list[RemarkObject]:
    """Return the objects of remarks."""
    return [
        {
            "path": PathText(remark.path),
            "position": remark.position,
            "severity": remark.code.name.lower(),
            "message": remark.message,
            "next_step": remark.next_step or None,
        }
        for remark in remarks
    ]


def change_objects(changes: Iterable[Change]) -> list[ChangeObject]:
    """Return the objects of changes to files."""
    return [*map(_change, changes)]


def _change(change: Change) -> ChangeObject:
    if isinstance(change, Cut):
        return {"change": "cut", "name": change.name, "from_bytes": change.from_bytes, "to_bytes": change.to_bytes}
    if isinstance(change, Move):
        return {"change": "move", "name": change.name, "new_name": change.new_name}
    if isinstance(change, Drop):
        return {"change": "drop", "name": change.name}
    assert isinstance(change, Put)
    size_bytes = change.content.size_bytes
    return {"change": "put", "name": change.name, "size_bytes": size_bytes, "replaces": change.replaces}


def line_edit_objects(edits: Iterable[LineEdit]) -> list[LineEditObject]:
    """Return the objects of changed lines in checkpoints."""
    return [{"file": edit.kind.value, "offset": edit.offset} for edit in edits]


def setting_objects(settings: Iterable[Setting]) -> list[SettingObject]:
    """Return the objects of settings."""
    return [{"name": setting.name, "value": setting.text, "origin": setting.origin} for setting in settings]
