"""Makes `__cluster_metadata` logs and snapshots: records that fit each other, at random or as wanted."""

import base64
import shutil
import struct
from pathlib import Path

from tests.support.logs import BASE_TIME_MS, CONTROL, R, batch_v2
from tests.support.product import definitions, encode_message

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
API_KEYS = {record["value"]: record["apiKey"] for record in definitions()["topics"]["__cluster_metadata"]["records"]}
LATEST = {
    "RegisterBrokerRecord": 3,
    "PartitionRecord": 2,
    "PartitionChangeRecord": 2,
    "BrokerRegistrationChangeRecord": 2,
}


def value(name, version=None, /, **fields):
    """The bytes of a record."""
    version = LATEST.get(name, 0) if version is None else version
    frame = bytes((1, API_KEYS[name], version))  # varints, each of a number below 128
    return frame + encode_message(name, version, fields)


def uuid_text(raw):
    """The 22 characters that Kafka writes for the 16 bytes of an id."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def topic_id(number):
    return uuid_text(b"topic-id-" + struct.pack(">Ib2s", number, 1, b"--"))


def directory(number):
    return uuid_text(b"dir-" + struct.pack(">Q", number) + b"----")


def partition(topic, number=0, replicas=(1,), version=2, **more):
    fields = {
        "partitionId": number, "topicId": topic, "replicas": list(replicas), "isr": list(replicas), "removingReplicas": [],
        "addingReplicas": [], "leader": replicas[0], "leaderEpoch": 0, "partitionEpoch": 0,
        "directories": [directory(replica) for replica in replicas], **more,
    }  # fmt: skip
    return value("PartitionRecord", version, **fields)


def batches(groups, offset=0, epoch=1):
    """A log of batches with these record values each; the next offset."""
    log = b""
    for values in groups:
        log += batch_v2([R(offset + i, BASE_TIME_MS, None, data) for i, data in enumerate(values)], epoch=epoch)
        offset += len(values)
    return log, offset


def leader_change(offset, voters=(1, 2, 3)):
    ids = b"".join(struct.pack(">ib", voter, 0) for voter in voters)
    message = struct.pack(">hi", 0, voters[0]) + bytes([len(voters) + 1]) + ids + b"\x01\x00"
    return batch_v2([R(offset, BASE_TIME_MS, struct.pack(">hh", 0, 2), message)], bits=CONTROL)


def snapshot(groups, epoch=1, time_ms=BASE_TIME_MS):
    """The bytes of a snapshot: header, these records, footer."""
    header = R(0, BASE_TIME_MS, struct.pack(">hh", 0, 3), struct.pack(">hq", 0, time_ms) + b"\0")
    body, end = batches(groups, 1, epoch)
    footer = R(end, BASE_TIME_MS, struct.pack(">hh", 0, 4), struct.pack(">h", 0) + b"\0")
    header, footer = (batch_v2([one], bits=CONTROL, epoch=epoch) for one in (header, footer))
    return header + body + footer


class RandomRecords:
    """Records that a controller could write, each in a version that it could have."""

    def __init__(self, chance):
        self.chance = chance
        self.topics = {}  # id to numbers of partitions
        self.brokers = {}  # id to epoch
        self.created = 0
        self.producer_ids = 0

    def next(self):
        makers = [self.topic, self.config, self.feature, self.register, self.other]
        if self.topics:
            makers += [self.partition, self.change, self.change, self.change, self.config]
        if self.brokers:
            makers += [self.fence, self.registration_change, self.unregister]
        return self.chance.choice(makers)()

    def replicas(self):
        return self.chance.sample(range(1, 6), self.chance.randrange(1, 4))

    def topic(self):
        self.created += 1
        identity = topic_id(self.created)
        self.topics[identity] = []
        return value("TopicRecord", name=f"t{self.created}", topicId=identity)

    def partition(self):
        identity = self.chance.choice(list(self.topics))
        replicas, version = self.replicas(), self.chance.choice([0, 1, 2])
        number = self.chance.randrange(3)
        self.topics[identity].append(number)
        more = {} if version else {"directories": []}
        if self.chance.random() < 0.2:
            more["leaderRecoveryState"] = 1
        if version and self.chance.random() < 0.2:
            more["directories"] = [directory(0)] * len(replicas)
        return partition(
            identity, number, replicas, version, addingReplicas=self.chance.choice([[], replicas[:1]]), **more
        )

    def change(self):
        known = [(identity, number) for identity, numbers in self.topics.items() for number in numbers]
        if not known:
            return self.partition()
        identity, number = self.chance.choice(known)
        fields, version = {}, self.chance.choice([1, 2])
        if self.chance.random() < 0.4:
            fields["leader"] = self.chance.choice([-1, 1, 2, 3])
        if self.chance.random() < 0.4:
            fields["isr"] = self.replicas()
        if self.chance.random() < 0.3:
            fields["replicas"] = self.replicas()
            fields["directories"] = [directory(replica) for replica in fields["replicas"]]
        if self.chance.random() < 0.2:
            fields["leaderRecoveryState"] = self.chance.choice([0, 1])
        if self.chance.random() < 0.2:
            fields["removingReplicas"] = self.chance.choice([[], [1]])
        return value("PartitionChangeRecord", version, partitionId=number, topicId=identity, **fields)

    def remove(self):
        identity = self.chance.choice(list(self.topics))
        del self.topics[identity]
        return value("RemoveTopicRecord", topicId=identity)

    def config(self):
        kind = self.chance.choice([2, 4])
        name = f"t{self.chance.randrange(1, self.created + 2)}" if kind == 2 else self.chance.choice(["", "1", "2"])
        found = self.chance.choice([None, "1", "", "größe"])
        return value(
            "ConfigRecord", resourceType=kind, resourceName=name, name=self.chance.choice(["a", "b"]), value=found
        )

    def feature(self):
        return value(
            "FeatureLevelRecord",
            name=self.chance.choice(["group.version", "share.version"]),
            featureLevel=self.chance.randrange(2),
        )

    def register(self):
        broker, version = self.chance.randrange(1, 4), self.chance.choice([1, 3])
        self.brokers[broker] = epoch = self.chance.randrange(100)
        more = {"logDirs": [directory(broker)]} if version == 3 else {}
        return value("RegisterBrokerRecord", version, brokerId=broker, incarnationId=topic_id(9), brokerEpoch=epoch,
                     rack=self.chance.choice([None, "r"]), fenced=self.chance.random() < 0.5, **more)  # fmt: skip

    def fence(self):
        broker = self.chance.choice(list(self.brokers))
        return value(
            self.chance.choice(["FenceBrokerRecord", "UnfenceBrokerRecord"]), id=broker, epoch=self.brokers[broker]
        )

    def registration_change(self):
        broker = self.chance.choice(list(self.brokers))
        fields = {}
        if self.chance.random() < 0.5:
            fields["fenced"] = self.chance.choice([-1, 1])
        if self.chance.random() < 0.5:
            fields["inControlledShutdown"] = 1
        if self.chance.random() < 0.5:
            fields["logDirs"] = [directory(7), directory(8)]
        return value("BrokerRegistrationChangeRecord", brokerId=broker, brokerEpoch=self.brokers[broker], **fields)

    def unregister(self):
        broker = self.chance.choice(list(self.brokers))
        return value("UnregisterBrokerRecord", brokerId=broker, brokerEpoch=self.brokers.pop(broker))

    def other(self):
        kind = self.chance.randrange(3)
        if kind == 0:
            return value("NoOpRecord")
        if kind == 1:
            self.producer_ids += self.chance.randrange(1, 2000)
            return value("ProducerIdsRecord", brokerId=1, brokerEpoch=1, nextProducerId=self.producer_ids)
        return value(
            "ClientQuotaRecord", entity=[{"entityType": "user", "entityName": "u"}], key="k", value=1.5, remove=False
        )

    def groups(self, count):
        """Values by batch, with metadata transactions: ended, aborted (in a batch of its own, as a controller writes it), open."""
        made, kept = [], None
        for _ in range(count):
            group = [self.next() for _ in range(self.chance.randrange(1, 4))]
            dice = self.chance.random()
            if kept is None and self.topics and dice > 0.9:
                # A broker keeps settings that come in the same batch or transaction as the end of their topic.
                made += [group, [self.remove()]]
                continue
            if kept is None and dice < 0.12:
                kept = ({key: list(numbers) for key, numbers in self.topics.items()}, dict(self.brokers))
                made += [group, [value("BeginTransactionRecord", name="n")]]
                continue
            made.append(group)
            if kept is not None and dice > 0.8:
                made.append([value("EndTransactionRecord")])
                kept = None
            elif kept is not None and dice > 0.6:
                made.append([value("AbortTransactionRecord", reason="r")])
                self.topics, self.brokers = kept
                kept = None
        return made


def log_dir_of_topics(parent, topics):
    """A log directory with a metadata log beside the partitions, and the broker's server.properties in `parent`.

    `topics` are the settings of each topic; its partition is a copy of docs/example/mixed-0.
    """
    root = parent / "data"
    root.mkdir()
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    records = []
    for number, (name, settings) in enumerate(topics.items(), 1):
        shutil.copytree(EXAMPLE / "mixed-0", root / f"{name}-0")
        (root / f"{name}-0" / "partition.metadata").unlink(missing_ok=True)
        records.append([value("TopicRecord", name=name, topicId=topic_id(number)), partition(topic_id(number))])
        for key, text in settings.items():
            records[-1].append(value("ConfigRecord", resourceType=2, resourceName=name, name=key, value=text))
    (root / "__cluster_metadata-0").mkdir()
    (root / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(batches(records)[0])
    (parent / "server.properties").write_text("node.id=1\nlog.retention.hours=168\n")
    return root
