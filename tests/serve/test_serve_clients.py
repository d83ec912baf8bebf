"""Unmodified clients read from `serve` what `kafkalog read` prints, and form groups."""

import asyncio
import time

import pytest

from tests.serve.test_serve_fetch import log_dir  # noqa: F401 fixture
from tests.support.product import ClusterError, KafkaCluster, lower_limit
from tests.support.serving import read_records, serving

TOPICS = {"txn": ("idem", "tx", "tx2", "__consumer_offsets"), "upgraded": ("upgraded",), "v2-mixed": ("mixed",)}
CASES = [(case, topic) for case, topics in TOPICS.items() for topic in topics]
SECONDS = 120


def add(found, partition, message):
    found.setdefault(partition, []).append(message)


def count_of(found):
    """The number of records. A client that has all of them is asked once more: for records that are too many."""
    return sum(map(len, found.values()))


def by_librdkafka(address, topic, isolation, _count):
    confluent = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": address, "group.id": "g", "isolation.level": isolation}
    consumer = confluent.Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    numbers = [*consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions]
    consumer.assign([confluent.TopicPartition(topic, number, 0) for number in numbers])
    found, ended, until = {}, set(), time.monotonic() + SECONDS
    while len(ended) < len(numbers) and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None and message.error():
            assert message.error().code() == confluent.KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
        elif message is not None:
            add(found, message.partition(), (message.offset(), message.key(), message.value()))
    consumer.close()
    assert len(ended) == len(numbers)
    return found


def by_kafka_python(address, topic, isolation, count):
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, isolation_level=isolation)
    consumer.assign([kafka.TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)])
    consumer.seek_to_beginning()
    found, until, is_last = {}, time.monotonic() + SECONDS, False
    while not is_last:
        is_last = count_of(found) >= count or time.monotonic() > until
        for message in (one for messages in consumer.poll(timeout_ms=500).values() for one in messages):
            add(found, message.partition, (message.offset, message.key, message.value))
    consumer.close()
    return found


def by_aiokafka(address, topic, isolation, count):
    aiokafka = pytest.importorskip("aiokafka")

    async def consume():
        settings = {"isolation_level": isolation, "auto_offset_reset": "earliest"}
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=address, **settings)
        await consumer.start()
        found, until, is_last = {}, time.monotonic() + SECONDS, False
        while not is_last:
            is_last = count_of(found) >= count or time.monotonic() > until
            batches = await consumer.getmany(timeout_ms=500)
            for message in (one for messages in batches.values() for one in messages):
                add(found, message.partition, (message.offset, message.key, message.value))
        await consumer.stop()
        return found

    return asyncio.run(consume())


@pytest.mark.exhaustive
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("client", [by_librdkafka, by_kafka_python, by_aiokafka])
@pytest.mark.parametrize(("case", "topic"), CASES)
def test_kafka_python_aiokafka_and_librdkafka_read_all_records_from_serve(corpus, case, topic, client, isolation):
    if client is by_aiokafka and case == "upgraded":
        pytest.skip("aiokafka does not decode LZ4 of message format 0")
    data = corpus / case / "data"
    wanted = read_records(data, topic, committed=isolation == "read_committed")
    assert wanted
    with serving(data) as server:
        assert client(server.bootstrap, topic, isolation, count_of(wanted)) == wanted


def test_three_consumers_share_a_topic_and_take_over(corpus):
    share_and_take_over(pytest.importorskip("confluent_kafka"), corpus, {"session.timeout.ms": 30_000})


def share_and_take_over(confluent, corpus, of_protocol):
    data = corpus / "txn" / "data"
    with serving(data) as server:
        settings = {"bootstrap.servers": server.bootstrap, "group.id": "three", **of_protocol}
        consumers = [confluent.Consumer({**settings, "auto.offset.reset": "earliest"}) for _ in range(3)]
        for consumer in consumers:
            consumer.subscribe(["tx2", "idem"])

        def owned(of):
            return sorted((one.topic, one.partition) for consumer in of for one in consumer.assignment())

        def settle(of, seen):
            until = time.monotonic() + SECONDS
            while owned(of) != [("idem", 0), ("tx2", 0), ("tx2", 1)]:
                assert time.monotonic() < until, owned(of)
                for consumer in of:
                    message = consumer.poll(0.1)
                    if message is not None and not message.error():
                        seen.add((message.topic(), message.partition(), message.offset()))

        seen = set()
        settle(consumers, seen)
        broker = server.server._broker
        assert bool(broker.consumer_groups.groups()) is ("group.protocol" in of_protocol)
        first, *rest = consumers
        first.close()
        settle(rest, seen)
        rest[0].commit(offsets=[confluent.TopicPartition("idem", 0, 42)], asynchronous=False)
        (committed,) = rest[1].committed([confluent.TopicPartition("idem", 0)], timeout=SECONDS)
        assert committed.offset == 42
        for consumer in rest:
            consumer.close()
        assert (broker.groups.groups(), broker.consumer_groups.groups()) == ([], {})


@pytest.fixture
def cluster(log_dir):  # noqa: F811
    """The cluster of `kafkalog replay`, which is here a server of orders-0 that calls itself node 0."""
    pytest.importorskip("confluent_kafka")
    (log_dir / "meta.properties").write_text("version=1\nnode.id=0\ncluster.id=c\n")
    with serving(log_dir) as server:
        yield KafkaCluster(server.bootstrap)


def test_records_of_a_cluster_end_before_an_offset(cluster):
    assert [offset for offset, _ in cluster.records("orders", 0, 3, 8)] == [3, 4, 5, 6, 7]
    assert [offset for offset, _ in cluster.records("orders", 0, 28, 99)] == [28, 29]


def test_the_offset_0_is_an_offset_of_a_group(cluster):
    cluster.commit("g", {("orders", 0): (0, "m")})
    assert cluster.group_offsets("g") == {("orders", 0): (0, "m")}


def test_the_node_0_is_a_leader(cluster, monkeypatch):
    """A topic is there when each of its partitions has a leader. The server itself creates none."""
    monkeypatch.setattr(cluster, "_results", lambda _: [])
    lower_limit(monkeypatch, "seconds replay waits for an answer", 2.0)
    cluster.create_topic("orders", 1, {})
    with pytest.raises(ClusterError, match="not all of its partitions have a leader"):
        cluster.create_topic("other", 1, {})
