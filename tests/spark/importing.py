"""Runs imports in this process: all but Spark, whose place is taken by a loop through which everything is pickled."""

import pickle

import kafkalog_cli as kl
from tests.spark.exporting import pa
from tests.support.product_spark import NOW_MS, PICKLER, import_into

COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


def new_log_dir(path):
    """A log directory that no broker has."""
    path.mkdir()
    (path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    return path


def records(partition, columns=COLUMNS):
    """The records of a partition's directory, as Python has them; times as numbers."""
    found = []
    for part in kl.open_partition(partition).records(columns=columns):
        if "timestamp" in columns:
            at = part.schema.get_field_index("timestamp")
            part = part.set_column(at, "timestamp", part.column("timestamp").cast(pa.int64()))
        found += part.to_pylist()
    return found


def seen(log_dir):
    """The names that a broker would find, but for the lock."""
    return sorted(path.name for path in log_dir.iterdir() if path.name not in (".lock", "meta.properties"))


__all__ = ["NOW_MS", "PICKLER", "import_into", "new_log_dir", "pickle", "records", "seen"]
