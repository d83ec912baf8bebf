"""An export from start to end: the plan, the tasks, and the commit of their files together with the state.

The plan says which logs and which offsets, and reports logs that changed since the last export.
"""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafkalog_cli.change.output_directory import ComingFile, OutputDirectory, RunRecord
from kafkalog_cli.change.runs import new_run_id
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.errors import (
    NO_ROOM,
    DamagedLog,
    ExitCode,
    NoSpace,
    NotChanged,
    Refused,
    UnsupportedFormat,
    UsageError,
)
from kafkalog_cli.format.strict_json import MOST_NUMBER, fields, integer, text
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.observer import NO_PROGRESS, NoProgress, Note
from kafkalog_cli.ops.look.read.request import growing_end
from kafkalog_cli.ops.map_each import Forks, Item, MapEach, ProcessKilled, map_each
from kafkalog_cli.ops.move.export_files import MadeFile
from kafkalog_cli.ops.move.export_request import ExportRequest, LogProgress, change_since, progress_of, state_of
from kafkalog_cli.ops.move.export_task import ExportTask, IdentifiedTask, LineRenderer, PieceDone, TaskDone
from kafkalog_cli.ops.move.same_place import PartitionIdentities, PartitionIdentity, check_outside
from kafkalog_cli.ops.scans.offsets import OffsetRange, narrow_range, sort_partitions
from kafkalog_cli.ops.scans.splits import TIMES_OF_FILES, Task, tasks_of
from kafkalog_cli.ops.selection import Selection, select_served

Progress = dict[tuple[str, int], LogProgress]
_MOST_NAMED = 3


class ExportPlan(NamedTuple):
    """The tasks, the largest first. `gaps`: records that were deleted before they were exported.

    `begun` has the progress of all logs. `seen` has the PartitionIdentity of each partition that is read, by its path.
    """

    tasks: list[Task]
    seen: dict[str, PartitionIdentity]
    gaps: list[Note]
    begun: Progress


def exported_partitions(fs: Filesystem, paths: Sequence[str], selection: Selection) -> list[Partition]:
    """Return the selected partitions by topic and number. Raises as `select_served` and `sort_partitions`."""
    full = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - workers may have another directory of their own
    return sort_partitions(select_served(fs, full, selection))


def plan_export(fs: Filesystem, partitions: Sequence[Partition], request: ExportRequest, known: Progress) -> ExportPlan:
    """Plan which offsets of each log to read; `known` is the progress of earlier runs.

    Raises Refused if a log is not the one in `known`, and the exceptions of `open_read`.
    """
    ranges, begun = [], dict(known)
    gaps: list[Note] = []
    refused: list[Note] = []
    records = request.range._replace(until_ms=None)  # tasks apply it: damage of a range without records is reported
    for one in partitions:
        if not one.segments:
            continue
        bounds, topic_id = one.bounds, one.topic_id
        progress = known.get((one.topic, one.number))
        first = bounds.start
        if progress is not None:
            change = change_since(fs, one, progress)
            if change is not None:
                (gaps if change.is_gap else refused).append(Note("log-changed", change.reason, one.path))
            first = max(first, progress.next_offset)
        begun[one.topic, one.number] = (progress or LogProgress(first))._replace(
            next_offset=first, topic_id=topic_id or (progress.topic_id if progress else None)
        )
        end = growing_end(fs, one, request.isolation) if request.is_incremental else None
        narrowed = narrow_range(fs, OffsetRange(one, first, end, bounds.end), records)
        if narrowed is not None:
            ranges.append(narrowed)
    if refused:
        raise _refusal(refused)
    tasks = tasks_of(fs, ranges, None, None, times=TIMES_OF_FILES)
    tasks.sort(key=lambda task: -sum(piece.size_bytes for piece in task))
    identities = PartitionIdentities(fs, socket.gethostname())
    return ExportPlan(tasks, {one.partition.path: identities.of(one.partition.path) for one in ranges}, gaps, begun)


