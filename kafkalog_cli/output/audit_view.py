"""The text and JSON output of audit: a table per log directory, findings with their next steps, and totals."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated, Any, TypedDict, cast

from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.audit.audit import Audited, Failed, PartitionStatistics
from kafkalog_cli.ops.audit.compare import AuditChange, AuditChangeKind
from kafkalog_cli.ops.audit.counting import KeyCounts
from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.verify.task import Level, TargetKind, Verification
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.ndjson import (
    Count,
    DirectoryWord,
    From,
    JsonLines,
    NotRequired,
    ObjectKind,
    PathText,
    Positive,
    RawBytes,
    exit_codes,
    keywords,
    same_fields,
)
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import ResultStream, paint_of, printable
from kafkalog_cli.output.verify_view import CODES, FINDING, finding_lines, finding_object, verification_object

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
    others = [(found.tombstones, "tombstone", ""), (found.null_keys, "record without a key", "records without a key")]
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
    return ", ".join([*words, counted(warnings, "warning")] if warnings else words) or NOTHING


def _totals(audited: Iterable[Audited], seconds: float) -> str:
    audited = [*audited]
    found = [one.statistics for one in audited if one.statistics is not None]
    checked = [one.result for one in audited if isinstance(one.result, Verification)]
    directories = {one.log_dir.path for one in audited if one.log_dir is not None}
    records = [one.records for one in found]
    parts = [counted(len(found), "partition")]
    if directories:
        parts[0] += f" in {counted(len(directories), 'log directory', 'log directories')}"
    parts.append(sized(sum(one.bytes for one in found)))
    unknown = "" if None not in records else "at least "
    parts.append(unknown + counted(sum(one or 0 for one in records), "record"))
    for severity in (Severity.CORRUPTION, Severity.WARNING):
        count = sum(result.count(severity) for result in checked)
        if count:
            parts.append(counted(count, severity.value))
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


_TARGETS = (TargetKind.PARTITION.value, TargetKind.LOG_DIR.value)


class KeyTotalObject(TypedDict):
    """A key, and the totals of its records. An estimated total is at most its error too low."""

    key: Annotated[RawBytes, "its first 1024 bytes"]
    key_bytes: Annotated[Count, "the size of the whole key"]
    records: Count
    bytes: Annotated[Count, "of keys and values, decompressed"]
    records_error: Count
    bytes_error: Count


class KeyCountsObject(TypedDict):
    """The keys of a partition's records."""

    keys: Annotated[Count, "the number of different keys"]
    relative_error: Annotated[float, keywords(minimum=0), "the standard error of an estimated number of keys, else 0"]
    null_keys: Annotated[Count, "records without a key"]
    tombstones: Annotated[Count, "records with a key and without a value"]
    largest: Annotated[list[KeyTotalObject], "by bytes"]
    most_frequent: Annotated[list[KeyTotalObject], "by records"]
    uncounted_records: Annotated[Count, "the most records of a key that was not counted for lack of memory"]
    uncounted_bytes: Annotated[Count, "the most bytes of such a key"]
    is_exact: Annotated[bool, "whether the keys were counted (by hashes of 64 bits), not estimated"]


class CodecCountsObject(TypedDict):
    """The batches of a codec."""

    codec: str
    batches: Count
    bytes: Annotated[Count, "of whole batches in the log"]


class StatisticsObject(TypedDict):
    """The contents of a partition."""

    directory_kind: Annotated[DirectoryWord, From("kind")]
    topic_id: Annotated[str | None, "of partition.metadata"]
    segments: Count
    bytes: Annotated[Count, "of log files"]
    total_bytes: Annotated[Count, "of all files"]
    allocated_bytes: Annotated[Count, "their space on the disk"]
    high_watermark: Annotated[int | None, "at most the log's end; null if unknown"]
    batches: Annotated[Count, "batches whose CRC is right or was not checked"]
    records: Annotated[int | None, "without control records: read, or of headers; null if a header has no count"]
    control_records: Count
    first_timestamp_ms: Annotated[int | None, From("first_timestamp"), "of the first batch"]
    max_timestamp_ms: Annotated[int | None, From("max_timestamp"), "the largest of all batches"]
    codecs: list[CodecCountsObject]
    dirty_bytes: Annotated[int | None, "of whole segments that the log cleaner may clean; null: it cleans nothing"]
    dirty_ratio: Annotated[
        float | None,
        keywords(minimum=0, maximum=1),
        "dirty bytes divided by the bytes that a cleaning would read; null: the log cleaner cleans nothing",
    ]
    keys: Annotated[KeyCountsObject | None, "null without --keys"]


