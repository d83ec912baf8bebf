"""`cluster` beside the real tools: their output just before the broker stops, and its disk then."""

import re

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.real_kafka import VERSION, version_of
from tests.kafka.test_groups_live import GroupClients
from tests.support.commands import json_of, kafkalog

pytestmark = [pytest.mark.xdist_group("groups"), pytest.mark.full]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOOLS = "org.apache.kafka.tools"
# Kafka 4.4 has moved it to its other tools.
CONFIGS = f"{TOOLS}.ConfigCommand" if version_of(VERSION).schemas >= (4, 4) else "kafka.admin.ConfigCommand"
PASSWORD = "a-secret-that-is-never-printed"


def objects(*argv):
    code, lines, errors = json_of("cluster", *argv)
    assert code == 0, errors
    found = {}
    for one in lines:
        found.setdefault(one["type"], []).append(one)
    return found


@pytest.fixture(scope="module")
def stopped(real_kafka, tmp_path_factory):
    """(the log directory of a stopped broker, the output of each tool just before)."""
    folder = tmp_path_factory.mktemp("cluster")
    said = {}
    with broker(folder, real_kafka.broker_class_path, SETTINGS) as one:
        one.start()
        with Client(one.address, real_kafka.class_path) as client:
            client.do("create", "orders", partitions=3, **{"retention.ms": "777000"})
            client.do("create", "payments")

        with GroupClients(one.address, real_kafka.class_path, folder) as tools:

            def tool(name, *words):
                file = folder / "tool.txt"
                tools.do("tool", file, name, *words)
                return file.read_text()

            def configure(kind, name, what):
                tool(CONFIGS, "--alter", "--add-config", what, "--entity-type", kind, "--entity-name", name)

            configure("users", "alice", f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD}]")
            configure("users", "alice", f"SCRAM-SHA-512=[iterations=4096,password={PASSWORD}]")
            configure("users", "bob", "producer_byte_rate=1024,request_percentage=12.5")
            configure("clients", "app", "consumer_byte_rate=2048")
            configure("topics", "payments", "cleanup.policy=compact,min.insync.replicas=1")
            configure("brokers", "1", "log.cleaner.threads=2")
            tool(
                f"{TOOLS}.AclCommand",
                "--add",
                "--allow-principal",
                "User:alice",
                "--operation",
                "Read",
                "--topic",
                "orders",
            )
            tool(f"{TOOLS}.AclCommand", "--add", "--deny-principal", "User:bob", "--operation", "All", "--group", "g",
                "--resource-pattern-type", "prefixed")  # fmt: skip
            said["topics"] = tool(f"{TOOLS}.TopicCommand", "--describe")
            said["acls"] = tool(f"{TOOLS}.AclCommand", "--list")
            said["features"] = tool(f"{TOOLS}.FeatureCommand", "describe")
            said["quorum"] = tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
            for kind in ("users", "clients", "topics", "brokers"):
                said[f"{kind} settings"] = tool(CONFIGS, "--describe", "--entity-type", kind)
        one.stop()
        yield one.data, said


def before_the_stop(data):
    """The offset of the first change that the stop of the broker made."""
    for offset in range(objects(data)["cluster"][0]["end_offset"], 0, -1):
        found = objects(data, "--at", offset)
        if not found["cluster-broker"][0]["in_controlled_shutdown"] and not found["cluster-broker"][0]["fenced"]:
            return offset
    raise AssertionError("the broker never ran")


def test_cluster_lists_the_topics_and_partitions_of_the_real_tool(stopped):
    data, said = stopped
    found = objects(data, "--at", before_the_stop(data))
    topics = {one["topic"]: one for one in found["cluster-topic"]}
    described = re.findall(
        r"Topic: (\S+)\tTopicId: (\S+)\s+PartitionCount: (\d+)\s+ReplicationFactor: (\d+)", said["topics"]
    )
    assert {
        name: (one["topic_id"], str(one["partitions"]), str(one["replication_factor"])) for name, one in topics.items()
    } == {name: tuple(rest) for name, *rest in described}
    partitions = re.findall(
        r"Topic: (\S+)\tPartition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S*)\s+Isr: (\S*)\s+Elr: *(\S*)\s+LastKnownElr: *(\S*)",
        said["topics"],
    )
    assert len(partitions) == 4

    def words(numbers):
        return ",".join(map(str, numbers))

    assert sorted(partitions) == [
        (
            one["topic"], str(one["partition"]), str(one["leader"]), words(one["replicas"]), words(one["isr"]),
            words(one["elr"]), words(one["last_known_elr"]),
        )
        for one in found["cluster-partition"]
    ]  # fmt: skip


