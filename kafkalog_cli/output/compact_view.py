"""The View of compact: a line per partition, or a table for a dry run of several partitions."""

from collections.abc import Iterable

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.compact.erasing import KeyFile
from kafkalog_cli.ops.compact.plan import Choice, CompactPlan
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.compact_text import (
    causes_lines,
    compaction_undo_words,
    compaction_words,
    consent_words,
    dirt_lines,
    erasure_lines,
    explain_lines,
)
from kafkalog_cli.output.log_plan_view import changed_lines, plan_objects, remark_lines
from kafkalog_cli.output.retain_view import unlinked
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import View, change_counts, change_has_work, change_is_idle

_NAMES = (
    *("changed", "cleaned", "records_gone", "bytes_read", "bytes_written", "unlinked_files", "unlinked_bytes"),
    *("removed_segments", "removed_bytes"),
)


def compact_view(
    *, explains: bool = False, erases: bool = False, rows: list[CompactPlan] | None = None
) -> View[Changed[CompactPlan]]:
    """Return the View of compact.

    `explains`: the fate of a key's records is shown; `erases`: keys are erased; `rows`: the plans come here, for a
    table at the end.
    """

    def lines(changed: Changed[CompactPlan]) -> Iterable[str]:
        """Return a partition's lines; none for a topic that is not compacted, unless it was named or has remarks."""
        plan = changed.plan
        if plan.choice is Choice.NOT_COMPACTED and not plan.remarks and not changed.is_named:
            return
        if rows is not None:
            rows.append(plan)
            for remark in plan.remarks:
                for line in remark_lines(plan.path, remark):
                    yield f"{printable(plan.path)}:\n{line}"
            return
        undo = compaction_undo_words(plan, changed.done)
        yield from changed_lines(changed, compaction_words(plan), undo, lists_changes=not explains)
        yield from dirt_lines(plan)
        if changed.is_dry_run or erases:
            yield from causes_lines(plan)
        yield from explain_lines(plan)
        yield from erasure_lines(plan)

    return View(
        lines,
        (*_NAMES, *(("records_erased",) if erases else ())),
        lambda changed: change_counts(changed, _counts(changed.plan)),
        change_is_idle,
        lambda plan: f"Compact {printable(plan.path)}: {consent_words(plan)}",
        change_has_work,
        plan_objects,
    )


def note_of_missing(keys: KeyFile, lines: set[int], path: str) -> Note:
    """Return a warning with the keys in these lines, which are in no record."""
    missing = [f"line {line}: {key}" for line, key in keys.shown() if line in lines]
    more = f", and {len(missing) - _MOST_MISSING} more" if len(missing) > _MOST_MISSING else ""
    shown = ", ".join(missing[:_MOST_MISSING])
    what = f"{len(missing)} of {counted(len(keys.shown()), 'key')} in no record: {shown}{more}"
    why = "Quotes and blanks are part of a key, and --input has to fit the file"
    return Note("keys", f"{what}. {why}", path)


_MOST_MISSING = 1000


def _counts(plan: CompactPlan) -> dict[str, int]:
    found = unlinked(plan.due)
    if plan.outcome is not None:
        counts = plan.outcome.counts
        found["cleaned"] = 1
        found["records_gone"] = counts.records_read - counts.records_kept
        found["bytes_read"], found["bytes_written"] = counts.bytes_read, counts.bytes_written
    if plan.erasure is not None and plan.erasure.after is not None:
        found["records_erased"] = sum(key.records for key in plan.erasure.keys)
    if plan.retention is not None:
        found["removed_segments"] = len(plan.retention.removed)
        found["removed_bytes"] = plan.retention.removed_bytes
    return found
