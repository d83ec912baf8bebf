"""Reports on the sidecar files of one partition, in the order of base offset and kind; each segment is walked once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from kafkalog_cli.actions.checkpoint_check import read_metadata_file
from kafkalog_cli.actions.index_verdict import Entry, FileReport, Note, fault_note
from kafkalog_cli.actions.log_questions import EpochRuns, ProducerTrail
from kafkalog_cli.actions.log_range import LogRange, log_range
from kafkalog_cli.actions.segment_reports import NO_SUFFIX_NOTE, Means, SegmentReports, Watch
from kafkalog_cli.actions.sidecar_files import MAX_STATE_BYTES, SEGMENT_SIDECARS, DirectoryFiles, SidecarFile
from kafkalog_cli.actions.state_check import (
    check_epochs,
    check_producers,
    epoch_offsets,
    epochs_not_told,
    snapshot_offsets,
    txn_offsets,
)
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format import checkpoint, producer_snapshot, txnindex
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.checkpoint import EpochEntry
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.storage.header import header_at
from kafkalog_cli.storage.log_end import segment_end
from kafkalog_cli.storage.names import FileKind, FileName, WorkState
from kafkalog_cli.storage.partition import Partition, open_partition

SMALL_FILES = (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE)
NOTHING = LogRange(0, 0)
EVERYTHING = LogRange(0, (1 << 63) - 1)


class PartitionReports:
    """The reports on a partition directory, or on single files of it (`wanted`, by name). Iterate for them.

    Segments are walked in order, so that questions which snapshots and epochs ask of earlier segments are answered
    when their turn comes. Raises PathNotFound, NotKafkaLayout, Unreadable for the directory itself.
    """

    def __init__(self, means: Means, path: str, wanted: frozenset[str] | None = None) -> None:
        self._means = means
        self._partition: Partition = open_partition(means.fs, path)
        self._files = DirectoryFiles(means.fs, path, self._partition.directory, wanted)
        self._log_problem: KafkalogError | None = None
        self._watch = Watch(self._range())
        self._next_offset: int | None = None
        self._ask()

    def __iter__(self) -> Iterator[FileReport]:
        sidecars = self._files.wanted(*SEGMENT_SIDECARS, FileKind.PRODUCER_SNAPSHOT)
        by_offset = {
            offset: list(group) for offset, group in groupby(sidecars, key=lambda file: file.name.offset) if offset
        }
        by_offset[0] = [file for file in sidecars if file.name.offset == 0]
        segments = [s.base_offset for s in self._partition.segments if not s.is_seven]
        for offset in sorted({*by_offset, *segments}):
            yield from self._at_offset(offset, by_offset.get(offset, []))
        for file in sidecars:
            if file.name.offset is None:
                yield self._files.report(file, notes=[NO_SUFFIX_NOTE])
        for file in self._files.wanted(FileKind.METADATA_SNAPSHOT):
            yield self._files.report(file, notes=[metadata_snapshot_note(file)])
        if self._files.is_everything_wanted:
            yield from self._missing_state()
        for file in self._files.wanted(*SMALL_FILES):
            if file.name.kind is FileKind.LEADER_EPOCH_CHECKPOINT:
                yield self._epochs_report(file)
            else:
                yield small_report(self._files, file)
