"""One session of Spark for all tests that need one: starting it takes longer than most of them."""

import os
import signal

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
    from tests.support.product import KafkalogError
    from tests.support.product_spark import SETTINGS, java_environment, session

    try:
        java_environment(os.environ)
    except KafkalogError as error:
        pytest.skip(f"NO SPARK IS STARTED: {error}")
    warehouse = tmp_path_factory.mktemp("spark") / "warehouse"  # else in the working directory
    wanted = {"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(warehouse), **SETTINGS}
    interrupt = signal.getsignal(signal.SIGINT)
    started = session("local[2]", settings=wanted)
    signal.signal(signal.SIGINT, interrupt)  # PySpark's own handler would stay for all tests of this process
    yield started
    started.stop()
