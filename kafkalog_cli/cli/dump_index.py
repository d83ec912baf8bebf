"""`kafkalog dump-index`: print index and sidecar files, with each entry checked against the log."""

from collections import Counter
from collections.abc import Iterator
from functools import cache

from typer import Context

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import DecodingLimits, Format, PathsArgument, Topics
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import ExitCode, KafkalogError, counted
from kafkalog_cli.ops.check.checks.file_report import ANY_STYLE, Entry, FileReport, Style, Verdict, counts_of
from kafkalog_cli.ops.check.checks.partition_check import ReadContext
from kafkalog_cli.ops.check.checks.report_results import results_of
from kafkalog_cli.ops.check.checks.root_reports import SkippedFile, index_reports
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "Check the index files of a partition": "kafkalog dump-index /var/lib/kafka/orders-0",
    "Print one checkpoint": "kafkalog dump-index /var/lib/kafka/recovery-point-offset-checkpoint",
}
EXIT_CODES = READ


def dump_index(
    context: Context,
    *,
    paths: PathsArgument,
    topics: Topics,
    output: Format = "text",
    decoding: DecodingLimits,
) -> int:
    """Print indexes, snapshots and checkpoints, each entry checked.

    Entries are compared with the log: each is right, stale, out of order or beyond the end. For an offset index, the
    rule by which it was written is printed: first offsets (before 2.0), append calls (2.0 to 4.0), or per batch (since
    4.1). Metadata files are printed too.
    """
    run = Run(context, output)
    run.show_reads(prints_while_reading=True)
    files, verdicts = 0, Counter[Verdict]()
    read_context = ReadContext(run.fs, decoding.limits, run.environment.sleep)
    for reported in index_reports(read_context, paths, topics.selection):  # a failure ends only its file or partition
        if isinstance(reported, SkippedFile):
            message = "ignored: it is not an index, a snapshot, a checkpoint or a metadata file"
            run.warn("ignored", message, reported.path)
            continue
        if isinstance(reported, KafkalogError):
            run.fail(reported)
            continue
        run.lock_warnings.about_partitions(reported.path.rpartition("/")[0] or ".")
        run.codes.append(reported.exit_code)
        files += 1
        verdicts.update(reported.counts)
        if run.lines is not None:
            run.lines.results(results_of(reported))
        else:
            for line in _report_lines(reported):
                run.out.write(line)
    return run.end(files=files, entries=verdicts.total(), verdicts=counts_of(verdicts))


_KIND_NAMES: dict[FileKind, str] = {
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

_STYLE_WORDS: dict[Style, tuple[str, str]] = {
    ANY_STYLE: ("one record per batch, any version", "any version"),
    Style.PER_BATCH | Style.APPEND_CALL: (
        "last offset of the batch",
        "per batch (4.1 and later; 2.0 to 4.0 where every append call was one batch)",
    ),
    Style.PER_BATCH: ("last offset of the batch", "per batch (4.1 and later)"),
    Style.APPEND_CALL: ("append call (2.0 to 4.0)", "append calls (2.0 to 4.0)"),
    Style.FIRST_OFFSET: ("first offset (before 2.0)", "first offsets (before 2.0)"),
}
"""The style of an entry, and that of a whole file."""

_METADATA = (
    FileKind.META_PROPERTIES,
    FileKind.PARTITION_METADATA,
    FileKind.QUORUM_STATE,
    FileKind.CLEAN_SHUTDOWN,
    FileKind.METADATA_SNAPSHOT,
    FileKind.BOOTSTRAP_SNAPSHOT,
)
_MARKS = {ExitCode.OK: "", ExitCode.WARNINGS: "warning: ", ExitCode.FAILURE: "error: ", ExitCode.CORRUPTION: "error: "}


def _report_lines(report: FileReport) -> Iterator[str]:
    """Return the lines of one file, with line ends."""
    yield f"{_heading(report)}\n"
    if report.kind in _METADATA:
        for entry in report.entries:
            yield from (f"  {_camel(name)}: {_value(value)}\n" for name, value in entry.value._asdict().items())
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
    size = "" if report.size_bytes is None else f", {counted(report.size_bytes, 'byte')}"
    return f"{printable(report.path)}: {_KIND_NAMES[report.kind]}{state}{size}"


def _entry_line(entry: Entry) -> str:
    fields = " ".join(f"{_camel(name)}: {_value(value)}" for name, value in entry.value._asdict().items())
    said = _STYLE_WORDS[entry.style][0] if entry.style else entry.detail
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
        return _STYLE_WORDS[report.style][1]
    parts = (f"{count} {_STYLE_WORDS[style][0]}" for style, count in sorted(report.style_counts.items()))
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
