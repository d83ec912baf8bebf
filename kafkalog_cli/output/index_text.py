"""The text output of dump-index: a line for the file, a line per entry with its verdict, and a summary line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.checks.file_report import ANY_STYLE, Entry, FileReport, Style, Verdict
from kafkalog_cli.output.stream import printable

KIND_NAMES: dict[FileKind, str] = {
    FileKind.LOG: "log",
    FileKind.OFFSET_INDEX: "offset index",
    FileKind.TIME_INDEX: "time index",
    FileKind.TXN_INDEX: "transaction index",
    FileKind.PRODUCER_SNAPSHOT: "producer snapshot",
    FileKind.METADATA_SNAPSHOT: "metadata snapshot",
    FileKind.BOOTSTRAP_SNAPSHOT: "bootstrap snapshot",
    FileKind.LEADER_EPOCH_CHECKPOINT: "leader epochs",
    FileKind.PARTITION_METADATA: "partition metadata",
    FileKind.QUORUM_STATE: "quorum state",
    FileKind.META_PROPERTIES: "directory metadata",
    FileKind.CLEAN_SHUTDOWN: "clean shutdown",
    FileKind.RECOVERY_POINT_CHECKPOINT: "recovery points",
    FileKind.REPLICATION_CHECKPOINT: "high watermarks",
    FileKind.LOG_START_CHECKPOINT: "log start offsets",
    FileKind.CLEANER_CHECKPOINT: "cleaner offsets",
}

STYLE_WORDS: dict[Style, str] = {
    ANY_STYLE: "one record per batch, any version",
    Style.PER_BATCH | Style.APPEND_CALL: "last offset of the batch",
    Style.PER_BATCH: "last offset of the batch",
    Style.APPEND_CALL: "append call (2.0 to 4.0)",
    Style.FIRST_OFFSET: "first offset (before 2.0)",
}

FILE_STYLES: dict[Style, str] = {
    ANY_STYLE: "any version",
    Style.PER_BATCH | Style.APPEND_CALL: "per batch (4.1 and later; 2.0 to 4.0 where every append call was one batch)",
    Style.PER_BATCH: "per batch (4.1 and later)",
    Style.APPEND_CALL: "append calls (2.0 to 4.0)",
    Style.FIRST_OFFSET: "first offsets (before 2.0)",
}

_METADATA = (
    FileKind.META_PROPERTIES,
    FileKind.PARTITION_METADATA,
    FileKind.QUORUM_STATE,
    FileKind.CLEAN_SHUTDOWN,
    FileKind.METADATA_SNAPSHOT,
    FileKind.BOOTSTRAP_SNAPSHOT,
)
_MARKS = {ExitCode.OK: "", ExitCode.WARNINGS: "warning: ", ExitCode.FAILURE: "error: ", ExitCode.CORRUPTION: "error: "}


def report_lines(report: FileReport) -> Iterator[str]:
    """Return the lines of one file, with line ends."""
    yield f"{_heading(report)}\n"
    if report.kind in _METADATA:
        for entry in report.entries:
            yield from (f"  {_camel(name)}: {_value(value)}\n" for name, value in entry.fields.items())
    else:
        yield from map(_entry_line, report.entries)
    if report.zero_tail_bytes:
        yield f"  zero tail of {report.zero_tail_bytes} bytes, preallocated\n"
    for note in report.notes:
        yield f"  {_MARKS[note.code]}{printable(note.message)}\n"
    summary = _summary(report)
    if summary:
        yield f"  {summary}\n"


def _heading(report: FileReport) -> str:
    state = "" if report.state is WorkState.IN_PLACE else f", {report.state.value[1:]}"
    size = "" if report.size_bytes is None else f", {counted(report.size_bytes, 'byte', 'bytes')}"
    return f"{printable(report.path)}: {KIND_NAMES[report.kind]}{state}{size}"


def _entry_line(entry: Entry) -> str:
    fields = " ".join(f"{_camel(name)}: {_value(value)}" for name, value in entry.fields.items())
    said = STYLE_WORDS[entry.style] if entry.style else entry.detail
    return f"  {fields} {entry.verdict.value}{f', {printable(said)}' if said else ''}\n"


def _summary(report: FileReport) -> str:
    if report.size_bytes is None or report.kind in _METADATA or report.kind is FileKind.LOG:
        return ""
    if not report.is_read and not report.counts:
        return ""
    counts = ", ".join(f"{report.counts[verdict]} {verdict.value}" for verdict in Verdict if report.counts[verdict])
    total = sum(report.counts.values())
    text = f"{counted(total, 'entry', 'entries')}: {counts}" if total else "no entries"
    if report.style_counts:
        text += f"; style: {_file_style(report)}"
    return text


def _file_style(report: FileReport) -> str:
    if report.style:
        return FILE_STYLES[report.style]
    parts = (f"{count} {STYLE_WORDS[style]}" for style, count in sorted(report.style_counts.items()))
    return f"mixed: {', '.join(parts)}"


@cache
def _camel(name: str) -> str:
    """Return the name under which kafka-dump-log prints a field."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _value(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (tuple, list)):
        return ",".join(map(_value, value))
    return printable(str(value)) if value is not None else "none"
