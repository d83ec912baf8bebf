"""The text and JSON output of dump-index: an entry per line with its verdict, and the summary of a file."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple

from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.format.checkpoint import EpochEntry, PartitionOffset
from kafkalog_cli.format.index import OffsetIndexEntry, TimeIndexEntry
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS
from kafkalog_cli.ops.checks.file_report import ANY_STYLE, Entry, FileReport, Style, StyleNames, Verdict, names_of
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import printable
from kafkalog_cli.results import FLAT, Before, Count, PathName, result

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

STYLE_WORDS: dict[Style, tuple[str, str]] = {
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


def report_lines(report: FileReport) -> Iterator[str]:
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
    return f"{printable(report.path)}: {KIND_NAMES[report.kind]}{state}{size}"


def _entry_line(entry: Entry) -> str:
    fields = " ".join(f"{_camel(name)}: {_value(value)}" for name, value in entry.value._asdict().items())
    said = STYLE_WORDS[entry.style][0] if entry.style else entry.detail
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
        return STYLE_WORDS[report.style][1]
    parts = (f"{count} {STYLE_WORDS[style][0]}" for style, count in sorted(report.style_counts.items()))
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


class Judged(NamedTuple):
    """What is said of an entry."""

    verdict: Annotated[Verdict, "the state of the entry, compared with the log"]
    is_tolerable: Annotated[bool, "a broker's look-ups are right with this entry"]
    detail: Annotated[str, "a sentence; empty if the verdict is enough"]


class JudgedStyle(NamedTuple):
    """What is said of an entry of an offset index."""

    judged: Annotated[Judged, FLAT]
    styles: Annotated[
        StyleNames,
        Before("is_tolerable"),
        "rules by which a broker would have written the entry: before 2.0, to 4.0, since 4.1",
    ]


class Place(NamedTuple):
    """The place of an index or metadata file."""

    path: Annotated[PathName, "the path as it was given, or found below it"]
    topic: Annotated[PathName | None, "by the directory's name; null outside of a partition directory"]
    partition: Annotated[Count | None, "null outside of a partition directory"]


class CheckpointPlace(NamedTuple):
    """The place of a checkpoint, whose lines have a topic and a partition of their own."""

    path: Annotated[PathName, "the path as it was given, or found below it"]
    kind: Annotated[str, "the name of the checkpoint"]


def _line_of(name: str, what: str, value: type, place: type = Place, judged: type = Judged) -> Any:
    """Return the class of the lines of an entry: the place of its file, its number, its value and its verdict."""
    number = "place in the file, from 0" if place is Place else "the line, from 0"
    fields = {"place": Annotated[place, FLAT], "number": Annotated[Count, number], "value": Annotated[value, FLAT]}
    line: Any = NamedTuple("EntryLine", [*fields.items(), ("judged", Annotated[judged, FLAT])])  # type: ignore[misc]
    line.__doc__ = f"{what}, compared with the log."
    return result(name)(line)


_CHECKPOINT_LINE = _line_of(
    "kafkalog.checkpoint-offset/1", "A line of a checkpoint of a log directory", PartitionOffset, CheckpointPlace
)
_LINES = {
    FileKind.OFFSET_INDEX: _line_of(
        "kafkalog.index-entry/1", "An entry of an offset index", OffsetIndexEntry, judged=JudgedStyle
    ),
    FileKind.TIME_INDEX: _line_of("kafkalog.time-index-entry/1", "An entry of a time index", TimeIndexEntry),
    FileKind.TXN_INDEX: _line_of("kafkalog.aborted-txn/1", "An entry of a transaction index", AbortedTxn),
    FileKind.PRODUCER_SNAPSHOT: _line_of("kafkalog.producer/1", "A producer of a producer snapshot", ProducerEntry),
    FileKind.LEADER_EPOCH_CHECKPOINT: _line_of(
        "kafkalog.leader-epoch/1", "A line of leader-epoch-checkpoint", EpochEntry
    ),
    **dict.fromkeys(OFFSET_CHECKPOINTS, _CHECKPOINT_LINE),
}


@result("kafkalog.metadata-file/1")
class MetadataFileLine(NamedTuple):
    """The contents of a metadata file."""

    place: Annotated[Place, FLAT]
    kind: Annotated[str, "the name of the file"]
    fields: Annotated[dict[str, Any], "by the file's own names"]


def write_report(lines: JsonLines, report: FileReport) -> None:
    """Write the lines of one file."""
    kind, place = _LINES.get(report.kind), Place(report.path, report.topic, report.partition)
    of_file = CheckpointPlace(report.path, report.kind.value) if kind is _CHECKPOINT_LINE else place
    for entry in report.entries:
        if kind is None:
            lines.result(MetadataFileLine(place, report.kind.value, entry.value._asdict()))
            continue
        judged: Any = Judged(entry.verdict, entry.is_tolerable or entry.exit_code is ExitCode.OK, entry.detail)
        if report.kind is FileKind.OFFSET_INDEX:
            judged = JudgedStyle(judged, names_of(entry.style))
        lines.result(kind(of_file, entry.number, entry.value, judged))
    lines.result(report)
