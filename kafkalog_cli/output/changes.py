"""The text of commands that change logs: what is done to a partition, the end of a run, and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kafkalog_cli.change.changes import Change, Cut, Drop, Move, Put
from kafkalog_cli.errors import ExitCode, counted, shell_word
from kafkalog_cli.log.log_dir import HighWatermarkOrigin, LineEdit
from kafkalog_cli.output.human import setting_words, time_span
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import Paint, printable

if TYPE_CHECKING:
    from kafkalog_cli.ops.call.call import Run
    from kafkalog_cli.ops.call.target import Changed
    from kafkalog_cli.ops.change.plans import LogPlan, Remark

Sums = Mapping[str, Callable[[Any], int]]
"""The counts in the summary of a command: for each name, the function that returns a result's part of it."""

CHANGED: Sums = {"changed": lambda result: int(result.is_changed)}
UNLINKED: Sums = {
    "unlinked_files": lambda changed: 0 if changed.plan.due is None else len(changed.plan.due.files),
    "unlinked_bytes": lambda changed: 0 if changed.plan.due is None else changed.plan.due.size_bytes,
}
"""Old files that retention and compaction unlink."""


class Detail(str):
    """A line that is printed only with --verbose: a setting or a change of a dry run, a file that purge removes."""

    __slots__ = ()


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
    yield from (
        Detail(f"  would {words}") for words in (*map(printable, map(_change_words, changes)), *map(_edit_words, edits))
    )


def _summary(plan: LogPlan, what: str, undo: str, *, dry_run: bool) -> str:
    if plan.is_refused:
        return "refused, nothing was changed"
    start = "dry run: " if dry_run and plan.has_work else ""
    offsets = "no offsets"
    if plan.log_start_offset is not None:
        offsets = f"offsets {plan.log_start_offset} to {plan.log_end_offset}"
    return f"{start}{what}, {offsets}" + (undo and f"; {undo}")


def undo_words(changed: Changed[Any], delay_ms: int | None = None) -> str:
    """Return how to undo a run; `delay_ms`: how long removed files are kept; 0: they are not; None: until a purge."""
    plan, done = changed.plan, changed.done
    if done is None:
        return ""
    if done.manifest.discard or delay_ms == 0:
        return "cannot be undone"
    until = "" if delay_ms is None else f" for {time_span(delay_ms)}, and until a broker starts"
    return f"undo{until}: kafkalog undo {shell_word(plan.path)} {done.manifest.run.run_id}"


def _change_words(change: Change) -> str:
    if isinstance(change, Cut):
        return f"cut {change.name} from {change.from_bytes} to {change.to_bytes} bytes"
    if isinstance(change, Move):
        return f"rename {change.name} to {change.new_name}"
    if isinstance(change, Drop):
        return f"take {change.name} away"
    assert isinstance(change, Put)
    return f"{'rewrite' if change.replaces else 'write'} {change.name}, {change.content.size_bytes} bytes"


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


# -- the end of a run


def planned_words(changed: int, partitions: int, counts: Mapping[str, int], refused: int, *, has_hidden: bool) -> str:
    """Return the last line of a dry run; "" if a single partition has nothing to do.

    `changed` partitions would be changed. `has_hidden`: details were left out.
    """
    hint = "; --verbose lists each change" if has_hidden else ""
    if partitions > 1:
        would = f"{changed} of {counted(partitions, 'partition')} would be changed"
        words = [would, *(f"{amount} would be {verb}" for amount, verb in _amounts(counts))]
        words += [f"{refused} refused"] if refused else []
        return f"dry run: {', '.join(words)}. Nothing was changed{hint}"
    return f"dry run: nothing was changed{hint}" if changed else ""


def done_words(run: Run[Any], changed: int, bad: int, counts: Mapping[str, int], paint: Paint) -> str:
    """Return the end of a run on several partitions, of which `bad` were refused or failed.

    Return "" for a single partition, which has its own line.
    """
    if run.partitions < 2:
        return ""
    not_done = len(run.not_done)
    refused = min(bad, run.codes.count(ExitCode.REFUSED))
    unchanged = run.partitions - changed - bad - not_done
    words = [f"{changed} changed"]
    words += [f"{unchanged} unchanged"] if unchanged > 0 else []
    others = ((refused, "refused"), (bad - refused, "failed"), (not_done, "not done"))
    words += [paint.bad(f"{count} {word}") for count, word in others if count]
    words += [f"{amount} {verb}" for amount, verb in _amounts(counts)]
    return f"{run.partitions} partitions: {', '.join([*words, spent(run.seconds)])}"


def _amounts(counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the amounts of data with the verbs of the changes."""
    segments, files = counts.get("removed_segments", 0), counts.get("unlinked_files", 0)
    if segments:
        yield f"{counted(segments, 'segment')} ({sized(counts.get('removed_bytes', 0))})", "removed"
    if files:
        yield f"{counted(files, 'old file')} ({sized(counts.get('unlinked_bytes', 0))})", "unlinked"
    if counts.get("cut_bytes"):
        yield sized(counts["cut_bytes"]), "cut"
    if counts.get("records_gone"):
        yield counted(counts["records_gone"], "record"), "removed"
    if counts.get("records"):
        yield counted(counts["records"], "record"), "appended"
    if counts.get("bytes"):
        yield sized(counts["bytes"]), "removed"


_COUNTS = {
    "partitions": "Partitions that the last run was given.",
    "changed": "Partitions that the last run changed.",
    "failed_partitions": "Partitions that were refused, locked, or failed.",
    "partitions_not_done": "Partitions that were not begun, as the time was over or the run interrupted.",
    "removed_segments": "Segments that the last run removed.",
    "removed_bytes": "Bytes of the logs of these segments.",
    "unlinked_files": "Files of earlier runs that the last run unlinked.",
    "unlinked_bytes": "Bytes of these files.",
    "rolled": "Partitions whose active segment was rolled.",
    "freed_bytes": "Bytes that were unlinked for --free-bytes.",
    "cut_bytes": "Bytes that were cut off segments that stay.",
    "cleaned": "Partitions that were compacted.",
    "records_gone": "Records that compaction left out.",
    "records_erased": "Records of erased keys that were taken out.",
    "bytes_read": "Bytes of logs that compaction read.",
    "bytes_written": "Bytes of logs that it wrote.",
    "records": "Records that the last run appended, with markers of transactions.",
    "batches": "Batches that these are in.",
    "appended_bytes": "Bytes of these batches.",
}


def metrics_text(command: str, ended_ms: int, seconds: float, exit_code: int, counts: Mapping[str, int]) -> str:
    """Return the whole file. Every metric is a gauge of the last run, with the command as its label."""
    label = f'{{command="{command}"}}'
    lines: list[str] = []

    def gauge(name: str, what: str, value: float) -> None:
        name = f"kafkalog_last_run_{name}"
        lines.extend((f"# HELP {name} {what}", f"# TYPE {name} gauge", f"{name}{label} {value!r}"))

    gauge("timestamp_seconds", "When the last run ended, in seconds since 1970.", ended_ms / 1000)
    gauge("duration_seconds", "How long the last run took.", round(seconds, 3))
    gauge("exit_code", "The exit code of the last run.", exit_code)
    for name, value in counts.items():
        gauge(name, _COUNTS[name], value)
    return "\n".join(lines) + "\n"