def _refusal(refused: list[Note]) -> Refused:
    first = refused[0]
    more = ", ".join(str(note.path) for note in refused[1:_MOST_NAMED])
    others = f" (and {len(refused) - 1} more: {more}{', ...' if len(refused) > _MOST_NAMED else ''})"
    way_out = "export it with another --output and --state, or leave it out (--topic, --topic-pattern)"
    return Refused(path=first.path, reason=f"{first.message}{others if more else ''}; nothing was exported; {way_out}")


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The exported files, and the facts that the caller reports about them.

    `completed`: files of an earlier run that was cut off after its commit and before it reported them; they are in
    place now. `more_damage`: the number of damaged places that are only counted. `gaps`: records deleted before they
    were exported.
    """

    files: list[MadeFile] = field(default_factory=list)
    damage: list[DamagedLog] = field(default_factory=list)
    more_damage: int = 0
    notes: list[Note] = field(default_factory=list)
    gaps: list[Note] = field(default_factory=list)
    codes: frozenset[ExitCode] = frozenset()
    completed: tuple[MadeFile, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """FAILURE for a batch too large to read, CORRUPTION for other damage, WARNINGS for a torn tail or a gap."""
        if ExitCode.FAILURE in self.codes:
            return ExitCode.FAILURE
        if ExitCode.CORRUPTION in self.codes:
            return ExitCode.CORRUPTION
        return ExitCode.WARNINGS if self.codes or self.gaps else ExitCode.OK


_OFFSET = integer(-MOST_NUMBER)
_MADE = fields({
    "topic": text, "partition": integer(-1, (1 << 31) - 1), "first_offset": _OFFSET, "last_offset": _OFFSET,
    "records": integer(), "size_bytes": integer(),
})  # fmt: skip
"""The form of an entry about a file in the record of an export."""


class Export:
    """One export into `output`. `command` is the part of the command line that distinguishes it from other exports."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        fs: WritableFilesystem,
        partitions: Sequence[Partition],
        request: ExportRequest,
        output: str,
        state_path: str | None,
        now_ms: int,
        lines: LineRenderer | None = None,
        command: Sequence[str] = (),
    ) -> None:
        self._fs = fs
        self._partitions = partitions
        self._request = request
        self._output = output
        self._state_path = state_path
        self._now_ms = now_ms
        self._lines = lines
        self._what = {**request.what, **({} if state_path else {"command": list(command)})}

    def run(self, engine: MapEach = map_each, progress: NoProgress = NO_PROGRESS) -> ExportResult:
        """Export, and commit. Raises Refused, Locked, UsageError, DamagedLog, NotChanged, NoSpace, HalfPublished."""
        self._request.check()
        check_outside(self._fs, self._output, "the output", self._partitions)
        if self._state_path is not None:
            check_outside(self._fs, self._state_path, "the state", self._partitions)
        with OutputDirectory(self._fs, self._output, self._state_path) as out:
            record, completed = self._completed(out)
            if record is not None and self._state_path is None:
                return ExportResult(completed=completed)
            known = {} if record is None else progress_of(self._state_path or "", record.state)
            plan = plan_export(self._fs, self._partitions, self._request, known)
            run = new_run_id("export", self._now_ms)
            try:
                done = self._tasks(out.begin(run), out, plan, engine, progress)
                exported = _after(plan.begun, done)
                result = _result(done, plan, exported if self._request.is_incremental else None)
                out.publish(self._record(out, run, result, exported))
            except BaseException:
                self._abandon(out, run)
                raise
            return replace(result, completed=completed)

    def _completed(self, out: OutputDirectory) -> tuple[RunRecord | None, tuple[MadeFile, ...]]:
        """Complete the commit of an earlier run; return its record, and the files that the earlier run did not report.

        Returns (None, ()) for an empty output without a record. Raises Refused if an output without a record has files,
        and UsageError or Refused if its record is another command's.
        """
        record = out.record()
        if record is None:
            if not out.is_empty:
                what = "is not there yet" if self._state_path else "none of this run's"
                reason = f"there are files in it already, and the state {self._state_path} {what}"
                if self._state_path is None:
                    reason = "there are files in it already; another --output, or --state FILE for what is new"
                raise Refused(path=out.path, reason=reason)
            return None, ()
        coming = record.coming
        record = out.complete(record)
        if record.what != self._what:
            raise self._other(out, record)
        return record, tuple(self._reported_file(one) for one in coming)

    def _reported_file(self, one: ComingFile) -> MadeFile:
        """Return a file as the run that made it described it. Raises UnsupportedFormat if it has no such description.

        The error occurs only once: the file is in its place by now.
        """
        try:
            _MADE(one.facts)
            return MadeFile(one.staged, one.path, **(one.facts or {}))
        except ValueError as error:
            reason = "an earlier run was cut off after its commit, and is complete now; what it made is not noted"
            raise UnsupportedFormat(path=f"{self._output}/{one.path}", reason=reason) from error

    def _other(self, out: OutputDirectory, record: RunRecord) -> Exception:
        if self._state_path is None:
            reason = "an earlier run was cut off after its commit, and is complete now; it was another command"
            return Refused(path=out.path, reason=reason)
        differs = [name for name in record.what if record.what[name] != self._what.get(name)]
        options = ", ".join(f"{name} {record.what[name]}" for name in differs)
        return UsageError(
            reason=f"{self._state_path} is of an export with {options}: all runs into it must agree in that"
        )

    def _tasks(
        self, staging: str, out: OutputDirectory, plan: ExportPlan, engine: MapEach, progress: NoProgress
    ) -> list[TaskDone]:
        items = [
            Item(
                IdentifiedTask(task, tuple(plan.seen[path] for path in dict.fromkeys(piece.path for piece in task))),
                sum(piece.size_bytes for piece in task),
            )
            for task in plan.tasks
        ]
        work = ExportTask(self._request, staging, self._lines)
        progress.begin("export", sum(item.size_bytes for item in items))
        try:
            return [*engine(items, work, name="export", advance=progress.advance, forks=Forks.OF_LARGE_ITEMS)]
        except ProcessKilled as error:
            reason = "a process of the export was killed: is there enough memory?"
            raise NotChanged(path=out.path, reason=reason) from error
        except (NoSpace, OSError) as error:  # of a staged file, which has no place of its own yet
            if isinstance(error, OSError) and error.errno not in NO_ROOM:
                raise
            raise NoSpace(path=out.path, reason="nothing was exported") from error

    def _record(self, out: OutputDirectory, run: str, result: ExportResult, progress: Progress) -> RunRecord:
        coming = tuple(ComingFile(one.staged, one.path, one.facts) for one in result.files)
        state: dict[str, Any] = state_of(progress) if self._state_path is not None else {}
        return RunRecord(out.path, run, self._what, state, coming)

    @staticmethod
    def _abandon(out: OutputDirectory, run: str) -> None:
        """Remove the staged files, unless the run is committed: then the next run completes it."""
        record = out.record()
        if record is None or record.run != run:
            out.abandon(run)


