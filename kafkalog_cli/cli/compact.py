"""`kafkalog compact`: keep only the last record of each key, as a broker's log cleaner does."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from typer import Context, Option

from kafkalog_cli.broker.cleaning.choosing import Dirt, UpTo
from kafkalog_cli.broker.cleaning.explaining import Reason, RecordFate
from kafkalog_cli.broker.cleaning.marks import causes_in_words
from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE_DAMAGED
from kafkalog_cli.cli.options import (
    Delay,
    KeyFormatOption,
    Metrics,
    Pacing,
    PartitionPaths,
    Printing,
    Safety,
    SchemasOption,
    Topics,
    WriterSettings,
    delay_ms_of,
)
from kafkalog_cli.errors import ExitCode, UsageError, counted, shell_word
from kafkalog_cli.format.kafka_version import NEWEST, kafka_version_of
from kafkalog_cli.ops.call.call import Call
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.target import Changed
from kafkalog_cli.ops.change.compact.erasing import KeyFile, keys_to_erase, keys_to_explain
from kafkalog_cli.ops.change.compact.plan import Choice, Compaction, CompactPlan
from kafkalog_cli.ops.change.compact.verb import compact_each
from kafkalog_cli.ops.change.retain.plan import RetainPlan
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.option_values import parse_size_bytes
from kafkalog_cli.output.changes import CHANGED, UNLINKED, Sums, changed_lines, remark_lines, undo_words
from kafkalog_cli.output.human import Column, NumberColumn, iso_time, setting_words, write_table
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "Estimate the effect of compaction": "kafkalog compact /var/lib/kafka --dry-run --estimate",
    "Compact one topic now": "kafkalog compact /var/lib/kafka --topic customers --force",
    "Erase all records of some keys, with a proof": (
        "kafkalog compact /var/lib/kafka --topic customers --erase-keys keys.txt --input lines"
    ),
}
EXIT_CODES = CHANGE_DAMAGED


def compact(  # noqa: PLR0913
    context: Context,
    *,
    paths: PartitionPaths,
    topics: Topics,
    force: Annotated[bool, Option("--force",
        help="Clean all records again, even if the log is not dirty enough.")] = False,
    estimate: Annotated[bool, Option("--estimate",
        help="With --dry-run: read the logs, and count the records that would be removed.")] = False,
    explain: Annotated[str | None, Option(metavar="KEY",
        help="With --dry-run: explain for each record of KEY why and when it stays or is removed.")] = None,
    erase_keys: Annotated[str | None, Option(metavar="FILE",
        help="Erase all records of the keys in FILE without undo, prove it, and report other places with"
        " them.")] = None,
    key_format: KeyFormatOption = None,
    schemas: SchemasOption = None,
    remove_other_records: Annotated[bool, Option("--remove-other-records",
        help="With --erase-keys: also remove the records of other keys that --config cleanup.policy=compact removes"
        " from a topic that is not known to be compacted.")] = False,
    input: Annotated[Literal["ndjson", "json", "lines"], Option("--input",  # noqa: A002
        help="Format of FILE: NDJSON records from dump-log, or one key per line.")] = "ndjson",
    memory: Annotated[str, Option(metavar="SIZE", envvar="KAFKALOG_MEMORY",
        help="Memory for the keys of one partition. If they need more, the log is read several times.")] = "128MiB",
    kafka_version: Annotated[str, Option(metavar="VERSION", envvar="KAFKALOG_KAFKA_VERSION",
        help="Clean as the log cleaner of Kafka 4.2, 4.3 or 4.4 does. 4.4 keeps fewer empty batches.")] = NEWEST.value,
    delay: Delay = None,
    settings: WriterSettings,
    safety: Safety,
    pacing: Pacing,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Keep only the last record of each key, as a log cleaner does.

    Tombstones and aborted records are removed when Kafka's rules permit it. Only topics with compact in their
    cleanup.policy are cleaned: by --config, the metadata log, or --broker-config. A log is cleaned if it is dirty
    enough (min.cleanable.dirty.ratio), the dirtiest log first.

    Replaced files are renamed to .deleted. A later run unlinks them after file.delete.delay.ms. With --erase-keys they
    are unlinked at once.
    """
    if estimate and not safety.dry_run:
        raise UsageError(reason="--estimate needs --dry-run")
    if explain is not None and not safety.dry_run:
        raise UsageError(reason="--explain needs --dry-run")
    if remove_other_records and erase_keys is None:
        raise UsageError(reason="--remove-other-records needs --erase-keys")
    if erase_keys is not None and (delay is not None or explain is not None):
        raise UsageError(reason="--erase-keys cannot be combined with --delay, as no removal waits, or with --explain")
    decoding = Decoding(key_format, None, schemas)
    decoding.check()
    environment: Environment = context.obj
    memory_bytes = parse_size_bytes(memory)
    delay_ms = delay_ms_of(delay, keeps=False) if erase_keys is None else 0
    version = kafka_version_of(kafka_version)
    erases, rows = erase_keys is not None, list[CompactPlan]()
    sums = {**_SUMS, "records_erased": _records_erased} if erases else _SUMS
    lines = partial(_lines, explains=explain is not None, erases=erases)
    run = _Compacting(
        context, printing, lines, sums, question=_question, metrics=metrics, is_dry_run=safety.dry_run
    )  # fmt: skip
    call = Call("compact", paths, run.options(topics, safety, settings=settings, pacing=pacing))
    partitions = call.writable_partitions()
    if safety.dry_run and explain is None and not erases and len(partitions) > 1:
        run.lines = partial(_remarks_of_row, rows=rows)
    keys = None if erase_keys is None else keys_to_erase(
        environment.fs, erase_keys, partitions, decoding, is_ndjson=input != "lines"
    )  # fmt: skip
    outcome = compact_each(
        call,
        partitions,
        force=force,
        estimate=estimate,
        explained_keys=None if explain is None else keys_to_explain(environment.fs, explain, partitions, decoding),
        keys=keys,
        removes_others=remove_other_records,
        memory_bytes=memory_bytes,
        version=version,
        delay_ms=delay_ms,
    )
    if keys is not None and run.missing:
        run.report(_note_of_missing(keys, run.missing, erase_keys or ""))
        outcome = replace(outcome, exit_code=outcome.exit_code or ExitCode.WARNINGS)
    if rows:
        write_table(run.run.out, _DRY_RUN_COLUMNS, rows)
    return run.finish(outcome)


