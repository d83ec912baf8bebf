"""The work of one export task: read pieces of logs with the core and write their records to files."""

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, NamedTuple, Protocol

from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.errors import DamagedLog, DamagedTail, ExitCode, counted
from kafkalog_cli.format.columns import Integers
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import MEBIBYTE, MOST_FILE_FIELD_BYTES, MOST_INPUT_LINE_BYTES
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.log.reading.record_arrow import record_batches
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.choices import OnDamage
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.look.read.log_read import LogRead, SegmentRead
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.ops.map_each import Advance
from kafkalog_cli.ops.move.export_files import (
    MadeFile,
    PartitionFiles,
    Source,
    Target,
    core_schema,
    export_schema,
    exported,
)
from kafkalog_cli.ops.move.export_request import ExportRequest, FileFormat, record_digest
from kafkalog_cli.ops.move.same_place import PartitionIdentities, PartitionIdentity
from kafkalog_cli.ops.scans.rows import limit_batches
from kafkalog_cli.ops.scans.splits import Piece, Task
from kafkalog_cli.ops.values import DecodedColumns

MOST_DAMAGE = 1000
"""The most damaged places that a task reports; further places are counted."""

Render = Callable[[RecordBlock], bytes]


class LineRenderer(Protocol):
    """Renders records as lines; it is sent to every worker."""

    def of_segment(self, partition: Partition, name: str, *, is_v07: bool, decoded: DecodedColumns | None) -> Render:
        """Return the function that renders the blocks of a segment file, a line per record. `decoded` is optional."""


class IdentifiedTask(NamedTuple):
    """The pieces of a task, and what the process that planned it saw of their partitions."""

    pieces: Task
    seen: tuple[PartitionIdentity, ...]


class PieceDone(NamedTuple):
    """How far a piece was read: `next_offset` is its end, or the start of an open transaction or of a batch too large.

    `last_offset` and `last_record` (its digest) are the last record written; None if there was none. `codes`: the exit
    codes of its damage.
    """

    piece: Piece
    next_offset: int
    last_offset: int | None
    last_record: str | None
    codes: tuple[ExitCode, ...]


class TaskDone(NamedTuple):
    """The files of a task, and what the caller reports: damage that was left out, and notes.

    `more_damage`: the number of damaged places beyond MOST_DAMAGE.
    """

    files: list[MadeFile]
    pieces: list[PieceDone]
    damage: list[DamagedLog]
    more_damage: int
    notes: list[Note]


@dataclass(frozen=True, slots=True)
class ExportTask:
    """The work of a task; it is sent to every worker."""

    request: ExportRequest
    staging: str
    lines: LineRenderer | None

    def __call__(self, task: IdentifiedTask, _: Advance) -> TaskDone:
        """Export the pieces. Raises DamagedLog (mode failfast), OffsetOutOfRange, OSError, SyncFailed.

        Raises Refused if the partitions are others now.
        """
        fs = RealFilesystem()
        identities = PartitionIdentities(fs, socket.gethostname())
        for seen in task.seen:
            identities.check(seen)
        log_dirs = LogDirs(fs)
        done = TaskDone([], [], [], 0, [])
        attempt = token_hex()  # Spark may try a task again, and files of a lost attempt stay
        for number, piece in enumerate(task.pieces):
            request = self.request
            prefix = f"{attempt}-{number}"
            target = Target(self.staging, request.format, request.codec, request.by_day, prefix, request.decoding)
            reading = _PieceExport(fs, piece, request, log_dirs)
            files = PartitionFiles(fs, target, reading.source)
            try:
                end = reading.run(files, self.lines)
                done.files.extend(files.finish())
                end = reading.with_large(end, files.large_files)
            except BaseException:
                files.drop()
                raise
            done.pieces.append(end)
            room = max(MOST_DAMAGE - len(done.damage), 0)
            done.damage.extend(reading.damage[:room])
            done = done._replace(more_damage=done.more_damage + len(reading.damage[room:]))
            done.notes.extend(reading.notes)
        return done


