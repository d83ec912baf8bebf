"""`kafkalog purge`: permanently remove files whose delay is over, and files that old runs keep."""

from collections.abc import Iterator
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.options import IfOffline, Jobs, Pacing, PathsArgument, Printing, Safety, TimeBudget, Topics
from kafkalog_cli.errors import counted
from kafkalog_cli.ops.change.purge import PurgePlan
from kafkalog_cli.ops.change.purge import purge as purge_files
from kafkalog_cli.ops.option_values import parse_duration_ms
from kafkalog_cli.output.changes import Detail, Sums
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "See what can be removed": "kafkalog purge /var/lib/kafka --dry-run",
    "Remove what runs of more than a day ago kept": "kafkalog purge /var/lib/kafka --older-than 1d",
}
EXIT_CODES = CHANGE


def purge(  # noqa: PLR0913
    context: Context,
    *,
    paths: PathsArgument,
    topics: Topics,
    older_than: Annotated[str, Option(metavar="TIME",
        help="Remove runs that ended longer ago than this (90s, 15m, 2h, 7d). They cannot be undone then.")] = "7d",
    safety: Safety,
    jobs: Jobs = 0,
    time_budget: TimeBudget = None,
    if_offline: IfOffline = False,
    printing: Printing,
) -> int:  # fmt: skip
    """Remove files that earlier runs kept, and due .deleted files.

    Removed files cannot be restored. A .deleted file is due file.delete.delay.ms after the run that renamed it, or a
    minute after another program renamed it. Files of an interrupted import are due too, unless an import is running.

    The last run stays until it is undone if it was interrupted. Partitions of a committed import stay until the
    import is completed.
    """
    older_than_ms = parse_duration_ms(older_than)
    changes = Changes(context, printing, _lines, _SUMS, question=_question, is_dry_run=safety.dry_run)
    options = changes.options(topics, safety, pacing=Pacing(jobs, time_budget, None, if_offline))
    return changes.finish(purge_files(paths, older_than_ms=older_than_ms, **options))


_SUMS: Sums = {
    "files": lambda plan: len(plan.files),
    "runs": lambda plan: len(plan.runs),
    "leftovers": lambda plan: int(plan.leftover is not None),
    "bytes": lambda plan: plan.size_bytes,
}


def _lines(plan: PurgePlan) -> Iterator[str]:
    """Return the partition's line, then a line per file and run."""
    path = printable(plan.path)
    waiting = f", {plan.waiting} not due yet" if plan.waiting else ""
    if not plan.has_work:
        yield f"{path}: nothing to purge{waiting}"
        return
    would = "would be " if plan.dry_run else ""
    yield f"{path}: {would}{_words(plan)}{waiting}"
    for due in plan.files:
        yield Detail(f"  {printable(due.name)}: {sized(due.size_bytes)}")
    for run in plan.runs:
        yield Detail(f"  run {printable(run.run_id)}: {counted(run.files, 'file')}, {sized(run.size_bytes)}")
    if not plan.dry_run:
        yield "  cannot be undone"


def _words(plan: PurgePlan) -> str:
    """Return what is permanently removed, in words."""
    if plan.leftover is not None:
        files = counted(plan.leftover.files, "file")
        return f"purged: what an import left that did not end, {files}, {sized(plan.size_bytes)}"
    files, runs = counted(len(plan.files), "file"), counted(len(plan.runs), "run")
    return f"purged: {files} and {runs}, {sized(plan.size_bytes)}"


def _question(plan: PurgePlan) -> str:
    """Return the question before files are permanently removed."""
    counts = [counted(len(found), one) for found, one in ((plan.files, "file"), (plan.runs, "run")) if found]
    what = " and ".join(counts) or "the rest of an import"
    return f"Remove {what} ({sized(plan.size_bytes)}) for good from {printable(plan.path)}"
