"""The text output of audit: a table per log directory, the findings with their next steps, and the totals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.audit.audit import Audited, Failed, PartitionStatistics
from kafkalog_cli.ops.audit.compare import AuditChange, AuditChangeKind
from kafkalog_cli.ops.audit.keys import KeyCounts
from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.verify.partition import Verification
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.paint import paint_of
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import ResultStream, printable
from kafkalog_cli.output.verify_text import finding_lines

_KEYS = "keys"
_COLUMNS = (
    TextColumn("partition"),
    TextColumn("bytes", is_number=True),
    TextColumn("records", is_number=True, rank=1),
    TextColumn("segments", is_number=True, rank=5),
    TextColumn("batches", is_number=True, rank=6),
    TextColumn("from", rank=4),
    TextColumn("to", rank=3),
    TextColumn("codecs", rank=4),
    TextColumn("dirty", is_number=True, rank=3),
    TextColumn(_KEYS, is_number=True, rank=2),
    TextColumn("findings"),
)

_SHOWN_KEY_BYTES = 64


def write_audit(out: ResultStream, audited: Sequence[Audited], seconds: float, *, quiet: bool) -> None:
    """Write the whole audit, which took `seconds`; with `quiet` only results with a warning or worse, if any."""
    shown = [one for one in audited if not quiet or _verdict(one) != NOTHING]
    if quiet and not shown:
        return
    paint = paint_of(out)
    for directory, group in groupby(shown, key=_directory):
        _write_directory(out, directory, [*group])
    for one in shown:
        if isinstance(one.result, Verification):
            for found in one.result.findings:
                if found.severity is not Severity.INFO:
                    out.write("".join(f"{line}\n" for line in finding_lines(found, paint)))
    for one in shown:
        if one.statistics is not None and one.statistics.keys is not None and one.statistics.keys.largest:
            _write_keys(out, one.path, one.statistics.keys)
    out.write(_totals(audited, seconds) + "\n")


def _directory(audited: Audited) -> str:
    if audited.log_dir is not None:
        return audited.log_dir.path
    return audited.path.rpartition("/")[0]


def _write_directory(out: ResultStream, directory: str, group: list[Audited]) -> None:
    known = next((one.log_dir for one in group if one.log_dir is not None), None)
    words = [] if known is None else [("cluster", known.cluster_id), ("node", known.node_id)]
    named = ", ".join(f"{name} {cell(value)}" for name, value in words if value is not None)
    out.write(f"{printable(directory)}{': ' if named else ''}{named}\n")
    columns, rows = [*_COLUMNS], [_row(one) for one in group]
    if all(one.statistics is None or one.statistics.keys is None for one in group):  # keys were not requested
        columns = [one for one in columns if one.title != _KEYS]
        rows = [[*row[:-2], row[-1]] for row in rows]
    write_table(out, TextTable(columns, rows))
    out.write("\n")


def _row(audited: Audited) -> list[str]:
    name = audited.path.rpartition("/")[2] if audited.path != _directory(audited) else "(its own files)"
    found = audited.statistics
    return [printable(name), *([NOTHING] * 9 if found is None else _cells(found)), _verdict(audited)]


def _cells(found: PartitionStatistics) -> list[str]:
    codecs = ",".join(one.codec for one in found.codecs) or NOTHING
    dirty = NOTHING if found.dirty_ratio is None else f"{found.dirty_ratio:.3f}"
    numbers = (found.bytes, found.records, found.segments, found.batches)
    times = iso_time(found.first_timestamp), iso_time(found.max_timestamp)
    return [*map(cell, numbers), *times, codecs, dirty, NOTHING if found.keys is None else _key_count(found.keys)]


def _key_count(found: KeyCounts) -> str:
    return f"~{found.keys}" if found.relative_error else str(found.keys)


def _write_keys(out: ResultStream, path: str, found: KeyCounts) -> None:
    """Write the largest keys, most bytes first, then further keys with the most records."""
    how = f"about {found.keys} (±{found.relative_error:.1%})" if found.relative_error else str(found.keys)
    others = [
        (found.tombstones, "tombstone", "tombstones"),
        (found.null_keys, "record without a key", "records without a key"),
    ]
    words = "".join(f", {counted(count, one, many)}" for count, one, many in others if count)
    out.write(f"{printable(path)}: {how} {'key' if how == '1' else 'keys'}{words}\n")
    for one in dict.fromkeys((*found.largest, *found.most_frequent)):
        shown = printable(one.key[:_SHOWN_KEY_BYTES].decode("utf-8", "backslashreplace"))
        cut = f"... ({one.key_bytes} bytes)" if one.key_bytes > _SHOWN_KEY_BYTES else ""
        records, size_bytes = _bounded(one.records, one.records_error), _bounded(one.bytes, one.bytes_error)
        out.write(f"  {shown or '(empty)'}{cut}: bytes {size_bytes}, records {records}\n")


def _bounded(count: int, error: int) -> str:
    return f"{count} to {count + error}" if error else str(count)


def _verdict(audited: Audited) -> str:
    """Return the verdict in a few words."""
    if isinstance(audited.result, Failed):
        return "not checked"
    corruptions, warnings = (audited.result.count(one) for one in (Severity.CORRUPTION, Severity.WARNING))
    words = [f"corruption ({corruptions})"] if corruptions else []
    return ", ".join([*words, counted(warnings, "warning", "warnings")] if warnings else words) or NOTHING


def _totals(audited: Iterable[Audited], seconds: float) -> str:
    audited = [*audited]
    found = [one.statistics for one in audited if one.statistics is not None]
    checked = [one.result for one in audited if isinstance(one.result, Verification)]
    directories = {one.log_dir.path for one in audited if one.log_dir is not None}
    records = [one.records for one in found]
    parts = [counted(len(found), "partition", "partitions")]
    if directories:
        parts[0] += f" in {counted(len(directories), 'log directory', 'log directories')}"
    parts.append(sized(sum(one.bytes for one in found)))
    unknown = "" if None not in records else "at least "
    parts.append(unknown + counted(sum(one or 0 for one in records), "record", "records"))
    for severity, one, many in (
        (Severity.CORRUPTION, "corruption", "corruptions"),
        (Severity.WARNING, "warning", "warnings"),
    ):
        count = sum(result.count(severity) for result in checked)
        if count:
            parts.append(counted(count, one, many))
    failed = len(audited) - len(checked)
    if failed:
        parts.append(f"{failed} not checked")
    parts.append(spent(seconds))
    left_out = sorted({what for result in checked for what in result.not_looked_at})
    if left_out:
        parts.append(f"not checked: {printable(', '.join(left_out))}")
    return "; ".join(parts)


_CHANGE_COLUMNS = (
    TextColumn("change"),
    TextColumn("path"),
    TextColumn("bytes", is_number=True),
    TextColumn("records", is_number=True, rank=1),
    TextColumn("bytes/s", is_number=True, rank=3),
    TextColumn("offsets/s", is_number=True, rank=3),
    TextColumn("dirty before", is_number=True, rank=4),
    TextColumn("dirty", is_number=True, rank=4),
    TextColumn("new findings", rank=2),
    TextColumn("gone findings", rank=5),
)


def write_changes(out: ResultStream, found: Sequence[AuditChange], *, quiet: bool) -> None:
    """Write a table of the changes since each compared run; with `quiet`, skip runs without any change."""
    for (run, since_ms), group in groupby(sorted(found, key=lambda one: one.since_run), key=_compared):
        of_run = [*group]
        rows = [_change_row(one) for one in of_run if one.kind is not AuditChangeKind.SAME]
        if quiet and not rows:
            continue
        same = len(of_run) - len(rows)
        out.write(f"\nsince {iso_time(since_ms)} ({run}): {len(rows)} changed, {same} as before\n")
        if rows:
            write_table(out, TextTable(_CHANGE_COLUMNS, rows))


def _compared(change: AuditChange) -> tuple[str, int]:
    return change.since_run, change.since_ms


def _change_row(change: AuditChange) -> list[str]:
    rates = (change.bytes_per_s, change.offsets_per_s)
    ratios = (change.dirty_ratio_before, change.dirty_ratio)
    return [
        change.kind.value,
        printable(change.path),
        *(NOTHING if one is None else f"{one:+}" for one in (change.bytes, change.records)),
        *(NOTHING if one is None else f"{one:.1f}" for one in rates),
        *(NOTHING if one is None else f"{one:.3f}" for one in ratios),
        *(_kinds(found) for found in (change.new_findings, change.gone_findings)),
    ]


def _kinds(found: Iterable[tuple[str, str]]) -> str:
    return ",".join(dict.fromkeys(kind for kind, _ in found)) or NOTHING