class _PieceExport:
    """The export of one piece."""

    def __init__(self, fs: WritableFilesystem, piece: Piece, request: ExportRequest, log_dirs: LogDirs) -> None:
        self.damage: list[DamagedLog] = []
        self.notes: list[Note] = []
        self._fs = fs
        self._piece = piece
        self._request = request
        self._partition = open_partition(fs, piece.path, log_dirs)
        self.source = Source(piece.topic, piece.partition, self._partition.topic_id)
        read_request = ReadRequest(
            piece.first, to_offset=piece.end, until_ms=request.range.until_ms, isolation=request.isolation,
            since_ms=request.range.since_ms, with_control=request.with_control,
        )  # fmt: skip
        self._log = LogRead(fs, self._partition, read_request)
        self._last_offset: int | None = None
        self._decoded: DecodedColumns | None = None
        if request.decoding:
            decoder, notes = request.decoding.decoder(fs, [piece.path])
            assert decoder is not None
            self.notes += notes
            self._decoded = DecodedColumns(decoder, piece.topic)

    def run(self, files: PartitionFiles, lines: LineRenderer | None) -> PieceDone:
        log = self._log
        is_json = self._request.format is FileFormat.JSON
        codes: set[ExitCode] = set()
        for segment in log.segments():
            reported = len(self.damage)
            if is_json:
                assert lines is not None
                name = segment.segment.log.path.rpartition("/")[2]
                render = lines.of_segment(self._partition, name, is_v07=segment.segment.is_v07, decoded=self._decoded)
                self._write_lines(files, segment, render)
            else:
                self._write_columns(files, self._blocks(segment))
            if len(self.damage) > reported and log.codes:
                codes.add(log.codes[-1])
        self.notes += log.notes
        if self._decoded is not None:
            failures = self._decoded.undecoded.failures()
            self.notes += [Note("undecoded", one.message, self._partition.path) for one in failures]
            codes |= {ExitCode.WARNINGS} if failures else set()
        digest = None
        if self._last_offset is not None and self._request.is_incremental:
            digest = record_digest(self._fs, self._partition, self._last_offset)
        is_whole = log.last_stable_offset is None and not log.is_stuck and self._piece.end is not None
        end = self._piece.end if is_whole else log.next_offset
        assert end is not None
        return PieceDone(self._piece, end, self._last_offset, digest, tuple(sorted(codes)))

    def with_large(self, end: PieceDone, files: Sequence[MadeFile]) -> PieceDone:
        """Note the files of records that are too large for the format."""
        is_json = self._request.format is FileFormat.JSON
        most_bytes, of_record = (
            (MOST_INPUT_LINE_BYTES, "a line") if is_json else (MOST_FILE_FIELD_BYTES, "a key or value")
        )
        readers = "lines" if is_json else "Parquet"
        for one in files:
            message = (
                f"{counted(one.records, 'record')} from offset {one.first_offset} on with more than"
                f" {most_bytes // MEBIBYTE} MiB in {of_record}: in the Arrow file {one.path}, which"
                f" readers of {readers} skip and import reads"
            )
            self.notes.append(Note("large-value", message, self._partition.path))
        return end._replace(codes=tuple(sorted({*end.codes, ExitCode.WARNINGS}))) if files else end

    def _write_columns(
        self, files: PartitionFiles, blocks: Iterable[RecordBlock], offsets: Integers | None = None
    ) -> None:
        """Write all records. With `offsets`, those that have these, without their decoded contents."""
        core, number = core_schema(), self._piece.partition
        schema = export_schema(self._request.decoding if offsets is None else Decoding())
        parts = (part for block in blocks for part in record_batches(block, core))
        if offsets is not None:
            import pyarrow as pa
            import pyarrow.compute as pc

            large = pa.array(offsets)
            parts = (part.filter(pc.is_in(part.column("offset"), large)) for part in parts)
        for part in limit_batches(parts, core):
            files.add(exported(part, number, schema, self._decoded))

    def _write_lines(self, files: PartitionFiles, segment: SegmentRead, render: Render) -> None:
        import numpy as np

        for block in self._blocks(segment):
            offsets, millis = (
                np.asarray(column, np.int64) for column in (block.records.offset, block.records.timestamp)
            )
            lines = render(block)
            if len(lines) > MOST_INPUT_LINE_BYTES:
                lines, is_long = _without_long_lines(lines)
                if is_long.any():
                    self._write_columns(files, [block], offsets[is_long])
                    offsets, millis = offsets[~is_long], millis[~is_long]
            files.add_lines(lines, offsets, millis)

    def _blocks(self, segment: SegmentRead) -> Iterator[RecordBlock]:
        """Iterate over the blocks that have records. Damage is collected, or raised in mode failfast."""
        found = segment.blocks()
        for one in found:
            if isinstance(one, Fault):
                self._fault(segment, one, found)
            elif len(one.records):
                self._last_offset = int(one.records.offset[len(one.records) - 1])
                yield one

    def _fault(self, segment: SegmentRead, fault: Fault, rest: Iterator[Any]) -> None:
        path = segment.segment.log.path
        if not self._piece.reports((segment.segment.base_offset, fault.position)):
            return
        damage = damaged_log(path, fault)
        if self._request.mode is OnDamage.DROPMALFORMED:
            self.damage.append(damage)
            return
        for _ in rest:  # only the end of the segment shows whether this is a torn tail
            pass
        if self._log.codes and self._log.codes[-1] is ExitCode.WARNINGS:
            raise DamagedTail(**damage.details)
        raise damage


def _without_long_lines(lines: bytes) -> tuple[bytes, Any]:
    """Return the lines without those that `import` does not read, and whether each is one of them."""
    import numpy as np

    kept, is_long, begin = [], [], 0
    while begin < len(lines):
        end = lines.index(b"\n", begin)
        is_long.append(end - begin > MOST_INPUT_LINE_BYTES)
        if not is_long[-1]:
            kept.append(memoryview(lines)[begin : end + 1])
        begin = end + 1
    return b"".join(kept), np.array(is_long)
