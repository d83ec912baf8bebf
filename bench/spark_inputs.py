"""A real broker that serves the topics of bench/compare_spark.py; its log directory is what kafkalog reads."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

from logs import Log, json_record, write_segment
from real_broker import broker_in

_SETTINGS = {"log.segment.bytes": str(1 << 30)}
PARTITIONS = 4
PLAIN, KEYED, WIDE, IMPORTED = "plain", "keyed", "wide", "imported"
PLAIN_RECORDS = {"full": 9_400_000, "small": 40_000}
WIDE_PARTITIONS = 16
WIDE_RECORDS = {"full": 2_400_000, "small": 16_000}
KEYED_RECORDS = {"full": 1_000_000, "small": 8_000}


class ServedLogs:
    """The topics `plain` (values of 100 bytes, by a Java producer) and `keyed` (lz4, JSON), four partitions each.

    `wide` is as `plain`, with fewer records and 16 partitions. `imported` is deleted when the broker stops.
    """

    def __init__(self, directory: Path, size: str) -> None:
        self._directory, self._size = directory, size
        self._broker, self._class_path = broker_in(directory, _SETTINGS)
        self.data: Path = self._broker.data

    @property
    def address(self) -> str:
        """Where it listens."""
        return str(self._broker.address)

    def __enter__(self) -> ServedLogs:
        done = self._directory / "done"
        if not done.exists():
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory.mkdir(parents=True)
            self._make()
            done.touch()
        self._broker.start()
        if not (self.data / f"{WIDE}-0").exists():
            self._produce(WIDE, WIDE_PARTITIONS, WIDE_RECORDS[self._size])
        self._topics("--create", "--if-not-exists", "--topic", IMPORTED, "--partitions", str(PARTITIONS))
        return self

    def __exit__(self, *_: object) -> None:
        self._topics("--delete", "--if-exists", "--topic", IMPORTED)
        self._broker.stop()

    def _make(self) -> None:
        self._broker.start()
        self._topics("--create", "--topic", KEYED, "--partitions", str(PARTITIONS))
        self._produce(PLAIN, PARTITIONS, PLAIN_RECORDS[self._size])
        self._broker.stop()
        log = Log(KEYED, "lz4", 0, 160 << 10, json_record(150, 350, keyed=True))
        for number in range(PARTITIONS):
            partition = self.data / f"{KEYED}-{number}"
            for path in (*partition.glob("*index"), *partition.glob("*.snapshot")):
                path.unlink()
            segment = partition / f"{0:020}.log"
            write_segment(log, segment, KEYED_RECORDS[self._size] // PARTITIONS, random.Random(number))
        (self.data / ".kafka_cleanshutdown").unlink()  # what was put there is recovered

    def _produce(self, topic: str, partitions: int, records: int) -> None:
        self._topics("--create", "--topic", topic, "--partitions", str(partitions))
        self._tool("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(records),
                   "--record-size", "100", "--throughput", "-1",
                   "--producer-props", f"bootstrap.servers={self.address}", "acks=1")  # fmt: skip

    def _topics(self, *words: str) -> None:
        self._tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.address, *words)

    def _tool(self, *words: str) -> None:
        subprocess.run(["java", "-Xmx512M", "-cp", self._class_path, *words], check=True, stdout=sys.stderr)
