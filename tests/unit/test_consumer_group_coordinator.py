"""Groups of the new consumer protocol: epochs, fencing, and partitions that never have two owners."""

import random
import shutil
import sys
from types import SimpleNamespace

import pytest

from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.cluster.group_assignment import uniform_of
from kafkalog_cli.ops.move.serve import consumer_groups
from kafkalog_cli.ops.move.serve.consumer_groups import ASSIGNORS, ConsumerGroupCoordinator
from kafkalog_cli.ops.move.serve.groups import LiveState
from tests.serve.test_serve_fetch import batches, log_dir  # noqa: F401 fixture
from tests.support.kafka_client import KafkaClient
from tests.support.serving import serving

TOPICS = {"a": ("id-a", range(5)), "b": ("id-b", range(3))}
TOPIC_ID = "kFQ3lUTFSsWWjXbfvbOpDw"


def heartbeat_of(member, epoch, topics, owned, instance, rebalance, assignor):
    """A request; `owned` are pairs of a topic id and a partition."""
    places = None if owned is None else [{"topicId": topic, "partitions": [number]} for topic, number in owned]
    return {
        "groupId": "g", "memberId": member, "memberEpoch": epoch, "instanceId": instance, "rackId": None,
        "rebalanceTimeoutMs": rebalance, "subscribedTopicNames": None if topics is None else list(topics),
        "topicPartitions": places, "serverAssignor": assignor,
    }  # fmt: skip


class Group:
    """A coordinator of one group, with a clock that only the test changes."""

    def __init__(self):
        self.now = 0.0
        self.coordinator = ConsumerGroupCoordinator(lambda: self.now, TOPICS.get)

    def beat(self, member, epoch, topics=None, owned=None, instance=None, rebalance=10_000, assignor=None):
        asked = heartbeat_of(member, epoch, topics, owned, instance, rebalance, assignor)
        found = self.coordinator.heartbeat(asked, None, "client", "host")
        given = found.get("assignment")
        if given is not None:
            given = frozenset(
                (one["topicId"], number) for one in given["topicPartitions"] for number in one["partitions"]
            )
        error = found.get("errorCode", ApiError.NONE)
        return SimpleNamespace(error=error, member_id=found["memberId"], epoch=found["memberEpoch"], assignment=given)

    def join(self, member, topics="a", **more):
        return self.beat(member, 0, topics, (), **more)

    def may_commit(self, group_id, epoch, member):
        asked = {"groupId": group_id, "generationIdOrMemberEpoch": epoch, "memberId": member}
        return self.coordinator.may_commit(asked)

    @property
    def group(self):
        return self.coordinator.groups().get("g")


@pytest.fixture
def group():
    return Group()


def numbers(found):
    return None if found.assignment is None else sorted(number for _, number in found.assignment)


def test_a_single_member_gets_all_partitions_and_the_assignment_once(group):
    first = group.join("m")
    assert (first.error, first.epoch, numbers(first)) == (ApiError.NONE, 1, [0, 1, 2, 3, 4])
    assert numbers(group.beat("m", 1)) is None
    assert numbers(group.beat("m", 1, owned=first.assignment)) == [0, 1, 2, 3, 4]
    assert group.group.state is LiveState.STABLE


def test_partitions_move_after_their_owner_gave_them_up(group):
    owned = group.join("m1").assignment
    assert numbers(group.join("m2")) == []  # nothing is free yet
    assert group.group.state is LiveState.RECONCILING
    found = group.beat("m1", 1, owned=owned)
    assert (found.epoch, numbers(found)) == (1, [0, 1, 2])  # the epoch waits for the revocation
    assert numbers(group.beat("m2", 2)) is None
    found = group.beat("m1", 1, owned=found.assignment)
    assert (found.epoch, numbers(found)) == (2, [0, 1, 2])
    found = group.beat("m2", 2)
    assert numbers(found) == [3, 4]
    assert group.group.state is LiveState.STABLE


def test_a_member_that_does_not_give_up_in_time_is_fenced(group):
    owned = group.join("m1").assignment
    group.join("m2")
    group.beat("m1", 1, owned=owned)
    group.now = 9.0
    group.coordinator.expire()
    assert group.beat("m1", 1, owned=owned).error is ApiError.NONE
    group.now = 10.0
    group.coordinator.expire()
    assert group.beat("m1", 1, owned=owned).error is ApiError.UNKNOWN_MEMBER_ID
    assert numbers(group.beat("m2", 2)) == [0, 1, 2, 3, 4]


