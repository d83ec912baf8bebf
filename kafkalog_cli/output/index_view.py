"""The text and JSON output of dump-index: an entry per line with its verdict, and the summary of a file."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple

from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.checks.file_report import ANY_STYLE, Entry, FileReport, Style, Verdict
from kafkalog_cli.output.ndjson import AnyExitCode, JsonLines
from kafkalog_cli.output.stream import printable
from kafkalog_cli.results import FLAT, Before, Count, Hidden, PathName, PathText, Positive, each, keywords, of, result

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
    size = "" if report.size_bytes is None else f", {counted(report.size_bytes, 'byte')}"
    return f"{printable(report.path)}: {KIND_NAMES[report.kind]}{state}{size}"


def _entry_line(entry: Entry) -> str:
    fields = " ".join(f"{_camel(name)}: {_value(value)}" for name, value in entry.fields.items())
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


_STYLE_NAMES = {Style.FIRST_OFFSET: "first-offset", Style.APPEND_CALL: "append-call", Style.PER_BATCH: "per-batch"}


def counts_of(counts: Counter[Verdict]) -> dict[str, int]:
    """Return the number of entries by verdict."""
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


def _styles(style: Style) -> list[str]:
    return [name for flag, name in _STYLE_NAMES.items() if flag in style]


StyleWords = list[Annotated[str, keywords(enum=tuple(_STYLE_NAMES.values()))]]


class Judged(NamedTuple):
    """What is said of an entry."""

    verdict: Annotated[Verdict, "the state of the entry, compared with the log"]
    is_tolerable: Annotated[bool, "a broker's look-ups are right with this entry"]
    detail: Annotated[str, "a sentence; empty if the verdict is enough"]


@dataclass(frozen=True)
class PlaceObject:
    """The place of an index or metadata file."""

    path: Annotated[PathName, "the path as it was given, or found below it"]
    topic: Annotated[PathName | None, "by the directory's name; null outside of a partition directory"]
    partition: Annotated[Count | None, "null outside of a partition directory"]


@dataclass(frozen=True)
class EntryObject(PlaceObject):
    """An entry of a file."""

    number: Annotated[Count, "place in the file, from 0"]


@result("kafkalog.index-entry/1")
@dataclass(frozen=True)
class IndexEntryObject(EntryObject):
    """An entry of an offset index, compared with the log."""

    offset: int
    position: Annotated[int, "the byte of the segment, as stored"]
    judged: Annotated[Judged, FLAT]
    styles: Annotated[
        StyleWords,
        Before("is_tolerable"),
        "rules by which a broker would have written the entry: before 2.0, to 4.0, since 4.1",
    ]


@result("kafkalog.time-index-entry/1")
@dataclass(frozen=True)
class TimeIndexEntryObject(EntryObject):
    """An entry of a time index, compared with the log."""

    timestamp_ms: int
    offset: int
    judged: Annotated[Judged, FLAT]


@result("kafkalog.aborted-txn/1")
@dataclass(frozen=True)
class AbortedTxnObject(EntryObject):
    """An entry of a transaction index, compared with the log."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    judged: Annotated[Judged, FLAT]


@result("kafkalog.producer/1")
@dataclass(frozen=True)
class ProducerObject(EntryObject):
    """A producer of a producer snapshot, compared with the log."""

    producer_id: int
    producer_epoch: int
    last_sequence: Annotated[int, "-1: none"]
    last_offset: Annotated[int, "-1: none"]
    offset_delta: int
    timestamp_ms: Annotated[int, "of its last batch"]
    coordinator_epoch: int
    current_txn_first_offset: Annotated[int, "-1: no open transaction"]
    judged: Annotated[Judged, FLAT]


@result("kafkalog.leader-epoch/1")
@dataclass(frozen=True)
class LeaderEpochObject(EntryObject):
    """A line of leader-epoch-checkpoint, compared with the log."""

    epoch: int
    start_offset: int
    judged: Annotated[Judged, FLAT]


@result("kafkalog.checkpoint-offset/1")
@dataclass(frozen=True)
class CheckpointOffsetObject:
    """A line of a checkpoint of a log directory, compared with the log."""

    path: Annotated[PathName, "the path as it was given, or found below it"]
    kind: Annotated[str, "the name of the checkpoint"]
    number: Annotated[Count, "the line, from 0"]
    topic: Annotated[PathName, "the topic of the line"]
    partition: int
    offset: int
    judged: Annotated[Judged, FLAT]


@result("kafkalog.metadata-file/1")
@dataclass(frozen=True)
class MetadataFileObject(PlaceObject):
    """The contents of a metadata file."""

    kind: Annotated[str, "the name of the file"]
    fields: Annotated[dict[str, Any], "by the file's own names"]


