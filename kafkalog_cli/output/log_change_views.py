"""The Views of append, roll, truncate and delete-records."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog_cli.errors import ExitCode, as_typed, counted
from kafkalog_cli.ops.append.append import AppendPlan
from kafkalog_cli.ops.delete_records import DeleteRecordsPlan
from kafkalog_cli.ops.roll import RollPlan
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.ops.truncate import TruncatePlan
from kafkalog_cli.output.log_plan_view import change_view
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import View

if TYPE_CHECKING:
    from kafkalog_cli.ops.append.verb import Appending


def roll_view() -> View[Changed[RollPlan]]:
    """Return the View of roll."""
    return change_view(_roll_words, ("rolled",), lambda plan: {"rolled": int(plan.has_work)})


def truncate_view() -> View[Changed[TruncatePlan]]:
    """Return the View of truncate."""
    return change_view(
        _truncation_words,
        ("removed_segments", "cut_bytes"),
        lambda plan: {"removed_segments": len(plan.removed), "cut_bytes": plan.cut_bytes},
        _truncation_question,
    )


def delete_records_view(*, keeps: bool) -> View[Changed[DeleteRecordsPlan]]:
    """Return the View of delete-records. `keeps`: removed files are kept, not unlinked."""
    return change_view(
        _deleted_records_words,
        ("removed_segments", "removed_bytes"),
        lambda plan: {"removed_segments": len(plan.removed), "removed_bytes": plan.removed_bytes},
        _deleted_records_question,
        keeps=keeps,
    )


def append_view() -> View[Changed[AppendPlan]]:
    """Return the View of append."""
    return change_view(
        append_words,
        ("records", "batches", "appended_bytes"),
        _counts,
        lambda plan: f"Append in {printable(plan.path)}: {append_words(plan)}",
    )


def _counts(plan: AppendPlan) -> dict[str, int]:
    found = plan.appended
    if found is None:
        return {}
    return {"records": found.records, "batches": found.batches, "appended_bytes": found.size_bytes}


# ---- text


def _roll_words(plan: RollPlan) -> str:
    """Return what happens to the active segment, in words."""
    if plan.is_empty:
        return "nothing to do, the active segment is empty"
    if not plan.has_work:
        return "nothing to do"
    because = plan.cause.value if plan.cause is not None else "forced"
    return f"rolled at {plan.log_end_offset} ({because})"


def _truncation_words(plan: TruncatePlan) -> str:
    """Return what is removed at the end, in words."""
    if not plan.drops_records:
        return "nothing to do" if not plan.has_work else "its files trimmed to its end"
    parts = [f"truncated to {plan.target_offset}"]
    batch = plan.cut_batch
    if batch is not None:
        split = f"batch {batch.base_offset} to {batch.last_offset} cannot be split"
        parts = [f"the log ends at {plan.log_end_offset}, not {plan.target_offset}: {split}"]
    if plan.removed:
        parts.append(f"{counted(len(plan.removed), 'segment')} removed")
    if plan.cut_bytes:
        parts.append(f"{sized(plan.cut_bytes)} cut")
    return ", ".join(parts)


def _truncation_question(plan: TruncatePlan) -> str:
    """Return the question before records at the end are removed."""
    parts = [counted(len(plan.removed), "segment")] if plan.removed else []
    parts += [f"{sized(plan.cut_bytes)} of another segment"] if plan.cut_bytes else []
    return f"Remove the records from offset {plan.log_end_offset} on ({', '.join(parts)}) from {printable(plan.path)}"


def _deleted_records_words(plan: DeleteRecordsPlan) -> str:
    """Return what is removed at the start, in words."""
    if not plan.has_work:
        return "nothing to do"
    went = f", {counted(len(plan.removed), 'segment')} removed ({sized(plan.removed_bytes)})" if plan.removed else ""
    return f"records before {plan.log_start_offset} deleted (the log started at {plan.old_start_offset}){went}"


def _deleted_records_question(plan: DeleteRecordsPlan) -> str:
    """Return the question before records at the start are deleted."""
    removed = f" ({counted(len(plan.removed), 'segment')}, {sized(plan.removed_bytes)})" if plan.removed else ""
    return f"Delete the records before offset {plan.log_start_offset}{removed} from {printable(plan.path)}"


def append_words(plan: AppendPlan) -> str:
    """Return what was appended, in words."""
    appended = plan.appended
    if appended is None or not appended.records:
        return "nothing to append"
    records = counted(appended.records, "record")
    batches = counted(appended.batches, "batch", "batches")
    parts = [f"{records} appended at {appended.first_offset} in {batches} ({sized(appended.size_bytes)})"]
    if appended.rolled:
        parts.append(f"{counted(len(appended.rolled), 'segment')} begun")
    if plan.is_cut_short:
        parts.append("interrupted")
    return ", ".join(parts)


def interruption(appending: "Appending", argv: Sequence[str]) -> Note:
    """Return what an interrupted append has done, and the command that appends the rest of the input."""
    words = _interrupted_words(appending.appended, appending.end_offsets, has_stdin=appending.has_stdin)
    step = _command_that_goes_on(argv, appending.appended)
    return Note("interrupted", words, None, step, is_error=True, exit_code=ExitCode.INTERRUPTED)


def _interrupted_words(appended: Mapping[int, int], end_offsets: Mapping[int, int], *, has_stdin: bool) -> str:
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
            f"partition {number}: {counted(count, 'record')}"
            + (f" up to offset {end_offsets[number] - 1}" if count else "")
            for number, count in sorted(appended.items())
        ]
        done = f"interrupted: of the input's records for each partition the first are appended: {', '.join(parts)}"
    again = "; standard input has to be sent again, from its beginning" if has_stdin else ""
    return done + again


def _command_that_goes_on(argv: Sequence[str], appended: Mapping[int, int]) -> str:
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
