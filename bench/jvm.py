"""The real Kafka beside us: its jars through Maven, its DumpLogSegments as a command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

KAFKA_VERSION = "4.2.0"
_POM = Path(__file__).resolve().parent / "pom.xml"


def cache_directory() -> Path:
    """Where jars and logs are kept: $KAFKALOG_TEST_CACHE, or kafkalog-tests in the user's cache."""
    if "KAFKALOG_TEST_CACHE" in os.environ:
        return Path(os.environ["KAFKALOG_TEST_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkalog-tests"


def dump_command() -> list[str] | None:
    """DumpLogSegments with the heap that kafka-dump-log.sh gives it; None without Java and Maven.

    Without the script's JMX agent and logging configuration, which only make its start slower.
    """
    java = shutil.which("java")
    jars = kafka_jars() if java else None
    if java is None or jars is None:
        return None
    return [java, "-Xmx256M", "-cp", str(jars / "*"), "kafka.tools.DumpLogSegments"]


def kafka_jars() -> Path | None:
    """The directory of Kafka's jars, fetched if it is not there; None where Maven is not or fails."""
    jars = cache_directory() / f"kafka-{KAFKA_VERSION}"
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        return None
    fetching = jars.with_name(f"{jars.name}.fetching")
    shutil.rmtree(fetching, ignore_errors=True)
    fetching.parent.mkdir(parents=True, exist_ok=True)
    command = [maven, "-q", "-B", "-f", str(_POM), f"-Dkafka.version={KAFKA_VERSION}",
               "dependency:copy-dependencies", f"-DoutputDirectory={fetching}"]  # fmt: skip
    if subprocess.run(command, check=False).returncode != 0:
        return None
    fetching.rename(jars)
    return jars


def java_version() -> str:
    """The first line of `java -version`, as far as it names a version."""
    java = shutil.which("java")
    if java is None:
        return "none"
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return text.split('"')[1] if '"' in text else text.splitlines()[0]
