"""`cluster`: the state from records of all kinds, at points of the log, its differences, and partitions out of place."""

import io
import json
import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.metadata_logs import directory, leader_change, partition, snapshot, topic_id, value
from tests.support.product import Environment, NothingSelected, run
from tests.support.schemas import check

FIRST = f"{0:020}"
ENDPOINTS = [{"name": "PLAINTEXT", "host": "h", "port": 9092, "securityProtocol": 0}]
BROKER = {
    "brokerId": 1, "incarnationId": directory(9), "brokerEpoch": 5, "endPoints": ENDPOINTS, "features": [],
    "rack": "r1", "fenced": False, "logDirs": [directory(1)], "inControlledShutdown": False,
}  # fmt: skip
ACL = {
    "id": topic_id(70), "resourceType": 2, "resourceName": "a", "patternType": 3, "principal": "User:x", "host": "*",
    "operation": 3, "permissionType": 3,
}  # fmt: skip
SCRAM = {
    "name": "alice",
    "mechanism": 1,
    "salt": b"s" * 8,
    "storedKey": b"KEY-1",
    "serverKey": b"KEY-2",
    "iterations": 4096,
}
TOKEN = {
    "owner": "User:o", "requester": "User:r", "renewers": ["User:n"], "issueTimestamp": 1, "maxTimestamp": 3,
    "expirationTimestamp": 2, "tokenId": "token-1",
}  # fmt: skip


def quota(*, remove=False, number=10.5):
    entity = [{"entityType": "user", "entityName": "u"}, {"entityType": "client-id", "entityName": None}]
    return value("ClientQuotaRecord", entity=entity, key="producer_byte_rate", value=number, remove=remove)


def config(name, text, kind=2, resource="a"):
    return value("ConfigRecord", resourceType=kind, resourceName=resource, name=name, value=text)


RECORDS = [
    value("RegisterBrokerRecord", **BROKER),
    value("TopicRecord", name="a", topicId=topic_id(1)),
    partition(topic_id(1), replicas=(1, 2), eligibleLeaderReplicas=[2], isr=[1]),
    value("TopicRecord", name="b", topicId=topic_id(2)),
    partition(topic_id(2)),
    config("retention.ms", "5"),
    config("retention.ms", "7", resource="b"),
    config("ssl.keystore.password", "SECRET", kind=4, resource="1"),
    value("FeatureLevelRecord", name="metadata.version", featureLevel=29),
    value("AccessControlEntryRecord", **ACL),
    value("UserScramCredentialRecord", **SCRAM),
    quota(),
    value("DelegationTokenRecord", **TOKEN),
    value("ProducerIdsRecord", brokerId=1, brokerEpoch=5, nextProducerId=3000),
    value("RegisterControllerRecord", controllerId=3, incarnationId=directory(8), zkMigrationReady=False,
          endPoints=ENDPOINTS, features=[]),
]  # fmt: skip
LATER = [
    config("retention.ms", "6"),
    config("ssl.keystore.password", None, kind=4, resource="1"),
    value("RemoveAccessControlEntryRecord", id=ACL["id"]),
    value("RemoveUserScramCredentialRecord", name="alice", mechanism=1),
    quota(remove=True),
    value("RemoveDelegationTokenRecord", tokenId="token-1"),
    value("RemoveTopicRecord", topicId=topic_id(2)),
    value("ClearElrRecord", topicName="a"),
    value("UnregisterBrokerRecord", brokerId=1, brokerEpoch=5),
]


def log_of(records, offset=0):
    """A log with a batch per record, one second apart."""
    log = b""
    for at, data in enumerate(records, offset):
        log += batch_v2([R(at, BASE_TIME_MS + at * 1000, None, data)], epoch=1)
    return log


@pytest.fixture
def data(tmp_path):
    """A log directory of broker 1, with the records and the later ones in its metadata log, and directories."""
    folder = tmp_path / "data"
    log = folder / "__cluster_metadata-0"
    log.mkdir(parents=True)
    count = len(RECORDS)
    (log / f"{FIRST}.log").write_bytes(log_of(RECORDS) + leader_change(count) + log_of(LATER, count + 1))
    meta = f"version=1\nnode.id=1\ncluster.id=abc\ndirectory.id={directory(1)}\n"
    (folder / "meta.properties").write_text(meta)
    for name, own_id in (("a-0", 1), ("a-1", 1), ("a-2", 7), ("c-0", 3)):
        (folder / name).mkdir()
        (folder / name / f"{FIRST}.log").touch()
        (folder / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(own_id)}")
    return folder