def test_cluster_lists_the_settings_of_the_real_tool(stopped):
    data, said = stopped
    found = {
        (one["resource_type"], one["resource_name"], one["name"]): one["value"]
        for one in objects(data)["cluster-config"]
    }
    real = {}
    for kind, tool in (("TOPIC", "topics settings"), ("BROKER", "brokers settings")):
        name = ""
        for line in said[tool].splitlines():
            heading = re.match(r"Dynamic configs for (?:topic|broker) (\S+) are:", line)
            name = heading[1] if heading else name
            pair = re.match(r"  (\S+?)=(\S*) sensitive=false", line)
            if pair:  # the tool also prints what a broker has from the default of all brokers
                is_default = (kind, name, pair[1]) not in found and kind == "BROKER"
                real[kind, "" if is_default else name, pair[1]] = pair[2]
    assert real["BROKER", "1", "log.cleaner.threads"] == "2"
    assert real.items() <= found.items()
    assert found["TOPIC", "orders", "retention.ms"] == "777000"
    assert real.keys() >= {("TOPIC", "payments", "cleanup.policy"), ("TOPIC", "orders", "retention.ms")}


def test_cluster_lists_the_users_quotas_and_acls_of_the_real_tools(stopped):
    data, said = stopped
    found = objects(data)
    assert {(one["user"], one["mechanism"], one["iterations"]) for one in found["cluster-scram-user"]} == {
        (user, mechanism, int(iterations))
        for user, line in re.findall(
            r"SCRAM credential configs for user-principal '(\S+)' are (.*)", said["users settings"]
        )
        for mechanism, iterations in re.findall(r"(SCRAM-SHA-\d+)=iterations=(\d+)", line)
    }
    assert len(found["cluster-scram-user"]) == 2
    quotas = {(one["entity"][0], one["key"]): one["value"] for one in found["cluster-quota"]}
    real = {}
    for entity, name, line in re.findall(
        r"Quota configs for (user-principal|client-id) '(\S+)' are (.*)",
        said["users settings"] + said["clients settings"],
    ):
        kind = {"user-principal": "user", "client-id": "client-id"}[entity]
        real |= {(f"{kind}={name}", key): float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", line)}
    assert quotas == real
    assert len(real) == 3
    acls = {
        (
            one["resource_type"],
            one["resource_name"],
            one["pattern_type"],
            one["principal"],
            one["host"],
            one["operation"],
            one["permission"],
        )
        for one in found["cluster-acl"]
    }
    lines = re.split(r"Current ACLs for resource ", said["acls"])[1:]
    listed = set()
    for line in lines:
        resource = re.search(r"resourceType=(\w+), name=(\S+), patternType=(\w+)", line).groups()
        for entry in re.findall(r"principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)", line):
            listed.add((*resource, *entry))
    assert acls == listed
    assert len(acls) == 2


def test_cluster_lists_the_features_and_quorum_of_the_real_tools(stopped):
    data, said = stopped
    found = objects(data)
    levels = {one["name"]: one["level"] for one in found["cluster-feature"]}
    real = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)\s", said["features"]))
    assert levels.keys() == {name for name, level in real.items() if level != "0"} - {"kraft.version"}
    assert all(str(levels[name]) == level for name, level in real.items() if level.isdecimal() and name in levels)
    (cluster,) = found["cluster"]
    assert re.search(r"LeaderId:\s+(\d+)", said["quorum"])[1] == str(cluster["leader"])
    assert re.search(r"LeaderEpoch:\s+(\d+)", said["quorum"])[1] == str(cluster["leader_epoch"])
    assert [one["broker_id"] for one in found["cluster-broker"]] == [1]
    assert [one["controller_id"] for one in found["cluster-controller"]] == [1]


def test_no_secret_is_printed(stopped):
    data, _ = stopped
    done = [kafkalog("cluster", data, *words) for words in ((), ("--format", "json"), ("--since", "0"))]
    assert [one.code for one in done] == [0, 0, 0]
    printed = "".join(one.out for one in done)
    assert "alice" in printed
    assert PASSWORD not in printed
    assert not any(word in printed for word in ("salt", "stored", "server_key"))
