"""Copies the valid batches of a damaged partition into a new directory, and reports which offsets are lost."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, zip_longest
from operator import eq
from os import fspath
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.log_loader import LogLoader
from kafkalog_cli.change.changes import Put
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.removal import try_to_remove_directory
from kafkalog_cli.disk.directory_contents import check_layout
from kafkalog_cli.disk.fs import ReadableFile, WritableFile, WritableFilesystem, read_all
from kafkalog_cli.disk.lock import real_directory
from kafkalog_cli.disk.named_places import check_output_directory
from kafkalog_cli.disk.names import FileKind, segment_file_name
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused, of_the_system, shell_word
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.batch import CONTROL_MASK, BatchColumns
from kafkalog_cli.format.control import decode_control
from kafkalog_cli.format.fault import Fault, unreadable
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET
from kafkalog_cli.log.log_dir import StartState
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.readable import read_readable, unreadable_ranges
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.options import Path, Paths, VerbOptions
from kafkalog_cli.ops.call.target import Target
from kafkalog_cli.ops.change.plans import load_settings
from kafkalog_cli.ops.check.checks.segment_walk import MAX_MAGIC, BatchRun, SegmentWalk
from kafkalog_cli.ops.check.recover.salvage_sources import BEYOND_OFFSETS, SalvageSource, sources_of
from kafkalog_cli.ops.steps import (
    AS_A_NODE,
    MOVE_AWAY,
    RECOVER,
    Argv,
    Step,
    Steps,
    Word,
    fill_in_paths,
    flat,
    path_word,
    text_of,
    together,
)
from kafkalog_cli.results import EMPTY_IS_NULL, Count, Hidden, PathName, of, result

if TYPE_CHECKING:
    from typing_extensions import Unpack

COPY_BYTES = 1 << 20
PARTIAL = ".partial"
"""Suffix of `out` until the copy is complete: a broker does not start with such a directory in its log directory."""


class LostOffsets(NamedTuple):
    """Offsets that were, or may have been, in damaged bytes of a file.

    Compaction leaves gaps too, so some of the offsets may never have existed.
    """

    path: PathName
    start: Annotated[int, "the first damaged byte"]
    end: Annotated[int, "the byte after the damage"]
    first: Annotated[int, "the first offset"]
    last: Annotated[int | None, "the last offset; null: no valid batch follows"]
    unreadable_bytes: Annotated[Count, "the number of these bytes that the device cannot read"] = 0


class UnreadableFile(NamedTuple):
    """A file that could not be opened or copied."""

    path: PathName
    reason: str


@result("kafkalog.salvage/1")
@dataclass(slots=True)
class Salvage:
    """The valid batches of a partition that recover --salvage copied, and the lost offsets.

    `metadata` is the `--metadata` of the command line, which next steps repeat. `is_of_other_user`: the partition
    belongs to another user than the copy.
    """

    source: Hidden[Partition]
    path: ClassVar[Annotated[PathName, "the partition directory"]] = of("source.path")
    topic: ClassVar[str] = of("source.topic")
    partition: ClassVar[int] = of("source.number")
    out: Annotated[PathName, "the new directory"]
    segments: Count = 0
    batches: Count = 0
    bytes: Count = 0
    skipped: Annotated[Count, "valid batches whose offsets or magic did not fit"] = 0
    first_offset: int | None = None
    end_offset: Annotated[int | None, "after the last record"] = None
    lost: list[LostOffsets] = field(default_factory=list)
    unreadable: list[UnreadableFile] = field(default_factory=list)
    metadata: Hidden[str | None] = None
    is_of_other_user: Hidden[bool] = False

    @property
    def next_step(
        self,
    ) -> Annotated[
        str | None,
        EMPTY_IS_NULL,
        "the commands that check the copy and put it in the place of the damaged log; null if nothing was copied",
    ]:
        """The commands that check the copy and put it in the place of the damaged log; "" if nothing was copied."""
        if not self.batches:
            return ""
        if not self.replacing:
            return text_of(self.checking)
        put = "put it in the place of the damaged log"
        return text_of((*self.checking, together(self.replacing, put, "With the broker stopped")))

    @property
    def checking(self) -> Steps:
        """The next step that checks the copy."""
        return (Step("", ("kafkalog", "verify", path_word(self.out)), "checks the copy"),)

    @property
    def replacing(self) -> tuple[Argv, ...]:
        """The commands that put the copy in the place of the damaged log, in their order.

        None for a directory without the name of a partition: it may have files of others.
        """
        if self.source.directory.topic is None:
            return ()
        path = self.source.path
        commands: list[Argv] = [
            MOVE_AWAY,
            ("mv", "-nT", path_word(self.out), Word.PATH),
            *([("sudo", "chown", "-R", "--reference", Word.PATH_AWAY, Word.PATH)] if self.is_of_other_user else []),
            RECOVER,
        ]
        steps = fill_in_paths((together(commands, ""),), path, path, self.metadata)
        return tuple(argv for step in flat(steps) for argv in step.commands)

    @property
    def is_idle(self) -> bool:
        """A copy is always reported."""
        return False

    @property
    def exit_code(self) -> ExitCode:
        """OK without losses, WARNINGS if only a torn tail is lost, else CORRUPTION."""
        is_torn_only = not self.skipped and all(map(self._is_torn_tail, self.lost))
        if self.unreadable or (self.lost and not is_torn_only):
            return ExitCode.CORRUPTION
        return ExitCode.WARNINGS if self.lost else ExitCode.OK

    def _is_torn_tail(self, lost: LostOffsets) -> bool:
        """Whether only bytes are lost that a crash can leave at the log's end. A crash leaves no bad sectors."""
        last = [segment.log.path for segment in self.source.segments[-1:]]
        return lost.last is None and not lost.unreadable_bytes and lost.path in last