def _result(done: Sequence[TaskDone], plan: ExportPlan, progress: Progress | None) -> ExportResult:
    """Collect the results of the tasks. With `progress`, files that a later run will export again are left out."""
    files = sorted((one for task in done for one in task.files), key=lambda one: one.path)
    if progress is not None:
        files = [one for one in files if one.first_offset < progress[one.topic, one.partition].next_offset]
    pieces = [piece for task in done for piece in task.pieces]
    return ExportResult(
        files,
        [damage for task in done for damage in task.damage],
        sum(task.more_damage for task in done),
        list(dict.fromkeys(note for task in done for note in task.notes)),
        plan.gaps,
        frozenset(code for piece in pieces for code in piece.codes),
    )


def _after(begun: Progress, done: Sequence[TaskDone]) -> Progress:
    """Return how far each log is exported now: up to its first piece that was not read to its end."""
    progress = dict(begun)
    pieces = sorted((piece for task in done for piece in task.pieces), key=_place)
    for one in pieces:
        name = (one.piece.topic, one.piece.partition)
        known = progress[name]
        if known.next_offset < one.piece.first:
            continue  # an earlier piece was not read to its end: records after it are not exported
        progress[name] = known._replace(next_offset=max(known.next_offset, one.next_offset))
        if one.last_offset is not None:
            progress[name] = progress[name]._replace(last_offset=one.last_offset, last_record=one.last_record)
    return progress


def _place(done: PieceDone) -> tuple[str, int, int]:
    return done.piece.topic, done.piece.partition, done.piece.first
