"""Work spread over tasks of Spark: one task an item, its result back to the driver, failures as what they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kafkalog_cli.spark.failures import told_plainly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def run_tasks(spark: SparkSession, items: Sequence[ItemT], work: Callable[[ItemT], ResultT]) -> list[ResultT]:
    """What `work` makes of each item, in their order; one task each, begun in this order.

    A task may be tried again, and what a lost one made stays where it made it: `work` must bear that. The first that
    fails for good ends the others. Raises the KafkalogError that a task raised.
    """
    if not items:
        return []
    context = spark.sparkContext
    with told_plainly():
        found: list[ResultT] = context.parallelize(items, len(items)).map(work).collect()  # repartition does not spread
    return found


def attempt() -> str:
    """A name that no other try of any task of the job has; in the driver, or without Spark, always the same."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return "0" if task is None else str(task.taskAttemptId())


def is_another_try() -> bool:
    """Whether a try of this task came before, and failed or was lost."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0
