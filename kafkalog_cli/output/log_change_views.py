"""The Views of roll, retain, truncate and delete-records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kafkalog_cli.ops.delete_records import DeleteRecordsPlan
from kafkalog_cli.ops.retain.plan import RetainPlan
from kafkalog_cli.ops.roll import RollPlan
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.ops.truncate import TruncatePlan
from kafkalog_cli.output.log_change_json import (
    DELETED_RECORDS,
    RETENTION,
    ROLL,
    TRUNCATION,
    deleted_records_fields,
    plan_object,
    retention_fields,
    roll_fields,
    truncation_fields,
)
from kafkalog_cli.output.log_change_text import (
    Said,
    deleted_records_question,
    deleted_records_words,
    plan_lines,
    retention_question,
    retention_words,
    roll_words,
    truncation_question,
    truncation_words,
    undo_words,
)
from kafkalog_cli.output.retain_explain_text import explain_lines
from kafkalog_cli.output.views import View, change_counts, change_has_work, change_is_idle


def changed_fields(changed: Changed[Any]) -> dict[str, Any]:
    """Return the fields that every change of a log has."""
    run_id = None if changed.done is None else changed.done.manifest.run.run_id
    return plan_object(changed.plan, run_id=run_id, dry_run=changed.is_dry_run)


def changed_lines(changed: Changed[Any], said: Said, *, lists_changes: bool = True) -> Iterator[str]:
    """Return the lines that every change of a log has; `lists_changes`: a dry run lists each change."""
    is_dry = changed.is_dry_run
    return plan_lines(changed.plan, said, dry_run=is_dry, with_changes=is_dry and lists_changes)


def roll_view() -> View[Changed[RollPlan]]:
    """Return the View of roll."""
    return View(
        ROLL,
        lambda changed: {**changed_fields(changed), **roll_fields(changed.plan)},
        lambda changed: changed_lines(changed, Said(roll_words(changed.plan), undo_words(changed.plan, changed.done))),
        ("changed", "rolled"),
        lambda changed: change_counts(changed, {"rolled": int(changed.plan.has_work)}),
        change_is_idle,
        has_work=change_has_work,
    )


def retain_view(*, explains: bool, keeps: bool) -> View[Changed[RetainPlan]]:
    """Return the View of retain.

    `explains`: each segment's fate is shown. `keeps`: removed files are kept, not unlinked.
    """

    def lines(changed: Changed[RetainPlan]) -> Iterable[str]:
        plan = changed.plan
        delay_ms = plan.delay_ms if plan.removed and not keeps else None
        said = Said(retention_words(plan), undo_words(plan, changed.done, delay_ms=delay_ms))
        yield from changed_lines(changed, said, lists_changes=not explains)
        yield from explain_lines(plan) if explains else ()

    def counts(changed: Changed[RetainPlan]) -> dict[str, int]:
        plan = changed.plan
        removed = {"removed_segments": len(plan.removed), "removed_bytes": plan.removed_bytes}
        return change_counts(changed, {**removed, **unlinked(plan.due)})

    return View(
        RETENTION,
        lambda changed: {**changed_fields(changed), **retention_fields(changed.plan, explains=explains)},
        lines,
        ("changed", "removed_segments", "removed_bytes", "unlinked_files", "unlinked_bytes"),
        counts,
        change_is_idle,
        retention_question,
        has_work=change_has_work,
    )


def truncate_view() -> View[Changed[TruncatePlan]]:
    """Return the View of truncate."""
    return View(
        TRUNCATION,
        lambda changed: {**changed_fields(changed), **truncation_fields(changed.plan)},
        lambda changed: changed_lines(
            changed, Said(truncation_words(changed.plan), undo_words(changed.plan, changed.done))
        ),
        ("changed", "removed_segments", "cut_bytes"),
        lambda changed: change_counts(
            changed, {"removed_segments": len(changed.plan.removed), "cut_bytes": changed.plan.cut_bytes}
        ),
        change_is_idle,
        truncation_question,
        has_work=change_has_work,
    )


def delete_records_view(*, keeps: bool) -> View[Changed[DeleteRecordsPlan]]:
    """Return the View of delete-records. `keeps`: removed files are kept, not unlinked."""

    def lines(changed: Changed[DeleteRecordsPlan]) -> Iterable[str]:
        plan = changed.plan
        delay_ms = plan.delay_ms if plan.removed and not keeps else None
        return changed_lines(
            changed, Said(deleted_records_words(plan), undo_words(plan, changed.done, delay_ms=delay_ms))
        )

    return View(
        DELETED_RECORDS,
        lambda changed: {**changed_fields(changed), **deleted_records_fields(changed.plan)},
        lines,
        ("changed", "removed_segments", "removed_bytes"),
        lambda changed: change_counts(
            changed, {"removed_segments": len(changed.plan.removed), "removed_bytes": changed.plan.removed_bytes}
        ),
        change_is_idle,
        deleted_records_question,
        has_work=change_has_work,
    )


def unlinked(due: Any) -> dict[str, int]:
    """Return the counts of old files that are unlinked; `due` None: there are none."""
    return {} if due is None else {"unlinked_files": len(due.files), "unlinked_bytes": due.size_bytes}
