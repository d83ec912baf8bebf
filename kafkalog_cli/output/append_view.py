"""The View of append, and its line of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypedDict

from kafkalog_cli.broker.open_log import RollCause
from kafkalog_cli.errors import as_typed, counted
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.ops.append.append import AppendPlan
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.log_plan_view import PlanObject, Said, changed_lines, plan_object, undo_words
from kafkalog_cli.output.progress import sized
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


# ---- text


def append_words(plan: AppendPlan) -> str:
    """Return what was appended, in words."""
    appended = plan.appended
    if appended is None or not appended.records:
        return "nothing to append"
    records = counted(appended.records, "record", "records")
    batches = counted(appended.batches, "batch", "batches")
    parts = [f"{records} appended at {appended.first_offset} in {batches} ({sized(appended.size_bytes)})"]
    if appended.rolled:
        parts.append(f"{counted(len(appended.rolled), 'segment', 'segments')} begun")
    if plan.is_cut_short:
        parts.append("interrupted")
    return ", ".join(parts)


def interrupted_words(appended: Mapping[int, int], end_offsets: Mapping[int, int], *, has_stdin: bool) -> str:
    """Return what an interrupted append has done: the number of appended records per partition, and the log's end."""
    if not any(appended.values()):
        done = "interrupted: no record of the input is appended"
    elif len(appended) == 1:
        ((number, count),) = appended.items()
        what = "the first record" if count == 1 else f"the first {count} records"
        verb = "is" if count == 1 else "are"
        done = f"interrupted: {what} of the input {verb} appended, up to offset {end_offsets[number] - 1}, and no more"
    else:
        parts = [
            f"partition {number}: {counted(count, 'record', 'records')}"
            + (f" up to offset {end_offsets[number] - 1}" if count else "")
            for number, count in sorted(appended.items())
        ]
        done = f"interrupted: of the input's records for each partition the first are appended: {', '.join(parts)}"
    again = "; standard input has to be sent again, from its beginning" if has_stdin else ""
    return done + again


def command_that_goes_on(argv: Sequence[str], appended: Mapping[int, int]) -> str:
    """Return the command line that appends the remaining records: `argv`, with --skip-records for `appended` records.

    `appended` is the number of records per partition.
    """
    words, at = list(argv), 0
    while at < len(words) and words[at] != "--":
        name, equals, _ = words[at].partition("=")
        if name == "--skip-records":
            del words[at : at + (1 if equals else 2)]
        else:
            at += 1
    counts = {number: count for number, count in sorted(appended.items()) if count}
    skipped = [str(count) if len(appended) == 1 else f"{number}:{count}" for number, count in counts.items()]
    command = words.index("append") + 1 if "append" in words else 0
    words[command:command] = [word for count in skipped for word in ("--skip-records", count)]
    return " ".join(["kafkalog", *map(as_typed, words)])