class _Compacting(Changes):
    """Prints the results, and keeps the lines of the file of keys that no log so far has a record of."""

    missing: set[int] | None = None

    def show(self, result: Changed[CompactPlan]) -> None:
        """See Observer."""
        super().show(result)
        erasure = result.plan.erasure
        if erasure is not None and not result.plan.is_refused:
            absent = set(erasure.lines_without_record)
            self.missing = absent if self.missing is None else self.missing & absent


# ---- results as text


def _lines(changed: Changed[CompactPlan], *, explains: bool, erases: bool) -> Iterator[str]:
    """Yield the text: a key's records are explained, or keys are erased, or neither."""
    plan = changed.plan
    if _is_passed_over(changed):
        return
    yield from changed_lines(changed, _words(plan), _undo_words(changed), lists_changes=not explains)
    yield from _dirt_lines(plan)
    if changed.is_dry_run or erases:
        yield from _causes_lines(plan)
    yield from _explain_lines(plan)
    yield from _erasure_lines(plan)


def _records_erased(changed: Changed[CompactPlan]) -> int:
    erasure = changed.plan.erasure
    return 0 if erasure is None or erasure.after is None else sum(key.records for key in erasure.keys)


def _of_outcome(count: Callable[[Compaction], int]) -> Callable[[Changed[CompactPlan]], int]:
    return lambda changed: 0 if changed.plan.outcome is None else count(changed.plan.outcome)


def _of_retention(count: Callable[[RetainPlan], int]) -> Callable[[Changed[CompactPlan]], int]:
    return lambda changed: 0 if changed.plan.retention is None else count(changed.plan.retention)


