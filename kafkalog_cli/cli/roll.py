"""`kafkalog roll`: start a new segment where a broker would."""

from collections.abc import Iterator
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.options import Metrics, Pacing, PartitionPaths, Printing, Safety, Topics, WriterSettings
from kafkalog_cli.ops.call.target import Changed
from kafkalog_cli.ops.change.roll import RollPlan
from kafkalog_cli.ops.change.roll import roll as start_segments
from kafkalog_cli.output.changes import CHANGED, Sums, changed_lines, undo_words

EXAMPLES = {
    "Roll the segments that are due": "kafkalog roll /var/lib/kafka",
    "Close the active segment of a topic, for compaction": ("kafkalog roll /var/lib/kafka --topic orders --force"),
}
EXIT_CODES = CHANGE


def roll(  # noqa: PLR0913
    context: Context,
    *,
    paths: PartitionPaths,
    topics: Topics,
    force: Annotated[bool, Option("--force", help="Roll even if a broker would not roll yet.")] = False,
    settings: WriterSettings,
    safety: Safety,
    pacing: Pacing,
    metrics: Metrics = None,
    printing: Printing,
) -> int:
    """Start a new segment where a broker would.

    The decision is that of a broker before it appends a small record now. It rolls if the active segment has reached
    segment.bytes, if an index is full, or if the offsets reach 2^31. It also rolls if segment.ms have passed since the
    timestamps of the segment's first batch. An active segment without records is never rolled.
    """
    changes = Changes(context, printing, _lines, _SUMS, metrics=metrics, is_dry_run=safety.dry_run)
    options = changes.options(topics, safety, settings=settings, pacing=pacing)
    return changes.finish(start_segments(paths, force=force, **options))


_SUMS: Sums = {**CHANGED, "rolled": lambda changed: int(changed.has_work)}


def _lines(changed: Changed[RollPlan]) -> Iterator[str]:
    return changed_lines(changed, _words(changed.plan), undo_words(changed))


def _words(plan: RollPlan) -> str:
    if plan.is_empty:
        return "nothing to do, the active segment is empty"
    if not plan.has_work:
        return "nothing to do"
    because = plan.cause.value if plan.cause is not None else "forced"
    return f"rolled at {plan.log_end_offset} ({because})"
