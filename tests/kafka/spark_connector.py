"""Spark's own Kafka source: its jars through Maven into the cache of the interop tests."""

import shutil
from pathlib import Path

from tests.kafka.real_kafka import CACHE, NoRealKafka, fetch

POM = Path(__file__).parent / "spark-kafka-pom.xml"
CONNECTOR = "4.0.0"


def connector_jars(connector=CONNECTOR):
    """As a list for spark.jars. Raises NoRealKafka without Maven, or where it cannot reach them."""
    if shutil.which("mvn") is None:
        raise NoRealKafka("Spark's Kafka source needs mvn")
    jars = CACHE / f"spark-kafka-{connector}"
    fetch(jars, POM, f"-Dspark.version={connector}")
    return ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))
