"""The JSON output of dump-index: a line per entry, then a line for the file."""

from __future__ import annotations

from collections import Counter

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.reports.index_verdict import Entry, FileNote, FileReport, Style, Verdict
from kafkalog_cli.output.ndjson import JsonLines, json_path

INDEX_ENTRY = "kafkalog.index-entry/1"
TIME_INDEX_ENTRY = "kafkalog.time-index-entry/1"
ABORTED_TXN = "kafkalog.aborted-txn/1"
PRODUCER = "kafkalog.producer/1"
LEADER_EPOCH = "kafkalog.leader-epoch/1"
CHECKPOINT_OFFSET = "kafkalog.checkpoint-offset/1"
METADATA_FILE = "kafkalog.metadata-file/1"
INDEX_FILE = "kafkalog.index-file/1"

_ENTRY_SCHEMAS: dict[FileKind, str] = {
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
        place: dict[str, object] = {**json_path(report.path), **_topic(report.topic), "partition": report.partition}
        if report.kind in _ENTRY_SCHEMAS:
            schema = _ENTRY_SCHEMAS[report.kind]
            for entry in report.entries:
                self._entry(schema, report, place, entry)
        else:
            for entry in report.entries:
                fields = {**place, "kind": report.kind.value, "fields": dict(entry.fields)}
                self._lines.object(METADATA_FILE, "metadata-file", fields)
        self._file(place, report)
        self._files += 1
        self._verdicts.update(report.counts)

    def summary(self, exit_code: ExitCode) -> None:
        """Write the summary, the last line."""
        self._lines.summary(
            exit_code, files=self._files, entries=sum(self._verdicts.values()), verdicts=_verdicts(self._verdicts)
        )

    def _entry(self, schema: str, report: FileReport, place: dict[str, object], entry: Entry) -> None:
        fields: dict[str, object] = {**place, "number": entry.number}
        if schema == CHECKPOINT_OFFSET:
            fields = {**json_path(report.path), "kind": report.kind.value, "number": entry.number}
        for name, value in entry.fields.items():
            fields.update(_topic(str(value)) if name == "topic" else {_UNITS.get(name, name): value})
        fields["verdict"] = entry.verdict.value
        if schema == INDEX_ENTRY:
            fields["styles"] = _styles(entry.style)
        fields["is_tolerable"] = entry.is_tolerable or entry.exit_code is ExitCode.OK
        fields["detail"] = entry.detail
        self._lines.object(schema, schema[len("kafkalog.") : -len("/1")], fields)

    def _file(self, place: dict[str, object], report: FileReport) -> None:
        self._lines.object(
            INDEX_FILE,
            "index-file",
            {
                **place,
                "kind": report.kind.value,
                "state": report.state.value,
                "offset": report.offset,
                "size_bytes": report.size_bytes,
                "entries": sum(report.counts.values()),
                "verdicts": _verdicts(report.counts),
                "styles": _styles(report.style),
                "style_counts": [
                    {"styles": _styles(style), "entries": count} for style, count in sorted(report.style_counts.items())
                ],
                "zero_tail_bytes": report.zero_tail_bytes,
                "notes": list(map(_note, report.notes)),
                "exit_code": int(report.exit_code),
            },
        )


def _topic(topic: str | None) -> dict[str, str | None]:
    return {"topic": None} if topic is None else {**json_path(topic, "topic")}


def _verdicts(counts: Counter[Verdict]) -> dict[str, int]:
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


def _styles(style: Style) -> list[str]:
    return [name for flag, name in _STYLE_NAMES if flag in style]


def _note(note: FileNote) -> dict[str, object]:
    return {"message": note.message, "exit_code": int(note.code)}
