"""`kafkalog delete-records`: move the log start offset forward."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.options import (
    Delay,
    Keep,
    Metrics,
    OnePartition,
    OneTopic,
    Printing,
    Safety,
    SingleReplica,
    WriterSettings,
    delay_ms_of,
)
from kafkalog_cli.errors import counted
from kafkalog_cli.ops.call.target import Changed
from kafkalog_cli.ops.change.delete_records import DeleteRecordsPlan
from kafkalog_cli.ops.change.delete_records import delete_records as move_start
from kafkalog_cli.output.changes import CHANGED, Sums, changed_lines, undo_words
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "See what would be removed before offset 100": (
        "kafkalog delete-records /var/lib/kafka/orders-0 --before 100 --single-replica --dry-run"
    ),
    "Move the log's start, and keep the files for undo": (
        "kafkalog delete-records /var/lib/kafka/orders-0 --before 100 --single-replica --keep"
    ),
}
EXIT_CODES = CHANGE


def delete_records(  # noqa: PLR0913
    context: Context,
    *,
    path: OnePartition,
    before: Annotated[int, Option("--before", metavar="OFFSET", min=-1,
        help="The new start of the log; -1: the high watermark.")],
    topics: OneTopic,
    single_replica: SingleReplica = False,
    delay: Delay = None,
    keep: Keep = False,
    settings: WriterSettings,
    safety: Safety,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Move the start of a log forward.

    Consumers no longer get earlier records, as after kafka-delete-records. Whole segments below the new start are
    renamed to .deleted. Records that share a segment with later records stay on the disk until that segment is removed.
    """
    changes = Changes(
        context, printing, partial(_lines, keeps=keep), _SUMS,
        question=_question, metrics=metrics, is_dry_run=safety.dry_run,
    )  # fmt: skip
    options = changes.options(topics, safety, settings=settings, single_replica=single_replica)
    return changes.finish(move_start(path, before, delay_ms=delay_ms_of(delay, keeps=keep), keep=keep, **options))


_SUMS: Sums = {
    **CHANGED,
    "removed_segments": lambda changed: len(changed.plan.removed),
    "removed_bytes": lambda changed: changed.plan.removed_bytes,
}


def _lines(changed: Changed[DeleteRecordsPlan], *, keeps: bool) -> Iterator[str]:
    plan = changed.plan
    delay_ms = None if keeps or not plan.removed else plan.delay_ms
    return changed_lines(changed, _words(plan), undo_words(changed, delay_ms))


def _words(plan: DeleteRecordsPlan) -> str:
    if not plan.has_work:
        return "nothing to do"
    went = f", {counted(len(plan.removed), 'segment')} removed ({sized(plan.removed_bytes)})" if plan.removed else ""
    return f"records before {plan.log_start_offset} deleted (the log started at {plan.old_start_offset}){went}"


def _question(plan: DeleteRecordsPlan) -> str:
    removed = f" ({counted(len(plan.removed), 'segment')}, {sized(plan.removed_bytes)})" if plan.removed else ""
    return f"Delete the records before offset {plan.log_start_offset}{removed} from {printable(plan.path)}"
