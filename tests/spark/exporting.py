"""Runs exports in this process: all but Spark, whose place is taken by a loop through which everything is pickled."""

import json

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
pa = pytest.importorskip("pyarrow")

import pyarrow.dataset as ds  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from tests.support.product_spark import FileFormat, export, tasks_here  # noqa: E402


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


__all__ = ["FileFormat", "export", "files", "lines", "offsets", "pa", "pq", "table", "tasks_here"]
