"""Audits as jobs of Spark: tasks audit partition directories, the largest first; the driver gets only the results.

A task costs Spark some hundredths of a second, more than a small partition takes, so small partitions share a task.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kafkalog_cli import __version__
from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, PathNotFound, Refused, UsageError
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.audit.audit import (
    Audited,
    AuditedLogDir,
    AuditTask,
    Failed,
    audit_partition,
    audit_task,
    log_dir_of,
)
from kafkalog_cli.ops.audit.compare import audit_table, run_of
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.engine import JobWatch, JobWatcher
from kafkalog_cli.ops.same_place import PartitionIdentities
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.session.observer import SilentObserver
from kafkalog_cli.ops.session.options import Context, SessionOptions
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.work import Outcome, Work
from kafkalog_cli.ops.verify.task import Level, TargetKind, Verification
from kafkalog_cli.ops.verify.verify import VERIFY, VerifyPlanner, VerifyRequest
from kafkalog_cli.spark.jobs import run_tasks
from kafkalog_cli.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_BYTES, TASK_PARTITIONS = 32 << 20, 64
"""The most bytes and the most partitions that share one task."""


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """The options of an audit of the selected partitions.

    `top`: how many keys per partition; None: no keys are counted.
    """

    selection: Selection
    level: Level
    now_ms: int
    metadata_path: str | None = None
    limits: Limits = DEFAULT_LIMITS
    top: int | None = None


class Audit:
    """An audit of the selected partitions and log directories under `paths`; `parts` are in the order of the paths."""

    def __init__(self, fs: WritableFilesystem, paths: Sequence[str], request: AuditRequest) -> None:
        """Read names, sizes and small files. Raises PathNotFound, NotKafkaLayout, Unreadable, UsageError."""
        if request.top is not None and request.level is Level.QUICK:
            raise UsageError(reason="--keys reads records, which --level quick does not")
        self._limits = request.limits
        options = SessionOptions(request.selection, now_ms=request.now_ms, metadata=request.metadata_path)
        session = Session(VERIFY, Context(fs), options, SilentObserver())
        planner = VerifyPlanner(session, VerifyRequest(request.level, request.limits))
        full = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - workers may have another working directory
        sights = PartitionIdentities(fs, socket.gethostname())
        self.parts = [_part(planned, planner, sights, request.top) for planned in planner.works(full)]

    @property
    def log_dirs(self) -> dict[str, tuple[AuditedLogDir, int]]:
        """The directories that were searched for partitions, by path, and the number of partitions found in each."""
        found: dict[str, tuple[AuditedLogDir, int]] = {}
        for part in self.parts:
            place = _place(part)
            if place is not None:
                count = found[place.path][1] if place.path in found else 0
                found[place.path] = place, count + isinstance(part, AuditTask)
        return found

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that are audited."""
        return [part.task.partition for part in self.parts if isinstance(part, AuditTask)]

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Leave out these log directories (path: reason); each becomes a Refused result with its reason."""
        kept = [part for part in self.parts if (place := _place(part)) is None or place.path not in reasons]
        refused = [Failed(path, Refused(path=path, reason=reason)) for path, reason in reasons.items()]
        self.parts = [*kept, *(Audited(one, AuditedLogDir(one.path)) for one in refused)]

    def run(self, sessions: Sessions, watcher: JobWatcher | None = None) -> list[Audited]:
        """Run the audit and return the results in the order of the paths. Raises KafkalogError if the job fails."""
        places = [place for place, part in enumerate(self.parts) if isinstance(part, AuditTask)]
        tasks = [part for part in self.parts if isinstance(part, AuditTask)]
        found: list[Any] = list(self.parts)
        if tasks:
            sizes = [task.size_bytes for task in tasks]
            work = AuditWork(self._limits, sum(sizes))
            groups = _grouped(sizes)
            watch = JobWatch(watcher, "audit", [sum(sizes[at] for at in group) for group in groups])
            with sessions() as spark:
                done = run_tasks(spark, [[tasks[at] for at in group] for group in groups], work, watch)
            for at, one in zip(chain(*groups), chain(*done), strict=True):
                found[places[at]] = one
        return found


def _grouped(sizes: Sequence[int]) -> list[list[int]]:
    """Group sizes (bytes) into tasks.

    The result has lists of indexes into `sizes`, from the largest size on; small sizes share a list.
    """
    groups: list[list[int]] = []
    room = 0
    for at in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        if not groups or sizes[at] > room or len(groups[-1]) >= TASK_PARTITIONS:
            groups.append([])
            room = TASK_BYTES
        groups[-1].append(at)
        room -= sizes[at]
    return groups


def _part(
    planned: Work | Outcome[Verification], planner: VerifyPlanner, sights: PartitionIdentities, top: int | None
) -> AuditTask | Audited:
    if isinstance(planned, Outcome):
        if planned.error is not None:
            return Audited(Failed(planned.work.partition.path, planned.error))
        assert planned.result is not None
        is_root = planned.result.target is TargetKind.LOG_DIR
        return Audited(planned.result, log_dir_of(planned.result.path, planner.settings) if is_root else None)
    path = planned.partition.path
    if planned.task.wanted is not None:
        return Audited(Failed(path, NotKafkaLayout(path=path, reason=_A_FILE)))
    task = None
    try:
        task = audit_task(planned.task, planner.root_of(path), planner.settings)
        return replace(task, top=top, seen=sights.of(path))
    except PathNotFound as error:
        return Audited(Failed(path, error)) if task is None else replace(task, top=top)
    except KafkalogError as error:
        return Audited(Failed(path, error))


def _place(part: AuditTask | Audited) -> AuditedLogDir | None:
    """Return the log directory of a part; if it has none, the directory that contains its partition."""
    if part.log_dir is not None:
        return part.log_dir
    if isinstance(part, AuditTask):
        return AuditedLogDir(part.task.partition.path.rpartition("/")[0])
    return AuditedLogDir(part.path) if part.path else None


_A_FILE = "an audit takes whole directories, not files"


@dataclass(frozen=True, slots=True)
class AuditWork:
    """The work of a task; Spark sends it to every worker. `job_bytes` is what all tasks together read."""

    limits: Limits
    job_bytes: int

    def __call__(self, tasks: Sequence[AuditTask]) -> list[Audited]:
        """Audit some partitions. Nothing is written, so a task that Spark retries finds the same."""
        fs, choice = RealFilesystem(), KernelChoice()
        choice.expect(self.job_bytes)  # the whole job's bytes: later tasks reuse the kernels that one worker compiles
        sights = PartitionIdentities(fs, socket.gethostname())
        return [_audited(ReadContext(fs, self.limits, choice), fs, task, sights) for task in tasks]


def _audited(
    read_context: ReadContext, fs: WritableFilesystem, task: AuditTask, sights: PartitionIdentities
) -> Audited:
    """Audit one partition, after a check that the worker sees the same directory as the driver.

    Another disk, or none, may be mounted on the worker.
    """
    try:
        if task.seen is not None:
            sights.check(task.seen)
    except KafkalogError as error:
        if task.seen is None or not sights.is_removed(task.seen):  # else the audit reports that a broker removed it
            return Audited(Failed(task.task.partition.path, error), task.log_dir)
    return audit_partition(read_context, fs, task)


def audit(spark: SparkSession, paths: Sequence[str], *, level: str = "normal", top: int | None = None) -> DataFrame:
    """Audit every partition under `paths` now; return a row per partition and per log directory.

    `top`: how many keys per partition are reported; None: no keys are counted. Raises as `Audit`, and KafkalogError.
    """
    now_ms = time.time_ns() // 1_000_000
    made = Audit(RealFilesystem(), paths, AuditRequest(Selection(), Level(level), now_ms, top=top))
    run = run_of(now_ms, platform.node(), __version__)
    return spark.createDataFrame(audit_table(made.run(lambda: nullcontext(spark)), run))