_SUMS: Sums = {
    **CHANGED,
    "cleaned": _of_outcome(lambda _: 1),
    "records_gone": _of_outcome(lambda found: found.counts.records_read - found.counts.records_kept),
    "bytes_read": _of_outcome(lambda found: found.counts.bytes_read),
    "bytes_written": _of_outcome(lambda found: found.counts.bytes_written),
    **UNLINKED,
    "removed_segments": _of_retention(lambda plan: len(plan.removed)),
    "removed_bytes": _of_retention(lambda plan: plan.removed_bytes),
}


def _is_passed_over(changed: Changed[CompactPlan]) -> bool:
    """Whether nothing is shown: the topic is not compacted, was not named, and has no remarks."""
    return changed.plan.choice is Choice.NOT_COMPACTED and not changed.plan.remarks and not changed.is_named


def _remarks_of_row(changed: Changed[CompactPlan], rows: list[CompactPlan]) -> Iterable[str]:
    """Add the plan to the rows of the table, and yield its remarks."""
    if _is_passed_over(changed):
        return
    plan = changed.plan
    rows.append(plan)
    for remark in plan.remarks:
        for line in remark_lines(plan.path, remark):
            yield f"{printable(plan.path)}:\n{line}"


def _note_of_missing(keys: KeyFile, lines: set[int], path: str) -> Note:
    """Return a warning with the keys in these lines, which are in no record."""
    missing = [f"line {line}: {key}" for line, key in keys.shown() if line in lines]
    more = f", and {len(missing) - _MOST_MISSING} more" if len(missing) > _MOST_MISSING else ""
    listed = ", ".join(missing[:_MOST_MISSING])
    summary = f"{len(missing)} of {counted(len(keys.shown()), 'key')} in no record: {listed}{more}"
    why = "Quotes and blanks are part of a key, and --input has to fit the file"
    return Note("keys", f"{summary}. {why}", path)


