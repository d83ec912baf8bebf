"""`kafkalog truncate`: cut a log at its end."""

from collections.abc import Iterator
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.options import (
    Metrics,
    OnePartition,
    OneTopic,
    Printing,
    Safety,
    SingleReplica,
    WriterSettings,
    safety_option,
)
from kafkalog_cli.errors import counted
from kafkalog_cli.ops.call.target import Changed
from kafkalog_cli.ops.change.truncate import TruncatePlan
from kafkalog_cli.ops.change.truncate import truncate as cut_log
from kafkalog_cli.output.changes import CHANGED, Sums, changed_lines, undo_words
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "See what would be removed from offset 100 on": (
        "kafkalog truncate /var/lib/kafka/orders-0 --to 100 --single-replica --dry-run"
    ),
    "Cut the log": "kafkalog truncate /var/lib/kafka/orders-0 --to 100 --single-replica",
}
EXIT_CODES = CHANGE


def truncate(  # noqa: PLR0913
    context: Context,
    *,
    path: OnePartition,
    to: Annotated[int, Option("--to", metavar="OFFSET", min=0, help="First offset to remove.")],
    topics: OneTopic,
    single_replica: SingleReplica = False,
    discard: Annotated[bool, safety_option("--discard",
        help="Keep no copy of removed bytes. The run cannot be undone.")] = False,
    settings: WriterSettings,
    safety: Safety,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Remove the records at the end of a log.

    All records from an offset on are removed, as in a follower whose leader lacks them. A batch that contains the
    offset cannot be split, so the log may end earlier. Removed records are kept for `kafkalog undo`. The marker of a
    clean shutdown is removed too: the next broker recovers every partition of the log directory.
    """
    changes = Changes(
        context, printing, _lines, _SUMS, question=_question, metrics=metrics, is_dry_run=safety.dry_run
    )  # fmt: skip
    options = changes.options(topics, safety, settings=settings, single_replica=single_replica)
    return changes.finish(cut_log(path, to, discard=discard, **options))


_SUMS: Sums = {
    **CHANGED,
    "removed_segments": lambda changed: len(changed.plan.removed),
    "cut_bytes": lambda changed: changed.plan.cut_bytes,
}


def _lines(changed: Changed[TruncatePlan]) -> Iterator[str]:
    return changed_lines(changed, _words(changed.plan), undo_words(changed))


def _words(plan: TruncatePlan) -> str:
    if not plan.drops_records:
        return "nothing to do" if not plan.has_work else "its files trimmed to its end"
    words = [f"truncated to {plan.target_offset}"]
    batch = plan.cut_batch
    if batch is not None:
        split = f"batch {batch.base_offset} to {batch.last_offset} cannot be split"
        words = [f"the log ends at {plan.log_end_offset}, not {plan.target_offset}: {split}"]
    if plan.removed:
        words.append(f"{counted(len(plan.removed), 'segment')} removed")
    if plan.cut_bytes:
        words.append(f"{sized(plan.cut_bytes)} cut")
    return ", ".join(words)


def _question(plan: TruncatePlan) -> str:
    words = [counted(len(plan.removed), "segment")] if plan.removed else []
    words += [f"{sized(plan.cut_bytes)} of another segment"] if plan.cut_bytes else []
    return f"Remove the records from offset {plan.log_end_offset} on ({', '.join(words)}) from {printable(plan.path)}"
