"""`kafkalog retain`: remove the segments past retention, or make room on a full disk."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.options import (
    Delay,
    Keep,
    Metrics,
    Pacing,
    PartitionPaths,
    Printing,
    Safety,
    Topics,
    WriterSettings,
    delay_ms_of,
)
from kafkalog_cli.errors import UsageError, counted
from kafkalog_cli.log.log_end import TimestampOrigin
from kafkalog_cli.ops.call.target import Changed
from kafkalog_cli.ops.change.retain.free import Freed, free
from kafkalog_cli.ops.change.retain.plan import RetainPlan, SegmentFate, Stay
from kafkalog_cli.ops.change.retain.retain import retain as remove_segments
from kafkalog_cli.ops.option_values import parse_size_bytes
from kafkalog_cli.output.changes import CHANGED, UNLINKED, Sums, changed_lines, undo_words
from kafkalog_cli.output.human import Column, NumberColumn, iso_time, setting_words, table_lines
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "See why each segment stays or is removed": "kafkalog retain /var/lib/kafka --dry-run --explain",
    "Apply the limits in the broker's configuration": (
        "kafkalog retain /var/lib/kafka --broker-config /etc/kafka/server.properties"
    ),
    "Make room on a full disk at once": "kafkalog retain /var/lib/kafka --free-bytes 20GiB",
}
EXIT_CODES = CHANGE

_room_option = partial(Option, rich_help_panel="Room on a full disk")


def retain(  # noqa: PLR0913
    context: Context,
    *,
    paths: PartitionPaths,
    topics: Topics,
    explain: Annotated[bool, Option("--explain",
        help="Explain for each segment why it stays or is removed, and when it would be removed.")] = False,
    delay: Delay = None,
    keep: Keep = False,
    free_bytes: Annotated[str | None, _room_option(metavar="SIZE",
        help="Unlink the oldest segments of all partitions, without undo, until SIZE is free on the disk.")] = None,
    keep_bytes: Annotated[str | None, _room_option(metavar="SIZE",
        help="With --free-bytes: leave at least SIZE of each log.")] = None,
    keep_ms: Annotated[int, _room_option("--keep-ms", metavar="MS", min=0,
        help="With --free-bytes: leave segments with records younger than MS.")] = 0,
    settings: WriterSettings,
    safety: Safety,
    pacing: Pacing,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Remove segments past retention, or make room on a full disk.

    As in a broker, whole segments are removed from the start of a log: before its log start offset, above
    retention.bytes, or past retention.ms. Settings come from --config, the metadata log and --broker-config.
    Kafka's defaults apply only if these sources were read. A partition with unknown settings is skipped. --config
    cleanup.policy never makes a compacted topic lose records, unless only that topic is named.

    Removed files are renamed to .deleted. A later run unlinks them after file.delete.delay.ms. With --free-bytes,
    the limits are ignored: the oldest segments of all partitions are unlinked at once, but never compacted topics,
    internal topics or active segments.
    """
    removal = Changes(
        context, printing, partial(_lines, keeps=keep), _SUMS,
        question=_question, metrics=metrics, is_dry_run=safety.dry_run,
    )  # fmt: skip
    if free_bytes is None:
        if keep_bytes is not None or keep_ms:
            raise UsageError(reason="--keep-bytes and --keep-ms need --free-bytes")
        delay_ms = delay_ms_of(delay, keeps=keep)
        options = removal.options(topics, safety, settings=settings, pacing=pacing)
        return removal.finish(remove_segments(paths, delay_ms=delay_ms, keep=keep, explain=explain, **options))
    if explain or keep or delay is not None:
        raise UsageError(reason="--explain, --delay and --keep cannot be combined with --free-bytes")
    wanted_bytes, least = parse_size_bytes(free_bytes), 0 if keep_bytes is None else parse_size_bytes(keep_bytes)
    freeing = Changes(
        context, printing, _freed_lines, _FREED_SUMS, metrics=metrics, is_dry_run=safety.dry_run
    )  # fmt: skip
    options = freeing.options(topics, safety, settings=settings, pacing=pacing)
    return freeing.finish(free(paths, wanted_bytes, keep_bytes=least, keep_ms=keep_ms, **options))


_SUMS: Sums = {
    **CHANGED,
    "removed_segments": lambda changed: len(changed.plan.removed),
    "removed_bytes": lambda changed: changed.plan.removed_bytes,
    **UNLINKED,
}
_FREED_SUMS: Sums = {
    "changed": lambda freed: int(freed.has_work and not freed.dry_run),
    "removed_segments": lambda freed: len(freed.segments),
    "removed_bytes": lambda freed: sum(one.segment.log.size_bytes for one in freed.segments),
    "unlinked_files": lambda freed: freed.unlinked_files,
    "freed_bytes": lambda freed: freed.freed_bytes,
}


