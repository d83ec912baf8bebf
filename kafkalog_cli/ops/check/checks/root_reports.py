"""Reports on all selected files: partitions, then the files at the root of a log directory."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kafkalog_cli.disk.names import (
    DirectoryKind,
    DirectoryName,
    FileKind,
    WorkState,
    classify_directory,
    classify_file,
    partition_directory_name,
)
from kafkalog_cli.errors import KafkalogError, NothingSelected
from kafkalog_cli.format import checkpoint
from kafkalog_cli.format.checkpoint import PartitionOffset
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import PartitionFile, directory_name, open_partition, open_partition_of
from kafkalog_cli.ops.check.checks.file_report import FileReport, fault_note
from kafkalog_cli.ops.check.checks.log_check import LogCheck
from kafkalog_cli.ops.check.checks.partition_check import PartitionCheck, ReadContext, small_report
from kafkalog_cli.ops.check.checks.recheck import report_with_rechecks
from kafkalog_cli.ops.check.checks.segment_walk import log_range
from kafkalog_cli.ops.check.checks.sidecar_files import KINDS, ROOT_SIDECARS, DirectoryFiles
from kafkalog_cli.ops.check.checks.state_check import check_offsets
from kafkalog_cli.ops.selection import Selection, expand, partition_paths


class SkippedFile(NamedTuple):
    """A file that is not a sidecar file."""

    path: str


Reported = FileReport | KafkalogError | SkippedFile


def index_reports(read_context: ReadContext, paths: list[str], selection: Selection) -> Iterator[Reported]:
    """Yield the reports on the selected files in `paths`, in the given order; a directory gives all its files.

    A missing or unreadable path gives its error, and so does an empty selection. A file of another kind gives a
    `SkippedFile`. Raises nothing.
    """
    anything = False
    for path in paths:
        for reported in _of_glob(read_context, path, selection):
            anything |= not isinstance(reported, SkippedFile)
            yield reported
    if not anything:
        reason = "no index, snapshot, checkpoint or metadata file under the given paths matches"
        yield NothingSelected(reason=reason)


def _of_glob(read_context: ReadContext, path: str, selection: Selection) -> Iterator[Reported]:
    try:
        found = expand(read_context.fs, [path])
    except KafkalogError as error:
        yield error
        return
    for match in found:
        yield from _of_path(read_context, match, selection)


def _of_path(read_context: ReadContext, path: str, selection: Selection) -> Iterator[Reported]:
    status = read_context.fs.status(path)
    try:
        if status is not None and status.is_directory:
            yield from _of_directory(read_context, path.rstrip("/") or "/", selection)
        else:
            yield from _of_file(read_context, path, selection)
    except KafkalogError as error:
        yield error


def _of_directory(read_context: ReadContext, path: str, selection: Selection) -> Iterator[Reported]:
    partitions = list(partition_paths(read_context.fs, path))
    for partition in partitions:
        if not selection.takes(partition.directory):
            continue
        try:
            yield from _of_partition(read_context, partition.path)
        except KafkalogError as error:
            is_gone = partition.path != path and read_context.fs.status(partition.path) is None
            if not is_gone:  # otherwise a broker renamed or removed it after the log directory was listed
                yield error
    if [partition.path for partition in partitions] != [path]:
        yield from _of_root(read_context, path, selection)


def _of_partition(read_context: ReadContext, path: str, wanted: frozenset[str] | None = None) -> Iterator[FileReport]:

    def check() -> PartitionCheck:
        log_check = LogCheck(read_context.fs, read_context.limits, transactions=False)
        return PartitionCheck(read_context, open_partition_of(read_context.fs, path, wanted), log_check, wanted)

    yield from report_with_rechecks(read_context, path, check)


def _of_root(
    read_context: ReadContext, path: str, selection: Selection, wanted: frozenset[str] | None = None
) -> Iterator[FileReport]:
    yield from report_with_rechecks(read_context, path, lambda: RootReports(read_context, path, selection, wanted))


def _of_file(read_context: ReadContext, path: str, selection: Selection) -> Iterator[Reported]:
    parent, _, name = path.rpartition("/")
    parent = parent or ("/" if path.startswith("/") else ".")
    kind = classify_file(name).kind
    if kind not in KINDS or kind is FileKind.LOG:
        yield SkippedFile(path)
    elif kind in ROOT_SIDECARS:
        yield from _of_root(read_context, parent, selection, frozenset({name}))
    elif selection.takes(directory_name(parent)):
        yield from _of_partition(read_context, parent, frozenset({name}))


class RootReports:
    """The reports on the files at the root of a log directory, or on some of them (`wanted`, by name).

    If topics or partitions are selected, only their lines of the checkpoints are reported.
    """

    def __init__(
        self, read_context: ReadContext, path: str, selection: Selection, wanted: frozenset[str] | None = None
    ) -> None:
        self._read_context = read_context
        self._selection = selection
        self._files = DirectoryFiles(read_context.fs, path, DirectoryName("", DirectoryKind.OTHER), wanted)
        self._partitions: dict[tuple[str, int], str] = {}
        for entry in read_context.fs.list_directory(path):
            directory = classify_directory(entry.path.rpartition("/")[2])
            topic, number = directory.topic, directory.partition
            if entry.is_directory and directory.kind is DirectoryKind.PARTITION and topic and number is not None:
                self._partitions[topic, number] = entry.path
        self._ranges: dict[tuple[str, int], LogBounds | None] = {}

    def __iter__(self) -> Iterator[FileReport]:
        for file in self._files.wanted(*ROOT_SIDECARS):
            if file.name.kind in OFFSET_CHECKPOINTS and file.name.state is WorkState.IN_PLACE:
                yield self._checkpoint_report(file)
            elif self._selection.is_everything:
                yield small_report(self._files, file)

    def _checkpoint_report(self, file: PartitionFile) -> FileReport:
        content = self._files.read(file)
        if not content.is_whole:
            return self._files.unread(file, content)
        entries, faults = checkpoint.decode_offsets(content.data)
        chosen = [entry for entry in entries if self._takes(entry)]
        check = partial(check_offsets, chosen, file.name.kind, self._range_of)
        return self._files.report(file, check, [fault_note(file.name.kind, fault) for fault in faults])

    def _takes(self, entry: PartitionOffset) -> bool:
        name = partition_directory_name(entry.topic, entry.partition)
        directory = DirectoryName(name, DirectoryKind.PARTITION, entry.topic, entry.partition)
        return self._selection.takes(directory)

    def _range_of(self, topic: str, partition: int) -> LogBounds | None:
        name = (topic, partition)
        path = self._partitions.get(name)
        if path is None:
            return None
        if name not in self._ranges:
            read_context = self._read_context
            opened = open_partition(read_context.fs, path)
            self._ranges[name] = log_range(read_context.fs, opened, read_context.limits)
        return self._ranges[name]