def test_a_session_ends_without_heartbeats(group):
    group.join("m1")
    group.now = 44.0
    assert group.beat("m1", 1).error is ApiError.NONE
    group.now = 88.0
    group.coordinator.expire()
    assert group.group is not None
    group.now = 89.0
    group.coordinator.expire()
    assert group.group is None


def test_heartbeats_and_commits_of_other_epochs_are_fenced(group):
    owned = group.join("m1").assignment
    assert group.beat("m1", 2).error is ApiError.FENCED_MEMBER_EPOCH
    group.beat("m1", 1, topics="ab")
    assert group.group.members["m1"].epoch == 2
    assert group.beat("m1", 1).error is ApiError.FENCED_MEMBER_EPOCH
    assert group.beat("m1", 1, owned=owned).error is ApiError.NONE  # the answer with epoch 2 was lost
    assert group.beat("m1", 1, owned={("id-c", 0)}).error is ApiError.FENCED_MEMBER_EPOCH
    assert group.beat("m2", 1).error is ApiError.UNKNOWN_MEMBER_ID
    assert group.may_commit("g", 2, "m1") is ApiError.NONE
    assert group.may_commit("g", 1, "m1") is ApiError.STALE_MEMBER_EPOCH
    assert group.may_commit("g", 2, "m2") is ApiError.UNKNOWN_MEMBER_ID
    assert group.may_commit("other", 2, "m2") is None


def test_a_lost_answer_of_a_member_that_owns_all_that_it_was_given(group):
    owned = group.join("m1").assignment
    group.join("m2", "b")
    assert group.beat("m1", 1, owned=owned).epoch == 2
    assert group.beat("m1", 1, owned=owned).error is ApiError.NONE


@pytest.mark.parametrize(
    ("assignor", "both"), [("range", [3, 2, 2, 1]), (None, [2, 2, 2, 2]), ("uniform", [2, 2, 2, 2])]
)
def test_partitions_are_assigned_by_the_assignor_that_members_name(group, assignor, both):
    """Range divides each topic by itself, and uniform all partitions together."""
    for name in ("m1", "m2", "m3", "m4"):
        group.join(name, "ab", assignor=assignor)
    targets = [one.target for one in group.group.members.values()]
    assert sorted(map(len, targets), reverse=True) == both
    assert group.group.assignor == (assignor or "uniform")


def test_a_member_that_names_another_assignor_changes_the_assignment(group):
    group.join("m1", "ab", assignor="uniform")
    group.join("m2", "ab")
    assert group.group.assignor == "uniform"
    epoch = group.group.epoch
    group.beat("m1", 1, assignor="range")
    assert (group.group.assignor, group.group.epoch) == ("range", epoch + 1)
    assert group.group.members["m2"].target == {("id-a", 3), ("id-a", 4), ("id-b", 2)}


@pytest.mark.parametrize("seed", range(200))
def test_uniform_assignments_are_balanced_and_move_the_fewest_partitions(seed):
    """All partitions are assigned; the balance cannot be better; with the same topics, the least number moves."""
    chance = random.Random(seed)
    numbers = {topic: [(topic, number) for number in range(chance.randrange(1, 9))] for topic in "abc"}
    is_same, topics = chance.random() < 0.5, chance.choice(["a", "ab", "abc"])
    names = [f"m{number}" for number in range(chance.randrange(1, 6))]
    of = {name: topics if is_same else chance.choice(["a", "b", "ab", "bc", "abc"]) for name in names}
    wanted = {name: [place for topic in of[name] for place in numbers[topic]] for name in names}
    places = sorted({place for one in wanted.values() for place in one})
    before = {name: set() for name in names}
    for place in places:
        before[chance.choice(names)] |= {place} if chance.random() < 0.7 else set()
    found = uniform_of(wanted, before)
    assert sorted(place for one in found.values() for place in one) == places
    for name, one in found.items():
        assert one <= {*wanted[name]}
        for place in one:
            assert all(len(found[other]) + 1 >= len(one) for other in names if place in wanted[other])
    if is_same:
        each, rest = divmod(len(places), len(names))
        loads = sorted((len(one) for one in before.values()), reverse=True)
        kept = sum(min(load, each + (at < rest)) for at, load in enumerate(loads))
        assert sum(len(found[name] & before[name]) for name in names) == kept, (places, before, found)


def test_a_static_member_gets_its_partitions_again_after_it_left(group):
    owned = group.join("m1", instance="one").assignment
    assert group.join("m2", instance="one").error is ApiError.UNRELEASED_INSTANCE_ID
    assert group.beat("m1", -2, instance="one").epoch == -2
    back = group.join("m2", instance="one")
    assert (back.epoch, back.assignment) == (1, owned)  # no rebalance
    assert group.beat("m1", 1).error is ApiError.UNKNOWN_MEMBER_ID
    assert group.beat("m2", -1).epoch == -1
    assert group.group is None


