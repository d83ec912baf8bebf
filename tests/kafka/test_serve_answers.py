"""`serve` on a stopped broker's disk answers what the broker answered, at its end and, with --at, in the middle."""

import time

import pytest

from tests.kafka.broker import broker
from tests.support.kafka_client import KafkaClient
from tests.support.serving import serving

TOPICS = {"plain": 3, "paid": 2, "__own": 1}
PLACES = [(name, number) for name, count in TOPICS.items() for number in range(count)]
SECONDS = 180
AFTER = b"\1" * 9
ENDING = {"PrepareCommit", "PrepareAbort"}
LEFT_OUT = {"throttleTimeMs", "topicAuthorizedOperations", "brokers"}


def questions():
    """(API, version, request) of questions whose answers name no address and no time of the asking."""
    each = {name: [*range(count)] for name, count in TOPICS.items()}
    for timestamp in (-1, -2, -3, 0):
        for isolation in (0, 1):
            asked = [
                {"name": name, "partitions": [{"partitionIndex": number, "timestamp": timestamp} for number in numbers]}
                for name, numbers in each.items()
            ]
            yield "ListOffsets", 7, {"replicaId": -1, "isolationLevel": isolation, "topics": asked}
    yield "DescribeProducers", 0, {"topics": [{"name": name, "partitionIndexes": of} for name, of in each.items()]}
    yield "ListTransactions", 1, {}
    yield "ListTransactions", 1, {"stateFilters": ["Ongoing", "CompleteCommit", "Unheard"]}
    yield "DescribeTransactions", 0, {"transactionalIds": ["ended", "aborted", "open", "none", ""]}
    yield "OffsetFetch", 7, {"groupId": "readers", "topics": None, "requireStable": False}
    for version in (2, 4):
        asked = [
            {"topic": name, "partitions": [{"partition": one, "leaderEpoch": 0} for one in of]}
            for name, of in each.items()
        ]
        yield "OffsetForLeaderEpoch", version, {"replicaId": -1, "topics": asked}
    cursor = None
    for limit in (1, 3, 9):
        names = [{"name": name} for name in (*TOPICS, "none")]
        yield "DescribeTopicPartitions", 0, {"topics": names, "responsePartitionLimit": limit, "cursor": cursor}
        cursor = {"topicName": "plain", "partitionIndex": 1}
    names = [*TOPICS, "__consumer_offsets", "none", "a b", "..", "n" * 250]
    asked = [{"name": name, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"} for name in names]
    yield "Metadata", 12, {"topics": asked, "allowAutoTopicCreation": False}
    for kind in (1, 2, 3):
        yield "DescribeCluster", 1, {"includeClusterAuthorizedOperations": False, "endpointType": kind}
    yield "DescribeAcls", 3, {"resourceTypeFilter": 1, "operation": 1, "permissionType": 1}
    yield "ListPartitionReassignments", 0, {"topics": None}
    yield "ConsumerGroupDescribe", 1, {"groupIds": ["readers", "none"]}


def answers(address, after=b""):
    """The answers to all questions, in an order of their own where Kafka's tables have none.

    The bytes `after` follow each request.
    """
    with KafkaClient(address, after=after) as client:
        return [
            (name, request, in_order(client.ask(name, version, **request))) for name, version, request in questions()
        ]


def in_order(answer):
    """An answer without what each broker says of itself, with its lists in an order by content."""
    if isinstance(answer, dict):
        return {name: in_order(value) for name, value in answer.items() if name not in LEFT_OUT}
    return sorted(map(in_order, answer), key=repr) if isinstance(answer, list) else answer


def differences(wanted, found, place=""):
    """Yield a line for each difference of two answers."""
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        for name in wanted:
            yield from differences(wanted[name], found[name], f"{place}.{name}")
    elif isinstance(wanted, list | tuple) and isinstance(found, list | tuple) and len(wanted) == len(found):
        for number, pair in enumerate(zip(wanted, found, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif wanted != found:
        yield f"{place}: {wanted} became {found}"


def producing(address, name):
    confluent = pytest.importorskip("confluent_kafka")
    producer = confluent.Producer(
        {"bootstrap.servers": address, "transactional.id": name, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    return producer


def send(producer, count=5):
    for topic, number in PLACES:
        for n in range(count):
            producer.produce(topic, b"value %d" % n, partition=number)
        producer.flush(SECONDS)


def commit(address, offset):
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer({"bootstrap.servers": address, "group.id": "readers"})
    consumer.commit(offsets=[confluent.TopicPartition(*place, offset) for place in PLACES], asynchronous=False)
    consumer.close()


def settled(address):
    """The answers when the markers of ended transactions are everywhere, and the time after all that they tell."""
    asked = {"transactionalIds": ["ended", "aborted", "open"]}
    until = time.monotonic() + SECONDS
    with KafkaClient(address) as client:
        while ENDING & {
            one["transactionState"] for one in client.ask("DescribeTransactions", 0, **asked)["transactionStates"]
        }:
            assert time.monotonic() < until
            time.sleep(0.05)
    found = answers(address)
    at_ms = time.time_ns() // 1_000_000
    time.sleep(0.1)
    return found, at_ms


@pytest.mark.full
def test_the_answers_are_those_of_the_broker(newest_kafka, tmp_path):
    confluent = pytest.importorskip("confluent_kafka")
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    with broker(tmp_path, newest_kafka.broker_class_path) as one:
        one.start()
        made = AdminClient({"bootstrap.servers": one.address})
        for done in made.create_topics([NewTopic(*topic, 1) for topic in TOPICS.items()]).values():
            done.result(SECONDS)
        host, port = one.address.split(":")
        address = (host, int(port))
        send(confluent.Producer({"bootstrap.servers": one.address, "enable.idempotence": True}))
        ended, aborted, opened = (producing(one.address, name) for name in ("ended", "aborted", "open"))
        send(ended)
        send(aborted)
        commit(one.address, 3)
        ended.commit_transaction(SECONDS)
        middle, at_ms = settled(address)
        send(opened)
        aborted.abort_transaction(SECONDS)
        commit(one.address, 7)
        end, _ = settled(address)
        assert not [*differences(end, answers(address, AFTER))]
        one.stop()
    for wanted, options in ((end, {}), (middle, {"at_ms": at_ms})):
        with serving(one.data, **options) as server:
            found, again = answers(server.server.address), answers(server.server.address, AFTER)
        assert again == found
        assert not [*differences(wanted, found)], "\n".join(differences(wanted, found))
