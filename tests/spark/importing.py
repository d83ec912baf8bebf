"""Runs imports in this process: all but Spark, whose place is taken by a loop through which everything is pickled."""

import pickle
from contextlib import nullcontext
from functools import partial

import kafkalog_cli as kl
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.lock import LockPolicy
from kafkalog_cli.ops.importing import job
from kafkalog_cli.ops.importing.sources import ImportRequest, command_of, input_files
from kafkalog_cli.ops.settings import SettingsSource
from tests.spark.exporting import PICKLER, pa, tasks_here

NOW_MS = 1_700_000_000_000
COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


def new_log_dir(path):
    """A log directory that no broker has."""
    path.mkdir()
    (path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    return path


def import_into(log_dir, *inputs, fs=None, run_tasks=tasks_here, config=None, metadata=None, others=(), **request):
    """One import of files; the result."""
    fs = fs or RealFilesystem()
    source = SettingsSource(fs, config or {}, {}, metadata_path=metadata, log_dirs=[str(log_dir)])
    wanted = ImportRequest(**request)
    command = command_of([*map(str, inputs)], wanted, ())
    made = job.Import(fs, str(log_dir), wanted, source, NOW_MS, LockPolicy(), list(map(str, others)), command)
    return made.run(lambda: input_files(fs, list(map(str, inputs))), lambda: nullcontext(partial(run_tasks, None)))


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
