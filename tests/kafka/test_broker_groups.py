"""Committed offsets and groups as our tables have them, and as a real broker has them that has loaded the same files."""

import shutil
import time

import pytest

from tests.kafka.broker import broker
from tests.support.commands import json_of

kafka = pytest.importorskip("kafka")

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

FOREVER = {
    "offsets.retention.minutes": "2147483647", "group.share.enable": "true",
    "share.coordinator.state.topic.num.partitions": "1", "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}  # fmt: skip


def groups_in(data):
    """The lines of `groups`."""
    return [line for line in json_of("groups", data)[1] if line["type"] == "group"]


def once_loaded(ask):
    """The answer, when the broker leads its partitions and the coordinator has loaded its own."""
    deadline = time.monotonic() + 240
    while True:
        try:
            return ask()
        except kafka.errors.KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


@pytest.fixture(scope="module")
def served(real_kafka, corpus, tmp_path_factory):
    """(group: {(topic, partition): (offset, leader epoch, metadata)}), group ids), by the broker."""
    folder = tmp_path_factory.mktemp("groups")
    shutil.copytree(corpus / "internal" / "data", folder / "data")
    ours = {one["group_id"] for one in groups_in(folder / "data") if one["offsets"]}
    with broker(folder, real_kafka.broker_class_path, FOREVER) as one:
        one.start()
        client = once_loaded(lambda: kafka.KafkaAdminClient(bootstrap_servers=one.address))
        found = {group: once_loaded(lambda: client.list_group_offsets(group))[group] for group in sorted(ours)}  # noqa: B023
        known = {one["group_id"]: one for one in once_loaded(client.list_groups)}
        client.close()
        one.stop()
    return found, known


def test_a_coordinator_has_the_same_offsets(served, corpus):
    """Offsets of share groups are another coordinator's."""
    wanted = {}
    for group in groups_in(corpus / "internal" / "data"):
        for one in group["offsets"] if group["group_type"] != "share" else ():
            if one["current_offset"] is not None:
                epoch = -1 if one["leader_epoch"] is None else one["leader_epoch"]
                found = wanted.setdefault(group["group_id"], {})
                found[one["topic"], one["partition"]] = (one["current_offset"], epoch, one["metadata"])
    found = {
        group: {(at.topic, at.partition): (one.offset, one.leader_epoch, one.metadata) for at, one in offsets.items()}
        for group, offsets in served[0].items()
    }
    assert {group: offsets for group, offsets in found.items() if offsets} == wanted
    assert len(wanted) == 5


def test_a_coordinator_has_the_same_groups(served, corpus):
    """It lists those that only committed offsets too: simple groups, of which there is no record."""
    ours = {one["group_id"]: one["group_type"] for one in groups_in(corpus / "internal" / "data")}
    assert {name: one["group_type"].lower() for name, one in served[1].items()} == ours
