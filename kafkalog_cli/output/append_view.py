"""The View of append."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kafkalog_cli.broker.rolling import RollCause
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.ops.append.append import AppendPlan
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.append_text import append_words
from kafkalog_cli.output.log_change_text import Said, undo_words
from kafkalog_cli.output.log_plan_view import PlanObject, changed_lines, plan_object
from kafkalog_cli.output.records import CodecWord, ObjectKind
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import View, change_counts, change_has_work, change_is_idle


class StartedSegmentObject(TypedDict):
    """A segment that an append started."""

    base_offset: int
    cause: Annotated[RollCause, "why the segment before it ended"]


class AppendedObject(PlanObject):
    """The result of append for a partition, or of its dry run."""

    first_offset: Annotated[int | None, "of the first record; null if nothing is appended"]
    records: Annotated[int, "with the marker of a transaction"]
    batches: int
    size_bytes: Annotated[int, "of the batches"]
    segments: Annotated[list[StartedSegmentObject], "the segments that were started"]
    codec: CodecWord
    leader_epoch: int
    producer_id: Annotated[int, "-1: none"]
    producer_epoch: Annotated[int, "-1: none"]
    transactional: bool
    interrupted: Annotated[bool, "the input may have more records"]


APPENDED = ObjectKind("kafkalog.appended/1", AppendedObject)


def append_view() -> View[Changed[AppendPlan]]:
    """Return the View of append."""
    return View(
        APPENDED,
        _appended,
        lambda changed: changed_lines(
            changed, Said(append_words(changed.plan), undo_words(changed.plan, changed.done))
        ),
        ("changed", "records", "batches", "appended_bytes"),
        lambda changed: change_counts(changed, _counts(changed.plan)),
        change_is_idle,
        lambda plan: f"Append in {printable(plan.path)}: {append_words(plan)}",
        has_work=change_has_work,
    )


def _appended(changed: Changed[AppendPlan]) -> AppendedObject:
    plan = changed.plan
    appended, style = plan.appended, plan.style
    return {
        **plan_object(changed),
        "first_offset": None if appended is None else appended.first_offset,
        "records": 0 if appended is None else appended.records,
        "batches": 0 if appended is None else appended.batches,
        "size_bytes": 0 if appended is None else appended.size_bytes,
        "segments": []
        if appended is None
        else [{"base_offset": rolled.base_offset, "cause": rolled.cause} for rolled in appended.rolled],
        "codec": str(codec_name(style.codec)),
        "leader_epoch": style.leader_epoch,
        "producer_id": style.producer_id,
        "producer_epoch": style.producer_epoch,
        "transactional": style.is_transactional,
        "interrupted": plan.is_cut_short,
    }


def _counts(plan: AppendPlan) -> dict[str, int]:
    found = plan.appended
    if found is None:
        return {}
    return {"records": found.records, "batches": found.batches, "appended_bytes": found.size_bytes}