def entries(description):
    return {part.value: [tuple(one) for one in of_part.values()] for part, of_part in description.entries.items()}


def test_cluster_at_an_offset_has_every_kind_of_entry_of_then(data):
    found = kl.cluster(data, at=len(RECORDS))
    assert entries(found) == {
        "brokers": [(1, 5, directory(9), False, False, "r1", ("PLAINTEXT://h:9092",), (directory(1),))],
        "controllers": [(3, directory(8), None, ("PLAINTEXT://h:9092",))],
        "features": [("metadata.version", 29)],
        "topics": [("a", topic_id(1), 1, 2), ("b", topic_id(2), 1, 1)],
        "partitions": [
            ("a", 0, 1, 0, 0, (1, 2), (1,), (2,), (), (), (), (directory(1), directory(2)), False),
            ("b", 0, 1, 0, 0, (1,), (1,), (), (), (), (), (directory(1),), False),
        ],
        "configs": [
            ("TOPIC", "a", "retention.ms", "5"),
            ("TOPIC", "b", "retention.ms", "7"),
            ("BROKER", "1", "ssl.keystore.password", None),
        ],
        "acls": [(ACL["id"], "TOPIC", "a", "LITERAL", "User:x", "*", "READ", "ALLOW")],
        "scram-users": [("alice", "SCRAM-SHA-256", 4096)],
        "quotas": [(("client-id=<default>", "user=u"), "producer_byte_rate", 10.5)],
        "tokens": [("token-1", "User:o", "User:r", ("User:n",), 1, 2, 3)],
    }
    assert found.metadata.end_offset == len(RECORDS)
    assert found.metadata.registry.next_producer_id == 3000


def test_cluster_lists_nothing_that_a_later_record_removed(data):
    found = kl.cluster(data)
    left = entries(found)
    assert [left[part] for part in ("brokers", "acls", "scram-users", "quotas", "tokens")] == [[]] * 5
    assert left["configs"] == [("TOPIC", "a", "retention.ms", "6")]
    assert [one[7] for one in left["partitions"]] == [()]
    assert (found.metadata.leader, found.metadata.voters) == ((1, 0), (1, 2, 3))


@pytest.mark.parametrize("offset", range(len(RECORDS) + len(LATER) + 1))
def test_each_offset_has_the_state_of_a_log_that_ends_there(offset, data, tmp_path):
    whole = RECORDS + LATER
    other = tmp_path / "other" / "__cluster_metadata-0"
    other.mkdir(parents=True)
    (other / f"{FIRST}.log").write_bytes(log_of(whole[:offset]) or batch_v2([R(0, BASE_TIME_MS, None, b"")])[:0])
    (data / "__cluster_metadata-0" / f"{FIRST}.log").write_bytes(log_of(whole))
    time = datetime.fromtimestamp((BASE_TIME_MS + offset * 1000 - 1) / 1000, timezone.utc)
    if offset:
        expected = entries(kl.cluster(other.parent))
        assert entries(kl.cluster(data, at=offset)) == expected
        assert entries(kl.cluster(data, at=time)) == expected


def test_a_point_after_a_snapshot_is_read_from_it_and_an_earlier_point_is_not(data):
    log = data / "__cluster_metadata-0"
    (log / f"{len(RECORDS):020}-0000000001.checkpoint").write_bytes(snapshot([RECORDS]))
    assert kl.cluster(data).metadata.snapshot.end_offset == len(RECORDS)
    assert entries(kl.cluster(data)) == entries(kl.cluster(data, at=1 << 40))
    early = kl.cluster(data, at=2)
    assert early.metadata.snapshot is None
    assert [len(entries(early)[part]) for part in ("brokers", "topics", "partitions")] == [1, 1, 0]