class AuditObject(TypedDict):
    """The result of audit for a partition directory, or for a log directory's own files."""

    target: NotRequired[Annotated[TargetKind, keywords(enum=_TARGETS)]]
    path: Annotated[PathText, "the directory"]
    topic: NotRequired[str | None]
    partition: NotRequired[int | None]
    level: NotRequired[Level]
    log_start_offset: NotRequired[
        Annotated[int | None, "base offset of the first segment; null if no log could be read"]
    ]
    log_end_offset: NotRequired[Annotated[int | None, "the offset of the next record"]]
    corruptions: NotRequired[Annotated[Count, "findings of this severity"]]
    warnings: NotRequired[Count]
    infos: NotRequired[Count]
    not_looked_at: NotRequired[Annotated[list[str], "parts that the level or a missing metadata log left unchecked"]]
    exit_code: Annotated[int, exit_codes(*CODES, ExitCode.UNSUPPORTED, ExitCode.REFUSED), "of this target"]
    log_dir: NotRequired[Annotated[PathText, "the log directory that contains it; absent if it is in no log directory"]]
    cluster_id: NotRequired[Annotated[str | None, "of meta.properties"]]
    node_id: NotRequired[int | None]
    directory_id: NotRequired[str | None]
    error: Annotated[str | None, "why it could not be checked; then there are no findings"]
    findings: Annotated[dict[str, Positive], "findings by kind; each has its own line before this line"]
    statistics: Annotated[StatisticsObject | None, "null for a log directory, and after an error"]


class AuditFindingObject(TypedDict):
    """A warning or a corruption."""

    kind: Annotated[str, "as in kafkalog.finding/1"]
    path: str


class AuditNumbersObject(TypedDict):
    """The numbers of a partition, compared with those of an earlier audit."""

    path: Annotated[str, "the partition directory; bytes that are not UTF-8 as \\xNN"]
    topic: Annotated[str | None, "null for a log directory's own files"]
    partition: int | None
    kind: AuditChangeKind
    since_run: Annotated[str, "the earlier run"]
    since_ms: Annotated[int, "the time of the earlier run"]
    seconds: Annotated[float, "between both runs"]
    bytes: Annotated[int | None, "the change of the size; negative: less than before"]
    records: Annotated[int | None, "the change of the number; null if a number is unknown"]
    offsets: Annotated[int | None, "the change of the log end offset"]
    bytes_per_s: float | None
    offsets_per_s: float | None
    dirty_ratio_before: float | None
    dirty_ratio: float | None


class AuditChangeObject(AuditNumbersObject):
    """The change of a partition since an earlier audit."""

    new_findings: Annotated[list[AuditFindingObject], "warnings and corruptions"]
    gone_findings: Annotated[list[AuditFindingObject], "warnings and corruptions of the earlier run"]


AUDIT = ObjectKind("kafkalog.audit/1", AuditObject)
CHANGE = ObjectKind("kafkalog.audit-change/1", AuditChangeObject)


def write_audited(lines: JsonLines, audited: Audited) -> None:
    """Write the findings, then the result."""
    if not isinstance(audited.result, Failed):
        for one in audited.result.findings:
            lines.object(FINDING, finding_object(one, audited.result))
    lines.object(AUDIT, audit_object(audited))


def write_change(lines: JsonLines, change: AuditChange) -> None:
    """Write the change of one partition since an earlier run."""
    new, gone = (
        [{"kind": kind, "path": path} for kind, path in found] for found in (change.new_findings, change.gone_findings)
    )
    lines.record(CHANGE, change, new_findings=new, gone_findings=gone)


def audit_object(audited: Audited) -> AuditObject:
    """Return the fields of an audit: a verification's and `statistics`; a failed audit has an `error`."""
    log_dir, result = audited.log_dir, audited.result
    found: Any = {} if isinstance(result, Failed) else verification_object(result)
    for name in ("segments", "bytes", "batches", "records"):
        found.pop(name, None)  # the verification counts what it checked; the statistics count what exists
    if isinstance(result, Failed):
        found["path"] = PathText(result.path)
    if log_dir is not None:
        found |= {"log_dir": PathText(log_dir.path), "cluster_id": log_dir.cluster_id}
        found |= {"node_id": log_dir.node_id, "directory_id": log_dir.directory_id}
    if isinstance(result, Failed):
        found |= {"error": str(result.error), "findings": {}, "statistics": None, "exit_code": int(audited.exit_code)}
    else:
        counts = Counter(one.kind.value for one in result.findings)
        statistics = None if audited.statistics is None else statistics_object(audited.statistics)
        found |= {"error": None, "findings": dict(counts), "statistics": statistics}
    return cast(AuditObject, found)


def statistics_object(found: PartitionStatistics) -> StatisticsObject:
    """Return the statistics of a partition."""
    keys = found.keys and same_fields(KeyCountsObject, found.keys, is_exact=not found.keys.relative_error)
    return same_fields(StatisticsObject, found, keys=keys)
