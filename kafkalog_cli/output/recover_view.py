"""The Views of recover and recover --salvage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kafkalog_cli.errors import shell_word
from kafkalog_cli.ops.recover.salvage import Copied
from kafkalog_cli.ops.recover.verb import Recovered
from kafkalog_cli.output.recover_json import RECOVERY, SALVAGE, plan_object, salvage_object
from kafkalog_cli.output.recover_text import plan_lines, recovery_question, salvage_lines
from kafkalog_cli.output.views import FAILED, View


def recover_view() -> View[Recovered]:
    """Return the View of recover."""
    return View(
        RECOVERY,
        _fields,
        _lines,
        ("changed",),
        _counts,
        lambda result: not result.plan.has_work and not result.plan.remarks,
        recovery_question,
        has_work=lambda result: result.plan.has_work and not result.plan.is_refused,
    )


def _fields(result: Recovered) -> dict[str, Any]:
    plan = result.plan if result.live_path is None else replace(result.plan, path=result.live_path)
    return plan_object(plan, run_id=None if result.done is None else result.done.manifest.run.run_id)


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
    return View(
        SALVAGE,
        salvage_object,
        salvage_lines,
    )