def test_cluster_since_an_offset_lists_added_changed_and_removed_entries(data):
    changes = {(one.part.value, one.name): one for one in kl.cluster(data, since=len(RECORDS)).changes}
    assert {name: one.change for name, one in changes.items()} == {
        ("brokers", "1"): "removed",
        ("controllers", "3"): "changed",
        ("topics", "b"): "removed",
        ("partitions", "a-0"): "changed",
        ("partitions", "b-0"): "removed",
        ("configs", "TOPIC a retention.ms"): "changed",
        ("configs", "TOPIC b retention.ms"): "removed",
        ("configs", "BROKER 1 ssl.keystore.password"): "removed",
        ("acls", ACL["id"]): "removed",
        ("scram-users", "alice SCRAM-SHA-256"): "removed",
        ("quotas", "client-id=<default>,user=u producer_byte_rate"): "removed",
        ("tokens", "token-1"): "removed",
    }
    assert changes["partitions", "a-0"].fields == (("elr", "2", ""),)
    assert changes["configs", "TOPIC a retention.ms"].fields == (("value", "5", "6"),)
    assert kl.cluster(data, since=1 << 40).changes == ()


def test_cluster_reports_partitions_on_disk_that_the_metadata_does_not_place_there(data):
    found = {Path(one.path).name: one.reason for one in kl.cluster(data).misplaced}
    assert found == {
        "a-1": "the topic does not have this partition",
        "a-2": f"the topic has the id {topic_id(1)} in the cluster, not {topic_id(7)}",
        "c-0": "the cluster does not have this topic",
    }
    (data / "meta.properties").write_text(f"version=1\nnode.id=7\ncluster.id=abc\ndirectory.id={directory(7)}\n")
    assert {Path(one.path).name: one.reason for one in kl.cluster(data).misplaced}[
        "a-0"
    ] == "its replicas are 1,2, not 7"
    (data / "meta.properties").write_text(f"version=1\nnode.id=2\ncluster.id=abc\ndirectory.id={directory(7)}\n")
    reason = {Path(one.path).name: one.reason for one in kl.cluster(data).misplaced}["a-0"]
    assert reason == f"the cluster has it in the log directory {directory(2)}, not in {directory(7)}"


def test_an_earlier_state_is_not_compared_with_the_partitions_of_now(data):
    """A partition that was created after the point is on the disk, and is none of the cluster at the point."""
    early = kl.cluster(data, at=2)
    assert (data / "a-0").is_dir()
    assert not entries(early)["partitions"]
    assert not early.misplaced


def test_cluster_of_a_directory_of_zookeeper_s_time_has_its_brokers_and_partitions(data):
    shutil.rmtree(data / "__cluster_metadata-0")
    (data / "meta.properties").write_text("version=0\nbroker.id=4\ncluster.id=abc\n")
    (data / "replication-offset-checkpoint").write_text("0\n1\na 0 17\n")
    found = kl.open(data).cluster()
    assert found.metadata is None
    assert [(one.version, one.node_id, one.cluster_id) for one in found.brokers] == [(0, 4, "abc")]
    assert [(one.topic, one.partition, one.high_watermark) for one in found.local_partitions][0] == ("a", 0, 17)
    with pytest.raises(NothingSelected):
        kl.cluster(data, at=1)
    out = io.BytesIO()
    assert run(["cluster", str(data), "--format", "json"], Environment(stdout=out)) == 0
    check(out.getvalue().splitlines())
    assert run(["cluster", str(data)], Environment(stdout=out)) == 0
    assert "(ZooKeeper)" in out.getvalue().decode()
    assert "partitions on disk" in out.getvalue().decode()


