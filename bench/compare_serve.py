"""Consumes a log from a real broker and from `kafkalog serve` over its log directory, with the same clients.

Both servers were consumed from before, or both have just started.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from jvm import KAFKA_VERSION, cache_directory, java_version
from page import measured_now, publish
from real_broker import TOPIC, broker_in

TABLE_BEGIN, TABLE_END = "<!-- serve -->", "<!-- end of serve -->"
VALUE_BYTES, SECONDS = 1000, 300
_SETTLING_SECONDS = 5
"""The time after which a broker that has just started does no more work of its own."""
SETTINGS = {"log.segment.bytes": str(256 << 20), "auto.create.topics.enable": "true", "num.partitions": "1"}


class Consumed(NamedTuple):
    """One run: the client's seconds, and the server's CPU seconds."""

    seconds: float
    cpu_seconds: float


def produce(address: str, records: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "batch.size": 1 << 20})
    chance = random.Random(1)
    values = [chance.randbytes(VALUE_BYTES) for _ in range(1000)]
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, values[number % len(values)])
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(SECONDS)


def by_librdkafka(address: str, records: int, _class_path: str) -> float:
    """Seconds from the first request to the last record."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    start = time.perf_counter()
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    got = 0
    while got < records:
        messages = consumer.consume(10_000, 10)
        if not messages:
            raise SystemExit(f"{address}: only {got} of {records} records came")
        got += len(messages)
    seconds = time.perf_counter() - start
    consumer.close()
    return seconds


def by_java(address: str, records: int, class_path: str) -> float:
    """The fetch time that kafka-consumer-perf-test reports."""
    words = ["--bootstrap-server", address, "--topic", TOPIC, "--messages", str(records), "--timeout", "60000"]
    done = subprocess.run(
        ["java", "-Xmx512M", "-cp", class_path, "org.apache.kafka.tools.ConsumerPerformance", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names, values = [line.split(", ") for line in done.stdout.splitlines() if "," in line][-2:]
    row = dict(zip((name.strip() for name in names), values, strict=True))
    if int(row["data.consumed.in.nMsg"]) < records:
        raise SystemExit(f"{address}: {row}")
    return int(row["fetch.time.ms"]) / 1000


CLIENTS = {"librdkafka": by_librdkafka, "Java consumer": by_java}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(data: Path) -> Iterator[tuple[int, str]]:
    """A new process of `kafkalog serve`, which reads and checks the whole log once."""
    words = [sys.executable, "-m", "kafkalog_cli", "serve", str(data), "--topic", TOPIC, "--port", "0"]
    with subprocess.Popen([*words, "--format", "json"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.pid, json.loads(server.stdout.readline())["bootstrap"]
        finally:
            server.terminate()


def measured(client: str, pid: int, address: str, records: int, class_path: str) -> Consumed:
    cpu_before = cpu_seconds(pid)
    seconds = CLIENTS[client](address, records, class_path)
    return Consumed(seconds, cpu_seconds(pid) - cpu_before)


Sides = tuple[list[Consumed], list[Consumed]]


def consumed_before(broker: Any, client: str, runs: int, records: int, class_path: str) -> Sides:
    """Measure the broker and one process of `serve` in turn, after a run that warms both."""
    sides: Sides = ([], [])
    with serving(broker.data) as ours:
        for number in range(runs + 1):
            for side, (pid, address) in zip(sides, ((broker.pid, broker.address), ours), strict=True):
                found = measured(client, pid, address, records, class_path)
                if number:
                    side.append(found)
    return sides


def just_started(broker: Any, client: str, runs: int, records: int, class_path: str) -> Sides:
    """Measure the first consumer of new processes of the broker and of `serve` in turn. The page cache is warm."""
    sides: Sides = ([], [])
    for _ in range(runs):
        broker.stop()
        broker.start()
        time.sleep(_SETTLING_SECONDS)
        sides[0].append(measured(client, broker.pid, broker.address, records, class_path))
        with serving(broker.data) as (pid, address):
            sides[1].append(measured(client, pid, address, records, class_path))
    return sides


ROWS = [
    ("librdkafka", "consumed from before", consumed_before), ("Java consumer", "consumed from before", consumed_before),
    ("Java consumer", "just started", just_started),
]  # fmt: skip


def row(client: str, state: str, mib: int, broker: list[Consumed], ours: list[Consumed]) -> str:
    ratios = sorted(theirs.seconds / one.seconds for theirs, one in zip(broker, ours, strict=True))
    cpu = [median(one.cpu_seconds for one in runs) * 1024 / mib for runs in (broker, ours)]
    is_met = median(ratios) >= 1 and cpu[1] <= cpu[0]
    seconds = [median(one.seconds for one in runs) for runs in (broker, ours)]
    return (
        f"| {client}, {mib} MiB | {state} | {seconds[0]:.3g} | {seconds[1]:.3g}"
        f" | **{median(ratios):.2f}**{'' if is_met else ' (missed)'} | {cpu[0]:.2f} | {cpu[1]:.2f} | {measured_now()} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the log")
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each side")
    parser.add_argument("--publish", action="store_true", help="write the table into docs/bench.md")
    options = parser.parse_args()
    records = (options.mib << 20) // VALUE_BYTES
    directory = cache_directory() / "bench-serve"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    broker, class_path = broker_in(directory, SETTINGS)
    lines = [
        "| Client | servers | broker s | serve s | ratio | broker CPU s per GiB | serve CPU s per GiB | measured |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    try:
        broker.start()
        produce(broker.address, records)
        for client, state, measure in ROWS:
            sides = measure(broker, client, options.runs, records, class_path)
            lines.append(row(client, state, options.mib, *sides))
            print(lines[-1], flush=True)
    finally:
        broker.kill()
        shutil.rmtree(directory, ignore_errors=True)
    note = f"Kafka {KAFKA_VERSION} on Java {java_version()}, confluent-kafka {version('confluent-kafka')}."
    text = f"{note}\n\n" + "\n".join(lines)
    print(text)
    if options.publish:
        publish(text, TABLE_BEGIN, TABLE_END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
