"""A real broker serves what append wrote: in a partition that it left empty, one that it wrote, one made from nothing."""

import json
import shutil
import time
from typing import NamedTuple

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import Lines, our_lines, served_lines
from tests.kafka.raw_produce import NONE, OUT_OF_ORDER_SEQUENCE_NUMBER, changed, last_batch_of, produce
from tests.kafka.recovering import complaints, kafkalog

pytestmark = pytest.mark.xdist_group("broker")

SMALL = {"internal.segment.bytes": 3000, "index.interval.bytes": 512}
TOPICS = ("empty", "written", "by-clock", "made")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Outcome(NamedTuple):
    ours: dict
    served: dict
    after: dict
    told: dict
    ends: dict
    retries: dict
    wrong: dict


def append(data, topic, lines, *options):
    argv = ["append", data / f"{topic}-0", "--batch-bytes", 300, *options, "--format", "json"]
    done = kafkalog(*argv, stdin=b"".join(lines))
    assert done.code == 0, done.err
    return json.loads(done.out.splitlines()[0])


def lines_of(count, now_ms):
    for at in range(count):
        header = {"key": "h", "value": None if at % 2 else "x" * at}
        record = {"key": None if at % 5 == 0 else f"k{at}", "value": None if at % 7 == 0 else f"value {at} " * (at % 9)}
        yield (
            json.dumps({**record, "timestamp_ms": now_ms - 1000 + at, "headers": [header] * (at % 3)}).encode() + b"\n"
        )


@pytest.fixture(scope="module")
def outcome(real_kafka, tmp_path_factory):
    class_path = real_kafka.broker_class_path
    folder = tmp_path_factory.mktemp("append")
    with broker(folder, class_path) as one:
        now_ms = int(time.time() * 1000)
        one.start()
        with Client(one.address, class_path) as client:
            client.do("create", "empty", **SMALL)
            client.do("create", "written", **SMALL)
            client.do("create", "made", **SMALL)
            client.do("create", "by-clock", **SMALL, **{"message.timestamp.type": "LogAppendTime"})
            times = {"from": now_ms - 5000, "step": 10}
            client.do("produce", "written", count=60, per=4, seed=1, codec="lz4", idempotent="true", **times)
        one.stop()
        shutil.rmtree(one.data / "made-0")
        for topic in TOPICS:
            for codec in CODECS:
                append(one.data, topic, lines_of(40, now_ms), "--codec", codec)
            for producer, ending in enumerate(("commit", "abort", "commit", "open"), 900):
                append(one.data, topic, lines_of(9, now_ms), "--producer-id", producer, "--transaction", ending)
            append(one.data, topic, lines_of(20, now_ms), "--producer-id", 950)
        ours = {topic: our_lines(one.data / f"{topic}-0") for topic in TOPICS}
        one.start()
        with Client(one.address, class_path) as client:
            sent = [topic for topic in TOPICS if topic != "by-clock"]  # whose batches are as a client sends them
            retries = {topic: retried(one, topic) for topic in sent}
            (folder / "served").mkdir()
            served = served_lines(client, TOPICS, folder / "served")
            for topic in TOPICS:
                times = {"from": now_ms, "step": 1}
                client.do("produce", topic, count=8, per=4, seed=2, codec="none", idempotent="true", **times)
            (folder / "after").mkdir()
            after = served_lines(client, TOPICS, folder / "after")
            told = complaints(one.log_entries(), TOPICS)
            wrong = {topic: out_of_order(one, topic) for topic in sent}
        one.stop()
        ends = {topic: our_lines(one.data / f"{topic}-0") for topic in TOPICS}
    return Outcome(ours, served, after, told, ends, retries, wrong)


def retried(one, topic):
    """The offset of the last batch of our idempotent producer, and what the broker answers when it comes once more."""
    offset, batch = last_batch_of(one.data / f"{topic}-0", 950)
    return offset, produce(one.address, topic, batch)


def out_of_order(one, topic):
    """What it answers to batches that this producer cannot have sent: one is missing, or an epoch begins in the middle."""
    _, batch = last_batch_of(one.data / f"{topic}-0", 950)
    wrong = (changed(batch, sequence=1000), changed(batch, epoch=1, sequence=1))
    return [produce(one.address, topic, sent) for sent in wrong]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_broker_serves_the_records_that_append_wrote(outcome, topic):
    ours, served = outcome.ours[topic], outcome.served[topic]
    assert len(ours.uncommitted) == 40 * len(CODECS) + 4 * 9 + 20 + 60 * (topic == "written")
    assert len(ours.committed) == len(ours.uncommitted) - 2 * 9 - 20
    assert served == ours


@pytest.mark.parametrize("topic", TOPICS)
def test_a_broker_appends_after_the_records_that_append_wrote(outcome, topic):
    after, before = outcome.after[topic], outcome.served[topic]
    assert after.uncommitted[: len(before.uncommitted)] == before.uncommitted
    assert len(after.uncommitted) == len(before.uncommitted) + 8
    assert outcome.ends[topic] == Lines(after.uncommitted, after.committed)


def test_a_broker_logs_no_complaint_about_appended_logs(outcome):
    assert outcome.told == {}


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic != "by-clock"])
def test_a_broker_knows_our_idempotent_producer(outcome, topic):
    """A retry is answered with the offset that it has, and not appended: what is served after it is ours alone."""
    offset, answer = outcome.retries[topic]
    assert answer == (NONE, offset)
    assert outcome.wrong[topic] == [(OUT_OF_ORDER_SEQUENCE_NUMBER, -1)] * 2
