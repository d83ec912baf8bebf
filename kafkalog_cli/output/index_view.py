"""The objects of dump-index, and of dump-log with JSON output: an object per entry with its verdict, and per file."""

from typing import Annotated, Any, NamedTuple

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.checkpoint import EpochEntry, PartitionOffset
from kafkalog_cli.format.index import OffsetIndexEntry, TimeIndexEntry
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS
from kafkalog_cli.ops.check.checks.file_report import FileReport, StyleNames, Verdict, names_of
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.results import FLAT, Before, Count, PathName, result


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