def test_requests_that_do_not_join(group):
    assert group.beat("m", 0, None, ()).error is ApiError.INVALID_REQUEST
    assert group.join("m", rebalance=-1).error is ApiError.INVALID_REQUEST
    for owned in ({("id-a", 0)}, None):
        assert group.beat("m", 0, "a", owned).error is ApiError.INVALID_REQUEST
    assert group.beat("m", -1).error is ApiError.UNKNOWN_MEMBER_ID
    assert group.group is None
    assert group.join("m", rebalance=0).error is ApiError.NONE  # as Kafka, to which only -1 is no timeout


def test_a_consumer_group_accepts_members_up_to_the_limit(group, monkeypatch):
    monkeypatch.setattr(consumer_groups, "_MOST_MEMBERS", 2)
    errors = [group.join(name).error for name in ("m1", "m2", "m3", "m1")]
    assert errors == [ApiError.NONE, ApiError.NONE, ApiError.GROUP_MAX_SIZE_REACHED, ApiError.NONE]


class Member:
    """A client that owns what it was told, a while after it was told."""

    def __init__(self, group, name):
        self.group, self.name, self.epoch, self.owned, self.told = group, name, 0, frozenset(), frozenset()

    def step(self, chance, topics):
        if chance.random() < 0.5:
            self.owned &= self.told  # revocation comes first
        elif self.owned <= self.told:
            self.owned = self.told
        if self.epoch == 0:
            found = self.group.join(self.name, topics, assignor=chance.choice([None, *ASSIGNORS]))
        else:
            full = chance.random() < 0.6
            found = self.group.beat(self.name, self.epoch, topics, self.owned if full else None)
        assert found.error is ApiError.NONE, found
        self.epoch = found.epoch
        self.told = self.told if found.assignment is None else found.assignment


@pytest.mark.parametrize("seed", range(40))
def test_no_partition_has_two_owners_and_all_are_owned_in_the_end(group, seed):
    chance, members, topics = random.Random(seed), {}, {}
    for round_number in range(200):
        if round_number < 150 and (not members or chance.random() < 0.05):
            name = f"m{round_number}"
            members[name], topics[name] = Member(group, name), chance.choice(["a", "ab", "b"])
        elif round_number < 150 and len(members) > 1 and chance.random() < 0.04:
            leaving = members.pop(chance.choice(sorted(members)))
            if leaving.epoch:
                group.beat(leaving.name, -1)
        one = members[chance.choice(sorted(members))]
        one.step(chance, topics[one.name] if chance.random() < 0.5 or not one.epoch else None)
        owners = [place for member in members.values() for place in member.owned]
        assert len(owners) == len({*owners})
    for _ in range(30):
        for one in members.values():
            one.step(chance, topics[one.name])
            one.owned = one.told if one.owned <= one.told else one.owned & one.told
    wanted = {
        (TOPICS[name][0], number)
        for of in {topics[one] for one in members}
        for name in of
        for number in TOPICS[name][1]
    }
    assert {place for member in members.values() for place in member.owned} == wanted
    assert group.group.state is LiveState.STABLE


