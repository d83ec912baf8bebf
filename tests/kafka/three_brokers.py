"""The disks of three brokers whose replicas differ, in tests/fixtures/cluster.tar.xz.

`python -m tests.kafka.three_brokers` makes them again with real brokers, in about two minutes.
"""

import shutil
import sys
import tarfile
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.fixtures.pack import anonymous
from tests.kafka.broker import SETTINGS, Broker, Client
from tests.kafka.real_kafka import VERSION, real_kafka_here

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "cluster.tar.xz"
CONTROLLER = 100
OF_NODES = {
    **SETTINGS,
    "broker.session.timeout.ms": "9000",
    "offsets.topic.replication.factor": "3",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.index.size.max.bytes": "16384",
}
SMALL = {"internal.segment.bytes": "3000", "replicas": 3}
MOST_SECONDS = 240


class Node(Broker):
    """A node of a cluster that has a controller of its own: `first` is the controller, None for itself."""

    def __init__(self, folder, class_path, number, first=None):
        folder.mkdir()
        super().__init__(folder, class_path, usual=OF_NODES, first=first)
        self.number = number

    def write_properties(self):
        role, at = ("controller", self) if self._first is None else ("broker", self._first)
        listener = f"CONTROLLER://{self.controller}" if self._first is None else f"PLAINTEXT://{self.address}"
        settings = {
            **self.settings,
            "process.roles": role,
            "node.id": self.number,
            "log.dirs": self.data,
            "listeners": listener,
            "controller.quorum.voters": f"{CONTROLLER}@{at.controller}",
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path


def make_disks(folder, kafka):
    """Write `broker-1` to `broker-3` into a folder.

    `orders` diverges: broker 3 was elected although it was not in sync. In `payments`, whose settings do not allow that,
    it lacks the last records, and broker 1 fewer of them. `users` is whole on all, `events` compacted.
    """
    with ExitStack() as stack:
        controller = Node(folder / "controller", kafka.broker_class_path, CONTROLLER)
        brokers = [Node(folder / f"node-{one}", kafka.broker_class_path, one, controller) for one in (1, 2, 3)]
        for node in (controller, *brokers):
            stack.callback(node.close)
        for node in (controller, *brokers):
            node.begin()
        await_start(controller, *brokers)
        first, second, third = brokers
        with Client(second.address, kafka.class_path) as client:
            client.do("create", "orders", partitions=4, **SMALL, **{"unclean.leader.election.enable": "true"})
            client.do("create", "payments", partitions=3, **SMALL)
            client.do("create", "users", partitions=3, **SMALL)
            client.do("create", "events", **SMALL, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
            for topic, count in (("orders", 4), ("payments", 3), ("users", 3)):
                for number in range(count):
                    client.do("produce", topic, count=100, per=5, seed=number, partition=number)
            client.do("produce", "events", count=200, per=5, seed=7)
            third.stop()
            produce(client, {"orders": 4, "payments": 3, "events": 1}, seed=20)
            first.stop()
            produce(client, {"orders": 4, "payments": 3, "events": 1}, seed=40)
        second.stop()
        third.start()
        with Client(third.address, kafka.class_path) as client:
            produce(client, {"orders": 4}, seed=60)
        third.stop()
        for node in brokers:
            shutil.copytree(node.data, folder / f"broker-{node.number}")


def produce(client, topics, seed):
    for topic, count in topics.items():
        for number in range(count):
            client.do("produce", topic, count=30, per=3, seed=seed + number, partition=number)


def await_start(*nodes):
    deadline = time.monotonic() + MOST_SECONDS
    while not all("Kafka Server started" in node.log() for node in nodes):
        assert time.monotonic() < deadline, "\n".join(node.log()[-2000:] for node in nodes)
        time.sleep(0.2)


def pack(folder, target):
    with tarfile.open(target, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as tar:
        for name in ("broker-1", "broker-2", "broker-3"):
            tar.add(folder / name, name, filter=anonymous)


def unpack(folder):
    """Extract the disks, with damage in a batch of users-1 on broker 2."""
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    log = min((folder / "broker-2" / "users-1").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2 + 100] ^= 1
    log.write_bytes(data)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as path:
        make_disks(Path(path), real_kafka_here(VERSION))
        pack(Path(path), Path(sys.argv[1]) if len(sys.argv) > 1 else ARCHIVE)
