"""Tasks in the form that Spark sends to its workers: the pieces to read, and the size of the whole job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from kafkalog_cli.spark.splits import Task


class PlannedTask(InputPartition):
    """A task as a partition of Spark: `value` is a tuple of `splits.Piece`s; all tasks together read `job_bytes`.

    A worker decides by `job_bytes` whether to compile kernels: later tasks reuse what one task compiled.
    """

    def __init__(self, task: Task, job_bytes: int) -> None:
        super().__init__(task)
        self.job_bytes = job_bytes


def planned(tasks: Sequence[Task]) -> list[Any]:
    """Return a partition of Spark for each task."""
    job_bytes = sum(piece.size_bytes for task in tasks for piece in task)
    return [PlannedTask(task, job_bytes) for task in tasks]


def carried(partition: Any) -> tuple[Task, int]:
    """Return the task of a partition and its job's bytes; ((), 0) for Spark's partition of an empty read."""
    return (partition.value, partition.job_bytes) if isinstance(partition, PlannedTask) else ((), 0)