def with_id(log_dir):  # noqa: F811
    (log_dir / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    return log_dir


def beat(client, member="m", epoch=0, **more):
    joining = {"rebalanceTimeoutMs": 9000, "subscribedTopicNames": ["orders"], "topicPartitions": []}
    fields = {"memberId": member, "memberEpoch": epoch, **({} if epoch else joining), **more}
    return client.ask("ConsumerGroupHeartbeat", 1, groupId="g", **fields)


def test_a_fetch_names_topics_by_their_ids(log_dir):  # noqa: F811
    """From version 13 on a fetch names a topic by its id only."""
    asked = {"topicId": TOPIC_ID, "partitions": [{"partition": 0, "fetchOffset": 25, "partitionMaxBytes": 1 << 20}]}
    with serving(with_id(log_dir)) as server, KafkaClient(server.server.address) as client:
        found = [client.ask("Fetch", version, topics=[asked])["responses"][0] for version in (13, 17)]
        assert [one["partitions"][0]["records"] for one in found] == batches(25, 1) * 2
        asked["topicId"] = "AAAAAAAAAAAAAAAAAAAAAQ"
        assert client.ask("Fetch", 13, topics=[asked])["responses"][0]["partitions"][0]["errorCode"] == 100


def test_serve_answers_heartbeats_and_describes_consumer_groups(log_dir):  # noqa: F811
    with serving(with_id(log_dir)) as server, KafkaClient(server.server.address) as client:
        found = beat(client)
        assert (found["memberEpoch"], found["assignment"]["topicPartitions"][0]["partitions"]) == (1, [0])
        assert beat(client, epoch=1)["assignment"] is None
        (group,) = client.ask("ConsumerGroupDescribe", 1, groupIds=["g"])["groups"]
        assert (group["groupState"], group["assignorName"], group["groupEpoch"]) == ("Stable", "uniform", 1)
        (member,) = group["members"]
        (owned,) = member["assignment"]["topicPartitions"]
        assert (owned["topicId"], owned["topicName"], owned["partitions"]) == (TOPIC_ID, "orders", [0])
        listed = client.ask("ListGroups", 5, typesFilter=["consumer"])["groups"]
        assert [(one["groupId"], one["groupState"], one["groupType"]) for one in listed] == [
            ("g", "Stable", "consumer")
        ]
        for version in range(2, 10):
            joining = {"sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 1, "protocolType": "consumer"}
            classic = client.ask("JoinGroup", version, groupId="g", protocols=[{"name": "range"}], **joining)
            assert classic["errorCode"] == ApiError.INCONSISTENT_GROUP_PROTOCOL
        offsets = [{"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 7}]}]
        for epoch, error in ((1, 0), (2, 113)):
            asked = {"groupId": "g", "memberId": "m", "generationIdOrMemberEpoch": epoch, "topics": offsets}
            (topic,) = client.ask("OffsetCommit", 9, **asked)["topics"]
            assert topic["partitions"][0]["errorCode"] == error
        assert beat(client, serverAssignor="range")["errorCode"] == 0
        (group,) = client.ask("ConsumerGroupDescribe", 1, groupIds=["g"])["groups"]
        assert group["assignorName"] == "range"
        assert beat(client, serverAssignor="other")["errorCode"] == 112
        assert client.ask("ConsumerGroupDescribe", 0, groupIds=["none"])["groups"][0]["errorCode"] == 69


def assigned_topics(client, regex, names=None, epoch=0):
    found = beat(client, epoch=epoch, subscribedTopicRegex=regex, subscribedTopicNames=names)
    assert found["errorCode"] == 0, found["errorMessage"]
    (group,) = client.ask("ConsumerGroupDescribe", 1, groupIds=["g"])["groups"]
    (member,) = group["members"]
    assert member["subscribedTopicRegex"] == (regex or None)
    return sorted(one["topicName"] for one in member["targetAssignment"]["topicPartitions"]), found["memberEpoch"]


def test_regular_expressions_of_the_server_match_whole_topic_names(log_dir):  # noqa: F811
    """Whole names match, in linear time; expressions that RE2 does not have are refused."""
    pytest.importorskip("pyarrow")
    with_id(log_dir)
    for number, name in enumerate(("orders-old", "payments")):
        copy = shutil.copytree(log_dir / "orders-0", log_dir / f"{name}-0")
        (copy / "partition.metadata").write_text(f"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA{number + 1}A\n")
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        cases = {"orders": ["orders"], "o.*": ["orders", "orders-old"], "(?i)PAY.*|orders": ["orders", "payments"]}
        for regex, wanted in {**cases, "rders": [], ".": [], "(a+)+b" * 9: [], "order": []}.items():
            assert assigned_topics(client, regex)[0] == wanted, regex
        _, epoch = assigned_topics(client, "o.*", ["payments"])
        assert assigned_topics(client, "", ["payments"], epoch)[0] == ["payments"]
        for regex in ("[", "(?=a)b", "orders)|(payments", "a{1000000}", "(?P<a>b"):
            found = beat(client, member="n", subscribedTopicRegex=regex)
            assert (found["errorCode"], regex in found["errorMessage"]) == (128, True)


def test_a_regular_expression_is_refused_where_pyarrow_is_missing(log_dir, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with serving(with_id(log_dir)) as server, KafkaClient(server.server.address) as client:
        found = beat(client, subscribedTopicRegex="o.*")
        assert (found["errorCode"], "PyArrow" in found["errorMessage"]) == (128, True)


@pytest.mark.full
def test_three_consumers_of_librdkafka_share_a_topic_and_take_over(corpus):
    confluent = pytest.importorskip("confluent_kafka")
    from tests.serve.test_serve_clients import share_and_take_over

    share_and_take_over(confluent, corpus, {"group.protocol": "consumer"})