# ---- the verb


def salvage_to(paths: Paths, to: Path, **options: Unpack[VerbOptions]) -> Run[Salvage]:
    """Copy the valid batches of partitions into new partition directories in the directory `to`.

    The directory is created, and removed if no copy is in it. The sources are only read, and not locked. Raises Refused
    for a link, or for a new directory in a log directory; KafkalogError if it cannot be created.
    """
    call, target = Call("salvage", paths, options, reads=True), fspath(to)
    partitions = []
    for partition in call.partitions():
        if partition.directory.is_metadata_log and partition.path not in call.named_paths:
            call.observer.report(Note("skipped", f"skipped: {_NO_METADATA_LOG}", partition.path))
        else:
            partitions.append(partition)
    fs = call.fs
    check_output_directory(fs, target)
    is_new = fs.status(target) is None
    try:
        if is_new:
            fs.make_directory(target)
            _sync_parent(fs, target.rstrip("/"))
    except OSError as error:
        failure = of_the_system(target, error)
        failure.has_no_partition = True
        raise failure from error
    try:
        return call.change_each(partitions, partial(_salvage_one, to=target))
    finally:
        if is_new:
            with suppress(OSError):
                fs.remove_directory(target)


_NO_METADATA_LOG = "a copy of batches is no metadata log, which has its node's vote and its snapshots too"


def _salvage_one(work: Target, *, to: str) -> Salvage:
    fs, partition = work.fs, work.partition
    if partition.directory.is_metadata_log:
        steps = fill_in_paths((Step(_NO_METADATA_LOG), *AS_A_NODE), partition.path, partition.path)
        raise Refused(path=partition.path, reason=text_of(steps))
    settings = load_settings(partition, work.clock.now_ms)
    target = f"{to.rstrip('/')}/{partition.name}"
    try:
        salvaged = salvage(fs, partition, target, settings)
        owner_id = fs.attributes(real_directory(fs, partition.path)).owner_id
    except OSError as error:
        failure = of_the_system(target, error)
        failure.has_no_partition = str(failure.details["path"]).startswith(target)  # nothing to purge
        raise failure from error
    salvaged.metadata, salvaged.is_of_other_user = work.settings.metadata_option, owner_id != os.geteuid()
    return salvaged


# ---- the copy


