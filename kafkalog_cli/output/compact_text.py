"""The text output of compact: a line per partition, the fates of the records of a key, the evidence of an erasure."""

from collections.abc import Iterator

from kafkalog_cli.broker.cleaning.choosing import Dirt, UpTo
from kafkalog_cli.broker.cleaning.explaining import Reason, RecordFate
from kafkalog_cli.broker.cleaning.marks import causes_in_words
from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.ops.apply_changes import Applied
from kafkalog_cli.ops.compact.plan import Choice, Compaction, CompactPlan, ErasedKey, LogDigest
from kafkalog_cli.output.human import Column, NumberColumn, iso_time, setting_words
from kafkalog_cli.output.log_plan_view import undo_words
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

_WHY_NOT = {
    Choice.NOTHING_DIRTY: "all records are clean or in the active segment (kafkalog roll --force closes it)",
    Choice.NOTHING_TO_ERASE: "no record that may be cleaned has one of the keys",
    Choice.NOT_COMPACTED: "cleanup.policy has no compact",
    Choice.EMPTY: "it has no segment",
    Choice.DAMAGED: "it is damaged",
}
_WHY = {
    Choice.DIRTY: "",
    Choice.OVERDUE: ", due by max.compaction.lag.ms",
    Choice.FORCED: ", forced",
    Choice.ERASING: ", erases keys",
}
_UP_TO = {
    UpTo.ACTIVE_SEGMENT: "the active segment",
    UpTo.LAST_STABLE_OFFSET: "the last stable offset",
    UpTo.MIN_COMPACTION_LAG: "min.compaction.lag.ms",
}


def compaction_words(plan: CompactPlan) -> str:
    """Return what was cleaned or would be, or why nothing is."""
    done = [_cleaning(plan)] if plan.choice.is_cleaned else []
    if plan.due is not None and plan.due.files:
        done.append(f"{counted(len(plan.due.files), 'old file')} unlinked ({sized(plan.due.size_bytes)})")
    if not plan.choice.is_cleaned and plan.line_edits:
        done.append("the cleaner's checkpoint corrected")
    retention = plan.retention
    if retention is not None and retention.removed:
        removed = counted(len(retention.removed), "segment")
        most = "at most " if plan.choice.is_cleaned and plan.outcome is None else ""  # cleaning shrinks segments
        done.append(f"{most}{removed} removed by retention ({sized(retention.removed_bytes)})")
    return ", ".join(done) if done else f"nothing to do, {_why_not(plan)}"


DRY_RUN_COLUMNS = (
    Column("PARTITION", lambda plan: plan.path),
    NumberColumn("DIRTY-RATIO", lambda plan: plan.dirt and f"{plan.dirty_ratio:.3f}", 1),
    NumberColumn("CLEAN", lambda plan: plan.dirt and sized(plan.clean_bytes), 2),
    NumberColumn("DIRTY", lambda plan: plan.dirt and sized(plan.dirty_bytes)),
    NumberColumn("FIRST-DIRTY", lambda plan: plan.first_dirty_offset, 7),
    NumberColumn("UP-TO", lambda plan: plan.first_uncleanable_offset, 6),
    Column("LIMITED-BY", lambda plan: plan.up_to and plan.up_to.value, 8),
    NumberColumn("RECORDS", lambda plan: plan.estimate and plan.estimate.records, 4),
    NumberColumn("REMOVABLE", lambda plan: plan.estimate and plan.estimate.gone, 3),
    NumberColumn("SEGMENTS-REMOVED", lambda plan: plan.retention and len(plan.retention.removed), 5),
    Column("REASON", lambda plan: "refused" if plan.is_refused else plan.choice.value.replace("-", " ")),
)
"""A log's dirtiness, and whether it would be cleaned. Record counts are shown only if they were estimated.

SEGMENTS-REMOVED: the most segments that retention removes afterwards, for a topic whose policy includes delete.
"""


