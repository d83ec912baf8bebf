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


@pytest.mark.full
def test_a_cluster_does_what_one_machine_does(master, corpus, tmp_path):
    logs, out, new = tmp_path / "logs", tmp_path / "out", new_log_dir(tmp_path / "new")
    written = new_log_dir(tmp_path / "written")
    shutil.copytree(corpus / "compact-plain" / "before", logs)
    topics = sorted({log.topic for log in kl.open(logs)})
    records = count(logs)
    verify = ["verify", "--level", "deep", "--now", NOW, "--format", "json", str(logs)]
    stats = ["stats", "--format", "json", str(logs)]
    query = f"select count(*) records from `{topics[0]}`"
    commands = [
        ["export", str(logs), "--output", str(out), "--engine", "spark"],
        ["import", str(out), "--log-dir", str(new), "--prove"],
        ["sql", str(logs), query, "--format", "json"],
        *([*command, "--engine", "spark"] for command in (stats, verify)),
    ]
    done = subprocess.run(
        [sys.executable, str(HERE / "on_a_cluster.py"), master, str(logs), str(tmp_path), json.dumps(commands)],
        env=spark_environment(), capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (len(found["places"]), found["count"], found["streamed"]) == (2, records, records)
    assert [code for code, _, _ in found["said"]] == [0] * 5, found["said"]
    assert records == sum(pq.read_table(out / name).num_rows for name in files(out)) > 500
    assert (count(new), count(written)) == (records, records)
    assert json.loads(found["said"][2][1].splitlines()[0])["row"] == {"records": count(logs, topics[0])}
    for command, (code, said, errors) in zip((stats, verify), found["said"][3:], strict=True):
        here = kafkalog(*command)
        told = "".join(line for line in errors.splitlines(True) if '"kafkalog.progress/1"' not in line)
        assert (code, *(RUN_ID.sub(r"RUN-\1", text) for text in (said, told))) == here
