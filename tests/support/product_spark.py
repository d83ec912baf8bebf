"""The door to what Spark's driver and workers do. See product.py."""

# ruff: noqa: E402, F401, I001 names for other files, in the order of their purposes

import pickle
from functools import partial

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")

from pyspark.serializers import CloudPickleSerializer

# Sessions, Java, and the work of tasks.
from kafkalog_cli.disk.posix_lock import lock_owner
from kafkalog_cli.log.partition import log_bytes
from kafkalog_cli.ops.map_each import Item, Known, do_not_report
from kafkalog_cli.ops.move.same_place import PartitionIdentities
from kafkalog_cli.spark import session, sessions
from kafkalog_cli.spark.jobs import plain_error, plain_errors
from kafkalog_cli.spark.map_each import on_spark
from kafkalog_cli.spark.queries.query import SETTINGS
from kafkalog_cli.spark.starting import java_environment

# The data source, and the columns that it has.
from kafkalog_cli.ops.choices import Isolation
from kafkalog_cli.ops.look.read.request import growing_end
from kafkalog_cli.ops.scans.schema import BY_NAME, arrow_schema, columns_named
from kafkalog_cli.format.values.value_format import ValueFormat
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.scans.offset_limits import TopicPartition
from kafkalog_cli.spark.source import KafkalogDataSource
from kafkalog_cli.spark.types import spark_schema
from kafkalog_cli.spark.stream import limited
from kafkalog_cli.ops.scans.splits import TIMES_OF_FILES

# SQL: what a query asks of which view.
from kafkalog_cli.ops.choices import Mode
from kafkalog_cli.spark import sql
from kafkalog_cli.ops.scans.catalog import Catalog, Reading, View
from kafkalog_cli.spark.queries.confinement import CODE, FILES
from kafkalog_cli.spark.queries.usage import roots
from kafkalog_cli.spark.queries.views import Views
from kafkalog_cli.spark.queries.query import query
from kafkalog_cli.ops.scans.tables import TABLES

# Exports and imports in this process: in place of Spark is a loop through which everything is pickled.
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.lock import LockPolicy
from kafkalog_cli.ops.choices import OnDamage
from kafkalog_cli.ops.move.export_files import CORE, NO_DAY, export_schema
from kafkalog_cli.ops.move.export_request import ExportRequest, FileFormat
from kafkalog_cli.ops.move.importing import job as import_job
from kafkalog_cli.ops.move.importing.sources import ImportRequest, command_of, input_files
from kafkalog_cli.ops.change.append.partitioning import Partitioner
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.output.export_lines import ExportLines
from kafkalog_cli.ops.move import export_job, export_task
from kafkalog_cli.ops.move.export_job import exported_partitions

NOW_MS = 1_700_000_000_000
PICKLER = CloudPickleSerializer()


def tasks_here(values, work):
    """The results of work on values, one after the other."""
    moved = PICKLER.loads(PICKLER.dumps(work))
    return [pickle.loads(pickle.dumps(moved(pickle.loads(pickle.dumps(value)), do_not_report))) for value in values]


def engine_of(run_tasks):
    """A `map_each` that has the results of `run_tasks`."""
    return lambda items, work, **_: iter(run_tasks([item.value for item in items], work))


def export(path, output, state=None, *, fs=None, run_tasks=tasks_here, **request):
    """One export of all under `path`; the result."""
    fs = fs or RealFilesystem()
    wanted = ExportRequest(is_incremental=state is not None, **request)
    partitions = exported_partitions(fs, [str(path)], Selection())
    lines = ExportLines() if wanted.format is FileFormat.JSON else None
    made = export_job.Export(fs, partitions, wanted, str(output), state and str(state), NOW_MS, lines, [str(path)])
    return made.run(engine_of(run_tasks))


def import_into(log_dir, *inputs, fs=None, run_tasks=tasks_here, config=None, metadata=None, others=(), **request):
    """One import of files; the result."""
    fs = fs or RealFilesystem()
    source = SettingsSource(fs, config or {}, {}, metadata_path=metadata, log_dirs=[str(log_dir)])
    wanted = ImportRequest(**request)
    command = command_of([*map(str, inputs)], wanted, ())
    made = import_job.Import(fs, str(log_dir), wanted, source, NOW_MS, LockPolicy(), list(map(str, others)), command)
    return made.run(lambda: input_files(fs, list(map(str, inputs))), engine_of(run_tasks))


# Limits and points of the product, as in product.py.
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.ops.move import export_files
from kafkalog_cli.ops.move.importing import planning, scattering
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.output import progress
from kafkalog_cli.ops.scans import rows, splits
from kafkalog_cli.spark.queries import views as views_module
from tests.support.product import _LIMITS, _POINTS, lower_limit, replace_point

_LIMITS.update(
    {
        "bytes that a task reads": (splits, "SPLIT_BYTES"),
        "bytes of partitions in one task": (splits, "PACK_BYTES"),
        "rows of a batch of Arrow": (rows, "MOST_ROWS"),
        "bytes of a batch of Arrow": (rows, "MOST_BYTES"),
        "open files of an export": (export_files, "MOST_OPEN"),
        "bytes of a row group": (export_files, "ROW_GROUP_BYTES"),
        "rows that a proof compares at once": (planning, "_ROWS"),
        "bytes that an import holds": (scattering, "PENDING_BYTES"),
        "seconds until progress is shown": (progress, "FIRST_AFTER_SECONDS"),
        "seconds of progress on a terminal": (progress, "TERMINAL_SECONDS"),
        "seconds of progress in JSON": (progress, "JSON_SECONDS"),
    }
)
_POINTS.update(
    {
        "task of an export": (export_job, "ExportTask"),
        "attempt of a task of an export": (export_task, "token_hex"),
        "reading of an export": (export_task, "ReadRequest"),
        "build of an imported partition": (import_job, "build"),
        "identity of a partition to a worker": (PartitionIdentities, "of"),
        "decoding of records": (RecordReader, "blocks"),
        "opening of a file": (RealFilesystem, "open_read"),
        "view of a query": (Views, "_rows"),
        "options of a view": (View, "options"),
        "groups in tasks": (views_module, "with_groups"),
    }
)


def small_tasks(monkeypatch, task_bytes, pack_bytes=None):
    """Logs are read by tasks of so many bytes each; small partitions share a task of `pack_bytes`."""
    monkeypatch.setattr(splits, "SPLIT_BYTES", task_bytes)
    monkeypatch.setattr(splits, "PACK_BYTES", task_bytes if pack_bytes is None else pack_bytes)


def small_batches_only(read_request=ReadRequest):
    """Requests that refuse batches of more than 500 bytes, in the place of `read_request`."""
    return partial(read_request, limits=DEFAULT_LIMITS._replace(max_batch_bytes=500), chunk_bytes=200)
