"""The View of compact: a line per partition, or a table for a dry run of several partitions."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.ops.compact.plan import Choice, CompactPlan
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.compact_explain_text import explain_lines
from kafkalog_cli.output.compact_json import COMPACTION, compaction_fields
from kafkalog_cli.output.compact_text import compaction_undo_words, compaction_words, dry_run_table
from kafkalog_cli.output.erasure_text import erasure_lines
from kafkalog_cli.output.human import write_table
from kafkalog_cli.output.log_change_text import Said
from kafkalog_cli.output.log_change_views import changed_fields, changed_lines, unlinked
from kafkalog_cli.output.recover_text import remark_lines
from kafkalog_cli.output.stream import ResultStream, printable
from kafkalog_cli.output.views import View, change_counts, change_has_work, change_is_idle

_NAMES = (
    *("changed", "cleaned", "records_gone", "bytes_read", "bytes_written", "unlinked_files", "unlinked_bytes"),
    *("removed_segments", "removed_bytes"),
)


def compact_view(
    *, explains: bool = False, erases: bool = False, has_table: bool = False
) -> View[Changed[CompactPlan]]:
    """Return the View of compact.

    `explains`: the fate of a key's records is shown; `erases`: keys are erased; `has_table`: a table at the end.
    """
    rows: list[CompactPlan] = []

    def lines(changed: Changed[CompactPlan]) -> Iterable[str]:
        """Return a partition's lines; none for a topic that is not compacted, unless it was named or has remarks."""
        plan = changed.plan
        if plan.choice is Choice.NOT_COMPACTED and not plan.remarks and not changed.is_named:
            return
        if has_table:
            rows.append(plan)
            for remark in plan.remarks:
                for line in remark_lines(plan.path, remark):
                    yield f"{printable(plan.path)}:\n{line}"
            return
        said = Said(compaction_words(plan), compaction_undo_words(plan, changed.done))
        yield from changed_lines(changed, said, lists_changes=not explains)
        yield from explain_lines(plan)
        yield from erasure_lines(plan)

    def write_rows(out: ResultStream) -> None:
        if rows:
            write_table(out, dry_run_table(rows))

    return View(
        COMPACTION,
        lambda changed: {**changed_fields(changed), **compaction_fields(changed.plan)},
        lines,
        (*_NAMES, *(("records_erased",) if erases else ())),
        lambda changed: change_counts(changed, _counts(changed.plan)),
        change_is_idle,
        lambda plan: f"Compact {printable(plan.path)}: {compaction_words(plan)}",
        write_rows,
        change_has_work,
    )


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
