"""The View of append."""

from __future__ import annotations

from kafkalog_cli.ops.append.append import AppendPlan
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.append_json import APPENDED, appended_fields
from kafkalog_cli.output.append_text import append_words
from kafkalog_cli.output.log_change_text import Said, undo_words
from kafkalog_cli.output.log_change_views import changed_fields, changed_lines
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.views import View, change_counts, change_has_work, change_is_idle


def append_view() -> View[Changed[AppendPlan]]:
    """Return the View of append."""
    return View(
        APPENDED,
        lambda changed: {**changed_fields(changed), **appended_fields(changed.plan)},
        lambda changed: changed_lines(
            changed, Said(append_words(changed.plan), undo_words(changed.plan, changed.done))
        ),
        ("changed", "records", "batches", "appended_bytes"),
        lambda changed: change_counts(changed, _counts(changed.plan)),
        change_is_idle,
        lambda plan: f"Append in {printable(plan.path)}: {append_words(plan)}",
        has_work=change_has_work,
    )


def _counts(plan: AppendPlan) -> dict[str, int]:
    found = plan.appended
    if found is None:
        return {}
    return {"records": found.records, "batches": found.batches, "appended_bytes": found.size_bytes}