def compaction_undo_words(plan: CompactPlan, done: Applied | None) -> str:
    """Return how to undo a compaction: the retention after it is undone first."""
    words = undo_words(plan, done, plan.delay_ms)
    if plan.retention_run is None or not plan.delay_ms:
        return words or ("" if plan.retention_run is None else "cannot be undone")
    command = f"kafkalog undo {shell_word(plan.path)} {plan.retention_run}"
    return f"undo retention: {command}" + (f"; then {words}" if words else "")


def _why_not(plan: CompactPlan) -> str:
    if plan.choice in _WHY_NOT:
        return _WHY_NOT[plan.choice]
    least = next(setting.text for setting in plan.settings if setting.name == "min.cleanable.dirty.ratio")
    return f"{_dirt(plan)}, not above {least}"


def _dirt(plan: CompactPlan) -> str:
    dirt = plan.dirt
    if dirt is None:
        return ""
    return f"dirty ratio {dirt.ratio:.3f} ({sized(dirt.clean_bytes)} clean, {sized(dirt.cleanable_bytes)} dirty)"


def _cleaning(plan: CompactPlan) -> str:
    dirt = plan.dirt
    if dirt is None:
        return ""
    if plan.choice is Choice.ERASING_ONLY:
        return _erasing_only(plan)
    if plan.outcome is not None:
        return _outcome(plan.outcome)
    sources = sum(map(len, plan.groups))
    segments = counted(sources, "segment")
    parts = [f"{segments} cleaned into {len(plan.groups)}{_WHY[plan.choice]}"]
    if plan.estimate is not None:
        parts.append(f"{plan.estimate.gone} of {plan.estimate.records} records removed")
    return ", ".join(parts)


def _erasing_only(plan: CompactPlan) -> str:
    segments = counted(len(plan.groups), "segment")
    if plan.outcome is not None:
        counts = plan.outcome.counts
        records = f"{counts.causes.erased} of {counts.records_read} records"
        sizes = f"{sized(counts.bytes_written)} of {sized(counts.bytes_read)}"
        return f"erased {records} of {segments}, every other record kept, {sizes}"
    assert plan.estimate is not None
    rolled = ", after the active segment is rolled" if plan.rolls else ""
    records = f"{plan.estimate.gone} of {plan.estimate.records} records"
    return f"{records} of {segments} erased, every other record kept{rolled}"


def consent_words(plan: CompactPlan) -> str:
    """Return what would be done, with the records that would be removed by cause, if they were counted."""
    causes = "" if plan.estimate is None else causes_in_words(plan.estimate.causes)
    return f"{compaction_words(plan)} ({causes})" if causes else compaction_words(plan)


def causes_lines(plan: CompactPlan) -> Iterator[str]:
    """Return a line with the removed records by cause."""
    counts = plan.estimate if plan.outcome is None else plan.outcome.counts
    causes = "" if counts is None else causes_in_words(counts.causes)
    if causes and plan.choice.is_cleaned:
        yield f"  {'to be removed' if plan.outcome is None else 'removed'}: {causes}"


def dirt_lines(plan: CompactPlan) -> Iterator[str]:
    """Return a line of a dry run about the part of the log that would be cleaned."""
    dirt = plan.dirt
    if dirt is None or not plan.choice.is_cleaned or plan.outcome is not None:
        return
    if plan.choice is not Choice.ERASING_ONLY:
        yield f"  cleanable up to offset {dirt.first_uncleanable} ({_UP_TO[dirt.up_to]}), {_dirt(plan)}"