def salvage(fs: WritableFilesystem, partition: Partition, out: str, settings: LoadSettings) -> Salvage:
    """Write the valid batches of `partition` into the new directory `out`, with indexes; the source is only read.

    A batch is valid if its CRC is right and its offsets are above those of the batches before it. Unreadable parts are
    skipped. A `.swap` log is copied where its segment is missing: it may be the only copy. `out` exists only once it is
    complete. Raises Refused if `out` exists, or if no offset could be kept (Kafka 0.7). Raises UnsupportedFormat for
    files of another program, and OSError if writing fails.
    """
    check_layout(fs, partition.path, partition.entries)
    if fs.status(out) is not None:
        step = f"`kafkalog recover {shell_word(partition.path)} --salvage {shell_word(_free_target(fs, out))}`"
        raise Refused(path=out, reason=f"it already exists; {step} copies into another directory")
    if any(segment.is_v07 for segment in partition.segments):
        raise Refused(
            path=partition.path, reason="its offsets are byte positions (Kafka 0.7): none would stay the same"
        )
    copied = Salvage(partition, out + PARTIAL)
    if fs.status(copied.out) is not None:
        again = f"kafkalog recover {shell_word(partition.path)} --salvage {shell_word(out.rpartition('/')[0])}"
        remove = f"nothing in it is needed: `rm -r {shell_word(copied.out)}`, then `{again}`"
        raise Refused(path=copied.out, reason=f"a salvage that was cut off has left it; {remove}")
    fs.make_directory(copied.out)
    try:
        with fs.hold_directory(copied.out):  # writes stay in this directory even if another gets its name
            _fill(fs, partition, settings, copied)
        fs.rename(copied.out, out)
    except BaseException:
        try_to_remove_directory(fs, copied.out)
        raise
    _sync_parent(fs, out)
    copied.out = out
    return copied


def _free_target(fs: WritableFilesystem, out: str) -> str:
    """Return a directory for copies that does not have `out` yet, named after the target of `out`."""
    target, _, name = out.rpartition("/")
    return next(one for n in count(2) if fs.status(f"{(one := f'{target}.{n}')}/{name}") is None)


def _sync_parent(fs: WritableFilesystem, path: str) -> None:
    """Sync the parent directory of `path`, so that its name is on disk. Raises OSError."""
    fs.sync_directory(path.rpartition("/")[0] or ("/" if path.startswith("/") else "."))


def _fill(fs: WritableFilesystem, partition: Partition, settings: LoadSettings, copied: Salvage) -> None:
    sources = sources_of(fs, partition, settings)
    for source in sources:
        try:
            _Copy(fs, source, settings, copied).run()
        except KafkalogError as error:
            copied.unreadable.append(UnreadableFile(source.segment.log.path, unreadable(error).message))
    if partition.metadata is not None:
        _copy_metadata(fs, partition.metadata.path, copied)
    _write_sidecars(fs, copied.out, settings)
    fs.sync_directory(copied.out)


def _copy_metadata(fs: WritableFilesystem, path: str, copied: Salvage) -> None:
    """Copy the topic id: without it, a broker sets the directory aside."""
    try:
        data = read_all(fs, path)
    except (KafkalogError, OSError) as error:
        copied.unreadable.append(UnreadableFile(path, unreadable(error).message))
        return
    _, faults = partition_metadata.decode(data)
    if faults:  # a broker does not load a log with a damaged file; it sets one without the file aside
        copied.unreadable.append(UnreadableFile(path, faults[0].message))
        return
    with fs.create(f"{copied.out}/{FileKind.PARTITION_METADATA.value}") as file:
        file.write(0, data)
        file.sync()


def _write_sidecars(fs: WritableFilesystem, out: str, settings: LoadSettings) -> None:
    """Write the files that a broker would build from these logs at start-up: indexes, snapshots, leader epochs."""
    draft = Draft(fs, out)
    try:
        LogLoader(draft, StartState(is_clean=False), settings).load()
    except LoadFailed as failure:
        raise Refused(path=out, reason=f"a broker would not start with what was salvaged: {failure}") from failure
    for change in draft.changes():
        if isinstance(change, Put):
            with fs.create(f"{out}/{change.name}") as file:
                position = 0
                for piece in change.content.pieces():
                    file.write(position, piece)
                    position += len(piece)
                file.sync()


