"""A real broker serves what import made, each record as it was exported, and removes what a cut off import left."""

import json
import shutil
import time
from typing import NamedTuple

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import our_lines, served_lines
from tests.kafka.recovering import complaints
from tests.spark.exporting import export
from tests.spark.importing import import_into
from tests.support.product import staged_name

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

SMALL = {"internal.segment.bytes": 3000, "index.interval.bytes": 512}
TOPICS = ("back", "other", "hashed")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DELAY = {"log.segment.delete.delay.ms": "1000"}


class Outcome(NamedTuple):
    before: dict
    ours: dict
    served: dict
    after: dict
    told: dict
    epochs: dict
    left: list
    results: dict


def produced(client):
    client.do("create", "back", **SMALL)
    for seed, codec in enumerate(CODECS):
        client.do("produce", "back", count=40, per=4, seed=seed, codec=codec)
    for number, ending in enumerate(("commit", "abort")):
        client.do("produce", "back", count=9, per=3, seed=50 + number, transaction=f"tx-{number}", end=ending)
    client.do("delete-records", "back", 13)
    for topic in TOPICS[1:]:
        client.do("create", topic, **SMALL)


def cut_off(data):
    """What imports leave that were killed: one that built, with a torn log, one that took rows apart, one that began."""
    left = [data / staged_name("back", 0, "run", str(number)) for number in range(3)]
    shutil.copytree(data / "back-0", left[0])
    newest = max(left[0].glob("*.log"))
    newest.write_bytes(newest.read_bytes()[:-7] + b"\0" * 3)
    for path in (*left[0].glob("*index"), left[0] / "partition.metadata", *left[0].glob("*.snapshot")):
        path.unlink()
    (left[0] / "leader-epoch-checkpoint.tmp").write_bytes(b"0\n5\n")
    left[1].mkdir()
    (left[1] / "0-0.arrow").write_bytes(b"ARROW1")
    left[2].mkdir()
    return left


@pytest.fixture(scope="module")
def outcome(real_kafka, tmp_path_factory):
    class_path = real_kafka.broker_class_path
    folder = tmp_path_factory.mktemp("import")
    with broker(folder, class_path, DELAY) as one:
        one.start()
        with Client(one.address, class_path) as client:
            produced(client)
            (folder / "before").mkdir()
            before = served_lines(client, ["back"], folder / "before")
        one.stop()
        export(one.data / "back-0", folder / "out")
        shutil.rmtree(one.data / "back-0")
        results = {
            "back": import_into(one.data, folder / "out", prove=True, single_replica=True),
            "other": import_into(one.data, folder / "out", topic="other", replace_empty=True, prove=True),
            "hashed": import_into(one.data, folder / "out", topic="hashed", replace_empty=True, partitions=1),
        }
        ours = {topic: our_lines(one.data / f"{topic}-0") for topic in TOPICS}
        epochs = {topic: (one.data / f"{topic}-0" / "leader-epoch-checkpoint").read_text() for topic in TOPICS}
        left = cut_off(one.data)
        coming = [{"staged": left[0].name, "path": "back-9"}]
        state = {"inodes": {"back-9": 1}, "aside": {}}
        record = {"version": 1, "output": str(one.data), "run": "run", "what": {}, "state": state, "coming": coming}
        (one.data / ".kafkalog-import").write_text(json.dumps(record))
        one.start()
        with Client(one.address, class_path) as client:
            (folder / "served").mkdir()
            served = served_lines(client, TOPICS, folder / "served")
            for topic in TOPICS:
                client.do("produce", topic, count=8, per=4, seed=2, codec="none", idempotent="true")
            (folder / "after").mkdir()
            after = served_lines(client, TOPICS, folder / "after")
            until = time.monotonic() + 180
            while any(path.exists() for path in left) and time.monotonic() < until:
                time.sleep(0.2)
            told = complaints(one.log_entries(), TOPICS)
        one.stop()
        left = [path.name for path in left if path.exists()]
    return Outcome(before, ours, served, after, told, epochs, left, results)


@pytest.mark.parametrize("topic", ["back", "other"])
def test_a_broker_serves_every_imported_record_as_it_was(outcome, topic):
    """At its offset; of transactions too, which are plain records now."""
    before = outcome.before["back"].uncommitted
    assert len(before) > 190
    assert outcome.served[topic].uncommitted == outcome.served[topic].committed == before
    assert outcome.ours[topic].uncommitted == before
    assert outcome.results[topic].done[0].proof.records == len(before)


def test_an_import_with_new_offsets_is_served_with_ascending_offsets(outcome):
    def records(lines):
        return [line.split("\t", 1)[1] for line in lines]

    assert records(outcome.served["hashed"].uncommitted) == records(outcome.before["back"].uncommitted)
    offsets = [int(line.split("\t")[0]) for line in outcome.served["hashed"].uncommitted]
    assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("topic", TOPICS)
def test_a_broker_appends_after_imported_records(outcome, topic):
    after, before = outcome.after[topic].uncommitted, outcome.served[topic].uncommitted
    assert (after[: len(before)], len(after)) == (before, len(before) + 8)


def test_imported_topics_have_topic_ids_and_leader_epochs_of_the_broker(outcome):
    ids = {topic: result.plan.ids[topic] for topic, result in outcome.results.items()}
    assert {one.source for one in ids.values()} == {"the metadata log"}
    assert len({one.topic_id for one in ids.values()}) == len(TOPICS)
    assert outcome.epochs["other"].split("\n")[2].startswith("0 ")


def test_a_broker_logs_no_complaint_about_imported_logs(outcome):
    assert {topic: text for topic, text in outcome.told.items() if topic != "back"} == {}


def test_a_broker_removes_what_a_killed_import_left(outcome):
    assert outcome.left == []
