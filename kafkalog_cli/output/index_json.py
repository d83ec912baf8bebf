"""The JSON output of dump-index: a line per entry, then a line for the file."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, TypedDict

from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.checks.file_report import Entry, FileReport, Style, Verdict
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.records import AnyExitCode, Count, ObjectKind, PathText, Positive, keywords

StyleWords = list[Annotated[str, keywords(enum=("first-offset", "append-call", "per-batch"))]]
EntryVerdict = Annotated[Verdict, "the state of the entry, compared with the log"]
Tolerable = Annotated[bool, "a broker's look-ups are right with this entry"]
Detail = Annotated[str, "a sentence; empty if the verdict is enough"]


class PlaceObject(TypedDict):
    """The place of an index or metadata file."""

    path: Annotated[PathText, "the path as it was given, or found below it"]
    topic: Annotated[PathText | None, "by the directory's name; null outside of a partition directory"]
    partition: Annotated[Count | None, "null outside of a partition directory"]


class EntryObject(PlaceObject):
    """An entry of a file."""

    number: Annotated[Count, "place in the file, from 0"]


class IndexEntryObject(EntryObject):
    """An entry of an offset index, compared with the log."""

    offset: int
    position: Annotated[int, "the byte of the segment, as stored"]
    verdict: EntryVerdict
    styles: Annotated[StyleWords, "rules by which a broker would have written the entry: before 2.0, to 4.0, since 4.1"]
    is_tolerable: Tolerable
    detail: Detail


class TimeIndexEntryObject(EntryObject):
    """An entry of a time index, compared with the log."""

    timestamp_ms: int
    offset: int
    verdict: EntryVerdict
    is_tolerable: Tolerable
    detail: Detail


class AbortedTxnObject(EntryObject):
    """An entry of a transaction index, compared with the log."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    verdict: EntryVerdict
    is_tolerable: Tolerable
    detail: Detail


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
    verdict: EntryVerdict
    is_tolerable: Tolerable
    detail: Detail


class LeaderEpochObject(EntryObject):
    """A line of leader-epoch-checkpoint, compared with the log."""

    epoch: int
    start_offset: int
    verdict: EntryVerdict
    is_tolerable: Tolerable
    detail: Detail


class CheckpointOffsetObject(TypedDict):
    """A line of a checkpoint of a log directory, compared with the log."""

    path: Annotated[PathText, "the path as it was given, or found below it"]
    kind: Annotated[str, "the name of the checkpoint"]
    number: Annotated[Count, "the line, from 0"]
    topic: Annotated[PathText, "the topic of the line"]
    partition: int
    offset: int
    verdict: EntryVerdict
    is_tolerable: Tolerable
    detail: Detail


class MetadataFileObject(PlaceObject):
    """The contents of a metadata file."""

    kind: Annotated[str, "the name of the file"]
    fields: Annotated[dict[str, Any], "by the file's own names"]


class StyleCountObject(TypedDict):
    """The number of entries of a style."""

    styles: StyleWords
    entries: Positive


class FileNoteObject(TypedDict):
    """A note about a whole file."""

    message: Annotated[str, "a sentence"]
    exit_code: AnyExitCode


class IndexFileObject(PlaceObject):
    """A whole index, snapshot, checkpoint or metadata file, after its entries."""

    kind: Annotated[str, "the suffix or the name of the file"]
    state: Annotated[WorkState, "the work suffix; empty for a file in place"]
    offset: Annotated[int | None, "the number in the name"]
    size_bytes: Annotated[Count | None, "null for a file that should exist and does not"]
    entries: Count
    verdicts: Annotated[dict[str, Positive], keywords(propertyNames=Verdict), "entries by verdict"]
    styles: Annotated[StyleWords, "styles that fit all right entries; empty: no single style does"]
    style_counts: Annotated[list[StyleCountObject], "entries of an offset index by style"]
    zero_tail_bytes: Annotated[Count, "preallocated and unused"]
    notes: list[FileNoteObject]
    exit_code: AnyExitCode


