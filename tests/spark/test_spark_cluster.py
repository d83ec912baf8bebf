"""A real cluster: a standalone master and two workers do all that Spark can do as one machine does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.spark.clusters import cluster, spark_environment
from tests.spark.exporting import files, pq
from tests.spark.importing import new_log_dir
from tests.spark.test_spark_engine import NOW, RUN_ID, kafkalog
from tests.support.product import KafkalogError
from tests.support.product_spark import java_environment

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: no cluster is proven")
    try:
        java_environment(os.environ)
    except KafkalogError as error:
        pytest.skip(f"NO CLUSTER IS STARTED: {error}")
    with cluster(tmp_path_factory.mktemp("spark") / "cluster") as url:
        yield url


def count(log_dir, *topics):
    """The records of a log directory, or of its `topics`."""
    logs = [log for log in kl.open(log_dir) if not topics or log.topic in topics]
    return sum(part.num_rows for log in logs for part in log.records(columns=["offset"]))


def on_the_cluster(master, logs, shared, commands, *more):
    """What the driver printed of one session on the cluster."""
    done = subprocess.run(
        [sys.executable, str(HERE / "on_a_cluster.py"), master, str(logs), str(shared), json.dumps(commands), *more],
        env=spark_environment(), capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_as_here(command, code, said, errors):
    """A command on the cluster ended with this code and printed this, as it does in this process."""
    told = "".join(line for line in errors.splitlines(True) if '"kafkalog.progress/1"' not in line)
    assert (code, *(RUN_ID.sub(r"RUN-\1", text) for text in (said, told))) == kafkalog(*command)


@pytest.fixture
def logs(corpus, tmp_path):
    return shutil.copytree(corpus / "compact-plain" / "before", tmp_path / "logs")


def test_two_workers_read_export_import_and_verify_like_one_machine(master, logs, tmp_path):
    out, new = tmp_path / "out", new_log_dir(tmp_path / "new")
    verify = ["verify", "--now", NOW, "--format", "json", str(logs)]
    commands = [
        ["export", str(logs), "--output", str(out), "--engine", "spark"],
        ["import", str(out), "--log-dir", str(new), "--prove"],
        [*verify, "--engine", "spark"],
    ]
    found = on_the_cluster(master, logs, tmp_path, commands)
    assert [code for code, _, _ in found["said"]] == [0] * 3, found["said"]
    assert (len(found["places"]), found["count"], count(new)) == (2, count(logs), count(logs))
    assert found["count"] > 500
    check_as_here(verify, *found["said"][2])


@pytest.mark.full
def test_two_workers_stream_query_and_count_like_one_machine(master, logs, tmp_path):
    out, written = tmp_path / "out", new_log_dir(tmp_path / "written")
    topics = sorted({log.topic for log in kl.open(logs)})
    records = count(logs)
    verify = ["verify", "--level", "deep", "--now", NOW, "--format", "json", str(logs)]
    stats = ["stats", "--format", "json", str(logs)]
    query = f"select count(*) records from `{topics[0]}`"
    commands = [
        ["export", str(logs), "--output", str(out), "--engine", "spark"],
        ["sql", str(logs), query, "--format", "json"],
        *([*command, "--engine", "spark"] for command in (stats, verify)),
    ]
    found = on_the_cluster(master, logs, tmp_path, commands, "streams")
    assert [code for code, _, _ in found["said"]] == [0] * 4, found["said"]
    assert (found["count"], found["streamed"], count(written)) == (records, records, records)
    assert records == sum(pq.read_table(out / name).num_rows for name in files(out))
    assert json.loads(found["said"][1][1].splitlines()[0])["row"] == {"records": count(logs, topics[0])}
    for command, printed in zip((stats, verify), found["said"][2:], strict=True):
        check_as_here(command, *printed)
