"""`--engine spark` when things go wrong: workers that die, other disks than were planned, options."""

import shutil

import pytest

from tests.spark.test_spark_engine import SPARK, kafkalog, tree
from tests.support.product_spark import replace_point

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TORN = "crash-torn-0"


@pytest.fixture
def partition(corpus, tmp_path):
    shutil.copytree(corpus / "crash-torn" / "before", tmp_path / "logs")
    return tmp_path / "logs" / TORN


@pytest.mark.parametrize(("command", "expected"), [("verify", 14), ("stats", 14)])
def test_a_task_that_sees_another_directory_reads_nothing(partition, spark, monkeypatch, command, expected):
    """As a worker on another machine would, on which something else is mounted there."""
    del spark

    def elsewhere(of):
        return lambda self, path: of(self, path)._replace(host="elsewhere", meta=None)

    replace_point(monkeypatch, "identity of a partition to a worker", elsewhere)
    before = tree(partition.parent)
    code, _, errors = kafkalog(command, partition, *SPARK)
    assert (code, "sees another directory there than elsewhere, where the run was planned" in errors) == (
        expected,
        True,
    )
    assert before == tree(partition.parent)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["verify", "--against", "x", *SPARK], "--against needs --engine local"),
        (["stats", "--master", "local[2]"], "--master and --conf need --engine spark"),
        (["recover", *SPARK], "--engine"),
        (["verify", "--conf", "a=b"], "--master and --conf need --engine spark"),
        (["export", "--output", "x", "--master", "local[2]"], "--master and --conf need --engine spark"),
    ],
)
def test_engine_spark_refuses_options_that_it_cannot_obey(partition, command, said):
    pytest.importorskip("pyspark")
    code, _, errors = kafkalog(*command, partition)
    assert (code, said in errors) == (2, True), errors
