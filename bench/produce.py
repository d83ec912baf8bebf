"""Becomes kafka-producer-perf-test: so many records with values from a file, to a broker whose address a file has."""

import os
import sys
from pathlib import Path

# The heap that kafka-producer-perf-test.sh gives it, the options of kafka-run-class.sh.
JAVA = ["java", "-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true"]


def command(directory: Path, jars: str) -> list[str]:
    address, count = (directory / "produce").read_text().split()
    return [
        *(*JAVA, "-cp", f"{jars}/*", "org.apache.kafka.tools.ProducerPerformance", "--topic", "produced"),
        *("--num-records", count, "--payload-file", str(directory / "payloads"), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={address}", "acks=1"),
    ]


words = command(Path(sys.argv[1]), sys.argv[2])
os.execvp(words[0], words)
