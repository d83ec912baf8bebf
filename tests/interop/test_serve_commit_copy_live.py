"""A consumer commits through `serve --commit-to COPY`; a real broker that starts on the copy has the commits."""

import shutil
import time

import pytest

from tests.interop.broker import broker
from tests.interop.test_broker_groups import FOREVER, once_loaded
from tests.support.commands import json_of
from tests.support.serving import serving

kafka = pytest.importorskip("kafka")
confluent = pytest.importorskip("confluent_kafka", reason="the extra `replay` is not installed")
pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

TOPIC, GROUP = "in-a", "through-serve"


def read_and_commit(address, count):
    """Read records in a group, and commit their offsets; {partition: offset}."""
    settings = {"bootstrap.servers": address, "group.id": GROUP, "enable.auto.commit": False}
    consumer = confluent.Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    left, until = count, time.monotonic() + 180
    while left and time.monotonic() < until:
        for message in consumer.consume(1, timeout=1):
            consumer.commit(message, asynchronous=False)
            left -= 1
    found = {one.partition: one.offset for one in consumer.committed(consumer.assignment(), timeout=120)}
    consumer.close()
    return {number: offset for number, offset in found.items() if offset >= 0}


def test_a_broker_on_the_copy_has_the_commits(real_kafka, corpus, tmp_path):
    disk, copy = corpus / "internal" / "data", tmp_path / "data"
    before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    shutil.copytree(disk, copy)
    _, groups, _ = json_of("groups", disk)
    known = [
        one["group_id"] for one in groups if one["type"] == "group" and one["group_type"] in ("classic", "consumer")
    ]
    for count in (20, 7):
        with serving(disk, commit_to=str(copy)) as server:
            wanted = read_and_commit(server.bootstrap, count)
    assert sum(wanted.values()) == 27
    _, groups, _ = json_of("groups", copy, "--group", GROUP)
    offsets = next(one["offsets"] for one in groups if one["type"] == "group")
    assert {one["partition"]: one["current_offset"] for one in offsets} == wanted
    assert (copy / ".kafka_cleanshutdown").exists()
    with broker(tmp_path, real_kafka.broker_class_path, FOREVER) as one:
        one.start()
        assert "recovered for __consumer_offsets" not in one.log()
        client = once_loaded(lambda: kafka.KafkaAdminClient(bootstrap_servers=one.address))
        found = once_loaded(lambda: client.list_group_offsets(GROUP))[GROUP]
        assert {at.partition: offset.offset for at, offset in found.items()} == wanted
        others = [once_loaded(lambda: client.list_group_offsets(group))[group] for group in known]  # noqa: B023
        assert sum(map(bool, others)) >= 3, "the groups of the copy keep their offsets"
        client.close()
        after = read_and_commit(one.address, 3)
        one.stop()
    assert sum(after.values()) == 30, "the group continues on the broker"
    assert {path: path.read_bytes() for path in before} == before
