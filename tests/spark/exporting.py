"""Runs exports in this process: all but Spark, whose place is taken by a loop through which everything is pickled."""

import json
import pickle
from contextlib import contextmanager

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
pa = pytest.importorskip("pyarrow")

import pyarrow.dataset as ds  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from pyspark.serializers import CloudPickleSerializer  # noqa: E402

from kafkalog_cli.disk.fs import RealFilesystem  # noqa: E402
from kafkalog_cli.ops.export_request import ExportRequest, FileFormat  # noqa: E402
from kafkalog_cli.ops.selection import Selection  # noqa: E402
from kafkalog_cli.output.export_view import ExportLines  # noqa: E402
from kafkalog_cli.spark.export import job  # noqa: E402
from kafkalog_cli.spark.export.job import exported_partitions  # noqa: E402

NOW_MS = 1_700_000_000_000
PICKLER = CloudPickleSerializer()


def tasks_here(spark, items, work, *_):
    """What `run_tasks` does, one after the other."""
    del spark
    moved = PICKLER.loads(PICKLER.dumps(work))
    return [pickle.loads(pickle.dumps(moved(pickle.loads(pickle.dumps(item))))) for item in items]


@contextmanager
def no_session():
    yield None


def export(path, output, state=None, *, fs=None, run_tasks=tasks_here, **request):
    """One export of all under `path`; the result."""
    fs = fs or RealFilesystem()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "run_tasks", run_tasks)
        wanted = ExportRequest(is_incremental=state is not None, **request)
        partitions = exported_partitions(fs, [str(path)], Selection())
        lines = ExportLines() if wanted.format is FileFormat.JSON else None
        made = job.Export(fs, partitions, wanted, str(output), state and str(state), NOW_MS, lines, [str(path)])
        return made.run(no_session)


def files(output):
    """The files that are seen, by their path under the output."""
    found = (path for path in output.rglob("*") if path.is_file()) if output.exists() else ()
    return sorted(str(path.relative_to(output)) for path in found if ".kafkalog" not in path.relative_to(output).parts)


def table(output, file_format=FileFormat.PARQUET):
    """All rows, in the order of topic, partition and offset, with the topic that the directory tells."""
    flavor = ds.partitioning(pa.schema([("topic", pa.string())]), flavor="hive")
    name = {"parquet": "parquet", "arrow": "ipc"}[file_format.value]
    found = ds.dataset(output, format=name, partitioning=flavor).to_table()
    return found.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


def offsets(output):
    """Topic, partition and offset of all exported rows, of Parquet, in the order of the files and in them."""
    found = []
    for name in files(output):
        one = pq.ParquetFile(output / name)
        topic = name.partition("/")[0].removeprefix("topic=")
        part = one.read(["partition", "offset"]).to_pylist()
        found += [(topic, row["partition"], row["offset"]) for row in part]
    return found


def lines(output):
    """The objects of all NDJSON files, in the order of the files."""
    return [json.loads(line) for name in files(output) for line in (output / name).read_bytes().splitlines()]


__all__ = ["FileFormat", "export", "files", "lines", "no_session", "offsets", "pa", "pq", "table", "tasks_here"]
