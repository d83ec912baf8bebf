"""Through Spark itself, one session for all: what it makes of the source's rows, filters, tasks, refusals."""

import os
import sys
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.spark.spark_reading import offsets, pa, rows
from tests.support.logs import BASE_TIME_MS, R, batch_v2

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def every_log(corpus, tmp_path_factory):
    """One log directory with a topic for each log of the corpus, of all formats, that is sound; and how many."""
    made = tmp_path_factory.mktemp("every-log")
    count = 0
    for case in ("format-0.7", "v0", "v1", "v2-none", "v2-gzip", "v2-snappy", "v2-lz4", "v2-zstd", "v2-mixed", "txn"):
        for folder in sorted(path for path in (corpus / case / "data").glob("*-[0-9]*") if path.is_dir()):
            topic, _, number = folder.name.rpartition("-")
            if topic.startswith("__") or not any(folder.glob("*0.*")):
                continue
            (made / f"{case}.{topic}-{number}").symlink_to(folder)
            count += 1
    assert count > 15
    return made


def read(spark, path, **options):
    return spark.read.format("kafkalog").options(**options).load(str(path))


def test_a_spark_session_has_the_rows_of_the_library(spark, every_log):
    found = read(spark, every_log, mode="dropmalformed", includeHeaders="true").toArrow()
    wanted = rows(every_log, mode="dropmalformed", includeHeaders="true")
    micros = found.column("timestamp").cast(pa.int64())
    found = found.set_column(found.column_names.index("timestamp"), "timestamp", micros)
    assert found.to_pylist() == wanted.to_pylist()  # in the order of the logs
    lost = []
    of_the_core = sum(
        part.num_rows for log in kl.open(every_log) for part in log.records(columns=["offset"], on_damage=lost.append)
    )
    assert found.num_rows == of_the_core > 1000


def test_sql_gives_one_millisecond_before_1970_for_a_missing_timestamp(spark, tmp_path):
    (tmp_path / "orders-0").mkdir()
    data = batch_v2([R(0, -1, b"k", b"v", ((b"h", None),)), R(1, BASE_TIME_MS, None, b"")])
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(data)
    read(spark, tmp_path, includeHeaders="true").createOrReplaceTempView("orders")
    found = spark.sql(
        "select offset, cast(timestamp as string) as at, headers, key is null as bare from orders"
    ).collect()
    at = datetime.fromtimestamp(BASE_TIME_MS / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    assert [(row.offset, row["at"], row.bare) for row in found] == [
        (0, "1969-12-31 23:59:59.999", False),
        (1, at, True),
    ]
    assert [tuple(header) for header in found[0].headers] == [("h", None)]
    assert found[1].headers is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", ["true", "false"])
def test_a_session_made_by_the_user_reads_logs(spark, every_log, setting):
    """Whether it hands filters down or not: no scan sees those of another."""
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, setting)
    try:
        frame = read(spark, every_log, mode="dropmalformed")
        whole = len(rows(every_log, mode="dropmalformed"))
        some = frame.where("partition = 0 and offset < 2").count()
        assert 10 < some < whole
        assert frame.count() == whole
        assert frame.where("offset < 2").union(frame.where("offset >= 2")).count() == whole
        assert frame.where("partition = 0 and offset < 2").count() == some
    finally:
        spark.conf.set(name, before)


def test_a_session_prunes_columns_and_reads_empty_directories(spark, tmp_path):
    for number in range(3):
        (tmp_path / f"orders-{number}").mkdir()
        data = b"".join(batch_v2([R(i, BASE_TIME_MS, b"k", b"v")]) for i in range(8))
        (tmp_path / f"orders-{number}" / f"{0:020d}.log").write_bytes(data)
    assert read(spark, tmp_path).rdd.getNumPartitions() == 1  # small: packed
    by_offset = (
        spark.read.format("kafkalog").schema("offset long").option("maxRecordsPerPartition", "4").load(str(tmp_path))
    )
    assert by_offset.columns == ["offset"]
    assert by_offset.rdd.glom().map(len).collect() == [4] * 6
    nothing = read(
        spark,
        tmp_path,
        startingOffsets='{"orders":{"0":8,"1":8,"2":8}}',
        endingOffsets='{"orders":{"0":8,"1":8,"2":8}}',
    )
    assert nothing.count() == 0
    assert read(spark, tmp_path, columns="partition").groupBy("partition").count().count() == 3


def test_damage_in_a_session_is_handled_by_mode(spark, tmp_path):
    (tmp_path / "orders-0").mkdir()
    good = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 30)]) for i in range(3)]
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.write_bytes(good[0] + good[1][:-3] + b"xyz" + good[2])
    with pytest.raises(Exception, match=r"UsageError: unknown option 'colour'"):
        read(spark, tmp_path, colour="red")
    with pytest.raises(Exception, match=r"NothingSelected: nobody not found under"):
        read(spark, tmp_path, subscribe="nobody").count()
    with pytest.raises(Exception, match=rf"DamagedLog: {path}: at byte {len(good[0])}: its CRC does not match"):
        read(spark, tmp_path).collect()
    assert offsets(tmp_path, mode="dropmalformed") == [0, 2]
    told = read(spark, tmp_path, mode="permissive").where("_fault is not null").collect()
    assert [(row.topic, row.partition, row.offset, row.key) for row in told] == [("orders", 0, 1, None)]


def test_a_second_call_of_session_returns_the_running_one(spark):
    from tests.support.product_spark import session

    again = session("local[7]")
    assert again.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def settings_of(spark):
    return dict(spark.conf.getAll)


def test_a_running_session_keeps_its_settings(spark, every_log):
    """Neither `session` nor a command in the same process changes them, in whatever thread they are called."""
    from concurrent.futures import ThreadPoolExecutor

    from tests.spark.querying import sql
    from tests.support.product import KafkalogError
    from tests.support.product_spark import session

    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        before = settings_of(spark)
        assert session() is spark
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(session, "local[1]").result() is spark
        assert session(settings={"spark.sql.session.timeZone": "Asia/Tokyo"}) is spark
        with pytest.raises(
            KafkalogError, match=r"spark\.sql\.ansi\.enabled is true there, and false is needed"
        ) as told:
            session(settings={"spark.sql.ansi.enabled": "false"})
        assert "spark.conf.set('spark.sql.ansi.enabled', 'false')" in str(told.value)
        found = sql(
            every_log, "select cast(timestamp'1970-01-01' as long) at", "--conf", "spark.sql.ansi.enabled=false"
        )
        assert found[:2] == (0, "at\n 0\n"), found  # in UTC
        assert settings_of(spark) == before
        assert type(spark).getActiveSession()._jsparkSession.equals(spark._jsparkSession)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def listening(pid):
    """The addresses on which a process of this machine takes connections, in hexadecimal as Linux has them."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(link.readlink()))
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [line[1].rpartition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="NOBODY LOOKS WHERE SPARK LISTENS: no /proc here")
def test_spark_listens_on_the_loopback_address_only(spark):
    spark.range(2).rdd.map(lambda row: row.id).collect()  # workers, and their daemon
    java = spark._jvm.java.lang.ProcessHandle.current()
    children = java.descendants().iterator()
    pids = [os.getpid(), java.pid()]
    while children.hasNext():
        pids.append(children.next().pid())
    assert len(pids) > 2
    assert len(listening(java.pid())) > 2
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    for pid in pids:
        assert set(listening(pid)) <= loopback, pid
