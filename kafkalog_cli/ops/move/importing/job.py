"""An import from start to end: the plan, the tasks, and the commit that makes all new partitions visible at once.

A task sorts the records of a file by partition, or builds one partition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kafkalog_cli.change.new_partitions import Completed, NewPartitions, StagedPartition
from kafkalog_cli.change.runs import new_run_id
from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.disk.lock import LockPolicy
from kafkalog_cli.errors import BadInput, NotChanged, PathNotFound, counted
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.call.observer import NO_PROGRESS, NoProgress, Note
from kafkalog_cli.ops.change.append.partitioning import MisplacedKeys
from kafkalog_cli.ops.map_each import Advance, Forks, Item, MapEach, ProcessKilled, map_each
from kafkalog_cli.ops.move.importing.building import TopicStyle, build
from kafkalog_cli.ops.move.importing.planning import (
    ImportPlan,
    ImportResult,
    Job,
    JobDone,
    Planner,
    ids_of_files,
    jobs_of_sorted_files,
    prove,
)
from kafkalog_cli.ops.move.importing.scattering import Scatter, SortedFile, Staging
from kafkalog_cli.ops.move.importing.sources import ImportRequest, InputFile
from kafkalog_cli.ops.ownership import places_of_partitions


@dataclass(frozen=True, slots=True)
class BuildTask:
    """The work of a task that builds a partition; it is sent to every worker."""

    staging: Staging
    styles: Mapping[str, TopicStyle]
    proves: bool

    def __call__(self, job: Job, _: Advance) -> JobDone:
        """Build the partition. Raises BadInput, UsageError, NotSame, Locked, NotChanged, NoSpace, OSError."""
        fs, style = RealFilesystem(), self.styles[job.topic]
        with self.staging.staged(fs, job.topic, job.partition) as name:
            path = f"{self.staging.log_dir}/{name}"
            try:
                misplaced = MisplacedKeys(job.partition, style.partitions)
                base_offset = job.first_offset if style.batches.keeps_offsets else 0
                built = build(fs, path, misplaced.counted(job.records(style.now_ms)), style, base_offset)
            except BadInput as error:
                raise BadInput(path=job.name, reason=str(error)) from error
            proof = None
            if self.proves:
                proof = prove(
                    fs, path, job.name, job.records(style.now_ms),
                    with_offsets=style.batches.keeps_offsets, append_time_ms=style.batches.append_time_ms,
                )  # fmt: skip
            status = fs.status(path)
        inode = None if status is None else status.inode
        return JobDone(job.topic, job.partition, name, built, proof, inode, misplaced.records)


def scatter_file(
    staging: Staging, request: ImportRequest, now_ms: int, keeps_offsets: bool, item: tuple[int, InputFile], _: Advance
) -> list[SortedFile]:  # fmt: skip
    """Sort the file with this number by partition. Raises BadInput, UsageError, Locked, OSError, SyncFailed."""
    number, file = item
    topics: list[str] = []
    scatter = Scatter(
        request, number, file.path, topic=file.topic, partition=file.partition, keeps_offsets=keeps_offsets
    )  # fmt: skip
    return scatter.write(staging, file.records(now_ms, topics), topics)


ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Import:
    """One import of files into `log_dir`. `command` is the part of the command line that distinguishes it from others.

    `others` are further log directories of the same broker; none of the new partitions may exist in them. `repeat` is
    the command that continues this run if it is cut off; "" for none.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        fs: WritableFilesystem,
        log_dir: str,
        request: ImportRequest,
        source: SettingsSource,
        now_ms: int,
        policy: LockPolicy,
        others: Sequence[str] = (),
        command: Sequence[str] = (),
        run: str | None = None,
        repeat: str = "",
    ) -> None:
        self._fs = fs
        self._request = request
        self._source = source
        self._now_ms = now_ms
        self._others = others
        self._command = list(command)
        self._repeat = repeat
        self._new = NewPartitions(fs, log_dir, policy)
        self._staging = Staging(self._new.log_dir, run or new_run_id("import", now_ms), policy)

    def plan(self, files: Sequence[InputFile]) -> ImportResult:
        """Return what would be imported; nothing is locked or changed. Raises as `run`."""
        self.check()
        planner = self._planner()
        plan = planner.plan(files)
        return ImportResult(plan, notes=tuple(planner.notes))

    def run(
        self, find: Callable[[], Sequence[InputFile]], engine: MapEach = map_each, progress: NoProgress = NO_PROGRESS
    ) -> ImportResult:
        """Import the files that `find` returns, and commit.

        If an earlier run of the same command was cut off after
        its commit, that run is completed and `find` is not called.

        Raises PathNotFound, Refused, Locked, UsageError, UnsupportedFormat, BadInput, NotSame, NotChanged, NotImported,
        NoSpace, HalfPublished. Nothing of the run is visible after any of these but HalfPublished.
        """
        self.check()
        with self._new as new:
            completed = new.complete()
            new.sweep()
            if completed.what.get("command") == self._command and (completed.placed or completed.lost):
                return ImportResult(completed=completed)
            planner = self._planner()
            plan = planner.plan(find())
            with new.swept(self._staging.run):
                plan, done = self._built(plan, planner, engine, progress)
                self.publish(done)
            return self._result(plan, planner, done, completed)

    def commit(self, files: Sequence[SortedFile], *, keep_offsets: bool) -> ImportResult:
        """Build partitions on this machine from files that tasks have sorted already, and commit.

        Raises as `run`; nothing is left of the run then.
        """
        self.check()
        with self._new as new:
            with new.swept(self._staging.run):
                completed = new.complete()
                planner = self._planner()
                plan = planner.with_jobs(ImportPlan((), None, keep_offsets=keep_offsets), jobs_of_sorted_files(files))
                done = self._build(plan, planner)
                self.publish(done)
            return self._result(plan, planner, done, completed)

    def _result(
        self, plan: ImportPlan, planner: Planner, done: Sequence[JobDone], completed: Completed
    ) -> ImportResult:  # fmt: skip
        notes = (*planner.notes, *self._of_keys(done), *self._of_times(done))
        return ImportResult(plan, tuple(done), notes, completed)

    def abandon(self) -> None:
        """Remove the files of the run, which failed before its commit."""
        with self._new as new:
            new.sweep(self._staging.run)

    def check(self) -> None:
        """Check what can be checked before any input is read. Raises UsageError, PathNotFound, Refused."""
        self._request.check()
        status = self._fs.status(self._new.log_dir)
        if status is None or not status.is_directory:
            raise PathNotFound(path=self._new.log_dir)
        if self._request.topic is not None:
            self._planner().check_count([self._request.topic])

    def publish(self, done: Sequence[JobDone]) -> Completed:
        """Publish the partitions. Raises as NewPartitions.publish; partitions that are not committed are removed."""
        made = [StagedPartition(one.topic, one.partition, one.staged, one.inode) for one in done]
        what = {"command": self._command, "repeat": self._repeat}
        return self._new.publish(self._staging.run, made, what, replaces_empty=self._request.replace_empty)

    def _planner(self) -> Planner:
        places = places_of_partitions(self._fs, [self._new.log_dir, *self._others])
        return Planner(self._fs, self._new.log_dir, self._request, self._source, places, self._now_ms)

    def _built(
        self, plan: ImportPlan, planner: Planner, engine: MapEach, progress: NoProgress
    ) -> tuple[ImportPlan, list[JobDone]]:
        if plan.jobs is None:
            items = [Item((number, file), file.size_bytes) for number, file in enumerate(plan.files)]
            work = partial(scatter_file, self._staging, self._request, self._now_ms, plan.keep_offsets)
            found = self._each(items, work, engine, progress, "sort")
            plan = planner.with_jobs(plan, jobs_of_sorted_files(file for files in found for file in files))
        return plan, self._build(plan, planner, engine, progress)

    def _build(
        self, plan: ImportPlan, planner: Planner, engine: MapEach = map_each, progress: NoProgress = NO_PROGRESS
    ) -> list[JobDone]:
        """Build the partitions, the largest first. Raises as BuildTask."""
        assert plan.jobs is not None
        ids_by_topic = ids_of_files(plan.files, self._request)
        styles = {
            topic: planner.style(topic, topic_id, ids_by_topic.get(topic, set()), keep_offsets=plan.keep_offsets)
            for topic, topic_id in plan.ids.items()
        }
        items = [Item(job, job.size_bytes) for job in sorted(plan.jobs, key=lambda job: -job.size_bytes)]
        work = BuildTask(self._staging, styles, self._request.prove)
        return sorted(
            self._each(items, work, engine, progress, "import"), key=lambda one: (one.topic, one.partition)
        )  # fmt: skip

    def _each(
        self,
        items: Sequence[Item[ItemT]],
        work: Callable[[ItemT, Advance], ResultT],
        engine: MapEach,
        progress: NoProgress,
        name: str,
    ) -> list[ResultT]:
        """Return the results of `work`. Each process takes the locks that it needs. Raises NotChanged if one is killed.

        What unfinished work has made in the log directory stays then.
        """
        progress.begin(name, sum(item.size_bytes for item in items))
        try:
            return [*engine(items, work, name=name, advance=progress.advance, forks=Forks.OF_LARGE_ITEMS)]
        except ProcessKilled as error:
            reason = "a process of the import was killed: is there enough memory?"
            raise NotChanged(path=self._new.log_dir, reason=reason) from error

    def _of_keys(self, done: Sequence[JobDone]) -> list[Note]:
        """Return a note for each topic with keys where nobody looks for them."""
        misplaced: dict[str, int] = {}
        for one in done:
            if one.misplaced:
                misplaced[one.topic] = misplaced.get(one.topic, 0) + one.misplaced
        return [
            Note(
                "misplaced-keys",
                f"the partitions that the input names do not fit the keys of {counted(count, 'record')}: producers look"
                " for them in other partitions of the topic. --partitions N places all records by their keys",
                f"{self._new.log_dir}/{topic}-*",
            )
            for topic, count in misplaced.items()
        ]

    def _of_times(self, done: Sequence[JobDone]) -> list[Note]:
        """Return notes on timestamps in another unit than ms, and on partitions that retention will empty."""
        found = []
        for one in done:
            path = f"{self._new.log_dir}/{one.topic}-{one.partition}"
            if one.built.time_in_other_unit is not None:
                found.append(Note("time-unit", one.built.time_in_other_unit.warning, path))
            config = self._source.topic_config(self._new.log_dir, one.topic)
            limit = config.local_retention_ms
            if config.is_deleted and 0 <= limit < self._now_ms - one.built.newest_ms and one.built.newest_ms >= 0:
                setting = config["retention.ms"].explanation
                message = f"all of its records are older than {setting}: a broker deletes them soon after it starts"
                found.append(Note("retention", message, path))
        return found
