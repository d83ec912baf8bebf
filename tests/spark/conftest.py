"""One session of Spark for all tests that need one: starting it takes longer than most of them."""

import os

import pytest


@pytest.fixture(scope="session")
def spark():
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
    from kafkalog_cli.errors import KafkalogError
    from kafkalog_cli.spark import session
    from kafkalog_cli.spark.java import java_environment
    from kafkalog_cli.spark.sql.query import SETTINGS

    try:
        java_environment(os.environ)
    except KafkalogError as error:
        pytest.skip(f"NO SPARK IS STARTED: {error}")
    started = session("local[2]", settings={"spark.sql.shuffle.partitions": "2", **SETTINGS})
    yield started
    started.stop()