def test_a_broker_that_migrated_is_not_called_one_of_zookeeper(data):
    """Kafka 3.9.1 leaves meta.properties of version 0 in a log directory that it migrated to KRaft."""
    (data / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    out = io.BytesIO()
    assert run(["cluster", str(data)], Environment(stdout=out)) == 0
    assert f"{data}: node 1 of cluster abc (meta.properties of ZooKeeper)\n" in out.getvalue().decode()


def test_cluster_reports_damage_of_the_metadata_log_and_ends_with_4(data):
    log = data / "__cluster_metadata-0" / f"{FIRST}.log"
    content = bytearray(log.read_bytes())
    content[200] ^= 0xFF
    log.write_bytes(content)
    out, err = io.BytesIO(), io.BytesIO()
    assert run(["cluster", str(data)], Environment(stdout=out, stderr=err)) == 4
    assert b"later records are left out" in err.getvalue()


def test_a_log_that_begins_later_has_no_state_before(data):
    log = data / "__cluster_metadata-0"
    (log / f"{FIRST}.log").unlink()
    (log / f"{5:020}.log").write_bytes(log_of(RECORDS[:1], 5))
    err = io.BytesIO()
    assert run(["cluster", str(data), "--at", "3"], Environment(stdout=io.BytesIO(), stderr=err)) == 10
    assert b"begin after this point" in err.getvalue()
    assert run(["cluster", str(data), "--at", "2023-11-14"], Environment(stdout=io.BytesIO(), stderr=err)) == 10


def test_cluster_prints_state_and_changes_as_text(data):
    out = io.BytesIO()
    assert run(["cluster", str(data), "--at", str(len(RECORDS))], Environment(stdout=out)) == 0
    text = out.getvalue().decode()
    assert "(sensitive)" in text
    assert "SECRET" not in text
    assert "KEY-" not in text
    assert "the state at offset 15, 2023-11-14T22:13:34.000Z" in text
    out = io.BytesIO()
    words = ["--part", "topics", "--part", "configs", "--topic", "a", "--format", "json"]
    for point, misplaced in (([], ["misplaced-partition"] * 3), (["--at", str(len(RECORDS))], [])):
        out = io.BytesIO()
        assert run(["cluster", str(data), *point, *words], Environment(stdout=out)) == 0
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        assert [line["type"] for line in lines] == [
            "cluster", "local-broker", "cluster-topic", "cluster-config", *misplaced, "summary",
        ]  # fmt: skip
    for more in (["--at", str(len(RECORDS))], ["--since", "3"]):
        out = io.BytesIO()
        assert run(["cluster", str(data), *more, "--format", "json"], Environment(stdout=out)) == 0
        check(out.getvalue().splitlines())
    out = io.BytesIO()
    assert run(["cluster", str(data), "--since", str(len(RECORDS))], Environment(stdout=out)) == 0
    assert "  value: 5 -> 6\n" in out.getvalue().decode()
    assert "brokers: 1: removed\n" in out.getvalue().decode()


def test_a_real_log_agrees_at_its_snapshot(corpus, tmp_path):
    """The snapshot that a real controller wrote has the state of its log at the offset of the snapshot."""
    real = corpus / "internal" / "data" / "__cluster_metadata-0"
    (checkpoint,) = real.glob("*.checkpoint")
    offset = int(checkpoint.name.partition("-")[0])
    from_snapshot = kl.cluster(real.parent, at=offset)
    assert from_snapshot.metadata.snapshot.end_offset == offset
    work = tmp_path / "without-snapshot" / "__cluster_metadata-0"
    shutil.copytree(real, work, ignore=shutil.ignore_patterns("*.checkpoint"))
    from_log = kl.cluster(work.parent, at=offset)
    assert from_log.metadata.snapshot is None
    ((number, incarnation, voter, listeners),) = entries(from_log)["controllers"]
    assert voter  # the snapshot of a quorum with fixed voters does not have them
    expected = entries(from_snapshot) | {"controllers": [(number, incarnation, True, listeners)]}
    assert entries(from_snapshot)["controllers"] == [(number, incarnation, None, listeners)]
    assert entries(from_log) == expected
    assert sum(map(len, entries(from_log).values())) > 20


def test_sensitive_settings_are_printed_without_their_values(tmp_path):
    """The settings with the type PASSWORD in KafkaConfig.configDef of Kafka 4.2.0 and 4.4.0, and an older name."""
    names = [
        "delegation.token.secret.key", "sasl.jaas.config", "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret", "ssl.key.password", "ssl.keystore.certificate.chain",
        "ssl.keystore.key", "ssl.keystore.password", "ssl.truststore.certificates", "ssl.truststore.password",
        "delegation.token.master.key",
    ]  # fmt: skip
    names += ["listener.name.x.plain.sasl.jaas.config", "log.retention.ms"]
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (folder / f"{FIRST}.log").write_bytes(log_of([config(name, "SECRET", kind=4, resource="1") for name in names]))
    shown = {name: text for _, _, name, text in entries(kl.cluster(tmp_path))["configs"]}
    assert shown == dict.fromkeys(names[:-1]) | {"log.retention.ms": "SECRET"}
