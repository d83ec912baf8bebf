"""A real broker starts on topics that are not compacted after `compact --erase-keys`, and serves all other records.

It then takes appends to them. Producers with and without transactions wrote the topics, some of them aborted.
"""

import json
from collections import Counter

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import our_lines, served_lines
from tests.kafka.recovering import complaints, kafkalog

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

ONE_SEGMENT, SEVERAL, TRANSACTIONS = "one-segment", "several", "transactions"
TOPICS = (ONE_SEGMENT, SEVERAL, TRANSACTIONS)
SMALL = {"internal.segment.bytes": 1500}


def key_of(line):
    return line.split("\t")[2]


def commonest_keys(lines):
    """Two keys in hex: one of many records, and that of the last record, whose batch ends the log."""
    counted = Counter(map(key_of, lines))
    del counted["-"]
    return {counted.most_common(1)[0][0], key_of([line for line in lines if key_of(line) != "-"][-1])}


@pytest.fixture(scope="module")
def erased(real_kafka, tmp_path_factory):
    class_path, folder = real_kafka.broker_class_path, tmp_path_factory.mktemp("erased")
    with broker(folder, class_path) as one, Client(one.address, class_path) as client:
        one.start()
        for topic in TOPICS:
            client.do("create", topic, **({} if topic == ONE_SEGMENT else SMALL))
        client.do("produce", ONE_SEGMENT, count=60, per=6, seed=1, codec="lz4", nulls="true")
        client.do("produce", SEVERAL, count=90, per=5, seed=2, codec="zstd", nulls="true", idempotent="true")
        for number, ending in enumerate(("commit", "abort", "commit", "abort")):
            client.do("produce", TRANSACTIONS, count=30, per=4, seed=number, transaction=f"tx-{number}", end=ending)
        one.stop()
        before = {topic: our_lines(one.data / f"{topic}-0") for topic in TOPICS}
        keys, done = {}, {}
        for topic in TOPICS:
            keys[topic] = commonest_keys(before[topic].uncommitted)
            text = "".join(json.dumps({"key": bytes.fromhex(key).decode()}) + "\n" for key in keys[topic])
            (folder / "keys").write_text(text)
            done[topic] = kafkalog(
                "compact", one.data, "--topic", topic, "--erase-keys", folder / "keys", "--format", "json"
            )
        one.start()
        served = served_lines(client, list(TOPICS), folder)
        for topic in TOPICS:
            client.do("produce", topic, count=5, per=5, seed=9)
        entries = one.log_entries()
        one.stop()
        after = {topic: our_lines(one.data / f"{topic}-0") for topic in TOPICS}
    return before, keys, done, served, after, complaints(entries, TOPICS)


def test_a_consumer_gets_exactly_the_records_of_other_keys(erased):
    before, keys, done, served, _, _ = erased
    for topic in TOPICS:
        assert done[topic].code == 0, done[topic]
        stays = [[line for line in lines if key_of(line) not in keys[topic]] for lines in before[topic]]
        assert [*served[topic]] == stays, topic
        assert 0 < len(stays[0]) < len(before[topic].uncommitted)
    assert before[TRANSACTIONS].committed != before[TRANSACTIONS].uncommitted


def test_the_broker_appends_after_the_offsets_of_the_erased_records(erased):
    before, _, _, served, after, told = erased
    for topic in TOPICS:
        appended = after[topic].uncommitted[len(served[topic].uncommitted) :]
        last = int(before[topic].uncommitted[-1].split("\t")[0])
        assert len(appended) == 5
        assert int(appended[0].split("\t")[0]) > last
    assert told == {}