_MOST_MISSING = 1000


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
_DRY_RUN_COLUMNS = (
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


def _words(plan: CompactPlan) -> str:
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


def _why_not(plan: CompactPlan) -> str:
    if plan.choice in _WHY_NOT:
        return _WHY_NOT[plan.choice]
    least = next(setting.text for setting in plan.settings if setting.name == "min.cleanable.dirty.ratio")
    return f"{_dirt(plan)}, not above {least}"


def _dirt(plan: CompactPlan) -> str:
    if plan.dirt is None:
        return ""
    sizes = f"{sized(plan.dirt.clean_bytes)} clean, {sized(plan.dirt.cleanable_bytes)} dirty"
    return f"dirty ratio {plan.dirt.ratio:.3f} ({sizes})"


def _cleaning(plan: CompactPlan) -> str:
    """Return the cleaning in words, done or planned."""
    outcome, estimate, groups = plan.outcome, plan.estimate, len(plan.groups)
    if plan.choice is Choice.ERASING_ONLY:
        segments = counted(groups, "segment")
        if outcome is not None:
            records = f"{outcome.counts.causes.erased} of {outcome.counts.records_read} records"
            return f"erased {records} of {segments}, every other record kept, {_written(outcome)}"
        assert estimate is not None
        rolled = ", after the active segment is rolled" if plan.rolls else ""
        return f"{estimate.gone} of {estimate.records} records of {segments} erased, every other record kept{rolled}"
    if outcome is not None:
        return _outcome(outcome)
    words = f"{counted(sum(map(len, plan.groups)), 'segment')} cleaned into {groups}{_WHY[plan.choice]}"
    return words if estimate is None else f"{words}, {estimate.gone} of {estimate.records} records removed"


def _outcome(outcome: Compaction) -> str:
    counts = outcome.counts
    sources = sum(len(each.sources) for each in outcome.segments)
    made = sum(len(each.made) for each in outcome.segments)
    words = [
        f"cleaned up to {outcome.end_offset}",
        f"{counted(sources, 'segment')} into {made}",
        f"{counts.records_kept} of {counts.records_read} records kept",
        _written(outcome),
    ]
    if counts.causes.keyless:
        words.append(f"{counted(counts.causes.keyless, 'record')} without a key removed")
    if counts.lost_ends:
        words.append("the last message of the round removed, where a broker's cleaner fails")
    return ", ".join(words)


def _written(outcome: Compaction) -> str:
    return f"{sized(outcome.counts.bytes_written)} of {sized(outcome.counts.bytes_read)}"


def _undo_words(changed: Changed[CompactPlan]) -> str:
    """Return how to undo a compaction: the retention after it is undone first."""
    plan = changed.plan
    words = undo_words(changed, plan.delay_ms)
    if plan.retention_run is None or not plan.delay_ms:
        return words or ("" if plan.retention_run is None else "cannot be undone")
    command = f"kafkalog undo {shell_word(plan.path)} {plan.retention_run}"
    return f"undo retention: {command}" + (f"; then {words}" if words else "")


def _question(plan: CompactPlan) -> str:
    """Return what would be done, with the records that would be removed by cause, if they were counted."""
    causes = "" if plan.estimate is None else causes_in_words(plan.estimate.causes)
    return f"Compact {printable(plan.path)}: {_words(plan)}" + (f" ({causes})" if causes else "")


def _causes_lines(plan: CompactPlan) -> Iterator[str]:
    """Yield a line with the removed records by cause."""
    counts = plan.estimate if plan.outcome is None else plan.outcome.counts
    causes = "" if counts is None else causes_in_words(counts.causes)
    if causes and plan.choice.is_cleaned:
        yield f"  {'to be removed' if plan.outcome is None else 'removed'}: {causes}"


def _dirt_lines(plan: CompactPlan) -> Iterator[str]:
    """Yield a line of a dry run about the part of the log that would be cleaned."""
    dirt = plan.dirt
    is_planned = plan.choice.is_cleaned and plan.choice is not Choice.ERASING_ONLY and plan.outcome is None
    if dirt is not None and is_planned:
        yield f"  cleanable up to offset {dirt.first_uncleanable} ({_UP_TO[dirt.up_to]}), {_dirt(plan)}"


# ---- the fates of records


_UNTIL = {
    UpTo.ACTIVE_SEGMENT: "it is in the active segment, until that is rolled",
    UpTo.LAST_STABLE_OFFSET: "a transaction before it is open, or it is above the high watermark",
    UpTo.MIN_COMPACTION_LAG: "it is too young, by min.compaction.lag.ms",
}


def _explain_lines(plan: CompactPlan) -> Iterator[str]:
    """Yield lines for the settings used, then for each record of the key and its fate in a cleaning now."""
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
        yield f"  {where}: {_fate(plan, plan.dirt, fate)}"


def _fate(plan: CompactPlan, dirt: Dirt, fate: RecordFate) -> str:
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


_MOST_OFFSETS = 10


def _erasure_lines(plan: CompactPlan) -> Iterator[str]:
    """Yield lines for each key (by its line in the key file), the logs before and after, and the other replicas."""
    erasure = plan.erasure
    if erasure is None or plan.is_refused:
        return
    is_done = erasure.after is not None
    records = counted(sum(key.records for key in erasure.keys), "record")
    keys = f"{len(erasure.keys)} of {counted(erasure.wanted, 'key')}"
    yield f"  {'erased' if is_done else 'to be erased'}: {records} of {keys}"
    for key in erasure.keys:
        offsets_text = ", ".join(map(str, key.offsets[:_MOST_OFFSETS]))
        more = f", ... to {key.last_offset}" if key.records > _MOST_OFFSETS else ""
        offsets = f"at {'offset' if key.records == 1 else 'offsets'} {offsets_text}{more}"
        yield f"  key of line {key.line}: {counted(key.records, 'record')}, {offsets}"
    for word, logs in (("before", erasure.before), ("after", erasure.after or ())):
        for log in logs:
            records = f"{counted(log.records, 'record')} of the keys"
            yield f"  {word}: {printable(log.name)}, {log.size_bytes} bytes, SHA-256 {log.sha256}, {records}"
    yield f"  {printable(erasure.replication)}"