class _Found:
    """The batches found in a segment, as columns: bytes `position` to `end`, first and last offset."""

    def __init__(self) -> None:
        self.position, self.end = array("q"), array("q")
        self.first_offset, self.last_offset = array("q"), array("q")
        self.is_valid = bytearray()

    def add(self, batch_run: BatchRun, source: ReadableFile) -> None:
        """Add the batches of a BatchRun. The first offset of a compressed message set is taken from its last offset."""
        self.position.extend(batch_run.position)
        self.end.extend(
            at + int(size) for at, size in zip(batch_run.position, batch_run.batches.size_bytes, strict=True)
        )
        self.first_offset.extend(batch_run.offsets_of(row)[0] for row in range(len(batch_run.batches)))
        self.last_offset.extend(batch_run.last_offset)
        # No CRC covers the magic and the base offset. A client refuses a batch of an unknown magic.
        batches = batch_run.batches
        self.is_valid.extend(
            int(
                valid == 1
                and magic <= MAX_MAGIC
                and batch_run.offsets_of(row)[0] >= 0
                and not _is_bad_marker(batches, row, source)
            )
            for row, (valid, magic) in enumerate(zip(batches.valid, batches.magic, strict=True))
        )

    def cut(self, end_offset: int, most_offset: int, size_bytes: int) -> int:
        """Forget the batches from `end_offset` on. Return where they begin, `size_bytes` if there are none.

        No CRC covers a base offset, so a damaged one may be above `end_offset`. A batch with such an offset is not
        valid if it stands before lower offsets, or is above `most_offset`, the largest that the segment can have.
        """
        wanted = [first < end_offset for first in self.first_offset]
        last = max((row for row, valid in enumerate(self.is_valid) if valid and wanted[row]), default=-1)
        for row in range(last):
            self.is_valid[row] &= wanted[row]
        least, at = most_offset + 1, None
        for row in range(len(wanted) - 1, last, -1):
            if self.is_valid[row] and self.first_offset[row] < least:
                least, at = self.first_offset[row], row
            else:
                self.is_valid[row] = 0
        if at is None:
            return size_bytes
        end = self.position[at]
        for column in (self.position, self.end, self.first_offset, self.last_offset, self.is_valid):
            del column[at:]
        return end

    def cover(self, size_bytes: int) -> bool:
        """Whether the first `size_bytes` of the segment are batches, without other bytes between them."""
        ends = [0, *self.end]
        return ends[-1] == size_bytes and all(map(eq, self.position, ends))


def _is_bad_marker(batches: BatchColumns, row: int, source: ReadableFile) -> bool:
    """Whether the batch is a producer's control batch without a marker: a broker does not start with such a batch."""
    if not batches.attributes[row] & CONTROL_MASK or batches.magic[row] < 2 or batches.producer_id[row] < 0:
        return False
    if not batches.records_count[row]:  # the cleaner emptied the batch
        return False
    for block in Scan.of_batch(source, batches.row(row)).blocks():
        for record in block.rows():
            found = decode_control(record.key, record.value)
            return isinstance(found, Fault) or not found.is_marker
    return True


