"""All records of the corpus through `serve` and librdkafka are those of `kafkalog read`, in both isolation levels."""

import time

import pytest

from tests.support.commands import json_of
from tests.support.serving import in_records, serving

confluent = pytest.importorskip("confluent_kafka", reason="the extra `replay` is not installed")

pytestmark = pytest.mark.exhaustive(in_turn=True, together=True)

SECONDS = 60
LEAST = 20
"""Log directories without damage."""
LEFT_OUT = {"format-0.7", "crash-flip-magic"}
"""Logs of 0.7, and a batch of magic 7: a broker and `read` take it as format 2, and clients refuse it."""
ISOLATIONS = ("read_uncommitted", "read_committed")


def consumed(server, isolation):
    """{(topic, partition): [(offset, key, value)]} of all partitions that are served."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "g", "isolation.level": isolation}
    consumer = confluent.Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    places = [(topic, number) for topic, one in server.catalog.topics.items() for number in one.partitions]
    starts = [confluent.TopicPartition(*place, confluent.OFFSET_BEGINNING) for place in places]
    consumer.assign(starts)
    found, ended, until = {}, set(), time.monotonic() + SECONDS
    while len(ended) < len(places):
        assert time.monotonic() < until, set(places) - ended
        for message in consumer.consume(1000, timeout=0.5):
            place = message.topic(), message.partition()
            if message.error():
                assert message.error().code() == confluent.KafkaError._PARTITION_EOF, message.error()
                ended.add(place)
            else:
                found.setdefault(place, []).append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def printed(log_dir, topics, isolation):
    """The same by `kafkalog read`; None if a batch is damaged or a broker would cut it off."""
    found = {}
    for topic in topics:
        code, objects, _ = json_of("read", log_dir, "--topic", topic, "--isolation", isolation)
        if code:
            return None
        found |= in_records((one for one in objects if one["type"] == "record"), "topic", "partition")
    return found


def log_dirs_of(corpus):
    """The log directories of the corpus."""
    folders = (one / name for one in sorted(corpus.iterdir()) for name in ("data", "before", "after"))
    return [one for one in folders if one.is_dir() and one.parent.name not in LEFT_OUT]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_all_records_of_the_corpus(corpus, isolation, evidence):
    """Of the log directories without damage; `--on-damage` has tests of its own."""
    records = directories = 0
    for log_dir in log_dirs_of(corpus):
        with serving(log_dir) as server:
            wanted = printed(log_dir, server.catalog.topics, isolation)
            if wanted:
                found = consumed(server, isolation)
                assert found == wanted, log_dir
                records, directories = records + sum(map(len, found.values())), directories + 1
    assert directories >= LEAST
    evidence("R66", records, 2)