def _lines(changed: Changed[RetainPlan], *, keeps: bool) -> Iterator[str]:
    plan = changed.plan
    undo = undo_words(changed, None if keeps or not plan.removed else plan.delay_ms)
    yield from changed_lines(changed, _words(plan), undo, lists_changes=not plan.explains)
    yield from _explanation(plan) if plan.explains else ()


def _words(plan: RetainPlan) -> str:
    """Return what is removed, in words."""
    if not plan.has_work:
        return "nothing to do"
    done = []
    if plan.removed:
        done.append(f"{counted(len(plan.removed), 'segment')} removed ({sized(plan.removed_bytes)})")
    if plan.line_edits and not plan.removed:
        done.append(f"{counted(len(plan.line_edits), 'checkpoint line')} changed")
    if plan.due is not None and plan.due.files:
        done.append(f"{counted(len(plan.due.files), 'old file')} unlinked ({sized(plan.due.size_bytes)})")
    return ", ".join(done)


def _question(plan: RetainPlan) -> str:
    """Return the question before segments are removed."""
    segments = counted(len(plan.removed), "segment")
    return f"Remove {segments} ({sized(plan.removed_bytes)}) from {printable(plan.path)}"


def _freed_lines(freed: Freed) -> Iterator[str]:
    """Yield one line: the unlinked files, the log's start and end, and that this cannot be undone."""
    path = printable(freed.path)
    words = []
    if freed.segments:
        words.append(f"{counted(len(freed.segments), 'segment')} unlinked")
    if freed.unlinked_files:
        words.append(f"{counted(freed.unlinked_files, 'old file')} unlinked")
    if not words:
        because = freed.protected_by or next((remark.message for remark in freed.remarks), "")
        yield f"{path}: nothing unlinked{f', {printable(because)}' if because else ''}"
        return
    offsets = "" if freed.log_start_offset is None else f", offsets {freed.log_start_offset} to {freed.log_end_offset}"
    how = "dry run: " if freed.dry_run else ""
    yield f"{path}: {how}{', '.join(words)} ({sized(freed.freed_bytes)}){offsets}" + (
        "" if freed.dry_run else "; cannot be undone"
    )


# ---- the text of --explain


def _explanation(plan: RetainPlan) -> Iterator[str]:
    """Return lines for the settings used, then for each segment."""
    for setting in plan.settings:
        yield f"  {setting_words(setting)}"
    if plan.is_refused and plan.fates:
        yield "  without that refusal:"
    if plan.fates:
        yield from (f"  {line.rstrip()}" for line in table_lines(_COLUMNS, plan.fates))


_ORIGINS = {TimestampOrigin.BATCHES: "", TimestampOrigin.TIME_INDEX: " (index)", TimestampOrigin.MTIME: " (mtime)"}
_COLUMNS = (
    Column("OFFSETS", lambda fate: f"{fate.base_offset} to {fate.next_offset}"),
    NumberColumn("SIZE", lambda fate: sized(fate.size_bytes)),
    Column(
        "NEWEST", lambda fate: fate.largest and f"{iso_time(fate.largest.timestamp_ms)}{_ORIGINS[fate.largest.origin]}"
    ),
    Column("RESULT", lambda fate: _result(fate)),  # noqa: PLW0108 it is defined below
)


def _result(fate: SegmentFate) -> str:
    """Return the fate of a segment, and the name of the setting that decides; the settings are printed above."""
    setting = "" if fate.setting is None else printable(fate.setting.name)
    if fate.goes is RetentionPass.LOG_START:
        return "removed: before log start"
    if fate.goes is not None:
        return f"removed: {setting}"
    due = _due(fate)
    if fate.stays in (None, Stay.LIMITS):
        return f"due {due}" if due else "kept: within the limits"
    if fate.stays is Stay.POLICY and fate.setting is not None:
        return f"kept: {setting}={printable(fate.setting.text)}"
    reason = _REASONS[fate.stays].format(odd=fate.odd.value if fate.odd else "")
    return f"kept: {reason}" + (f"; due {due}" if due else "")


_REASONS = {
    Stay.EMPTY: "active, no records",
    Stay.POLICY: "nothing is deleted",
    Stay.NO_LIMIT: "no limit is set",
    Stay.FUTURE: "newest is in the future",
    Stay.UNIT: "newest is {odd}",
    Stay.NOT_REPLICATED: "past the high watermark",
    Stay.BEHIND: "an earlier segment is kept",
}


def _due(fate: SegmentFate) -> str:
    """Return when a segment that stays would be removed; "" if never."""
    if fate.stays in (Stay.POLICY, Stay.NO_LIMIT, Stay.EMPTY):
        return ""
    words = [] if fate.due_ms is None else [iso_time(fate.due_ms)]
    words += [] if fate.due_after_bytes is None else [f"after {sized(fate.due_after_bytes)} more"]
    return " or ".join(words)
