"""The results of dump-index, and of dump-log with JSON output: one per entry with its verdict, and one per file."""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.checkpoint import EpochEntry, PartitionOffset
from kafkalog_cli.format.index import OffsetIndexEntry, TimeIndexEntry
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS
from kafkalog_cli.ops.check.checks.file_report import FileReport, StyleNames, Verdict, names_of
from kafkalog_cli.results import FLAT, Before, Count, PathName, result


class EntryVerdict(NamedTuple):
    """The verdict on an entry."""

    verdict: Annotated[Verdict, "the state of the entry, compared with the log"]
    is_tolerable: Annotated[bool, "a broker's look-ups are right with this entry"]
    detail: Annotated[str, "a sentence; empty if the verdict is enough"]


class StyledVerdict(NamedTuple):
    """The verdict on an entry of an offset index."""

    verdict: Annotated[EntryVerdict, FLAT]
    styles: Annotated[
        StyleNames,
        Before("is_tolerable"),
        "rules by which a broker would have written the entry: before 2.0, to 4.0, since 4.1",
    ]


class FilePath(NamedTuple):
    """An index or metadata file."""

    path: Annotated[PathName, "the path as it was given, or found below it"]
    topic: Annotated[PathName | None, "by the directory's name; null outside of a partition directory"]
    partition: Annotated[Count | None, "null outside of a partition directory"]


class CheckpointPath(NamedTuple):
    """A checkpoint, whose lines have a topic and a partition of their own."""

    path: Annotated[PathName, "the path as it was given, or found below it"]
    kind: Annotated[str, "the name of the checkpoint"]


def _result_of(name: str, what: str, value: type, path: type = FilePath, verdict: type = EntryVerdict) -> Any:
    """Return the class of an entry's result: its file, its number, its value and the verdict on it."""
    number = "place in the file, from 0" if path is FilePath else "the line, from 0"
    fields = {"path": Annotated[path, FLAT], "number": Annotated[Count, number], "value": Annotated[value, FLAT]}
    entry: Any = NamedTuple("EntryResult", [*fields.items(), ("verdict", Annotated[verdict, FLAT])])  # type: ignore[misc]
    entry.__doc__ = f"{what}, compared with the log."
    return result(name)(entry)


_CHECKPOINT_RESULT = _result_of(
    "kafkalog.checkpoint-offset/1", "A line of a checkpoint of a log directory", PartitionOffset, CheckpointPath
)
_RESULTS = {
    FileKind.OFFSET_INDEX: _result_of(
        "kafkalog.index-entry/1", "An entry of an offset index", OffsetIndexEntry, verdict=StyledVerdict
    ),
    FileKind.TIME_INDEX: _result_of("kafkalog.time-index-entry/1", "An entry of a time index", TimeIndexEntry),
    FileKind.TXN_INDEX: _result_of("kafkalog.aborted-txn/1", "An entry of a transaction index", AbortedTxn),
    FileKind.PRODUCER_SNAPSHOT: _result_of("kafkalog.producer/1", "A producer of a producer snapshot", ProducerEntry),
    FileKind.LEADER_EPOCH_CHECKPOINT: _result_of(
        "kafkalog.leader-epoch/1", "A line of leader-epoch-checkpoint", EpochEntry
    ),
    **dict.fromkeys(OFFSET_CHECKPOINTS, _CHECKPOINT_RESULT),
}


@result("kafkalog.metadata-file/1")
class MetadataFile(NamedTuple):
    """The contents of a metadata file."""

    path: Annotated[FilePath, FLAT]
    kind: Annotated[str, "the name of the file"]
    fields: Annotated[dict[str, Any], "by the file's own names"]


def results_of(report: FileReport) -> Iterator[Any]:
    """Yield the results of the entries of a file, then that of the file."""
    kind, path = _RESULTS.get(report.kind), FilePath(report.path, report.topic, report.partition)
    of_file = CheckpointPath(report.path, report.kind.value) if kind is _CHECKPOINT_RESULT else path
    for entry in report.entries:
        if kind is None:
            yield MetadataFile(path, report.kind.value, entry.value._asdict())
            continue
        verdict: Any = EntryVerdict(entry.verdict, entry.is_tolerable or entry.exit_code is ExitCode.OK, entry.detail)
        if report.kind is FileKind.OFFSET_INDEX:
            verdict = StyledVerdict(verdict, names_of(entry.style))
        yield kind(of_file, entry.number, entry.value, verdict)
    yield report
