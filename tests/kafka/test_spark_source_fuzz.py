"""The source `kafkalog` against Spark's own Kafka source on one broker's topics: the same rows, the same refusals.

`make fuzz-spark-source` tries many sets of options.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.fuzz_spark_source import Case, Outcome, differences
from tests.kafka.real_kafka import NoRealKafka
from tests.kafka.spark_connector import connector_jars
from tests.support.effort import DIAL

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("broker")]

ROOT = Path(__file__).parents[2]
CASES = max(12, DIAL.part(48))


@pytest.mark.full
@pytest.mark.usefixtures("real_kafka")
def test_the_data_source_gives_the_rows_and_refusals_of_sparks_kafka_source(tmp_path, capsys):
    """In a process of its own: the connector's jars must be there when Java starts."""
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
    try:
        connector_jars()
    except NoRealKafka as reason:
        pytest.skip(str(reason))
    command = [sys.executable, "-m", "tests.kafka.fuzz_spark_source", "--count", str(CASES), "--keep", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    with capsys.disabled():
        print(f" {done.stdout.strip()} ", end="")
    tried, rows = map(int, re.match(r"(\d+) sets of options, (\d+) rows", done.stdout).groups())
    assert tried == CASES
    assert rows > 20 * CASES
    assert re.search(r"refused [1-9]", done.stdout)


def test_the_comparison_of_data_sources_finds_each_difference():
    case, rows = Case(1, {"subscribe": "a"}), [("a", 0, 0, 5000, 0, b"k", None)]
    same = Outcome(rows)
    refused = Outcome(refused="no")
    assert differences(case, same, Outcome(list(rows))) == []
    assert differences(case, refused, Outcome(refused="neither")) == []
    assert differences(case, same, Outcome([(*rows[0][:-1], b"")])) != []
    assert differences(case, same, Outcome(rows * 2)) != []
    assert differences(case, refused, same) != []
    assert differences(case, same, refused) != []
    behind = Outcome(refused="The resolved start offset 3 is greater than the resolved end offset 2")
    assert differences(case, same, behind) != []
    assert differences(case._replace(options={"minPartitions": "2"}), same, behind) == []
    said = Outcome(refused="The specified start timestamp 3 is greater than the end timestamp 2")
    assert differences(case, same, said) == []
