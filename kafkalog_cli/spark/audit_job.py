"""Audits as jobs of Spark: partition directories in tasks, the largest first; the driver has the results alone.

A task costs Spark some hundredths of a second, more than a small partition does: those share one.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kafkalog_cli import __version__
from kafkalog_cli.actions.audit.audit import Audited, AuditTask, LogDir, audit_partition, audit_task, log_dir_of
from kafkalog_cli.actions.audit.columns import audit_table
from kafkalog_cli.actions.audit.history import run_of
from kafkalog_cli.actions.reports.segment_reports import Means
from kafkalog_cli.actions.same_place import Sights
from kafkalog_cli.actions.selection import Selection
from kafkalog_cli.actions.verify.partition import Level, Target, Task
from kafkalog_cli.actions.verify.verify import Failed, Result, Verifier, VerifyRequest
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, Refused, UsageError
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.spark.jobs import Watch, Watcher, run_tasks
from kafkalog_cli.storage.fs import Filesystem, RealFilesystem, WritableFilesystem
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.partition import Partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_BYTES, TASK_PARTITIONS = 32 << 20, 64
"""How much small partitions of one task come to at most."""

Sessions = Callable[[], "AbstractContextManager[SparkSession]"]
"""Starts a session, when there is something to do."""


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What is wanted of the partitions chosen. `top`: how many of the keys of each, None: keys are not looked at."""

    selection: Selection
    level: Level
    now_ms: int
    metadata_path: str | None = None
    limits: Limits = DEFAULT_LIMITS
    top: int | None = None


class Audit:
    """An audit of everything under `paths` that is chosen; `parts` are in the order of the paths."""

    def __init__(self, fs: Filesystem, paths: Sequence[str], request: AuditRequest) -> None:
        """Look at names, sizes and small files. Raises PathNotFound, NotKafkaLayout, Unreadable, UsageError."""
        if request.top is not None and request.level is Level.QUICK:
            raise UsageError(reason="--keys reads records, which --level quick does not")
        self._limits = request.limits
        wanted = VerifyRequest(request.selection, request.level, request.now_ms, request.metadata_path)
        verifier = Verifier(Means(fs, request.limits), wanted)
        full = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - workers may have another directory of their own
        sights = Sights(fs, socket.gethostname())
        self.parts = [_part(part, verifier, sights, request.top) for part in verifier.parts(full)]

    @property
    def log_dirs(self) -> dict[str, tuple[LogDir, int]]:
        """The directories that partitions were looked for in, by their paths, and how many were found in each."""
        found: dict[str, tuple[LogDir, int]] = {}
        for part in self.parts:
            place = _place(part)
            if place is not None:
                count = found[place.path][1] if place.path in found else 0
                found[place.path] = place, count + isinstance(part, AuditTask)
        return found

    @property
    def partitions(self) -> list[Partition]:
        """Those that are to be audited."""
        return [part.task.partition for part in self.parts if isinstance(part, AuditTask)]

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Look at nothing of these log directories; each is a result of its own that says why."""
        kept = [part for part in self.parts if (place := _place(part)) is None or place.path not in reasons]
        refused = [Failed(path, Refused(path=path, reason=reason)) for path, reason in reasons.items()]
        self.parts = [*kept, *(Audited(one, LogDir(one.path)) for one in refused)]

    def run(self, sessions: Sessions, watcher: Watcher | None = None) -> list[Audited]:
        """The results, in the order of the paths. Raises KafkalogError for a job that failed."""
        places = [place for place, part in enumerate(self.parts) if isinstance(part, AuditTask)]
        tasks = [part for part in self.parts if isinstance(part, AuditTask)]
        found: list[Any] = list(self.parts)
        if tasks:
            sizes = [task.size_bytes for task in tasks]
            work = AuditWork(self._limits, sum(sizes))
            groups = _grouped(sizes)
            watch = Watch(watcher, "audit", [sum(sizes[at] for at in group) for group in groups])
            with sessions() as spark:
                done = run_tasks(spark, [[tasks[at] for at in group] for group in groups], work, watch)
            for at, one in zip(chain(*groups), chain(*done), strict=True):
                found[places[at]] = one
        return found


def _grouped(sizes: Sequence[int]) -> list[list[int]]:
    """The places of sizes in bytes, from the largest on, those that are small together."""
    groups: list[list[int]] = []
    room = 0
    for at in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        if not groups or sizes[at] > room or len(groups[-1]) >= TASK_PARTITIONS:
            groups.append([])
            room = TASK_BYTES
        groups[-1].append(at)
        room -= sizes[at]
    return groups


def _part(part: Task | Result, verifier: Verifier, sights: Sights, top: int | None) -> AuditTask | Audited:
    if not isinstance(part, Task):
        is_root = not isinstance(part, Failed) and part.target is Target.LOG_DIR
        return Audited(part, log_dir_of(part.path, verifier.settings) if is_root else None)
    if part.wanted is not None:
        return Audited(Failed(part.partition.path, NotKafkaLayout(path=part.partition.path, reason=_A_FILE)))
    try:
        task = audit_task(part, verifier.root_of(part.partition.path), verifier.settings)
        return replace(task, top=top, seen=sights.of(part.partition.path))
    except KafkalogError as error:
        return Audited(Failed(part.partition.path, error))


def _place(part: AuditTask | Audited) -> LogDir | None:
    """The log directory, or what a partition that is in none lies in."""
    if part.log_dir is not None:
        return part.log_dir
    if isinstance(part, AuditTask):
        return LogDir(part.task.partition.path.rpartition("/")[0])
    return LogDir(part.path) if part.path else None


_A_FILE = "files of it were given; an audit takes whole directories"


class AuditWork:
    """What a task of Spark does; it goes to every worker. All tasks together read `job_bytes`."""

    def __init__(self, limits: Limits, job_bytes: int) -> None:
        self._limits = limits
        self._job_bytes = job_bytes

    def __call__(self, tasks: Sequence[AuditTask]) -> list[Audited]:
        """Audit some partitions: nothing is written, so a task that is tried again finds the same."""
        fs, choice = RealFilesystem(), KernelChoice()
        choice.expect(self._job_bytes)  # not the task's: what one worker compiles, the tasks behind it find
        sights = Sights(fs, socket.gethostname())
        return [_audited(Means(fs, self._limits, choice), fs, task, sights) for task in tasks]


def _audited(means: Means, fs: WritableFilesystem, task: AuditTask, sights: Sights) -> Audited:
    """One partition, if it is what the driver saw there: another disk may be mounted here, or none."""
    try:
        if task.seen is not None:
            sights.check(task.seen)
    except KafkalogError as error:
        return Audited(Failed(task.task.partition.path, error), task.log_dir)
    return audit_partition(means, fs, task)


def audit(spark: SparkSession, paths: Sequence[str], *, level: str = "normal", top: int | None = None) -> DataFrame:
    """Audit every partition under `paths`, now; a row for each, and for each log directory as such.

    `top`: how many keys of each are told, None: keys are not looked at. Raises as `Audit`, and KafkalogError.
    """
    now_ms = time.time_ns() // 1_000_000
    made = Audit(RealFilesystem(), paths, AuditRequest(Selection(), Level(level), now_ms, top=top))
    run = run_of(now_ms, platform.node(), __version__)
    return spark.createDataFrame(audit_table(made.run(lambda: nullcontext(spark)), run))
