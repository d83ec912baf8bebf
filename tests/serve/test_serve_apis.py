"""The table of APIs of `serve`, the changes that it refuses, and topics that are described page by page."""

import re
from pathlib import Path

import pytest

from tests.conformance.test_transactions_found import ONGOING, transaction
from tests.serve.test_serve_fetch import log_dir, records, write_segment  # noqa: F401 fixture
from tests.support.coordinator_logs import commits, coordinator_partition_at
from tests.support.kafka_client import APIS, KafkaClient
from tests.support.logs import BASE_TIME_MS, batch_v2, producer_snapshot
from tests.support.metadata_logs import batches, log_dir_of_topics, value
from tests.support.product import Context
from tests.support.serving import serving

PAGE = Path(__file__).parent.parent.parent / "docs" / "serve.md"
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 29, 30, 31, 53
REFUSED = [
    ("CreateTopics", {"topics": [{"name": "new"}]}, "topics", {"name": "new", "errorCode": TOPIC}),
    ("DeleteTopics", {"topicNames": ["orders"], "topics": [{"name": "orders"}]}, "responses", {"name": "orders"}),
    ("CreatePartitions", {"topics": [{"name": "orders"}]}, "results", {"name": "orders", "errorCode": TOPIC}),
    ("AlterConfigs", {"resources": [{"resourceType": 2, "resourceName": "orders"}]}, "responses", {"resourceType": 2}),
    ("IncrementalAlterConfigs", {"resources": [{"resourceType": 2}]}, "responses", {"errorCode": CLUSTER}),
    ("DeleteGroups", {"groupsNames": ["g"]}, "results", {"groupId": "g", "errorCode": GROUP}),
]  # fmt: skip


DEAD = 6
"""The number of the state (TransactionState)."""


def versions(name):
    return range(APIS[name].versions.first, APIS[name].versions.last + 1)


def test_the_page_has_the_versions_of_each_api():
    rows = re.findall(r"(?m)^\| ([A-Z][\w, ]+) \| ([\d ,to]+) \|", PAGE.read_text(encoding="utf-8"))
    written = {}
    for names, ranges in rows:
        spans = [tuple(map(int, re.findall(r"\d+", one))) for one in ranges.split(",")]
        apis = [one.strip() for one in names.split(",")]
        spans *= len(apis) if len(spans) == 1 else 1
        for name, span in zip(apis, spans, strict=True):
            written[name] = (span[0], span[-1])
    assert written == {**{api.name: tuple(api.versions) for api in APIS.values()}, "Produce": (0, 12)}


@pytest.mark.parametrize(("name", "request_body", "answered", "wanted"), REFUSED)
def test_changes_are_refused_one_by_one(log_dir, name, request_body, answered, wanted):  # noqa: F811
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        for version in versions(name):
            (one,) = client.ask(name, version, **request_body)[answered]
            assert {**one, **wanted} == one
            assert one["errorCode"] in (TOPIC, GROUP, CLUSTER)
            assert "errorMessage" not in one or one["errorMessage"] == "kafkalog serve is read-only"


def test_changes_are_refused_as_a_whole(log_dir):  # noqa: F811
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        for name in ("ElectLeaders", "AlterPartitionReassignments"):
            assert all(client.ask(name, version)["errorCode"] == CLUSTER for version in versions(name))
        assert client.ask("OffsetDelete", 0, groupId="g")["errorCode"] == GROUP
        for version in versions("InitProducerId"):
            assert client.ask("InitProducerId", version, transactionalId=None)["errorCode"] == CLUSTER
            assert client.ask("InitProducerId", version, transactionalId="t")["errorCode"] == TRANSACTIONAL_ID
        partitions = [{"partitionIndex": 0, "offset": 3}]
        for version in versions("DeleteRecords"):
            found = client.ask("DeleteRecords", version, topics=[{"name": "orders", "partitions": partitions}])
            assert found["topics"][0]["partitions"] == [{"partitionIndex": 0, "lowWatermark": -1, "errorCode": TOPIC}]


def test_nothing_moves_and_there_are_no_acls(log_dir):  # noqa: F811
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert client.ask("ListPartitionReassignments", 0, topics=None)["topics"] == []
        assert all(client.ask("DescribeAcls", version)["errorCode"] == 54 for version in versions("DescribeAcls"))


