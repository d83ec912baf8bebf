"""Damages the metadata log of tests/fixtures' internal/data, the log directory of a node that is its only voter."""

import shutil
import struct
from typing import NamedTuple

from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.metadata_logs import directory, partition, topic_id, value

METADATA = "__cluster_metadata-0"
END, SNAPSHOT_END = 145, 90
LOG = f"{0:020d}.log"
SNAPSHOT = f"{SNAPSHOT_END:020d}-{1:010d}.checkpoint"
IN_A = "CRxzVeI7TeyK9hW4Uta8tQ"


def copy_of(corpus, target):
    """A copy of the whole log directory; its metadata log has offsets 0 to 144 and a snapshot at 90."""
    shutil.copytree(corpus / "internal" / "data", target)
    return target


def positions(data):
    """(base offset, last offset, position, end) of each batch."""
    at = 0
    while at < len(data):
        base, size = struct.unpack(">qi", data[at : at + 12])
        yield base, base + struct.unpack(">i", data[at + 23 : at + 27])[0], at, at + 12 + size
        at += 12 + size


def time_before(folder, offset):
    """The largest timestamp of the batch that ends before an offset."""
    data = (folder / LOG).read_bytes()
    at = next(at for _, last, at, _ in positions(data) if last == offset - 1)
    return struct.unpack(">q", data[at + 35 : at + 43])[0]


def flip_at(disk, offset):
    """Change a payload byte of the batch with an offset."""
    path = disk / METADATA / LOG
    data = bytearray(path.read_bytes())
    data[next(end for base, last, _, end in positions(data) if base <= offset <= last) - 4] ^= 0x55
    path.write_bytes(data)


def begin_at_snapshot(disk):
    """Remove what the snapshot replaces, as a node does that has deleted the first segment."""
    folder = disk / METADATA
    data = (folder / LOG).read_bytes()
    start = next(at for base, _, at, _ in positions(data) if base == SNAPSHOT_END)
    for path in folder.glob(f"{0:020d}.*"):
        path.unlink()
    (folder / f"{SNAPSHOT_END:020d}.log").write_bytes(data[start:])


def append(disk, *values, key=None):
    """Append a batch of records with these values, with a right CRC."""
    rows = [R(END + at, BASE_TIME_MS, key, one) for at, one in enumerate(values)]
    with (disk / METADATA / LOG).open("ab") as log:
        log.write(batch_v2(rows, epoch=2))


class BadRecord(NamedTuple):
    values: tuple
    says: str
    key: bytes | None = None
    code: int = 4


def _bad(says, *values, key=None, code=4):
    return BadRecord(values, says, key, code)


def _feature(name, level):
    return value("FeatureLevelRecord", name=name, featureLevel=level)


BAD_RECORDS = {
    "topic-twice": _bad("the topic in-a exists already", value("TopicRecord", name="in-a", topicId=IN_A)),
    "topic-with-other-id": _bad("exists already", value("TopicRecord", name="in-a", topicId=topic_id(7))),
    "topic-id-twice": _bad("the topic in-a has the id", value("TopicRecord", name="new", topicId=IN_A)),
    "no-topic": _bad("which no topic has", partition(topic_id(7))),
    "directories": _bad(
        "2 replicas with 1 directories",
        value("TopicRecord", name="new", topicId=topic_id(8)),
        partition(topic_id(8), 0, (1, 2), directories=[directory(1)]),
    ),
    "no-partition": _bad("no partition 99", value("PartitionChangeRecord", 2, partitionId=99, topicId=IN_A)),
    "unknown-broker": _bad("broker 77", value("UnregisterBrokerRecord", brokerId=77, brokerEpoch=1)),
    "broker-epoch": _bad("broker 1 at epoch 1", value("FenceBrokerRecord", id=1, epoch=1)),
    "feature-of-newer-kafka": _bad("metadata.version 99", _feature("metadata.version", 99), code=12),
    "feature-above-the-node": _bad("metadata.version 30", _feature("metadata.version", 30)),
    "feature-too-low": _bad("metadata.version 3", _feature("metadata.version", 3)),
    "unknown-feature": _bad("foo 1", _feature("foo", 1), code=12),
    "producer-ids-go-back": _bad(
        "the next producer id 5", value("ProducerIdsRecord", brokerId=1, brokerEpoch=1, nextProducerId=5)
    ),
    "unknown-acl": _bad("no access control entry", value("RemoveAccessControlEntryRecord", id=topic_id(7))),
    "unknown-scram-user": _bad("the user u", value("RemoveUserScramCredentialRecord", name="u", mechanism=1)),
    "unknown-topic-removed": _bad("no topic has the id", value("RemoveTopicRecord", topicId=topic_id(7))),
    "unknown-elr": _bad("the topic nope", value("ClearElrRecord", topicName="nope")),
    "no-transaction": _bad("no metadata transaction is open", value("EndTransactionRecord")),
    "empty-value": _bad("its value is empty", b""),
    "no-value": _bad("it has no value", None),
    "key": _bad("it has a key", value("NoOpRecord"), key=b"k"),
    "trailing-bytes": _bad("2 byte(s) of garbage", value("NoOpRecord") + b"xx"),
    "unknown-type": _bad("Unknown metadata id 99", b"\x01\x63\x00\x00", code=12),
    "unknown-frame": _bad("unknown frame version 2", b"\x02\x14\x00\x00", code=12),
}
"""Records that no controller can apply. A real node of Kafka 4.2 ends at each, or (topic-id-twice) never serves."""

GOOD_RECORDS = {
    "topic": (value("TopicRecord", name="new", topicId=topic_id(9)),),
    "setting-of-no-topic": (value("ConfigRecord", resourceType=2, resourceName="no", name="retention.ms", value="1"),),
    "partition-again": (partition(IN_A, 0),),
    "open-transaction": (value("BeginTransactionRecord", name="n"),),
    "feature-switched-off": (_feature("foo", 0),),
}
"""Records that a real node of Kafka 4.2 applies, though a strict reader might not."""
