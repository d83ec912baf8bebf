"""`groups --assign` against the range assignor of kafka-python, and against the assignments of real groups."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.ops.coordinators import LogDirs
from kafkalog_cli.ops.group_assignment import assign_ranges, ranges_of
from kafkalog_cli.ops.groups import MemberDescription
from kafkalog_cli.ops.tables.groups import GroupMember
from tests.support.commands import kafkalog
from tests.support.product import RealFilesystem

TOPICS = "abc"


def member(name, topics, instance=None):
    fields = dict.fromkeys(GroupMember._fields)
    made = GroupMember(
        **{**fields, "member_id": name, "subscribed_topics": tuple(topics), "group_instance_id": instance}
    )
    return MemberDescription(made, ())


def assigned(counts, members):
    """{member id: {topic: partitions}} without empty shares."""
    topics = {name: SimpleNamespace(partitions=dict.fromkeys(range(count))) for name, count in counts.items()}
    log_dirs = SimpleNamespace(metadata=SimpleNamespace(topics=topics))
    found = {}
    for one in assign_ranges(log_dirs, SimpleNamespace(group_id="g", members=members)):
        if one.partitions:
            found.setdefault(one.member.member_id, {})[one.topic] = list(one.partitions)
    return found


@given(
    st.fixed_dictionaries({name: st.integers(1, 12) for name in TOPICS}),
    st.dictionaries(st.text("xyz19", min_size=1, max_size=3), st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1),
)
def test_the_ranges_are_those_of_kafka_python(counts, subscribed):
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
    ours = assigned(counts, [member(name, topics) for name, topics in subscribed.items()])
    assert ours == theirs


def test_member_i_gets_the_partitions_from_i_n_on():
    assert ranges_of(range(6), 3) == [(0, 1), (2, 3), (4, 5)]
    assert ranges_of(range(7), 3) == [(0, 1, 2), (3, 4), (5, 6)]
    assert ranges_of(range(1), 3) == [(0,), (), ()]
    assert ranges_of([4, 9], 1) == [(4, 9)]


def test_ranges_are_partitions_dealt_one_by_one():
    """A twin without arithmetic: the members take partitions in turns, which says how many each gets; then in order."""
    for count in range(25):
        for members in range(1, 13):
            dealt = [0] * members
            for at, _ in enumerate(range(count)):
                dealt[at % members] += 1
            rest = iter(range(100, 100 + count))
            wanted = [tuple(next(rest) for _ in range(share)) for share in dealt]
            assert ranges_of(range(100, 100 + count), members) == wanted
            if count % members == 0:
                each = count // members
                assert [*map(list, wanted)] == [[*range(100 + i * each, 100 + (i + 1) * each)] for i in range(members)]


def test_static_members_come_first():
    members = [member("a", "a"), member("z", "a", "2"), member("y", "a", "1")]
    assert assigned({"a": 3}, members) == {"y": {"a": [0]}, "z": {"a": [1]}, "a": {"a": [2]}}


def test_without_a_metadata_log_the_directories_have_the_partitions(tmp_path):
    """Directories of other topics, and -delete and -future directories, are no partitions of the topic."""
    for name in ("a-0", "a-3", "b-7", f"a-5.{'0' * 32}-delete", f"a-6.{'0' * 32}-future"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020d}.log").touch()
    found = assign_ranges(
        LogDirs(RealFilesystem(), [str(tmp_path)], None, None),
        SimpleNamespace(group_id="g", members=[member("m", "a")]),
    )
    assert [(one.topic, one.partitions) for one in found] == [("a", (0, 3))]


def test_real_groups_own_what_the_assignor_gives(corpus):
    code, out, _ = kafkalog("groups", str(corpus / "internal" / "data"), "--assign", "--format", "json")
    *found, summary = map(json.loads, out.splitlines())
    assert (code, summary["assignments"]) == (0, len(found))
    assert found
    assert all(one["partitions"] == one["owned"] for one in found)
    _, text, _ = kafkalog("groups", str(corpus / "internal" / "data"), "--assign", "--topic", "in-b")
    assert [line.split()[1] for line in text.splitlines()] == ["TOPIC", "in-b"]
    assert kafkalog("groups", str(corpus / "internal" / "data"), "--assign", "--history")[0] == 2