@pytest.mark.parametrize(("age", "duration", "is_found"), [(0, -1, True), (0, 0, False), (5, 5, False), (5, 4, True)])
def test_transactions_that_are_open_for_longer(log_dir, age, duration, is_found):  # noqa: F811
    made = commits(transaction("open", 1, ONGOING, 0))
    coordinator_partition_at(log_dir, 0, made, "__transaction_state")
    context = Context(now_ms=lambda: BASE_TIME_MS + age)
    with serving(log_dir, context=context) as server, KafkaClient(server.server.address) as client:
        found = client.ask("ListTransactions", 1, durationFilter=duration)["transactionStates"]
        assert [one["transactionalId"] for one in found] == ["open"] * is_found


def test_a_dead_id_is_not_listed_and_an_empty_id_is_refused(log_dir):  # noqa: F811
    """As TransactionStateManager.listTransactionStates and TransactionCoordinator.handleDescribeTransactions."""
    made = commits(transaction("dead", 1, DEAD), transaction("open", 2, ONGOING, 0))
    coordinator_partition_at(log_dir, 0, made, "__transaction_state")
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        found = client.ask("ListTransactions", 1)["transactionStates"]
        assert [one["transactionalId"] for one in found] == ["open"]
        asked = ["", "dead", "none", "open"]
        found = client.ask("DescribeTransactions", 0, transactionalIds=asked)["transactionStates"]
        invalid_request, not_found = 42, 105
        assert [one["errorCode"] for one in found] == [invalid_request, not_found, not_found, 0]


def test_describe_producers_answers_with_the_newest_snapshot_and_the_log_after_it(tmp_path):
    (tmp_path / "orders-0").mkdir()
    made = [batch_v2(records(at, 1), producer=(producer, 0, 4)) for at, producer in enumerate((5, 0, -1, 7))]
    write_segment(tmp_path / "orders-0", 0, made)
    snapshot = producer_snapshot([(9, 2, 3, 0, 0, BASE_TIME_MS, -1, -1)])
    (tmp_path / "orders-0" / f"{1:020d}.snapshot").write_bytes(snapshot)
    with serving(tmp_path) as server, KafkaClient(server.server.address) as client:
        asked = [{"name": "orders", "partitionIndexes": [0]}]
        (topic,) = client.ask("DescribeProducers", 0, topics=asked)["topics"]
        found = topic["partitions"][0]["activeProducers"]
        assert [(one["producerId"], one["lastSequence"]) for one in found] == [(9, 3), (0, 4), (7, 4)]


def test_the_node_id_is_that_of_the_log_directory(log_dir):  # noqa: F811
    (log_dir / "meta.properties").write_text("version=1\nnode.id=0\ncluster.id=c\n")
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        found = client.ask("Metadata", 9, topics=None)
        assert ([one["nodeId"] for one in found["brokers"]], found["controllerId"]) == ([0], 0)


def test_only_topics_of_coordinators_are_internal(tmp_path):
    """Consumers that subscribe by a pattern leave internal topics out (Topic.isInternal)."""
    names = ["__consumer_offsets", "__share_group_state", "__transaction_state", "__of-a-user", "orders"]
    for name in names:
        (tmp_path / f"{name}-0").mkdir()
        write_segment(tmp_path / f"{name}-0", 0, [batch_v2(records(0, 1))])
    with serving(tmp_path) as server, KafkaClient(server.server.address) as client:
        found = client.ask("Metadata", 9, topics=None)["topics"]
        assert {one["name"]: one["isInternal"] for one in found} == {
            name: not name.endswith(("user", "orders")) for name in names
        }


def test_each_log_directory_has_its_own_partitions(tmp_path):
    """Also if one directory is in the other."""
    for name in ("outer-0", "inside/inner-0"):
        (tmp_path / name).mkdir(parents=True)
        write_segment(tmp_path / name, 0, [batch_v2(records(0, 1))])
    with serving(tmp_path, tmp_path / "inside") as server, KafkaClient(server.server.address) as client:
        found = client.ask("DescribeLogDirs", 4, topics=None)["results"]
        topics = {Path(one["logDir"]).name: [topic["name"] for topic in one["topics"]] for one in found}
        assert topics == {tmp_path.name: ["outer"], "inside": ["inner"]}


