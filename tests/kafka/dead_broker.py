"""Makes docs/dead-broker.tar.gz, the disk of docs/dead-broker.md: python -m tests.kafka.dead_broker.

A real broker gets orders and payments and is killed. Then the last batch of orders-0 is damaged, and an index is removed,
as by a disk that fails. The archive is made once: the page shows its offsets and sizes.
"""

import subprocess
import tempfile
import time
from pathlib import Path

from tests.kafka.broker import JAVA, Client, broker
from tests.kafka.real_kafka import real_kafka_here

DOCS = Path(__file__).parents[2] / "docs"
ITEMS = ("tea", "coffee", "sugar", "cups")
SEGMENTS = {"internal.segment.bytes": 6000, "index.interval.bytes": 512}


def produce(kafka, address, topic, lines):
    """Kafka's console producer sends each line, a key and a value, in small batches."""
    command = [*JAVA, "-cp", kafka.class_path, "org.apache.kafka.tools.ConsoleProducer"]
    command += ["--bootstrap-server", address, "--topic", topic, "--batch-size", "300"]
    command += ["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"]
    subprocess.run(command, input="".join(f"{line}\n" for line in lines), text=True, check=True, capture_output=True)


def orders():
    for number in range(240):
        yield f'order-{number:04}|{{"item": "{ITEMS[number % 4]}", "amount": {1 + number * 7 % 5}}}'


def payments():
    for number in range(0, 240, 2):
        yield f'order-{number:04}|{{"paid": {(1 + number * 7 % 5) * 250}}}'


def spoil(data):
    """The damage: a byte of the last batch of orders-0 is flipped, and the index of its first segment is removed."""
    logs = sorted((data / "orders-0").glob("*.log"))
    content = bytearray(logs[-1].read_bytes())
    content[-9] ^= 0x10
    logs[-1].write_bytes(content)
    logs[0].with_suffix(".index").unlink()


def main():
    kafka = real_kafka_here()
    with tempfile.TemporaryDirectory() as folder, broker(folder, kafka.broker_class_path) as one:
        one.start()
        with Client(one.address, kafka.class_path) as client:
            for topic in ("orders", "payments"):
                client.do("create", topic, **SEGMENTS)
        produce(kafka, one.address, "orders", orders())
        produce(kafka, one.address, "payments", payments())
        time.sleep(12)  # the checkpoints are written each 5 s
        one.kill()
        spoil(one.data)
        disk = one.data.rename(one.folder / "dead-broker")
        archive = ["tar", "-C", one.folder, "--sparse", "--sort=name", "--owner=0", "--group=0", "-czf"]
        subprocess.run([*archive, DOCS / "dead-broker.tar.gz", disk.name], check=True)


if __name__ == "__main__":
    main()
