"""Where a read looks: relative paths and URIs, other file systems, and only the directories that it names."""

import os
from pathlib import Path

import pytest

from kafkalog_cli.ops.scans.offsets import partitions_of
from kafkalog_cli.ops.scans.options import local_path, read_options, stream_options
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import NothingSelected, NotKafkaLayout, RealFilesystem, UsageError
from tests.support.watched_fs import WatchedFilesystem

TOPICS = 60


class Listing(WatchedFilesystem):
    """Notes the directories that are listed or looked into."""

    def __init__(self):
        super().__init__(RealFilesystem())
        self.seen = []

    def before(self, call):
        if call.name in ("list_directory", "open_read"):
            self.seen.append(call.path)


@pytest.fixture(params=[True, False], ids=["log directory", "copy of partitions"])
def many(request, tmp_path):
    """Partitions of 60 topics, and those of orders; without files of a log directory each is looked into otherwise."""
    for topic in [*(f"t{number}" for number in range(TOPICS)), "orders"]:
        for number in range(3):
            (tmp_path / f"{topic}-{number}").mkdir()
            (tmp_path / f"{topic}-{number}" / f"{0:020d}.log").write_bytes(batch_v2([R(0, BASE_TIME_MS, None, b"v")]))
    if request.param:
        (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    return tmp_path


@pytest.mark.parametrize(
    ("option", "value", "count"),
    [("subscribe", "orders", 3), ("assign", '{"orders": [1]}', 1), ("subscribePattern", "^ord", 3)],
)
@pytest.mark.parametrize("options", [read_options, stream_options])
def test_only_what_is_named_is_listed(many, option, value, count, options):
    fs = Listing()
    found = partitions_of(fs, options({"path": str(many), option: value}))
    assert [one.topic for one in found] == ["orders"] * count
    looked_into = {Path(path).name for path in fs.seen} - {many.name, "meta.properties"}
    assert all(name.startswith("orders-") for name in looked_into), looked_into
    assert len(fs.seen) < 15


def test_a_topic_that_is_not_there_in_a_directory_of_others(many):
    with pytest.raises(NothingSelected, match="nobody not found under"):
        partitions_of(RealFilesystem(), read_options({"path": str(many), "subscribe": "nobody"}))


def test_a_directory_of_other_files_is_not_kafka_layout(tmp_path):
    (tmp_path / "photos-2024").mkdir()
    (tmp_path / "photos-2024" / "cat.jpg").write_bytes(b"x")
    for choice in ({}, {"subscribe": "photos"}, {"subscribe": "orders"}):
        with pytest.raises(NotKafkaLayout):
            partitions_of(RealFilesystem(), read_options({"path": str(tmp_path), **choice}))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/data/x", "/data/x"), ("file:/data/x", "/data/x"), ("file:///data/x", "/data/x"), ("FILE:///data/x/", "/data/x"),
        ("file://localhost/data/x", "/data/x"), ("file:///data/a%20b%25", "/data/a b%"), ("/data/a%20b", "/data/a%20b"),
        ("file:////data/x", "/data/x"), ("file:///data/*", "/data/*"), ("/data/a:b", "/data/a:b"),
    ],
)  # fmt: skip
def test_a_uri_of_this_machine_is_a_local_path(given, path):
    assert local_path(given) == path


def test_relative_paths_of_the_data_source_become_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert local_path("data") == local_path("file:data") == f"{tmp_path}/data"
    assert local_path("./a:b") == f"{tmp_path}/a:b"
    assert local_path("a:b") == f"{tmp_path}/a:b"
    (tmp_path / "x y" / "orders-0").mkdir(parents=True)
    (tmp_path / "x y" / "orders-0" / f"{0:020d}.log").write_bytes(batch_v2([R(0, BASE_TIME_MS, None, b"v")]))
    for path in ("x y", f"{(tmp_path / 'x y').as_uri()}", "*"):
        (found,) = partitions_of(RealFilesystem(), read_options({"path": path}))
        assert found.path == f"{tmp_path}/x y/orders-0"


@pytest.mark.parametrize("scheme", ["hdfs", "s3", "s3a", "http", "https", "abfss", "gs", "viewfs", "ftp", "x+y"])
def test_other_file_systems_are_refused_by_name(scheme):
    with pytest.raises(
        UsageError, match=rf"^{scheme.replace('+', '.')}://host/data: {scheme.replace('+', '.')} is not supported"
    ):
        read_options({"path": f"{scheme}://host/data"})


def test_another_host_is_refused():
    with pytest.raises(UsageError, match=r"the files of another host \(nas\) are not read"):
        local_path("file://nas/data")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_reads_a_path_with_blanks_and_refuses_other_file_systems(spark, tmp_path):
    folder = tmp_path / "a b"
    (folder / "orders-0").mkdir(parents=True)
    (folder / "orders-0" / f"{0:020d}.log").write_bytes(batch_v2([R(0, BASE_TIME_MS, None, b"v")]))
    here = spark._jvm.java.lang.System.getProperty("user.dir")
    for path in (folder.as_uri(), f"file:{folder}", os.path.relpath(folder, here)):
        read = spark.read.format("kafkalog").load(path)
        (row,) = read.selectExpr("cast(value as string) v").collect()
        assert row.v == "v"
    with pytest.raises(Exception, match="UsageError: s3a://bucket/x: s3a is not supported"):
        spark.read.format("kafkalog").load("s3a://bucket/x").count()