INDEX_ENTRY = ObjectKind("kafkalog.index-entry/1", IndexEntryObject)
TIME_INDEX_ENTRY = ObjectKind("kafkalog.time-index-entry/1", TimeIndexEntryObject)
ABORTED_TXN = ObjectKind("kafkalog.aborted-txn/1", AbortedTxnObject)
PRODUCER = ObjectKind("kafkalog.producer/1", ProducerObject)
LEADER_EPOCH = ObjectKind("kafkalog.leader-epoch/1", LeaderEpochObject)
CHECKPOINT_OFFSET = ObjectKind("kafkalog.checkpoint-offset/1", CheckpointOffsetObject)
METADATA_FILE = ObjectKind("kafkalog.metadata-file/1", MetadataFileObject)
INDEX_FILE = ObjectKind("kafkalog.index-file/1", IndexFileObject)

_ENTRY_KINDS: dict[FileKind, ObjectKind[Any]] = {
    FileKind.OFFSET_INDEX: INDEX_ENTRY,
    FileKind.TIME_INDEX: TIME_INDEX_ENTRY,
    FileKind.TXN_INDEX: ABORTED_TXN,
    FileKind.PRODUCER_SNAPSHOT: PRODUCER,
    FileKind.LEADER_EPOCH_CHECKPOINT: LEADER_EPOCH,
    FileKind.RECOVERY_POINT_CHECKPOINT: CHECKPOINT_OFFSET,
    FileKind.REPLICATION_CHECKPOINT: CHECKPOINT_OFFSET,
    FileKind.LOG_START_CHECKPOINT: CHECKPOINT_OFFSET,
    FileKind.CLEANER_CHECKPOINT: CHECKPOINT_OFFSET,
}

_UNITS = {"timestamp": "timestamp_ms"}
"""Fields whose name in JSON has a unit."""

_STYLE_NAMES = (
    (Style.FIRST_OFFSET, "first-offset"),
    (Style.APPEND_CALL, "append-call"),
    (Style.PER_BATCH, "per-batch"),
)


class IndexJson:
    """Writes reports, and counts files and verdicts for the summary."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._files = 0
        self._verdicts: Counter[Verdict] = Counter()

    def report(self, report: FileReport) -> None:
        """Write the lines of one file."""
        topic = None if report.topic is None else PathText(report.topic)
        place: PlaceObject = {"path": PathText(report.path), "topic": topic, "partition": report.partition}
        if report.kind in _ENTRY_KINDS:
            kind = _ENTRY_KINDS[report.kind]
            for entry in report.entries:
                self._entry(kind, report, place, entry)
        else:
            for entry in report.entries:
                fields: MetadataFileObject = {**place, "kind": report.kind.value, "fields": dict(entry.fields)}
                self._lines.object(METADATA_FILE, fields)
        self._file(place, report)
        self._files += 1
        self._verdicts.update(report.counts)

    def summary(self, exit_code: ExitCode) -> None:
        """Write the summary, the last line."""
        self._lines.summary(
            exit_code, files=self._files, entries=sum(self._verdicts.values()), verdicts=_verdicts(self._verdicts)
        )

    def _entry(self, kind: ObjectKind[Any], report: FileReport, place: PlaceObject, entry: Entry) -> None:
        fields: dict[str, object] = {**place, "number": entry.number}
        if kind is CHECKPOINT_OFFSET:
            fields = {"path": place["path"], "kind": report.kind.value, "number": entry.number}
        for name, value in entry.fields.items():
            fields[_UNITS.get(name, name)] = PathText(value) if name == "topic" else value
        fields["verdict"] = entry.verdict
        if kind is INDEX_ENTRY:
            fields["styles"] = _styles(entry.style)
        fields["is_tolerable"] = entry.is_tolerable or entry.exit_code is ExitCode.OK
        fields["detail"] = entry.detail
        self._lines.object(kind, fields)

    def _file(self, place: PlaceObject, report: FileReport) -> None:
        fields: IndexFileObject = {
            **place,
            "kind": report.kind.value,
            "state": report.state,
            "offset": report.offset,
            "size_bytes": report.size_bytes,
            "entries": sum(report.counts.values()),
            "verdicts": _verdicts(report.counts),
            "styles": _styles(report.style),
            "style_counts": [
                {"styles": _styles(style), "entries": count} for style, count in sorted(report.style_counts.items())
            ],
            "zero_tail_bytes": report.zero_tail_bytes,
            "notes": [{"message": note.message, "exit_code": int(note.code)} for note in report.notes],
            "exit_code": int(report.exit_code),
        }
        self._lines.object(INDEX_FILE, fields)


def _verdicts(counts: Counter[Verdict]) -> dict[str, int]:
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


def _styles(style: Style) -> list[str]:
    return [name for flag, name in _STYLE_NAMES if flag in style]