class _Copy:
    """Copies the valid batches of one segment, for a `.swap` log only the batches below `end_offset`."""

    def __init__(self, fs: WritableFilesystem, source: SalvageSource, settings: LoadSettings, copied: Salvage) -> None:
        self._fs = fs
        self._segment = source.segment
        self._base_offset = source.begins
        self._next_offset = source.next_offset
        self._end_offset = source.end_offset
        self._settings = settings
        self._copied = copied

    def run(self) -> None:
        """Copy the segment; no file is created if no batch is valid. Raises the exceptions of `open_read`."""
        log = self._segment.log
        with self._fs.open_read(log.path) as source:
            walk = SegmentWalk(source, self._settings.limits)
            found = _Found()
            for batch_run in walk:
                found.add(batch_run, source)
            end, is_whole = log.size_bytes, walk.fault is None
            if self._end_offset is not None:
                end = found.cut(self._end_offset, self._base_offset + MAX_RELATIVE_OFFSET, end)
                is_whole = found.cover(end)
            taken = self._choose(found)
            if taken:
                taken, size_bytes = self._write(source, found, taken)
                self._copied.bytes += size_bytes
            if self._end_offset is None or not is_whole or not self._is_copied(found):
                self._tell_losses(source, found, taken, end, is_whole=is_whole)
        copied = self._copied
        if taken:
            copied.segments += 1
            copied.batches += len(taken)
            if copied.first_offset is None:
                copied.first_offset = found.first_offset[taken[0]]
            copied.end_offset = found.last_offset[taken[-1]] + 1

    def _write(self, source: ReadableFile, found: _Found, taken: list[int]) -> tuple[list[int], int]:
        """Copy batches into a new file. Return the rows that could be read a second time, and the size of the file."""
        path = f"{self._copied.out}/{segment_file_name(self._base_offset, FileKind.LOG)}"
        copied: list[int] = []
        size_bytes = 0
        with self._fs.create(path) as new:
            for run in _runs(found, taken):
                whole = self._copy(source, new, found.position[run[0]], found.end[run[-1]], size_bytes)
                if whole is not None:
                    copied += run
                    size_bytes = whole
                    continue
                for row in run:
                    after = self._copy(source, new, found.position[row], found.end[row], size_bytes)
                    if after is not None:
                        copied.append(row)
                        size_bytes = after
            new.truncate(size_bytes)
            new.sync()
        return copied, size_bytes

    def _copy(self, source: ReadableFile, new: WritableFile, start: int, end: int, at: int) -> int | None:
        """Copy bytes `start` to `end` to byte `at`. Return the end of the copy, None if some bytes cannot be read."""
        buffer = bytearray(min(COPY_BYTES, end - start))
        for position in range(start, end, COPY_BYTES):
            piece = memoryview(buffer)[: end - position]
            got, fault = read_readable(source, position, piece)
            if fault is not None or got < len(piece):
                return None
            new.write(at, piece)
            at += got
        return at

    def _choose(self, found: _Found) -> list[int]:
        """Return the valid rows with increasing offsets.

        A batch that overlaps the next valid batch has a wrong base offset, which no CRC covers, and is skipped. If none
        of several batches fits the name of the file, the name is wrong: the copy is named after the first batch.
        """
        first, last = found.first_offset, found.last_offset
        good = self._fitting(found, self._base_offset)
        misnamed = [] if good else [row for row, valid in enumerate(found.is_valid) if valid]
        if len(misnamed) > 1:
            self._base_offset = first[misnamed[0]]
            good = self._fitting(found, self._base_offset)
        floor = -1 if self._copied.end_offset is None else self._copied.end_offset - 1
        taken: list[int] = []
        for row, following in zip_longest(good, good[1:]):
            jumps = following is not None and floor < first[following] <= last[row]
            if first[row] > floor and not jumps:
                taken.append(row)
                floor = last[row]
        self._copied.skipped += sum(found.is_valid) - len(taken)
        return taken

    def _is_copied(self, found: _Found) -> bool:
        """Whether all offsets found are in the copy, from this segment or from earlier segments."""
        reached = self._copied.end_offset
        return reached is not None and all(last < reached for last in found.last_offset)

    def _fitting(self, found: _Found, base_offset: int) -> list[int]:
        """Return the valid rows above what was copied, with offsets that a segment of this base offset can have.

        Offsets from the next log on are none of them.
        """
        floor, ceiling = max(self._copied.end_offset or 0, base_offset), base_offset + MAX_RELATIVE_OFFSET
        if self._next_offset is not None:
            ceiling = min(ceiling, self._next_offset - 1)
        rows = enumerate(zip(found.is_valid, found.first_offset, found.last_offset, strict=True))
        return [row for row, (valid, first, last) in rows if valid and floor <= first <= last <= ceiling]

    def _tell_losses(
        self, source: ReadableFile, found: _Found, taken: list[int], size_bytes: int, *, is_whole: bool
    ) -> None:
        """Record the offsets that are missing between copied batches, if bytes between them were not copied."""
        position = 0
        offset = max(self._segment.base_offset, self._copied.end_offset or 0)
        for row in taken:
            if found.position[row] > position and found.first_offset[row] > offset:
                self._lose(source, position, found.position[row], offset, found.first_offset[row] - 1)
            position, offset = found.end[row], found.last_offset[row] + 1
        last = None if self._end_offset in (None, BEYOND_OFFSETS) else self._end_offset - 1
        is_missing = last is None or offset <= last
        if position < size_bytes and is_missing and (not is_whole or len(found.position) > len(taken)):
            self._lose(source, position, size_bytes, offset, last)

    def _lose(self, source: ReadableFile, start: int, end: int, first: int, last: int | None) -> None:
        bad_bytes = sum(min(bad.size_bytes or 0, end - bad.position) for bad in unreadable_ranges(source, start, end))
        self._copied.lost.append(LostOffsets(self._segment.log.path, start, end, first, last, bad_bytes))


def _runs(found: _Found, taken: list[int]) -> Iterator[list[int]]:
    """Yield the copied rows in runs of batches that are adjacent in the file."""
    run = [taken[0]]
    for row in taken[1:]:
        if found.position[row] != found.end[run[-1]]:
            yield run
            run = []
        run.append(row)
    yield run
