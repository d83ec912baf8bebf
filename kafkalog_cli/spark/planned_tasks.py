"""The tasks of a read as partitions of Spark, and their rows: the same for a batch and for a stream."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.ops.scans.options import SourceOptions
from kafkalog_cli.ops.scans.rows import rows_of, warn_of_undecoded
from kafkalog_cli.ops.scans.splits import Task
from kafkalog_cli.spark.jobs import without_traceback


class PlannedTask(InputPartition):
    """A task as a partition of Spark: `value` is a tuple of `splits.Piece`s."""


def spark_partitions(tasks: Sequence[Task]) -> list[Any]:
    """Return a partition of Spark for each task."""
    return [PlannedTask(task) for task in tasks]


def read_task(partition: Any, options: SourceOptions, *, warns: bool = True) -> Iterator[Any]:
    """Iterate over the RecordBatches of a task. For an empty read, Spark makes one task without a value.

    `warns`: what was not decoded is printed; else the caller takes it.
    """
    if isinstance(partition, PlannedTask):
        with without_traceback():
            yield from rows_of(RealFilesystem(), partition.value, options)
            if warns:
                warn_of_undecoded()
