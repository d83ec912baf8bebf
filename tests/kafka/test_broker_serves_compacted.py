"""A real broker starts on the corpus' partitions after our `compact`, and serves a consumer what is in them.

They are put in the place of empty ones of new topics with the same settings, which our compact finds in the metadata
log beside them. The cleaner of the brokers of these tests is off: what is served is what we left.
"""

import json
import re
from typing import NamedTuple

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import our_lines, served_lines
from tests.kafka.recovering import complaints, kafkalog
from tests.kafka.test_broker_starts_corpus import put_in_place

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

OF_2_8 = "message.format.version"
"""What a broker of today knows no more."""
OF_TODAY = {"segment.bytes": "internal.segment.bytes"}
"""Below 1 MiB."""
UNTOUCHED = {"cmp-lag"}
"""All of it is too young for its min.compaction.lag.ms."""


class Result(NamedTuple):
    before: dict
    cleaned: dict
    """The `compaction` object of each partition directory's name."""
    ours: dict
    served: dict
    told: dict


@pytest.fixture(scope="module")
def result(real_kafka, corpus, tmp_path_factory):
    topics = dict(sorted(partitions_of(corpus)))
    class_path = real_kafka.broker_class_path
    folder = tmp_path_factory.mktemp("compacted")
    with broker(folder, class_path) as one, Client(one.address, class_path) as client:
        one.start()
        for topic, log_dir in topics.items():
            client.do("create", topic, **settings_of(log_dir.parent, topic))
        one.stop()
        put_in_place(topics, one.data)
        before = {topic: our_lines(one.data / f"{topic}-0") for topic in topics}
        done = kafkalog("compact", one.data, "--topic-pattern", "|".join(topics), "--delay", "0s", "--format", "json")
        assert done.code == 0, done.err
        found = [json.loads(line) for line in done.out.splitlines()]
        cleaned = {each["topic"]: each for each in found if each["type"] == "compaction"}
        ours = {topic: our_lines(one.data / f"{topic}-0") for topic in topics}
        one.start()
        served = served_lines(client, list(topics), folder)
        entries = one.log_entries()
        one.stop()
    return Result(before, cleaned, ours, served, complaints(entries, topics))


def partitions_of(corpus):
    """(topic, log directory before a cleaning)."""
    for case in corpus.glob("compact-*"):
        for directory in (case / "before").glob("*-0"):
            if not directory.name.startswith("__"):
                yield directory.name.removesuffix("-0"), case / "before"


def settings_of(case, topic):
    """The topic's settings, from the script that made the case."""
    line = re.search(rf"^topic {re.escape(topic)}((?: \S+=\S+)*)$", (case / "how.txt").read_text(), re.MULTILINE)
    found = dict(word.split("=", 1) for word in line[1].split())
    return {OF_TODAY.get(name, name): value for name, value in found.items() if name != OF_2_8}


def last_of_keys(lines):
    """key: (offset, value) of its last record."""
    return {line.split("\t")[2]: line for line in lines}


def test_compact_cleans_nearly_all_compacted_logs_of_the_corpus(result):
    assert len(result.cleaned) > 20
    assert {topic for topic, found in result.cleaned.items() if not found["outcome"]} == UNTOUCHED
    assert (
        sum(len(result.before[topic].uncommitted) - len(result.ours[topic].uncommitted) for topic in result.ours) > 999
    )


def test_a_broker_serves_the_records_that_compact_left(result):
    for topic in result.cleaned:
        assert result.served[topic] == result.ours[topic], topic


def test_no_key_lost_its_last_value(result):
    """Of what is committed; a tombstone may go once its time is over, and a record without a key goes at once."""
    for topic in result.cleaned:
        before, after = (last_of_keys(lines[topic].committed) for lines in (result.before, result.served))
        gone = {key: line for key, line in before.items() if after.get(key) != line}
        assert all(key == "-" or line.split("\t")[3] == "-" for key, line in gone.items()), topic


def test_a_broker_repairs_nothing_in_compacted_logs(result):
    assert result.told == {}
