"""The Views of recover and recover --salvage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, TypedDict

from kafkalog_cli.errors import shell_word
from kafkalog_cli.ops.recover.plan import RecoverMode
from kafkalog_cli.ops.recover.salvage_verb import Copied
from kafkalog_cli.ops.recover.verb import Recovered
from kafkalog_cli.output.log_plan_view import (
    ChangeObject,
    LineEditObject,
    RemarkObject,
    SettingObject,
    change_objects,
    line_edit_objects,
    remark_objects,
    setting_objects,
)
from kafkalog_cli.output.records import Count, ObjectKind, PathText, same_fields
from kafkalog_cli.output.recover_text import plan_lines, recovery_question, salvage_lines
from kafkalog_cli.output.views import FAILED, View


class CutSegmentObject(TypedDict):
    """The removed end of a segment's log."""

    base_offset: Annotated[int, "of the segment"]
    position: Annotated[Count, "the first removed byte"]
    size_bytes: Count


class RecoveryObject(TypedDict):
    """The result of recover for a partition, or of its dry run."""

    path: Annotated[PathText, "the partition directory"]
    topic: str
    partition: int
    mode: RecoverMode
    refused: Annotated[bool, "nothing is changed, with or without --dry-run; a remark has the reason"]
    run: Annotated[str | None, "the run that made the changes, for undo; null if nothing was changed"]
    log_start_offset: Annotated[int | None, "after the changes; null if refused"]
    log_end_offset: Annotated[int | None, "after the changes; null if refused"]
    cut: Annotated[list[CutSegmentObject], "the removed ends of logs"]
    removed: Annotated[list[int], "base offsets of the removed segments"]
    recovered: Annotated[list[int], "base offsets of segments whose indexes are rebuilt"]
    remarks: list[RemarkObject]
    changes: Annotated[list[ChangeObject], "changes of the partition's files, in order"]
    checkpoints: Annotated[list[LineEditObject], "the partition's lines in root checkpoints that change"]
    settings: Annotated[list[SettingObject], "the settings that were used"]


class LostOffsetsObject(TypedDict):
    """Offsets that were, or may have been, in damaged bytes of a file."""

    path: PathText
    start: Annotated[int, "the first damaged byte"]
    end: Annotated[int, "the byte after the damage"]
    first: Annotated[int, "the first offset"]
    last: Annotated[int | None, "the last offset; null: no valid batch follows"]
    unreadable_bytes: Annotated[Count, "the number of these bytes that the device cannot read"]


class UnreadableFileObject(TypedDict):
    """A file that could not be opened or copied."""

    path: PathText
    reason: str


class SalvageObject(TypedDict):
    """The valid batches of a partition that recover --salvage copied, and the lost offsets."""

    path: Annotated[PathText, "the partition directory"]
    topic: str
    partition: int
    out: Annotated[PathText, "the new directory"]
    segments: Count
    batches: Count
    bytes: Count
    skipped: Annotated[Count, "valid batches whose offsets or magic did not fit"]
    first_offset: int | None
    end_offset: Annotated[int | None, "after the last record"]
    lost: list[LostOffsetsObject]
    unreadable: list[UnreadableFileObject]
    next_step: Annotated[
        str | None,
        "the commands that check the copy and put it in the place of the damaged log; null if nothing was copied",
    ]


RECOVERY = ObjectKind("kafkalog.recovery/1", RecoveryObject)
SALVAGE = ObjectKind("kafkalog.salvage/1", SalvageObject)


def recover_view() -> View[Recovered]:
    """Return the View of recover."""
    return View(
        RECOVERY,
        _recovery,
        _lines,
        ("changed",),
        _counts,
        lambda result: not result.plan.has_work and not result.plan.remarks,
        recovery_question,
        has_work=lambda result: result.plan.has_work and not result.plan.is_refused,
    )


def _recovery(result: Recovered) -> RecoveryObject:
    plan = result.plan
    return {
        "path": PathText(plan.path if result.live_path is None else result.live_path),
        "topic": plan.topic,
        "partition": plan.partition,
        "mode": plan.mode,
        "refused": plan.is_refused,
        "run": None if result.done is None else result.done.manifest.run.run_id,
        "log_start_offset": plan.log_start_offset,
        "log_end_offset": plan.log_end_offset,
        "cut": [same_fields(CutSegmentObject, cut) for cut in plan.cut],
        "removed": list(plan.removed),
        "recovered": list(plan.recovered),
        "remarks": remark_objects(plan.remarks),
        "changes": change_objects(plan.changes),
        "checkpoints": line_edit_objects(plan.line_edits),
        "settings": setting_objects(plan.settings),
    }


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
    return View(SALVAGE, _salvage, salvage_lines)


def _salvage(copied: Copied) -> SalvageObject:
    partition, result = copied.partition, copied.salvaged
    return {
        "path": PathText(partition.path),
        "topic": partition.topic,
        "partition": partition.number,
        "out": PathText(result.path),
        "segments": result.segments,
        "batches": result.batches,
        "bytes": result.size_bytes,
        "skipped": result.skipped,
        "first_offset": result.first_offset,
        "end_offset": result.end_offset,
        "lost": [
            {
                "path": PathText(lost.path),
                "start": lost.start,
                "end": lost.end,
                "first": lost.first,
                "last": lost.last,
                "unreadable_bytes": lost.unreadable_bytes,
            }
            for lost in result.lost
        ],
        "unreadable": [{"path": PathText(path), "reason": reason} for path, reason in result.unreadable],
        "next_step": copied.next_step or None,
    }
