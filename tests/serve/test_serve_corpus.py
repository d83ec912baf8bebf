"""All records of the corpus through `serve` and clients in Python are those of `kafkalog read`, in both isolation levels."""

import asyncio

import pytest

from tests.support.served_corpus import CODECS, ISOLATIONS, Collected, served_corpus

confluent = pytest.importorskip("confluent_kafka", reason="the extra `replay` is not installed")

pytestmark = pytest.mark.exhaustive


def places_of(served):
    return [(topic, number) for topic, one in served.server.catalog.topics.items() for number in one.partitions]


def by_librdkafka(served, isolation):
    settings = {"bootstrap.servers": served.server.bootstrap, "group.id": "g", "isolation.level": isolation}
    consumer = confluent.Consumer(
        {**settings, "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 20}
    )
    places = places_of(served)
    consumer.assign([confluent.TopicPartition(*place, confluent.OFFSET_BEGINNING) for place in places])
    found, ended = Collected(), set()
    while len(ended) < len(places):
        assert found.count <= served.record_count, set(places) - ended
        for message in consumer.consume(1000, timeout=0.05):
            if message.error():
                assert message.error().code() == confluent.KafkaError._PARTITION_EOF, message.error()
                ended.add((message.topic(), message.partition()))
            else:
                found.add(message.topic(), message.partition(), message.offset(), message.key(), message.value())
    consumer.close()
    return found


def by_kafka_python(served, isolation):
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(bootstrap_servers=served.server.bootstrap, isolation_level=isolation)
    consumer.assign([kafka.TopicPartition(*place) for place in places_of(served) if place[0] in served.records])
    consumer.seek_to_beginning()
    found, is_last = Collected(), False
    while not is_last:
        is_last = found.is_enough(served)
        for messages in consumer.poll(timeout_ms=50 if is_last else 500).values():
            for one in messages:
                found.add(one.topic, one.partition, one.offset, one.key, one.value)
    consumer.close()
    return found


def by_aiokafka(served, isolation):
    return asyncio.run(through_aiokafka(served, isolation))


async def through_aiokafka(served, isolation):
    aiokafka = pytest.importorskip("aiokafka")
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=served.server.bootstrap, isolation_level=isolation)
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition(*place) for place in places_of(served) if place[0] in served.records])
    await consumer.seek_to_beginning()
    found, is_last = Collected(), False
    while not is_last:
        is_last = found.is_enough(served)
        for messages in (await consumer.getmany(timeout_ms=50 if is_last else 500)).values():
            for one in messages:
                found.add(one.topic, one.partition, one.offset, one.key, one.value)
    await consumer.stop()
    return found


@pytest.mark.parametrize("client", [by_kafka_python, by_aiokafka, by_librdkafka])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_serve_sends_all_records_of_the_corpus(corpus, isolation, client, evidence):
    count = 0
    with served_corpus(corpus, isolation) as all_served:
        for each in all_served:
            served = each.with_codecs(CODECS) if client is by_aiokafka else each
            if not served.records:
                continue
            found = client(served, isolation)
            assert found.records == served.records, served.server.catalog.log_dirs.paths
            count += found.count
    evidence("R66", count, 6)