def _outcome(outcome: Compaction) -> str:
    counts = outcome.counts
    sources, made = (
        sum(len(each.sources) for each in outcome.segments),
        sum(len(each.made) for each in outcome.segments),
    )
    parts = [
        f"cleaned up to {outcome.end_offset}",
        f"{counted(sources, 'segment')} into {made}",
        f"{counts.records_kept} of {counts.records_read} records kept",
        f"{sized(counts.bytes_written)} of {sized(counts.bytes_read)}",
    ]
    if counts.causes.keyless:
        parts.append(f"{counted(counts.causes.keyless, 'record')} without a key removed")
    if counts.lost_ends:
        parts.append("the last message of the round removed, where a broker's cleaner fails")
    return ", ".join(parts)


# ---- the fates of records


_UNTIL = {
    UpTo.ACTIVE_SEGMENT: "it is in the active segment, until that is rolled",
    UpTo.LAST_STABLE_OFFSET: "a transaction before it is open, or it is above the high watermark",
    UpTo.MIN_COMPACTION_LAG: "it is too young, by min.compaction.lag.ms",
}


def explain_lines(plan: CompactPlan) -> Iterator[str]:
    """Return lines for the settings used, then for each record of the key and its fate in a cleaning now."""
    if plan.explained is None or plan.dirt is None:
        return
    for setting in plan.settings:
        yield f"  {setting_words(setting)}"
    if not plan.explained:
        yield "  no record has this key"
    elif not plan.choice.is_cleaned:
        yield "  all stays until it is cleaned; then:"
    for fate in plan.explained:
        size = "no value" if fate.value_bytes is None else counted(fate.value_bytes, "byte")
        where = f"offset {fate.offset} (segment {fate.base_offset}, {iso_time(fate.timestamp_ms)}, {size})"
        yield f"  {where}: {_words(plan, plan.dirt, fate)}"


def _words(plan: CompactPlan, dirt: Dirt, fate: RecordFate) -> str:
    if fate.reason is Reason.SUPERSEDED:
        return f"goes, offset {fate.by_offset} has the same key"
    if fate.reason is Reason.ABORTED:
        return "goes, its transaction was aborted"
    if fate.reason is Reason.EXPIRED:
        since = "" if fate.due_ms is None else f" since {iso_time(fate.due_ms)}"
        return f"goes, a tombstone whose time is over{since}"
    if fate.reason is Reason.TOMBSTONE:
        if fate.due_ms is not None:
            return f"stays, a tombstone; it goes in the first cleaning after {iso_time(fate.due_ms)}"
        return f"stays, a tombstone; it goes {plan.number_of('delete.retention.ms')} ms after it is cleaned"
    if fate.reason is Reason.NOT_CLEANABLE:
        return f"stays, {_UNTIL[dirt.up_to]}"
    return "stays, it is the last with its key"


# ---- erasures


_MOST_SHOWN = 10


def erasure_lines(plan: CompactPlan) -> Iterator[str]:
    """Return lines for each key (by its line in the key file), the logs before and after, and the other replicas."""
    erasure = plan.erasure
    if erasure is None or plan.is_refused:
        return
    is_done = erasure.after is not None
    records = counted(sum(key.records for key in erasure.keys), "record")
    keys = f"{len(erasure.keys)} of {counted(erasure.wanted, 'key')}"
    yield f"  {'erased' if is_done else 'to be erased'}: {records} of {keys}"
    for key in erasure.keys:
        yield f"  key of line {key.line}: {_offsets(key)}"
    for word, logs in (("before", erasure.before), ("after", erasure.after or ())):
        for log in logs:
            yield f"  {word}: {_log(log)}"
    yield f"  {printable(erasure.replication)}"


def _offsets(key: ErasedKey) -> str:
    records = counted(key.records, "record")
    shown = ", ".join(map(str, key.offsets[:_MOST_SHOWN]))
    more = f", ... to {key.last_offset}" if key.records > _MOST_SHOWN else ""
    return f"{records}, at {'offset' if key.records == 1 else 'offsets'} {shown}{more}"


def _log(log: LogDigest) -> str:
    records = counted(log.records, "record")
    return f"{printable(log.name)}, {log.size_bytes} bytes, SHA-256 {log.sha256}, {records} of the keys"
