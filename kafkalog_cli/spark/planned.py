"""Tasks as Spark carries them to its workers: what each reads, and how much all of them do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from kafkalog_cli.spark.splits import Task


class PlannedTask(InputPartition):
    """`value` is a tuple of `splits.Piece`s; all tasks together read `job_bytes`.

    By these, not by its own, a worker decides about compiled kernels: what one compiles, the tasks behind it find.
    """

    def __init__(self, task: Task, job_bytes: int) -> None:
        super().__init__(task)
        self.job_bytes = job_bytes


def planned(tasks: Sequence[Task]) -> list[Any]:
    """A partition of Spark's for each task."""
    job_bytes = sum(piece.size_bytes for task in tasks for piece in task)
    return [PlannedTask(task, job_bytes) for task in tasks]


def carried(partition: Any) -> tuple[Task, int]:
    """The task of a partition and the bytes of its job; where there is nothing to read, Spark makes one without."""
    return (partition.value, partition.job_bytes) if isinstance(partition, PlannedTask) else ((), 0)
