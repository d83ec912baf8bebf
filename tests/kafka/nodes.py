"""A node (broker and controller in one) on a log directory that may be damaged: what it did, and what is left then.

A start ends in one of three ways: clients are served, the process ends, or it waits for a leader without end.
"""

import itertools
import re
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.kafka.broker import SETTINGS, Broker, Client
from tests.kafka.class_archives import archived
from tests.support.kafka_client import KafkaClient
from tests.support.naive_reader import read_batches
from tests.support.product_kafka import DirectoryKind, classify_directory

OTHER_USER = 1001
SERVED, ENDED, HANGS = "serves", "ends", "hangs"
IDLE_SECONDS = 6
AFTER_START_SECONDS = 2
LEADER_SECONDS = 8
MOST_SECONDS = 120
NODE = {
    **SETTINGS,
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "initial.broker.registration.timeout.ms": "20000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "300",
    # what a broker does some seconds or minutes after its start, and may end by
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.min.compaction.lag.ms": str(2**62),
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "num.network.threads": "1",
    "num.io.threads": "2",
}
SMALL_SEGMENTS = {"internal.metadata.log.segment.bytes": "4096"}
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1500", "metadata.max.idle.interval.ms": "50"}
BEGINS = {"from-0": {}, "snapshots": SNAPSHOTS, "above-0": {**SNAPSHOTS, "metadata.max.retention.bytes": "2000"}}
"""Where the metadata log begins; with the settings of `above-0` a controller removes it below a snapshot, each minute."""
CUT = re.compile(r"LogLoader partition=(\S+), dir=\S+\] Corruption found in segment \d+, truncating to offset (\d+)")
INVALID = re.compile(r"Found invalid messages in log segment \S*/([^/\s]+)/\d+\.log at byte")
"""As a segment is cut while its missing index is made: no line has the offset."""
LOADED = re.compile(r"LogLoader partition=(\S+), dir=\S+\] Loading producer state till offset (\d+)")
METADATA = "__cluster_metadata-0"


class Base(NamedTuple):
    """A log directory as a node left it: the flavour of its quorum, how it stopped, where the metadata log begins."""

    is_dynamic: bool
    is_clean: bool
    begins: str

    @property
    def name(self):
        words = "dynamic" if self.is_dynamic else "static", "clean" if self.is_clean else "killed"
        return "-".join([*words, self.begins])


BASES = [Base(*facts) for facts in itertools.product((False, True), (True, False), BEGINS)]


class Start(NamedTuple):
    """What a node did."""

    end: str
    log: str
    served: dict
    """(topic, partition): the topic id, and the first and the next offset, or an error."""
    aside: frozenset
    """Names of the partition directories that it has set aside."""
    records: frozenset
    """(topic, partition, first offset, last offset, CRC) of each whole batch that is left, wherever it is."""

    @property
    def cuts(self):
        """(directory, offset) of each log that was cut."""
        found = {one[1]: int(one[2]) for one in CUT.finditer(self.log)}
        ends = {one[1]: int(one[2]) for one in LOADED.finditer(self.log)}
        return {(name, found.get(name, ends.get(name, -1))) for name in {*found, *INVALID.findall(self.log)}}

    @property
    def topics(self):
        return {(topic, facts[0]) for (topic, _), facts in self.served.items()}


def batches_below(folder):
    """The batches of all logs below a folder, by topic and partition of their directory."""
    found = set()
    for path in folder.rglob("*.log"):
        name = classify_directory(path.parent.name)
        if name.kind is DirectoryKind.DELETE or path.parent.name == METADATA or not path.is_file():
            continue
        data = path.read_bytes()
        found |= {
            (name.shown_topic, name.shown_partition, one.base_offset, one.last_offset, one.crc)
            for one in read_batches(data)
            if one.valid
        }
    return frozenset(found)


def names_in(data):
    return {path.name for path in data.iterdir() if path.is_dir()} if data.is_dir() else set()


def cpu_seconds(pid):
    """The seconds that the threads of a process ran, or waited for a processor, as they do on a busy machine."""
    found = 0.0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            ran_ns, waited_ns, _ = path.read_text().split()
            found += (int(ran_ns) + int(waited_ns)) / 1e9
    return found


