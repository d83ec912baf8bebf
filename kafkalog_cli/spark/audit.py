"""Audits as jobs of Spark: one task a partition directory, the largest first; the driver has the results alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkalog_cli.actions.audit.audit import Audited, AuditTask, audit_partition, audit_task, log_dir_of
from kafkalog_cli.actions.reports.segment_reports import Means
from kafkalog_cli.actions.selection import Selection
from kafkalog_cli.actions.verify.partition import Level, Target, Task
from kafkalog_cli.actions.verify.verify import Failed, Result, Verifier, VerifyRequest
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, UsageError
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.spark.jobs import run_tasks
from kafkalog_cli.storage.fs import Filesystem, RealFilesystem
from kafkalog_cli.storage.kernels import KernelChoice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        self.parts = [_part(part, verifier, request.top) for part in verifier.parts(full)]

    def run(self, sessions: Sessions) -> list[Audited]:
        """The results, in the order of the paths. Raises KafkalogError for a job that failed."""
        places = [place for place, part in enumerate(self.parts) if isinstance(part, AuditTask)]
        tasks = [part for part in self.parts if isinstance(part, AuditTask)]
        order = sorted(range(len(tasks)), key=lambda at: -tasks[at].size_bytes)
        found: list[Any] = list(self.parts)
        if tasks:
            work = AuditWork(self._limits, sum(task.size_bytes for task in tasks))
            with sessions() as spark:
                done = run_tasks(spark, [tasks[at] for at in order], work)
            for at, one in zip(order, done, strict=True):
                found[places[at]] = one
        return found


def _part(part: Task | Result, verifier: Verifier, top: int | None) -> AuditTask | Audited:
    if not isinstance(part, Task):
        is_root = not isinstance(part, Failed) and part.target is Target.LOG_DIR
        return Audited(part, log_dir_of(part.path, verifier.settings) if is_root else None)
    if part.wanted is not None:
        return Audited(Failed(part.partition.path, NotKafkaLayout(path=part.partition.path, reason=_A_FILE)))
    try:
        return replace(audit_task(part, verifier.settings), top=top)
    except KafkalogError as error:
        return Audited(Failed(part.partition.path, error))


_A_FILE = "files of it were given; an audit takes whole directories"


class AuditWork:
    """What a task does; it goes to every worker. All tasks together read `job_bytes`."""

    def __init__(self, limits: Limits, job_bytes: int) -> None:
        self._limits = limits
        self._job_bytes = job_bytes

    def __call__(self, task: AuditTask) -> Audited:
        """Audit a partition: nothing is written, so a task that is tried again finds the same."""
        fs, choice = RealFilesystem(), KernelChoice()
        choice.expect(self._job_bytes)  # not the task's: what one worker compiles, the tasks behind it find
        return audit_partition(Means(fs, self._limits, choice), fs, task)