def test_serve_refuses_a_name_that_no_topic_can_have(log_dir):  # noqa: F811
    """Consumers raise InvalidTopicException for it, and wait for a topic that may be created."""
    invalid_topic, unknown_topic = 17, 3
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        for name, error in (("a b", invalid_topic), ("none", unknown_topic)):
            asked = [{"name": name, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}]
            (found,) = client.ask("Metadata", 12, topics=asked, allowAutoTopicCreation=False)["topics"]
            assert (found["errorCode"], found["name"]) == (error, name)
            (found,) = client.ask("DescribeTopicPartitions", 0, topics=[{"name": name}], cursor=None)["topics"]
            assert found["errorCode"] == error
            (found,) = client.ask("DescribeProducers", 0, topics=[{"name": name, "partitionIndexes": [0]}])["topics"]
            assert found["partitions"][0]["errorCode"] == error
            resource = {"resourceType": 2, "resourceName": name, "configurationKeys": None}
            (found,) = client.ask("DescribeConfigs", 4, resources=[resource])["results"]
            assert found["errorCode"] == error


@pytest.mark.parametrize(("kind", "error"), [(1, 0), (2, 114), (3, 115)])
def test_serve_refuses_to_describe_controller_endpoints(log_dir, kind, error):  # noqa: F811
    """As AuthHelper.computeDescribeClusterResponse."""
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        found = client.ask("DescribeCluster", 1, endpointType=kind)
        assert (found["errorCode"], len(found["brokers"])) == (error, 0 if error else 1)


def test_serve_describes_settings_of_the_metadata_log(tmp_path):
    """The defaults of all brokers, groups and client metrics; no value of a password."""
    root = log_dir_of_topics(tmp_path, {"orders": {}})
    settings = [
        (4, "", "min.insync.replicas", "2"), (4, "", "ssl.keystore.password", "secret"),
        (4, "", "ssl.keystore.type", "PEM"), (4, "", "a.client.secret", "secret"),
        (32, "g", "consumer.session.timeout.ms", "50000"), (16, "m", "interval.ms", "100"), (4, "1", "x", "y"),
    ]  # fmt: skip
    made = [
        value("ConfigRecord", resourceType=kind, resourceName=name, name=key, value=text)
        for kind, name, key, text in settings
    ]
    log = root / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + batches([made], offset=2)[0])
    with serving(root) as server, KafkaClient(server.server.address) as client:

        def described(kind, name):
            asked = {"resourceType": kind, "resourceName": name, "configurationKeys": None}
            (found,) = client.ask("DescribeConfigs", 4, resources=[asked])["results"]
            assert not found["errorCode"]
            return [(one["name"], one["value"], one["configSource"], one["isSensitive"]) for one in found["configs"]]

        assert described(4, "") == [
            ("a.client.secret", None, 3, True), ("min.insync.replicas", "2", 3, False),
            ("ssl.keystore.password", None, 3, True), ("ssl.keystore.type", "PEM", 3, False),
        ]  # fmt: skip
        assert described(32, "g") == [("consumer.session.timeout.ms", "50000", 8, False)]
        assert described(32, "other") == described(16, "other") == []
        assert described(16, "m") == [("interval.ms", "100", 7, False)]


@pytest.mark.parametrize("limit", [-5, 1, 2, 3, 4, 2001])
def test_topics_are_described_page_by_page(tmp_path, limit):
    for name, numbers in {"a": (0, 1, 3), "b": (0,), "c": (0, 1)}.items():
        for number in numbers:
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            (folder / f"{0:020d}.log").touch()
    with serving(tmp_path) as server, KafkaClient(server.server.address) as client:
        for asked, wanted in (([], "aaaabcc"), (["c", "a"], "aaaacc")):
            seen, cursor = [], None
            while True:
                page = client.ask(
                    "DescribeTopicPartitions", 0, topics=[{"name": name} for name in asked],
                    responsePartitionLimit=limit, cursor=cursor,
                )  # fmt: skip
                rows = [(one["name"], row) for one in page["topics"] for row in one["partitions"]]
                assert len(rows) <= max(limit, 1)
                assert all(one["partitions"] for one in page["topics"])
                seen += rows
                cursor = page["nextCursor"]
                if cursor is None:
                    break
            assert "".join(name for name, _ in seen) == wanted
            missing = [(name, row["partitionIndex"], row["errorCode"]) for name, row in seen if row["leaderId"] < 0]
            assert missing == [("a", 2, 5)]