class StyleCount(NamedTuple):
    """The number of entries of a style."""

    styles: StyleWords
    entries: Positive


class NoteOfFile(NamedTuple):
    """A note about a whole file."""

    message: Annotated[str, "a sentence"]
    exit_code: AnyExitCode


@result("kafkalog.index-file/1")
@dataclass(frozen=True)
class IndexFile:
    """A whole index, snapshot, checkpoint or metadata file, after its entries."""

    report: Hidden[FileReport]
    path: ClassVar[Annotated[PathName, "the path as it was given, or found below it"]] = of("report.path")
    topic: ClassVar[Annotated[PathName | None, "by the directory's name; null outside of a partition directory"]] = of(
        "report.topic"
    )
    partition: ClassVar[Annotated[Count | None, "null outside of a partition directory"]] = of("report.partition")
    kind: ClassVar[Annotated[str, "the suffix or the name of the file"]] = of("report.kind.value")
    state: ClassVar[Annotated[WorkState, "the work suffix; empty for a file in place"]] = of("report.state")
    offset: ClassVar[Annotated[int | None, "the number in the name"]] = of("report.offset")
    size_bytes: ClassVar[Annotated[Count | None, "null for a file that should exist and does not"]] = of(
        "report.size_bytes"
    )
    entries: ClassVar[Count] = of(lambda file: sum(file.report.counts.values()))
    verdicts: ClassVar[Annotated[dict[str, Positive], keywords(propertyNames=Verdict), "entries by verdict"]] = of(
        lambda file: counts_of(file.report.counts)
    )
    styles: ClassVar[Annotated[StyleWords, "styles that fit all right entries; empty: no single style does"]] = of(
        lambda file: _styles(file.report.style)
    )
    style_counts: ClassVar[Annotated[list[StyleCount], "entries of an offset index by style"]] = of(
        lambda file: [StyleCount(_styles(style), count) for style, count in sorted(file.report.style_counts.items())]
    )
    zero_tail_bytes: ClassVar[Annotated[Count, "preallocated and unused"]] = of("report.zero_tail_bytes")
    notes: ClassVar[list[NoteOfFile]] = each(lambda note: NoteOfFile(note.message, note.code), "report.notes")
    exit_code: ClassVar[AnyExitCode] = of("report.exit_code")


_ENTRY_KINDS: dict[FileKind, Any] = {
    FileKind.OFFSET_INDEX: IndexEntryObject,
    FileKind.TIME_INDEX: TimeIndexEntryObject,
    FileKind.TXN_INDEX: AbortedTxnObject,
    FileKind.PRODUCER_SNAPSHOT: ProducerObject,
    FileKind.LEADER_EPOCH_CHECKPOINT: LeaderEpochObject,
    FileKind.RECOVERY_POINT_CHECKPOINT: CheckpointOffsetObject,
    FileKind.REPLICATION_CHECKPOINT: CheckpointOffsetObject,
    FileKind.LOG_START_CHECKPOINT: CheckpointOffsetObject,
    FileKind.CLEANER_CHECKPOINT: CheckpointOffsetObject,
}

_UNITS = {"timestamp": "timestamp_ms"}
"""Fields whose name in JSON has a unit."""


def write_report(lines: JsonLines, report: FileReport) -> None:
    """Write the lines of one file."""
    topic = None if report.topic is None else PathText(report.topic)
    place = {"path": PathText(report.path), "topic": topic, "partition": report.partition}
    kind = _ENTRY_KINDS.get(report.kind)
    for entry in report.entries:
        if kind is not None:
            lines.object(kind.schema, _entry_fields(kind, report, place, entry))
            continue
        fields = {**place, "kind": report.kind.value, "fields": dict(entry.fields)}
        lines.object(MetadataFileObject.schema, fields)  # type: ignore[attr-defined]
    lines.result(IndexFile(report))


def _entry_fields(kind: Any, report: FileReport, place: dict[str, Any], entry: Entry) -> dict[str, object]:
    fields: dict[str, object] = {**place, "number": entry.number}
    if kind is CheckpointOffsetObject:
        fields = {"path": place["path"], "kind": report.kind.value, "number": entry.number}
    for name, value in entry.fields.items():
        fields[_UNITS.get(name, name)] = PathText(value) if name == "topic" else value
    fields["verdict"] = entry.verdict
    if kind is IndexEntryObject:
        fields["styles"] = _styles(entry.style)
    fields["is_tolerable"] = entry.is_tolerable or entry.exit_code is ExitCode.OK
    fields["detail"] = entry.detail
    return fields
