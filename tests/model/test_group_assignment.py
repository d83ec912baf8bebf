"""`groups --assign` against the range assignor of kafka-python, and against the assignments of real groups."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import json_of, kafkalog
from tests.support.coordinator_logs import commits, coordinator_partition_at, key, value

TOPICS = "abc"


def member(name, topics, instance=None):
    """The records of a member of the group g."""
    metadata = {
        "instanceId": instance, "rackId": None, "clientId": "c", "clientHost": "/h", "rebalanceTimeoutMs": 1,
        "subscribedTopicNames": sorted(topics), "subscribedTopicRegex": None, "serverAssignor": None,
        "classicMemberMetadata": None,
    }  # fmt: skip
    return (
        key(5, "ConsumerGroupMemberMetadataKey", groupId="g", memberId=name),
        value(0, "ConsumerGroupMemberMetadataValue", **metadata),
    )


def assigned(log_dir, counts, members):
    """{member id: {topic: partitions}} without empty shares, of a log directory with so many partitions of each topic."""
    for topic, count in counts.items():
        for number in range(count):
            (log_dir / f"{topic}-{number}").mkdir(parents=True)
            (log_dir / f"{topic}-{number}" / f"{0:020d}.log").touch()
    group = (key(3, "ConsumerGroupMetadataKey", groupId="g"), value(0, "ConsumerGroupMetadataValue", epoch=1))
    coordinator_partition_at(log_dir, 0, commits(group, *members))
    code, out, _ = json_of("groups", log_dir, "--assign")
    assert code == 0
    found = {}
    for one in out[:-1]:
        if one["partitions"]:
            found.setdefault(one["member_id"], {})[one["topic"]] = one["partitions"]
    return found


@given(
    counts=st.fixed_dictionaries({name: st.integers(1, 12) for name in TOPICS}),
    subscribed=st.dictionaries(
        st.text("xyz19", min_size=1, max_size=3), st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1
    ),
)
def test_the_ranges_are_those_of_kafka_python(tmp_path_factory, counts, subscribed):
    range_assignor = pytest.importorskip("kafka.coordinator.assignors.range").RangePartitionAssignor
    cluster = SimpleNamespace(partitions_for_topic=lambda topic: set(range(counts[topic])))
    asked = [
        SimpleNamespace(member_id=name, group_instance_id=None, metadata=SimpleNamespace(topics=sorted(topics)))
        for name, topics in subscribed.items()
    ]
    theirs = {}
    for name, given_one in range_assignor.assign(cluster, asked).items():
        for topic, numbers in given_one.assigned_partitions:
            if numbers:
                theirs.setdefault(name, {})[topic] = sorted(numbers)
    members = [member(name, topics) for name, topics in subscribed.items()]
    ours = assigned(tmp_path_factory.mktemp("groups"), counts, members)
    assert ours == theirs


@pytest.mark.parametrize(
    ("count", "shares"), [(6, [[0, 1], [2, 3], [4, 5]]), (7, [[0, 1, 2], [3, 4], [5, 6]]), (1, [[0]])]
)
def test_member_i_gets_the_partitions_from_i_n_on(tmp_path, count, shares):
    found = assigned(tmp_path, {"a": count}, [member(name, "a") for name in "xyz"])
    assert [found[name]["a"] for name in sorted(found)] == shares


def test_static_members_come_first(tmp_path):
    members = [member("a", "a"), member("z", "a", "2"), member("y", "a", "1")]
    assert assigned(tmp_path, {"a": 3}, members) == {"y": {"a": [0]}, "z": {"a": [1]}, "a": {"a": [2]}}


def test_without_a_metadata_log_the_directories_have_the_partitions(tmp_path):
    """Directories of other topics, and -delete and -future directories, are no partitions of the topic."""
    for name in ("a-0", "a-3", "b-7", f"a-5.{'0' * 32}-delete", f"a-6.{'0' * 32}-future"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020d}.log").touch()
    assert assigned(tmp_path, {}, [member("m", "a")]) == {"m": {"a": [0, 3]}}


def test_real_groups_own_what_the_assignor_gives(corpus):
    code, out, _ = kafkalog("groups", str(corpus / "internal" / "data"), "--assign", "--format", "json")
    *found, summary = map(json.loads, out.splitlines())
    assert (code, summary["assignments"]) == (0, len(found))
    assert found
    assert all(one["partitions"] == one["owned"] for one in found)
    _, text, _ = kafkalog("groups", str(corpus / "internal" / "data"), "--assign", "--topic", "in-b")
    assert [line.split()[1] for line in text.splitlines()] == ["TOPIC", "in-b"]
    assert kafkalog("groups", str(corpus / "internal" / "data"), "--assign", "--history")[0] == 2