class Nodes:
    """Makes the bases, and starts a node of a flavour on copies of them, always on the same ports.

    `folder` is the home of all; a case has one of its own below it, and its log directory is `data` there.
    """

    def __init__(self, folder, class_path):
        self.folder, self._class_path = folder, class_path
        folder.chmod(0o711)
        self._brokers = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self._brokers.values():
            one.close()

    def make_bases(self):
        """Make each base, in a directory of its name. What a process leaves that is killed is a base too."""
        for is_dynamic, begins in itertools.product((False, True), BEGINS):
            self._make(is_dynamic, begins)

    def _make(self, is_dynamic, begins):
        home = self.folder / f"home-{is_dynamic}-{begins}"
        home.mkdir()
        node = self._broker(is_dynamic)
        node.data = home / "data"
        node.settings |= SMALL_SEGMENTS | BEGINS[begins]
        killed, clean = (self.folder / Base(is_dynamic, is_clean, begins).name for is_clean in (False, True))
        with Client(node.address, self._class_path) as client:
            node.start()
            fill(client)
            await_begin(begins, node.data / METADATA)
            node.kill()
            copy(node.data, killed)
            for path in sorted(killed.glob(f"{METADATA}/*.deleted"))[:-6]:
                path.unlink()
            node.start()
            client.do("create", "late", partitions=2)
            client.do("produce", "late", count=5, per=2, seed=9)
            node.stop()
            node.data.rename(clean)
        for name in SMALL_SEGMENTS | BEGINS["above-0"]:
            node.settings.pop(name, None)
        shutil.rmtree(home)

    def _broker(self, is_dynamic):
        if is_dynamic not in self._brokers:
            home = self.folder / ("dynamic" if is_dynamic else "static")
            home.mkdir()
            self._brokers[is_dynamic] = Broker(home, self._class_path, usual=NODE, is_dynamic=is_dynamic)
        return self._brokers[is_dynamic]

    def _readable_class_path(self):
        """A copy of the jars, which may be below a home that no other user may enter."""
        folder = self.folder / "jars"
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o777)
            for path in self._class_path.split(":"):
                shutil.copy(path, folder)
        return ":".join(f"{folder}/{Path(path).name}" for path in self._class_path.split(":"))

    def properties(self, data, *, is_dynamic):
        """The server.properties of the node that would start on `data`."""
        node = self._broker(is_dynamic)
        node.data = data
        return node.write_properties()

    def start(self, data, *, is_dynamic, as_other_user=False):
        """Start a node on `data`, and end it; what it did. The records are all those below the folder of `data`."""
        node, before = self._broker(is_dynamic), names_in(data)
        node.data = data
        user = f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"
        node.run_as = ("setpriv", *user) if as_other_user else ()
        node.class_path = self._readable_class_path() if as_other_user else self._class_path
        writes_archive = any("ArchiveClassesAtExit" in option for option in archived("broker", node.class_path))
        process = node.begin()
        end = await_end(node, process)
        served = {}
        if end == SERVED:
            served = served_by(node)
            with suppress(subprocess.TimeoutExpired):
                process.wait(AFTER_START_SECONDS if served else IDLE_SECONDS)
            if process.poll() is not None:
                end, served = ENDED, {}
            elif writes_archive:
                node.stop()
        node.kill()
        new = map(classify_directory, names_in(data) - before)
        aside = frozenset(f"{one.topic}-{one.partition}" for one in new if one.kind is DirectoryKind.STRAY)
        return Start(end, node.log(), served, aside, batches_below(data.parent))


def fill(client):
    client.do("create", "orders", partitions=2, **{"internal.segment.bytes": "3000", "index.interval.bytes": "512"})
    client.do("create", "events", **{"cleanup.policy": "compact"})
    client.do("create", "eos")
    client.do("create", "quiet")
    for number in (0, 1):
        client.do("produce", "orders", count=120, per=4, seed=number, idempotent="true", partition=number)
    client.do("produce", "events", count=40, per=3, seed=3)
    client.do("produce", "eos", count=20, per=4, seed=4, transaction="t", end="commit,abort,commit")
    client.do("consumed-group", "orders", "readers")
    client.do("alter", "events", **{"segment.ms": "3600000"})
    client.do("delete-records", "orders", 5)


def await_begin(begins, directory):
    """Wait until the metadata log begins where the base has it, and has a snapshot if it should have."""
    deadline = time.monotonic() + MOST_SECONDS
    while True:
        first = min(int(path.name[:20]) for path in directory.glob("*.log"))
        is_there = begins == "from-0" or [*directory.glob("*[1-9]-*.checkpoint")]
        if is_there and (first > 0) == (begins == "above-0"):
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not {begins}: {sorted(path.name for path in directory.iterdir())}")
        time.sleep(0.2)


def copy(source, target):
    """Copy a directory with its owners and modes, and the gaps of its files, which preallocated indexes mostly are."""
    subprocess.run(["cp", "-a", "--sparse=always", "-T", str(source), str(target)], check=True)


def await_end(node, process):
    """Wait until clients are served, the process has ended, or it has used no CPU for some seconds."""
    deadline = time.monotonic() + MOST_SECONDS
    busy, used = time.monotonic(), 0.0
    while time.monotonic() < deadline:
        if "Kafka Server started" in node.log():
            return SERVED
        if process.poll() is not None:
            return ENDED
        now = cpu_seconds(process.pid)
        if abs(now - used) > 0.3:
            busy, used = time.monotonic(), now
        if time.monotonic() - busy > IDLE_SECONDS:
            break
        time.sleep(0.1)
    return HANGS


def served_by(node):
    """What clients are told of each partition, as soon as each has a leader or an error that stays."""
    host, _, port = node.address.rpartition(":")
    deadline = time.monotonic() + LEADER_SECONDS
    while True:
        try:
            with KafkaClient((host, int(port)), timeout=30) as client:
                found = told(client)
        except OSError:
            return {}
        if time.monotonic() > deadline or not any(
            isinstance(offset, str) for one in found.values() for offset in one[1:]
        ):
            return found
        time.sleep(0.3)


def told(client):
    topics = client.ask("Metadata", 12, topics=None, allowAutoTopicCreation=False)["topics"]
    ids = {topic["name"]: topic["topicId"] for topic in topics}
    found = {}
    for at, timestamp in enumerate((-2, -1)):
        asked = [
            {
                "name": topic["name"],
                "partitions": [
                    {"partitionIndex": one["partitionIndex"], "timestamp": timestamp} for one in topic["partitions"]
                ],
            }
            for topic in topics
        ]
        for topic in client.ask("ListOffsets", 7, replicaId=-1, topics=asked)["topics"]:
            for one in topic["partitions"]:
                value = f"error {one['errorCode']}" if one["errorCode"] else one["offset"]
                key = topic["name"], one["partitionIndex"]
                found[key] = (ids[topic["name"]], value) if at == 0 else (*found[key], value)
    return found
