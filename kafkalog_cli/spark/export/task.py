"""What one task of an export does: pieces of logs read by the core, their records written to files."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from kafkalog_cli.actions.broker_view import BrokerViews
from kafkalog_cli.actions.damage import damaged_log
from kafkalog_cli.actions.export.columns import core_schema, export_schema, exported
from kafkalog_cli.actions.export.files import MadeFile, PartitionFiles, Source, Target
from kafkalog_cli.actions.export.progress import record_digest
from kafkalog_cli.actions.export.request import ExportRequest, FileFormat, OnDamage
from kafkalog_cli.actions.partition_facts import topic_id_of
from kafkalog_cli.actions.read.committed import Note
from kafkalog_cli.actions.read.log_read import LogRead, SegmentRead
from kafkalog_cli.actions.read.request import ReadRequest
from kafkalog_cli.actions.same_place import Sight, Sights
from kafkalog_cli.errors import DamagedLog, DamagedTail, ExitCode
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.spark.jobs import attempt
from kafkalog_cli.spark.rows import capped
from kafkalog_cli.spark.splits import Piece, Task
from kafkalog_cli.storage.fs import FileAttributes, RealFilesystem, WritableFilesystem
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.partition import Partition, open_partition
from kafkalog_cli.storage.reading.record_arrow import record_batches

MOST_TOLD = 1000
"""Places of damage that a task tells of; the others are counted."""

Render = Callable[[RecordBlock], bytes]


class Lines(Protocol):
    """What makes lines of records; it goes to every worker."""

    def of_segment(self, partition: Partition, name: str, *, is_seven: bool) -> Render:
        """What renders the blocks of a segment file: a line for each record."""


class Where(NamedTuple):
    """The staging directory, and what files in it have."""

    staging: str
    attributes: FileAttributes


class SeenTask(NamedTuple):
    """The pieces of a task, and what the driver saw of the partitions that they are of."""

    pieces: Task
    seen: tuple[Sight, ...]


class PieceDone(NamedTuple):
    """How far a piece was read: `next_offset` is its end, or where an open transaction, or a batch too large, ended it.

    `last_offset` and `last_record` are of the last record written, None if there was none. `codes`: of its damage.
    """

    piece: Piece
    next_offset: int
    last_offset: int | None
    last_record: str | None
    codes: tuple[ExitCode, ...]


class TaskDone(NamedTuple):
    """What a task made, and what is to be said: damage that was left out, and notes."""

    files: list[MadeFile]
    pieces: list[PieceDone]
    damage: list[DamagedLog]
    untold: int
    notes: list[Note]


class ExportTask:
    """The work of a task; it goes to every worker. All tasks together read `job_bytes`."""

    def __init__(self, request: ExportRequest, where: Where, lines: Lines | None, job_bytes: int) -> None:
        self._request = request
        self._job_bytes = job_bytes
        self._where = where
        self._lines = lines

    def __call__(self, task: SeenTask) -> TaskDone:
        """Export the pieces. Raises DamagedLog (mode failfast), OffsetOutOfRange, OSError, SyncFailed.

        Raises Refused where another partition lies here than where the driver is.
        """
        fs = RealFilesystem()
        sights = Sights(fs, socket.gethostname())
        for seen in task.seen:
            sights.check(seen)
        choice = KernelChoice()
        choice.expect(self._job_bytes)  # not the task's: what one worker compiles, the tasks behind it find
        views = BrokerViews(fs)
        done = TaskDone([], [], [], 0, [])
        for number, piece in enumerate(task.pieces):
            request = self._request
            prefix = f"{attempt()}-{number}"
            target = Target(*self._where, request.format, request.codec, request.by_day, prefix)
            reading = _PieceExport(fs, piece, request, choice, views)
            files = PartitionFiles(fs, target, reading.source)
            try:
                end = reading.run(files, self._lines)
                done.files.extend(files.finish())
            except BaseException:
                files.drop()
                raise
            done.pieces.append(end)
            room = max(MOST_TOLD - len(done.damage), 0)
            done.damage.extend(reading.damage[:room])
            done = done._replace(untold=done.untold + len(reading.damage[room:]))
            done.notes.extend(reading.notes)
        return done


class _PieceExport:
    """One piece."""

    def __init__(
        self, fs: WritableFilesystem, piece: Piece, request: ExportRequest, choice: KernelChoice, views: BrokerViews
    ) -> None:
        self.damage: list[DamagedLog] = []
        self.notes: list[Note] = []
        self._fs = fs
        self._piece = piece
        self._request = request
        self._partition = open_partition(fs, piece.path)
        self._view = views.of(self._partition)
        self.source = Source(piece.topic, piece.partition, topic_id_of(fs, self._partition))
        wanted = ReadRequest(
            piece.first, to_offset=piece.end, until_ms=request.range.until_ms, isolation=request.isolation,
            since_ms=request.range.since_ms, with_control=request.with_control,
        )  # fmt: skip
        self._log = LogRead(fs, self._partition, wanted, choice, self._view)
        self._last_offset: int | None = None

    def run(self, files: PartitionFiles, lines: Lines | None) -> PieceDone:
        log = self._log
        is_json = self._request.format is FileFormat.JSON
        codes: set[ExitCode] = set()
        for segment in log.segments():
            told = len(self.damage)
            if is_json:
                assert lines is not None
                name = segment.segment.log.path.rpartition("/")[2]
                render = lines.of_segment(self._partition, name, is_seven=segment.segment.is_seven)
                self._write_lines(files, segment, render)
            else:
                self._write_columns(files, segment)
            if len(self.damage) > told and log.codes:
                codes.add(log.codes[-1])
        self.notes += log.notes
        digest = None
        if self._last_offset is not None and self._request.is_incremental:
            digest = record_digest(self._fs, self._partition, self._last_offset, self._view)
        is_whole = log.last_stable_offset is None and not log.is_stuck and self._piece.end is not None
        end = self._piece.end if is_whole else log.next_offset
        assert end is not None
        return PieceDone(self._piece, end, self._last_offset, digest, tuple(sorted(codes)))

    def _write_columns(self, files: PartitionFiles, segment: SegmentRead) -> None:
        core, schema, number = core_schema(), export_schema(), self._piece.partition
        parts = (part for block in self._blocks(segment) for part in record_batches(block, core))
        for part in capped(parts, core):
            files.add(exported(part, number, schema))

    def _write_lines(self, files: PartitionFiles, segment: SegmentRead, render: Render) -> None:
        import numpy as np

        for block in self._blocks(segment):
            offsets, millis = (
                np.asarray(column, np.int64) for column in (block.records.offset, block.records.timestamp)
            )
            files.add_lines(render(block), offsets, millis)

    def _blocks(self, segment: SegmentRead) -> Iterator[RecordBlock]:
        """Those with records; damage is noted, or ends it."""
        found = segment.blocks()
        for one in found:
            if isinstance(one, Fault):
                self._fault(segment, one, found)
            elif len(one.records):
                self._last_offset = int(one.records.offset[len(one.records) - 1])
                yield one

    def _fault(self, segment: SegmentRead, fault: Fault, rest: Iterator[Any]) -> None:
        path = segment.segment.log.path
        if not self._piece.tells_of((segment.segment.base_offset, fault.position)):
            return
        damage = damaged_log(path, fault)
        if self._request.mode is OnDamage.DROPMALFORMED:
            self.damage.append(damage)
            return
        for _ in rest:  # only the end of the segment tells whether this is a torn tail
            pass
        if self._log.codes and self._log.codes[-1] is ExitCode.WARNINGS:
            raise DamagedTail(**damage.details)
        raise damage
