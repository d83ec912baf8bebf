"""The real Kafka beside us: its jars through Maven, its DumpLogSegments as a command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

KAFKA_VERSION = "4.2.0"
_POM = Path(__file__).resolve().parent.parent / "tests" / "kafka" / "pom.xml"


def cache_directory() -> Path:
    """Where jars and logs are kept: $KAFKALOG_TEST_CACHE, or ~/.cache/kafkalog-tests."""
    if "KAFKALOG_TEST_CACHE" in os.environ:
        return Path(os.environ["KAFKALOG_TEST_CACHE"])
    return Path.home() / ".cache" / "kafkalog-tests"


def dump_command() -> list[str] | None:
    """DumpLogSegments with the heap that kafka-dump-log.sh gives it; None without Java and Maven.

    Without the script's JMX agent and the release's log4j, which only make its start slower (about twice).
    """
    java = shutil.which("java")
    jars = kafka_jars() if java else None
    if java is None or jars is None:
        return None
    return [java, "-Xmx256M", "-cp", str(jars / "*"), "kafka.tools.DumpLogSegments"]


def load_command(partition: Path) -> list[str] | None:
    """The real UnifiedLog loading a partition whose recovery point is 0, as LogManager does, and stopping cleanly.

    With the heap that kafka-server-start.sh gives a broker; None without Java and Maven.
    """
    start = _ours("LoadLogs")
    if start is None:
        return None
    now_ms = str(time.time_ns() // 1_000_000)
    words = ["load", str(partition), "0", "0", "0", now_ms, "86400000", "stop"]
    return [start[0], "-Xms1G", "-Xmx1G", *start[1:], *words]


def clean_command(partition: Path, end_offset: int, settings: dict[str, object]) -> list[str] | None:
    """The real Cleaner on a partition that ends there, all of it dirty: one thread, with the default of buffers.

    With the heap that kafka-server-start.sh gives a broker; None without Java and Maven.
    """
    start = _ours("LoadLogs")
    if start is None:
        return None
    now_ms = str(time.time_ns() // 1_000_000)
    words = ["clean", str(partition), str(end_offset), "0", "1", now_ms, "86400000", str(end_offset), "none"]
    words += [str(128 << 20), str(512 << 10), "0", *(f"{name}={value}" for name, value in settings.items())]
    return [start[0], "-Xms1G", "-Xmx1G", *start[1:], *words]


def format_command(partition: Path, properties: list[str]) -> list[str] | None:
    """The records of a partition through kafka-console-consumer's formatter with these properties, without a broker.

    With the heap that kafka-console-consumer.sh gives it; None without Java and Maven.
    """
    start = _ours("FormatSegments")
    return None if start is None else [start[0], "-Xmx512M", *start[1:], str(partition), *properties]


def _ours(name: str) -> list[str] | None:
    """The command that runs a class of tests/kafka/java, compiled; None without Java and Maven."""
    java, javac = shutil.which("java"), shutil.which("javac")
    jars = kafka_jars() if java and javac else None
    if java is None or javac is None or jars is None:
        return None
    classes = cache_directory() / f"bench-classes-{KAFKA_VERSION}"
    classes.mkdir(exist_ok=True)
    sources = _POM.parent / "java"
    compile_ = [javac, "-nowarn", "-cp", str(jars / "*"), "-sourcepath", str(sources), "-d", str(classes)]
    subprocess.run([*compile_, str(sources / f"{name}.java")], check=True, stdout=sys.stderr)
    return [java, "-cp", f"{classes}:{jars / '*'}", name]


def kafka_jars() -> Path | None:
    """The directory of Kafka's jars (the interop tests' too), fetched if need be; None where Maven is not or fails."""
    jars = cache_directory() / f"kafka-{KAFKA_VERSION}"
    if (jars / "done").exists():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        return None
    command = [maven, "-q", "-B", "-f", str(_POM), f"-Dkafka.version={KAFKA_VERSION}",
               "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]  # fmt: skip
    if subprocess.run(command, check=False, stdout=sys.stderr).returncode != 0:
        return None
    (jars / "done").touch()
    return jars


def java_version() -> str:
    """The first line of `java -version`, as far as it names a version."""
    java = shutil.which("java")
    if java is None:
        return "none"
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return text.split('"')[1] if '"' in text else text.splitlines()[0]
